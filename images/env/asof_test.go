package env

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalrun/evalrun/images"
)

func TestAsOfPrecedesTheRequirements(t *testing.T) {
	spec := images.EnvSpec{Requirements: "flask"}
	if strings.Contains(pipScript(spec), "as_of") {
		t.Error("without a date pip is held to one")
	}
	spec.AsOf = "2020-05-30T10:00:00Z"
	script := pipScript(spec)
	held, installed := strings.Index(script, "\nas_of '2020-05-30T10:00:00Z' -r /tmp/requirements.txt\n"), strings.Index(script, "install -q --no-warn-script-location -r /tmp/requirements.txt")
	if held < 0 || installed < held {
		t.Errorf("held at %d, installed at %d in\n%s", held, installed, script)
	}
}

// The versions of the day become constraints; where they cannot be had, the
// image says that they are not.
func TestAsOf(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	const report = `{"install": [{"metadata": {"name": "docutils", "version": "0.16"}}, {"is_direct": true, "metadata": {"name": "Sphinx", "version": "3.1"}}]}`
	for _, tt := range []struct{ name, answer, constraints, deviation string }{
		{"had", "echo '" + report + "' > report.json", "setuptools<81\ndocutils==0.16\n", "packages without a pinned version are those of D"},
		{"a version the new pip refuses", "case $* in *--no-build-isolation*) echo '" + report + "' > report.json ;; *) exit 2 ;; esac", "setuptools<81\ndocutils==0.16\n", "are those of D"},
		{"an older Python", "exit 1", "setuptools<81\n", "could not be held to D, and are the newest"},
		{"no report", "echo broken > report.json", "setuptools<81\n", "could not be held to D, and are the newest"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, text string) {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			write("constraints.txt", "setuptools<81\n")
			write("python", "#!/bin/bash\ncd "+dir+"/as-of\ncase $* in\n"+
				"*download*) touch pip-26.0-py3-none-any.whl ;;\n"+
				"*pip-26.0-py3-none-any.whl/pip\\ install\\ *--uploaded-prior-to\\ D*\\ .\\[test\\]) [ -z \"${PIP_FIND_LINKS-}\" ] || exit 9\n"+tt.answer+" ;;\n"+
				"-\\ *) shift; exec "+python+" - \"$@\" ;;\n*) echo \"unexpected: $*\" >&2; exit 8 ;;\nesac\n")
			script := strings.NewReplacer("/opt/miniconda3/envs/testbed/bin/python", dir+"/python", "/opt/evalrun", dir, "/tmp/as-of", dir+"/as-of").
				Replace(AsOf("D", "'.[test]'"))
			cmd := exec.Command("bash", "-c", "set -euo pipefail\n"+script)
			cmd.Env = append(os.Environ(), "PIP_FIND_LINKS=/opt/wheelhouse")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			constraints, _ := os.ReadFile(filepath.Join(dir, "constraints.txt"))
			deviations, _ := os.ReadFile(filepath.Join(dir, "deviations.txt"))
			if string(constraints) != tt.constraints || !strings.Contains(string(deviations), tt.deviation) {
				t.Errorf("constraints %q, deviations %q\n%s", constraints, deviations, out)
			}
		})
	}
}
