package regrade

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/grading/logparse"
	"github.com/evalrun/evalrun/reports"
)

var oneTest = datasets.Instance{ID: "o__r-1", Repo: "o/r", LogParser: "parse_log_pytest", FailToPass: []string{"t.py::a"}}

func official(output string, code int) string {
	return fmt.Sprintf("+ : '%s'\n%s+ : '%s'\n%s: %d\n", logparse.StartTestOutput, output, logparse.EndTestOutput, logparse.TestExitCode, code)
}

// attempt makes the folder of one attempt; own is written as attempt.json.
func attempt(t *testing.T, output string, own *reports.Attempt) Log {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run", "m", "o__r-1")
	write(t, filepath.Join(dir, testOutput), output)
	if own != nil {
		own.SchemaVersion, own.InstanceID, own.Model, own.RunID = reports.AttemptSchema, "o__r-1", "m", "run"
		data, err := json.Marshal(own)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "attempt.json"), string(data))
	}
	logs, err := Find(dir)
	if err != nil || len(logs) != 1 {
		t.Fatalf("%d logs, %v", len(logs), err)
	}
	return logs[0]
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func gradeOne(t *testing.T, o Options, j Job) Result {
	t.Helper()
	if o.Rules == "" {
		o.Rules = grading.SWEBench5
	}
	results, err := Grade(context.Background(), o, []Job{j})
	if err != nil {
		t.Fatal(err)
	}
	return results[0]
}

// TestStoredOutcomes: whose doing it was, as far as a log alone can tell.
func TestStoredOutcomes(t *testing.T) {
	for _, tt := range []struct {
		name, log string
		want      grading.Outcome
	}{
		{"passed", official("PASSED t.py::a\n", 0), grading.Resolved},
		{"failed", official("FAILED t.py::a\n", 1), grading.Unresolved},
		{"no test ran", official("SyntaxError\n", 2), grading.Unresolved},
		{"no markers", "bash: pytest: not found\n", grading.Ungradeable},
		{"cut", "+ : '" + logparse.StartTestOutput + "'\nPASSED t.py::a\n", grading.Ungradeable},
		{"apply failed", logparse.PatchApplyFailed + "\n", grading.ApplyFailed},
		{"timed out, 2024", logparse.PatchApplied + "\n" + logparse.TestsTimedOut + "\n", grading.TimedOut},
		{"timed out, now", "+ : '" + logparse.StartTestOutput + "'\n\n\nTimeout error: 1800 seconds exceeded.", grading.TimedOut},
		{"reset failed", logparse.ResetFailed + "\n", grading.InfraFailed},
		{"out of memory", official("OSError: Cannot allocate memory\n", 1), grading.InfraFailed},
		{"offline", official("x.go:3:2: module lookup disabled by GOPROXY=off\n", 1), grading.Ungradeable},
		{"first harnesses", logparse.PatchApplied + " (pred)\nPASSED t.py::a\n", grading.Resolved},
	} {
		got := gradeOne(t, Options{}, Job{Log: attempt(t, tt.log, nil), Instance: &oneTest}).Attempt
		if got.Outcome != tt.want || (got.Reason == "") != (tt.want == grading.Resolved) {
			t.Errorf("%s: %s (%q), want %s", tt.name, got.Outcome, got.Reason, tt.want)
		}
	}
}

// TestOwnEvidence: markers that the tests of a run of ours printed mean nothing,
// since it is on record how much they printed.
func TestOwnEvidence(t *testing.T) {
	_, forged, _ := strings.Cut(official("PASSED t.py::a\n", 0)+"FAILED t.py::a\n", "\n")
	for name, output := range map[string]string{"ends a line": forged, "does not": strings.TrimSuffix(forged, "\n")} {
		own := &reports.Attempt{Outcome: grading.Unresolved, Verdict: &grading.Report{}, Phases: []reports.PhaseRecord{{Name: "test", ExitCode: 1, OutputBytes: int64(len(output))}}}
		log := "setup\n" + official(strings.TrimSuffix(output, "\n")+"\n", 1)
		if got := gradeOne(t, Options{}, Job{Log: attempt(t, log, own), Instance: &oneTest}).Attempt; got.Outcome != grading.Unresolved {
			t.Errorf("%s: %s", name, got.Outcome)
		}
		if got := gradeOne(t, Options{}, Job{Log: attempt(t, log, nil), Instance: &oneTest}).Attempt; got.Outcome != grading.Resolved {
			t.Errorf("%s, without the record: %s; the test shows nothing", name, got.Outcome)
		}
	}
}

// TestOwnOutcomesStay: what ended before its tests did is not decided by a log.
func TestOwnOutcomesStay(t *testing.T) {
	for _, outcome := range []grading.Outcome{grading.ApplyFailed, grading.TimedOut, grading.BuildFailed, grading.InfraFailed, grading.EmptyPatch} {
		own := &reports.Attempt{Outcome: outcome, Reason: "why"}
		got := gradeOne(t, Options{}, Job{Log: attempt(t, official("PASSED t.py::a\n", 0), own), Instance: &oneTest}).Attempt
		if got.Outcome != outcome || got.Reason != "why" {
			t.Errorf("%s became %s (%q)", outcome, got.Outcome, got.Reason)
		}
	}
}

