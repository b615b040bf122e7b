package html

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports"
	"github.com/evalrun/evalrun/reports/analysis"
	"github.com/evalrun/evalrun/reports/results"
)

// hostile texts would be markup, script or another reading order, were they taken
// for more than text.
var hostile = []string{
	`</script><script>window.harmed=1</script>`,
	`<img src=x onerror="window.harmed=1">`,
	`"><svg onload=window.harmed=1>`,
	`javascript:window.harmed=1`,
	"\u202egnp.exe\u0000\x1b[31m",
	`{{.}}<!-- --> ]]> ' " & \u003c`,
}

// attempt is one to make an item of.
type attempt struct {
	id      string
	outcome grading.Outcome
	reason  string
	passed  []string // of FAIL_TO_PASS
	failed  []string
	patch   string
	log     string
	flagged []string
}

// newSet makes a set with the files of its attempts below dir.
func newSet(t testing.TB, dir, name string, attempts ...attempt) *results.Set {
	t.Helper()
	s := &results.Set{Name: name, Model: name, Run: "run-1", Kind: results.KindRun, Source: "logs/run_evaluation/run-1"}
	for n, a := range attempts {
		folder := filepath.Join(dir, "logs", fmt.Sprintf("%s-%d", strings.Map(letters, name), n))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string]string{"patch.diff": a.patch, "test_output.txt": a.log} {
			if text == "" {
				continue
			}
			if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		tests := &grading.TestsStatus{FailToPass: grading.Split{Success: a.passed, Failure: a.failed}}
		record := &reports.Attempt{
			SchemaVersion: reports.AttemptSchema, InstanceID: a.id, Model: name, RunID: "run-1", Outcome: a.outcome, Reason: a.reason, Key: "0123",
			Verdict: &grading.Report{Resolved: a.outcome == grading.Resolved, Found: true, Tests: tests},
			Image:   "evalrun/" + a.id, Rules: "swebench-5", Start: time.Unix(0, 0).UTC(), Seconds: float64(n + 1),
			Phases: []reports.PhaseRecord{{Name: "apply", Seconds: .1}, {Name: "test", ExitCode: 1, Seconds: float64(n), OutputBytes: 2048, TimedOut: n == 1}},
			Usage:  reports.UsageRecord{PeakMemoryBytes: 64 << 20, CPUSeconds: 1.5}, Limits: reports.LimitsRecord{MemoryBytes: 4 << 30},
			Trust: reports.TrustRecord{Flagged: a.flagged},
		}
		s.Items = append(s.Items, results.Item{
			ID: a.id, Outcome: a.outcome, Submitted: true, Reason: a.reason, Seconds: record.Seconds, Dir: folder, Record: record,
			FailToPass: &results.Tests{Passed: a.passed, Failed: a.failed}, PassToPass: &results.Tests{},
		})
	}
	ids := s.IDs()
	s.Complete(ids) // which sorts
	return s
}

func letters(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
		return r
	}
	return '-'
}

// pageOf is a page of sets with their figures.
func pageOf(sets ...*results.Set) Page {
	p := Page{Title: "Report", Sets: sets}
	for _, s := range sets {
		p.Reports = append(p.Reports, analysis.NewReport(s, analysis.Options{Slices: true}))
	}
	return p
}

func write(t testing.TB, path string, p Page) (string, Written) {
	t.Helper()
	out, err := Write(context.Background(), path, p)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), out
}

const smallPatch = `diff --git a/pkg/a.py b/pkg/a.py
--- a/pkg/a.py
+++ b/pkg/a.py
@@ -1,2 +1,2 @@
 keep
-old
+new
diff --git a/pkg/b.py b/pkg/b.py
--- a/pkg/b.py
+++ b/pkg/b.py
@@ -1 +1,2 @@
 keep
+added
`
