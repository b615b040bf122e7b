package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports"
)

// A call with --no-cache that was killed is gone on from, by its own results alone; one
// that is through begins anew.
func TestNoCacheGoesOn(t *testing.T) {
	dir := data(t, 2, patchLine{"name-000", "a", patchOf("PATCH-GOOD", 0)}, patchLine{"name-001", "a", patchOf("PATCH-HANGS", 1)})
	out := t.TempDir()
	args := fakeRun(dir, out, "--no-cache", "-t", "1s")
	newFakeEngine().run(t, exitFine, fakeRun(dir, out, "--run-id", "other", "-i", "name-000"))
	journal := reports.Layout{Root: out}.JournalFile("run")
	killWhen(t, func() bool {
		text, err := os.ReadFile(journal)
		return err == nil && bytes.Contains(text, []byte(`"event":"attempt_finished"`))
	}, 0, asCommand(t, "evalrun-fake"), fakeRun(dir, out, "--no-cache", "-t", "1s", "--builders", "1"))
	j, err := reports.LoadJournal(journal)
	if err != nil || len(j.Attempts) != 1 {
		t.Skipf("it was killed too late: %d attempts, %v", len(j.Attempts), err)
	}
	for i, want := range []int{1, 2} {
		f := newFakeEngine()
		f.run(t, exitFine, args)
		if f.ran() != want {
			t.Errorf("call %d: tests were run %d times, want %d", i, f.ran(), want)
		}
		if a := stored(t, out, "run", "a")["name-000"]; a.ReusedFrom != nil || a.Outcome != grading.Resolved {
			t.Errorf("call %d: %s, from %+v", i, a.Outcome, a.ReusedFrom)
		}
	}
}

// A call with --no-cache that is through is gone on from by none, though one of its rows
// can never be graded.
func TestNoCacheIsThrough(t *testing.T) {
	dir := data(t, 2, patchLine{"name-000", "a", patchOf("PATCH-GOOD", 0)}, patchLine{"name-001", "a", patchOf("PATCH-GOOD", 1)})
	rows := filepath.Join(dir, "rows.jsonl")
	text, err := os.ReadFile(rows)
	if err != nil {
		t.Fatal(err)
	}
	first, second, _ := strings.Cut(string(text), "\n")
	writeText(t, rows, first+"\n"+strings.Replace(second, "parse_log_pytest", "parse_log_nothing", 1))
	out := t.TempDir()
	for i := range 2 {
		f := newFakeEngine()
		f.run(t, exitNotEvaluated, fakeRun(dir, out, "--no-cache"))
		if n := f.ran(); n != 2 {
			t.Errorf("call %d: tests were run %d times, want 2", i, n)
		}
		if a := stored(t, out, "run", "a"); a["name-000"].Outcome != grading.Resolved || a["name-001"].Outcome != grading.Ungradeable {
			t.Errorf("call %d: %s, %s", i, a["name-000"].Outcome, a["name-001"].Outcome)
		}
	}
}

// A call that ends early takes away nothing: what it did not come to is as earlier calls
// have left it, but for what would be made otherwise now.
func TestEarlyEnd(t *testing.T) {
	const instances = 6
	dir := data(t, instances, append(twoModels(instances), patchLine{"name-000", "three", patchOf("PATCH-HANGS", 2000)})...)
	out := t.TempDir()
	f := newFakeEngine()
	common := []string{"-t", "300ms"}
	f.run(t, exitFine, fakeRun(dir, out, common...))
	want := resultsIn(t, out)
	early := func(code int, more ...string) (stderr string) {
		t.Helper()
		ran := f.ran()
		_, stderr = f.run(t, code, fakeRun(dir, out, append(append(more, common...), "--deadline", "1ms")...))
		if f.ran() > ran {
			t.Skip("a millisecond was enough")
		}
		return stderr
	}
	if err := os.Remove(reports.Layout{Root: out}.Instance("run", "two", "name-001").Attempt); err != nil {
		t.Fatal(err)
	}
	early(exitFine)
	if diff := cmp.Diff(want, resultsIn(t, out)); diff != "" {
		t.Errorf("(-before +after a call that came to nothing):\n%s", diff)
	}
	for _, other := range [][]string{{"--no-cache"}, {"--pids", "100"}} {
		stderr := early(exitNotEvaluated, other...)
		if record, err := reports.LoadRun(reports.Layout{Root: out}, "run"); err != nil || !strings.Contains(stderr, " of 13 predictions are not evaluated") || len(record.Reused) > 0 {
			t.Errorf("%v: %v, images %v\n%s", other, err, record.ImageDigests, stderr)
		}
	}
	f.run(t, exitFine, fakeRun(dir, out, common...))
}