// TestDecidedByMore: what a run found out besides its log is not undone by it.
func TestDecidedByMore(t *testing.T) {
	for _, outcome := range []grading.Outcome{grading.Tampering, grading.Inconsistent, grading.DiskLimit} {
		own := &reports.Attempt{Outcome: outcome, Reason: "why", Verdict: &grading.Report{Resolved: true}}
		got := gradeOne(t, Options{}, Job{Log: attempt(t, official("PASSED t.py::a\n", 0), own), Instance: &oneTest}).Attempt
		if got.Outcome != outcome || got.Reason != "why" {
			t.Errorf("%s became %s (%q)", outcome, got.Outcome, got.Reason)
		}
	}
}

// TestDoubts: a log that contradicts itself is flagged; its verdict stays that of
// the official rules.
func TestDoubts(t *testing.T) {
	log := official("FAILED t.py::a\nPASSED t.py::a\n", 0)
	got := gradeOne(t, Options{}, Job{Log: attempt(t, log, nil), Instance: &oneTest}).Attempt
	if got.Outcome != grading.Resolved || len(got.Trust.Flagged) == 0 {
		t.Errorf("%s, flagged %q", got.Outcome, got.Trust.Flagged)
	}
}

func TestWithoutLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run", "m", "o__r-1")
	for said, want := range map[string]grading.Outcome{">>>>> Patch Apply Failed:\nerror": grading.ApplyFailed, "Error creating container": grading.InfraFailed} {
		write(t, filepath.Join(dir, "run_instance.log"), said)
		logs, err := Find(filepath.Dir(filepath.Dir(dir)))
		if err != nil || len(logs) != 1 {
			t.Fatalf("%d logs, %v", len(logs), err)
		}
		if got := gradeOne(t, Options{}, Job{Log: logs[0], Instance: &oneTest}).Attempt; got.Outcome != want || got.RunID != "run" || got.Model != "m" {
			t.Errorf("%q: %s, run %q, model %q", said, got.Outcome, got.RunID, got.Model)
		}
	}
}

// TestStale: what lies beside a log and contradicts it is told (report 61).
func TestStale(t *testing.T) {
	log := attempt(t, official("FAILED t.py::a\n", 1), nil)
	write(t, filepath.Join(log.Dir, "report.json"), `{"o__r-1": {"resolved": true}}`)
	write(t, filepath.Join(log.Dir, "patch.diff"), "another patch")
	patch := "the patch"
	got := gradeOne(t, Options{}, Job{Log: log, Instance: &oneTest, Prediction: &datasets.Prediction{InstanceID: "o__r-1", Model: "m", Patch: &patch}}).Attempt
	if len(got.Warnings) != 2 || got.Outcome != grading.Unresolved {
		t.Errorf("%s, warnings %q", got.Outcome, got.Warnings)
	}
}

func TestUnreadableLog(t *testing.T) {
	log := Log{Path: filepath.Join(t.TempDir(), "gone"), Model: "m"}
	results, err := Grade(context.Background(), Options{Rules: grading.SWEBench5}, []Job{{Log: log, Instance: &oneTest}})
	if err == nil || results[0].Attempt.Outcome != grading.NotRun {
		t.Errorf("%s, %v", results[0].Attempt.Outcome, err)
	}
}

// TestDifferences: the deciding test is the first that fails under one rule set
// only, with what each made of it.
func TestDifferences(t *testing.T) {
	inst := datasets.Instance{ID: "o__r-1", LogParser: "parse_log_pytest", FailToPass: []string{"t.py::a", "t.py::b[x"}, PassToPass: []string{"t.py::c"}}
	log := attempt(t, official("PASSED t.py::a\nPASSED t.py::b[x-y]\nSKIPPED t.py::c\n", 0), nil)
	for _, tt := range []struct {
		rules, against grading.Rules
		test, a, b     string
	}{
		{grading.SWEBench5, grading.SWEBench41, "t.py::b[x", "PASSED (by the beginning of its name)", "absent"},
		{grading.SWEBench41, grading.Strict, "", "", ""},
		{grading.Strict, grading.SWEBench5, "t.py::b[x", "absent", "PASSED (by the beginning of its name)"},
	} {
		d := gradeOne(t, Options{Rules: tt.rules, Against: tt.against}, Job{Log: log, Instance: &inst}).Difference
		if d == nil {
			if tt.test != "" {
				t.Errorf("%s and %s: no difference", tt.rules, tt.against)
			}
			continue
		}
		if d.Test != tt.test || d.Verdicts[0].Status != tt.a || d.Verdicts[1].Status != tt.b {
			t.Errorf("%s and %s: %+v", tt.rules, tt.against, d)
		}
	}
	// Where a rule set does not take the log, its reason decides.
	odd := attempt(t, official("PASSED t.py::a\n", 3), nil)
	d := gradeOne(t, Options{Rules: grading.SWEBench5, Against: grading.SWEBench41}, Job{Log: odd, Instance: &oneTest}).Difference
	if d == nil || d.Test != "" || !strings.Contains(d.Verdicts[0].Reason, "exited with 3") {
		t.Errorf("%+v", d)
	}
}
