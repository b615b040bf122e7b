package swebench

import (
	"regexp"
	"slices"
	"strings"

	"github.com/evalrun/evalrun/datasets"
)

var (
	startMarker = regexp.MustCompile(`^\s*(?::|echo)\s+(?:'>>>>> Start Test Output'|">>>>> Start Test Output")\s*;?\s*$`)
	endMarker   = regexp.MustCompile(`^\s*(?::|echo)\s+(?:'>>>>> End Test Output'|">>>>> End Test Output")\s*;?\s*$`)

	// Lines the 5.x harness adds around the end marker when it runs a script.
	exitCodeTaken  = regexp.MustCompile(`\n?SWEBENCH_TEST_EXIT_CODE=\$\?\s*$`)
	exitCodeShown  = regexp.MustCompile(`^echo ">>>>> Test Exit Code: `)
	afterTheTests  = regexp.MustCompile(`^(set [-+][a-z]+( pipefail)?|exit( \d+)?|cat /tmp/\S+ >&2( \|\| true)?)$`)
	officialHeader = "set -uxo pipefail"
)

// Split takes an evaluation script apart into the phases evalrun runs. It
// understands the scripts of SWE-bench 4.x and 5.x and whatever is shaped like
// them: set up the shell, restore the test files, apply the test patch from a
// here-document, build, run the tests between the two markers, restore again.
//
// If the structure is not understood the second result is false and the
// evaluation is the whole script, to be run as it is. Nothing a script says is
// lost: every line is in a phase, or is the header, a marker, a reset, or one
// of the few lines after the tests that change nothing.
//
// ResetFiles holds the paths the script restores and those its test patch
// touches: the official lines forget one side of a rename, and one unknown path
// makes git refuse the whole line.
//
// Lines after the test patch that set up the shell (export, source, cd) stay in
// Build, and are repeated at the head of Test, which runs in a shell of its own.
func Split(script string) (datasets.Evaluation, bool) {
	whole := datasets.Evaluation{Script: script, Whole: true}
	// A script that went through a Windows editor; bash would choke on it.
	if strings.HasPrefix(script, "#!/bin/bash\r\n") {
		script = strings.ReplaceAll(script, "\r\n", "\n")
	}
	parts, ok := cutAtMarkers(script)
	if !ok {
		return whole, false
	}
	eval, ok := parts.evaluation()
	if !ok {
		return whole, false
	}
	eval.Script = script
	return eval, true
}

// scriptParts is a script cut at its two markers.
type scriptParts struct {
	before []statement
	test   string
	after  []statement
}

func cutAtMarkers(script string) (scriptParts, bool) {
	lines, ok := logicalLines(script)
	if !ok {
		return scriptParts{}, false
	}
	start, end := -1, -1
	for i, l := range lines {
		switch {
		case startMarker.MatchString(l.text):
			if start >= 0 {
				return scriptParts{}, false
			}
			start = i
		case endMarker.MatchString(l.text):
			if end >= 0 || start < 0 {
				return scriptParts{}, false
			}
			end = i
		}
	}
	if start < 0 || end < 0 {
		return scriptParts{}, false
	}
	var parts scriptParts
	var test []string
	for _, l := range lines[start+1 : end] {
		test = append(test, l.text)
	}
	parts.test = exitCodeTaken.ReplaceAllString(strings.Join(test, "\n"), "")
	var ok2 bool
	parts.before, ok = statements(lines[:start])
	parts.after, ok2 = statements(lines[end+1:])
	return parts, ok && ok2 && strings.TrimSpace(parts.test) != ""
}

