package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports"
)

// attemptsAt are the outcomes of a model's n-th attempts.
func attemptsAt(t *testing.T, out, model string, n int) map[string]grading.Outcome {
	t.Helper()
	list, problems := reports.LoadAttempts(reports.Layout{Root: out}.Attempt(n), "run", model)
	for _, p := range problems {
		t.Error(p)
	}
	found := map[string]grading.Outcome{}
	for _, a := range list {
		if a.ID().Attempt != n {
			t.Errorf("%s, attempt %d, lies in the folder of attempt %d", a.InstanceID, a.ID().Attempt, n)
		}
		found[a.InstanceID] = a.Outcome
	}
	return found
}

// Several predictions of a model for an instance are attempts 1, 2 and so on; equal
// ones are run once.
func TestAttempts(t *testing.T) {
	good, bad := patchOf("PATCH-GOOD", 0), patchOf("PATCH-FAILS", 0)
	dir := data(t, 2,
		patchLine{"name-000", "a", bad}, patchLine{"name-000", "a", good}, patchLine{"name-000", "a", bad},
		patchLine{"name-001", "a", good}, patchLine{"name-001", "b", good})
	more := filepath.Join(dir, "more.jsonl")
	writePredictions(t, more, patchLine{"name-001", "a", bad})
	out := t.TempDir()
	f := newFakeEngine()
	if _, stderr := f.run(t, exitUsage, fakeRun(dir, out)); !strings.Contains(stderr, "a second prediction of model a") {
		t.Errorf("without --attempts: %s", stderr)
	}
	if _, stderr := f.run(t, exitUsage, fakeRun(dir, out, "--attempts", "2")); !strings.Contains(stderr, "preds.jsonl:3") || !strings.Contains(stderr, "more than there are attempts (2)") {
		t.Errorf("with too few: %s", stderr)
	}
	args := fakeRun(dir, out, "-p", more, "--attempts", "3")
	stdout, _ := f.run(t, exitFine, args)
	want := []map[string]grading.Outcome{
		{"name-000": grading.Unresolved, "name-001": grading.Resolved},
		{"name-000": grading.Resolved, "name-001": grading.Unresolved},
		{"name-000": grading.Unresolved},
	}
	for n := range want {
		if diff := cmp.Diff(want[n], attemptsAt(t, out, "a", n+1)); diff != "" {
			t.Errorf("attempt %d (-want +got):\n%s", n+1, diff)
		}
	}
	// a's two patches for each of two instances; b's is one of a's, but with one for
	// each instance all three attempts at it are made.
	if n := f.ran(); n != 4+2 {
		t.Errorf("tests were run %d times", n)
	}
	if !strings.Contains(stdout, "pass@") {
		t.Errorf("what all attempts say together is not told:\n%s", stdout)
	}
	var official reports.OfficialRun
	text, err := os.ReadFile(filepath.Join(out, "a.run.attempt-3.json"))
	if err = errors.Join(err, json.Unmarshal(text, &official)); err != nil || official.SubmittedInstances != 1 || official.UnresolvedInstances != 1 || official.TotalInstances != 2 {
		t.Errorf("the official summary of the third attempts: %+v, %v", official, err)
	}
	files := resultsIn(t, out)
	f.run(t, exitFine, args)
	if diff := cmp.Diff(files, resultsIn(t, out)); diff != "" || f.ran() != 6 {
		t.Errorf("again: tests were run %d times (-before +after):\n%s", f.ran(), diff)
	}
	// Each is a run's folder of its own to everything that reads results.
	for _, source := range []string{"run", filepath.Join(out, "logs/run_evaluation/run/journal.jsonl")} {
		stdout, _ = f.run(t, exitFine, []string{"report", source, "--out", out, "--json"})
		var docs []statistics
		for dec := json.NewDecoder(strings.NewReader(stdout)); ; {
			var d statistics
			if err := dec.Decode(&d); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			docs = append(docs, d)
		}
		if len(docs) != 6 || docs[0].Attempts == nil || len(docs[0].Attempts.Runs) != 3 || math.Abs(docs[0].Attempts.Pass[0].AtK-1.0/3) > 1e-9 {
			t.Errorf("report %s: %d documents, %+v", source, len(docs), docs)
		}
	}
	third := filepath.Join(out, "logs/run_evaluation/run/attempt-3")
	for _, run := range []string{third, filepath.Dir(third)} {
		if stdout, _ = f.run(t, exitFine, []string{"report", "verify", run, "-d", filepath.Join(dir, "rows.jsonl")}); !strings.Contains(stdout, " 0 differ, 0 unchecked") {
			t.Errorf("verify %s:\n%s", run, stdout)
		}
	}
	// What a later attempt says is looked at with the run.
	writeText(t, filepath.Join(third, "a", "name-000", "report.json"), "{}")
	if stdout, _ = f.run(t, exitFailed, []string{"report", "verify", filepath.Dir(third), "-d", filepath.Join(dir, "rows.jsonl")}); !strings.Contains(stdout, "attempt 3: ") {
		t.Errorf("verify of an edited attempt:\n%s", stdout)
	}
	// A run.json that was damaged or taken away is a difference, and no wrong call.
	for _, damage := range []func(string) error{func(path string) error { return os.WriteFile(path, []byte("{"), 0o644) }, os.Remove} {
		if err := damage(filepath.Join(filepath.Dir(third), "run.json")); err != nil {
			t.Fatal(err)
		}
		f.run(t, exitFailed, []string{"report", "verify", filepath.Dir(third), "-d", filepath.Join(dir, "rows.jsonl")})
	}
	f.run(t, exitUsage, []string{"report", "verify", "no-such-run", "--out", out})
}

// One prediction and several attempts measure whether the tests always say the same.
func TestRepeated(t *testing.T) {
	dir := data(t, 1, patchLine{"name-000", "a", patchOf("PATCH-GOOD", 0)}, patchLine{"name-000", "b", patchOf("PATCH-GOOD", 0)})
	out := t.TempDir()
	f := newFakeEngine()
	f.run(t, exitFine, fakeRun(dir, out, "--attempts", "4", "--json"))
	if n := f.ran(); n != 4 { // b's are a's
		t.Errorf("tests were run %d times, want 4", n)
	}
	for n := 1; n <= 4; n++ {
		for _, model := range []string{"a", "b"} {
			if got := attemptsAt(t, out, model, n); got["name-000"] != grading.Resolved {
				t.Errorf("%s, attempt %d: %v", model, n, got)
			}
		}
	}
	var runs []string
	for n := 1; n <= 4; n++ {
		text, err := os.ReadFile(reports.Layout{Root: out}.Attempt(n).Instance("run", "a", "name-000").Attempt)
		if err != nil || bytes.Contains(text, []byte("reused_from")) {
			t.Errorf("attempt %d: %v\n%s", n, err, text)
		}
		var a reports.Attempt
		if err := json.Unmarshal(text, &a); err != nil {
			t.Fatal(err)
		}
		runs = append(runs, a.RunKey)
	}
	if runs[0] == runs[1] || runs[1] == runs[2] {
		t.Errorf("repetitions have one key: %v", runs)
	}
}
