package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports"
)

// exampleSteps are the commands of an example, in order, each with its name.
func exampleSteps(t *testing.T, name string) [][2]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "examples", "ci", name))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Jobs struct {
			Evaluate struct {
				Steps []struct{ Name, Run string }
			}
		}
		Evaluate struct{ Script []string }
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	var steps [][2]string
	for _, s := range file.Jobs.Evaluate.Steps {
		if s.Run != "" {
			steps = append(steps, [2]string{s.Name, s.Run})
		}
	}
	for _, line := range file.Evaluate.Script {
		steps = append(steps, [2]string{strings.Fields(line)[1], line})
	}
	if len(steps) < 2 {
		t.Fatalf("%s has %d steps to run", name, len(steps))
	}
	return steps
}

// TestExamples runs the steps of the examples as a CI system would, one after the
// other, up to the first that fails. Only grading, which needs an engine, is put
// in place of: `evalrun run` leaves a run that was made before.
func TestExamples(t *testing.T) {
	for _, c := range []struct {
		example string
		env     string
		now     map[string]grading.Outcome // what the run finds; the baseline has a and b resolved
		fails   string                     // step, "" is none
		status  int
		says    string
	}{
		{"github.yml", "GITHUB_ACTIONS=true", outcomesOf("RRu"), "", 0, "::notice title=evalrun gate passed::"},
		{"github.yml", "GITHUB_ACTIONS=true", outcomesOf("uRR"), "gate", 1, "::error title=no-regression::a"},
		{"github.yml", "GITHUB_ACTIONS=true", outcomesOf("bRu"), "gate", 3, "::warning title=must-pass::a"},
		{"gitlab.yml", "GITLAB_CI=true", outcomesOf("RRu"), "", 0, "gate passed: "},
		{"gitlab.yml", "GITLAB_CI=true", outcomesOf("RuR"), "gate", 1, "gate failed: no-regression: 1 that the baseline resolved is no longer resolved: b"},
	} {
		t.Run(c.example+" "+c.fails, func(t *testing.T) {
			dir := exampleFolder(t, c.now)
			summary := filepath.Join(dir, "summary.md")
			var out strings.Builder
			failed, status := "", 0
			for _, step := range exampleSteps(t, c.example) {
				cmd := exec.Command("bash", "-e", "-o", "pipefail", "-c", step[1])
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), c.env, "GITHUB_STEP_SUMMARY="+summary,
					"DATASET=eval/rows.jsonl", "PREDICTIONS=eval/predictions.jsonl")
				cmd.Stdout, cmd.Stderr = &out, &out
				var exit *exec.ExitError
				if err := cmd.Run(); errors.As(err, &exit) {
					failed, status = step[0], exit.ExitCode()
					break
				} else if err != nil {
					t.Fatal(err)
				}
			}
			if failed != c.fails || status != c.status || !strings.Contains(out.String(), c.says) {
				t.Errorf("failed in %q with %d, want %q with %d and …%s…:\n%s", failed, status, c.fails, c.status, c.says, out.String())
			}
			if _, err := os.Stat(filepath.Join(dir, "results", "junit.xml")); err != nil {
				t.Error(err)
			}
			if text, err := os.ReadFile(summary); err != nil || !strings.Contains(string(text), "### gate ") {
				t.Errorf("the summary has no gate (%v):\n%s", err, text)
			}
		})
	}
}

// outcomesOf names outcomes by letters: R resolved, u unresolved, b build failed.
func outcomesOf(letters string) map[string]grading.Outcome {
	out := map[string]grading.Outcome{}
	for i, c := range letters {
		out[string(rune('a'+i))] = map[rune]grading.Outcome{'R': grading.Resolved, 'u': grading.Unresolved, 'b': grading.BuildFailed}[c]
	}
	return out
}

// exampleFolder has what the examples expect: eval/, and evalrun in bin/.
func exampleFolder(t *testing.T, outcomes map[string]grading.Outcome) string {
	t.Helper()
	dir := t.TempDir()
	made := reports.Layout{Root: filepath.Join(dir, "made")}
	record := reports.RunRecord{RunID: "nightly", CreatedAt: time.Unix(0, 0), Models: []string{"agent"}, Instances: 3, InstanceIDs: []string{"a", "b", "c"}}
	if err := reports.WriteRun(made, record); err != nil {
		t.Fatal(err)
	}
	for id, o := range outcomes {
		if err := os.MkdirAll(made.Instance("nightly", "agent", id).Dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := reports.WriteAttempt(made, &reports.Attempt{RunID: "nightly", Model: "agent", InstanceID: id, Outcome: o}); err != nil {
			t.Fatal(err)
		}
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"eval/baseline.json": `{"baseline": 1, "model_name_or_path": "agent", "outcomes": {"a": "resolved", "b": "resolved", "c": "unresolved"}}`,
		"eval/golden.txt":    "a\n", "eval/flaky.txt": "# none\n",
		"bin/evalrun": "#!/bin/bash\nif [ \"$1\" = run ]; then mkdir -p results && cp -r made/. results/ && exit 3; fi\nexec -a evalrun " + exe + " \"$@\"\n",
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
