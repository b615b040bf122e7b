package swebench

import (
	"fmt"
	"strings"

	"github.com/evalrun/evalrun/datasets"
)

const (
	activate    = "source /opt/miniconda3/bin/activate"
	activateEnv = "conda activate testbed"
	workdir     = "cd /testbed"
	safe        = "git config --global --add safe.directory /testbed"
)

// classicScript writes the evaluation script the last 4.x harness makes of a
// row and its facts. Unlike it, every language removes the files the test patch
// creates, not only Python, and odd paths are quoted.
func classicScript(inst *datasets.Instance, repo *repository, spec *spec, test []string) string {
	var before, build []string
	apply := "git apply --verbose --reject -"
	if repo.language == "py" {
		before = append(before, activate, activateEnv, workdir)
		before = append(before, spec.EvalCommands...)
		before = append(before, safe, workdir, "git status", "git show",
			"git -c core.fileMode=false diff "+inst.BaseCommit, activate, activateEnv)
		before = append(before, spec.Install...)
		apply = "git apply -v -"
	} else {
		before = append(before, workdir, safe, workdir)
		build = spec.Build
	}
	return officialScript(inst.BaseCommit, before, apply, inst.TestPatch, build, test)
}

// recipeScript writes the same kind of script for an evaluation that came with
// the row.
func recipeScript(inst *datasets.Instance, eval datasets.Evaluation) string {
	before := []string{workdir, safe}
	for _, text := range []string{eval.Prelude, eval.Setup} {
		if text != "" {
			before = append(before, text)
		}
	}
	var build []string
	if eval.Build != "" {
		build = append(build, eval.Build)
	}
	return officialScript(inst.BaseCommit, before, "git apply -v -", inst.TestPatch, build, []string{eval.Test})
}

func officialScript(base string, before []string, apply, testPatch string, build, test []string) string {
	modified, created := splitReset(patchedFiles(testPatch))
	reset := resetLines(base, modified, created)
	lines := append([]string{"#!/bin/bash", officialHeader}, before...)
	lines = append(lines, reset...)
	if testPatch != "" {
		end := delimiter(testPatch)
		lines = append(lines, fmt.Sprintf("%s <<'%s'", apply, end), testPatch, end)
	}
	lines = append(lines, build...)
	lines = append(lines, ": '>>>>> Start Test Output'")
	lines = append(lines, test...)
	lines = append(lines, ": '>>>>> End Test Output'")
	lines = append(lines, reset...)
	return strings.Join(lines, "\n") + "\n"
}

// resetLines restores the files a test patch changes and removes those it
// creates. A checkout without paths would reset the whole tree, so there is none
// if nothing is to be restored.
func resetLines(base string, modified, created []string) []string {
	var lines []string
	if len(modified) > 0 {
		lines = append(lines, "git checkout "+base+" "+quoteAll(modified))
	}
	if len(created) > 0 {
		lines = append(lines, "rm -f "+quoteAll(created))
	}
	if len(lines) == 0 {
		lines = append(lines, `echo "No test files to reset"`)
	}
	return lines
}

func quoteAll(paths []string) string {
	quoted := make([]string, len(paths))
	for i, p := range paths {
		quoted[i] = shellQuote(p)
	}
	return strings.Join(quoted, " ")
}

// delimiter ends the here-document of a test patch. It is the official one
// unless the patch holds that line itself.
func delimiter(patch string) string {
	end := "EOF_114329324912"
	for strings.Contains("\n"+patch+"\n", "\n"+end+"\n") {
		end += "_"
	}
	return end
}
