package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports"
)

// madeUpRun writes a run of so many instances, each with as many tests as rows of
// Verified have on average, and returns the folder that holds logs/.
func madeUpRun(tb testing.TB, instances int) string {
	tb.Helper()
	root := tb.TempDir()
	layout := reports.Layout{Root: root}
	record := reports.RunRecord{RunID: "big", CreatedAt: time.Unix(0, 0), Models: []string{"m"}, Instances: instances}
	var passed []string
	for i := range 120 {
		passed = append(passed, fmt.Sprintf("tests/test_module_%d.py::TestSomething::test_behaviour_%03d", i/10, i))
	}
	for i := range instances {
		id := fmt.Sprintf("owner__project-%d", i)
		record.InstanceIDs = append(record.InstanceIDs, id)
		a := reports.Attempt{InstanceID: id, Model: "m", RunID: "big", Outcome: grading.Unresolved, Repo: "owner/project", Seconds: 1,
			Verdict: &grading.Report{Found: true, Tests: &grading.TestsStatus{
				FailToPass: grading.Split{Success: passed[:3], Failure: passed[3:5]}, PassToPass: grading.Split{Success: passed}}}}
		if i%2 == 0 {
			a.Outcome, a.Verdict.Resolved = grading.Resolved, true
		}
		if err := os.MkdirAll(layout.Instance("big", "m", id).Dir, 0o755); err != nil {
			tb.Fatal(err)
		}
		a.Sign = reports.FailureSign{Class: "none"} // so that no logs are looked for
		if err := reports.WriteAttempt(layout, &a); err != nil {
			tb.Fatal(err)
		}
	}
	if err := reports.WriteRun(layout, record); err != nil {
		tb.Fatal(err)
	}
	return root
}

// BenchmarkGate is the whole command on a run of 2,294 instances and a baseline.
func BenchmarkGate(b *testing.B) {
	root := madeUpRun(b, 2294)
	baseline := filepath.Join(root, "baseline.json")
	if code := realMain([]string{"gate", "big", "--out", root, "--write-baseline", baseline}, io.Discard, io.Discard); code != exitFine {
		b.Fatalf("exit code %d", code)
	}
	for b.Loop() {
		args := []string{"gate", "big", "--out", root, "--baseline", baseline, "--no-regression", "--alpha", "0.05", "--min-rate", "40%"}
		if code := realMain(args, io.Discard, os.Stderr); code != exitFine {
			b.Fatalf("exit code %d", code)
		}
	}
}