func (p scriptParts) evaluation() (datasets.Evaluation, bool) {
	var eval datasets.Evaluation
	apply, ok := applyStatement(p.before)
	if !ok {
		return eval, false
	}
	upTo := len(p.before)
	if apply >= 0 {
		upTo = apply
		eval.TestPatch = p.before[apply].heredocs[0].body
	}
	// Where one failing command ends the script, separate phases would go on.
	if slices.ContainsFunc(p.before, statement.stopsOnError) {
		return eval, false
	}
	resets, ok := findResets(p.before[:upTo], p.after, apply >= 0)
	if !ok || !knownEnding(p.after) {
		return eval, false
	}

	var head, build []statement
	for i, s := range p.before {
		switch {
		case resets.at[i] || i == apply:
		case i < resets.first && i < upTo:
			head = append(head, s)
		default:
			// Assets fetched between reset and test patch come here too: put
			// before the reset they would be undone by it.
			build = append(build, s)
		}
	}
	prelude, setup, directory, ok := splitHead(head)
	if !ok {
		return eval, false
	}
	eval.Prelude = join(prelude)
	eval.Setup = join(setup)
	state, commands, ok := shellState(build, directory)
	if !ok {
		return eval, false
	}
	if commands > 0 {
		eval.Build = join(build)
	}
	eval.Test = p.test
	if len(state) > 0 {
		eval.Test = join(state) + "\n" + eval.Test
	}

	touched := patchedFiles(eval.TestPatch)
	eval.ResetFiles = appendNew(nil, mergeSplitNames(resets.paths, allPaths(touched))...)
	eval.ResetFiles = appendNew(eval.ResetFiles, allPaths(touched)...)
	return eval, true
}

// applyStatement finds the statement that applies the test patch from a
// here-document; -1 if there is none. Anything else done with git apply is not
// understood.
func applyStatement(before []statement) (int, bool) {
	found := -1
	for i, s := range before {
		words := s.words()
		if len(words) < 2 || words[0] != "git" || !slices.Contains(words[1:min(len(words), 5)], "apply") {
			continue
		}
		if found >= 0 || len(s.heredocs) != 1 || s.heredocs[0].stripTabs || len(s.parts) != 1 {
			return -1, false
		}
		doc := s.heredocs[0]
		if !doc.quoted && strings.ContainsAny(doc.body, "$`\\") {
			return -1, false
		}
		found = i
	}
	return found, true
}

// splitHead divides what stands before the reset into the lines that set up the
// shell and the rest. A line that sets up the shell again after a command, and
// was not seen before, may depend on that command, so it stays in Setup as well.
func splitHead(head []statement) (prelude, setup []statement, directory string, ok bool) {
	seen := map[string]bool{}
	commands := false
	for i, s := range head {
		if i == 0 && strings.TrimSpace(s.text) == officialHeader {
			continue
		}
		if !s.setsShell() {
			if s.mixed(directory) {
				return nil, nil, "", false
			}
			setup = append(setup, s)
			commands = commands || !s.harmless()
			continue
		}
		for _, dir := range s.directories() {
			// More than one place to work in: what runs where would change.
			if !strings.HasPrefix(dir, "/") || directory != "" && dir != directory {
				return nil, nil, "", false
			}
			directory = dir
		}
		if seen[s.text] {
			continue
		}
		seen[s.text] = true
		prelude = append(prelude, s)
		if commands && !s.constant() {
			setup = append(setup, s)
		}
	}
	return prelude, setup, directory, true
}

// shellState lists the statements that set up the shell, without the changes of
// directory if they lead back to where they began, and counts the others.
func shellState(build []statement, directory string) (state []statement, commands int, ok bool) {
	var dirs []string
	moved := false
	for _, s := range build {
		if !s.setsShell() {
			if s.mixed(directory) {
				return nil, 0, false
			}
			commands++
			continue
		}
		state = append(state, s)
		for _, d := range s.directories() {
			switch {
			case d == "..":
				if len(dirs) == 0 {
					moved = true
				} else {
					dirs = dirs[:len(dirs)-1]
				}
			case strings.Contains(d, "..") || strings.HasPrefix(d, "/") || d == "-" || d == "":
				moved = true
			default:
				dirs = append(dirs, strings.Split(strings.Trim(d, "/"), "/")...)
			}
		}
	}
	if moved || len(dirs) > 0 {
		return state, commands, true
	}
	return slices.DeleteFunc(state, func(s statement) bool { return len(s.directories()) > 0 }), commands, true
}

// knownEnding says whether what follows the tests changes nothing: another
// reset, or lines that only tidy up.
func knownEnding(after []statement) bool {
	for _, s := range after {
		if _, ok := s.reset(); ok {
			continue
		}
		text := strings.TrimSpace(s.text)
		if !afterTheTests.MatchString(text) && !exitCodeShown.MatchString(text) {
			return false
		}
	}
	return true
}

func join(statements []statement) string {
	texts := make([]string, len(statements))
	for i, s := range statements {
		texts[i] = s.text
	}
	return strings.Join(texts, "\n")
}
