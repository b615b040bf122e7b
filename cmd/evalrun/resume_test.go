package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports"
)

// attemptFiles are the files of all attempts of a run at a patch, byte for byte.
func attemptFiles(t *testing.T, out string) map[string]string {
	t.Helper()
	files := map[string]string{}
	root := reports.Layout{Root: out}.RunDir("run")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Dir(path) == root {
			return err
		}
		if text, err := os.ReadFile(filepath.Join(filepath.Dir(path), "patch.diff")); err != nil || len(text) == 0 {
			return err
		}
		data, err := os.ReadFile(path)
		files[path] = string(data)
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	return files
}

// A run that is through needs none of its images any more: called again, it is what it
// was, and nothing is pulled. What would be made from another image is not run where that
// cannot be had, and its earlier results stay.
func TestImagesAreGone(t *testing.T) {
	const instances = 6
	dir := data(t, instances, append(twoModels(instances), patchLine{"name-000", "three", patchOf("PATCH-HANGS", 2000)})...)
	out := t.TempDir()
	args := func(more ...string) []string { return fakeRun(dir, out, append([]string{"-t", "300ms"}, more...)...) }
	newFakeEngine().run(t, exitFine, args())
	want, results := attemptFiles(t, out), resultsIn(t, out)

	f, gone := newFakeEngine(), &goneStore{}
	f.store = gone
	f.run(t, exitFine, args())
	if diff := cmp.Diff(results, resultsIn(t, out)); diff != "" {
		t.Errorf("(-before +after a call without images):\n%s", diff)
	}
	if diff := cmp.Diff(want, attemptFiles(t, out)); diff != "" || gone.pulls.Load() > 0 || f.ran() > 0 {
		t.Errorf("%d images were asked for and %d tests run (-before +after):\n%s", gone.pulls.Load(), f.ran(), diff)
	}
	f.run(t, exitFine, args("--rules", "strict"))
	if gone.pulls.Load() > 0 || f.ran() > 0 {
		t.Errorf("under other rules %d images were asked for and %d tests run", gone.pulls.Load(), f.ran())
	}
	f.run(t, exitFine, args())
	want = attemptFiles(t, out)

	_, stderr := f.run(t, exitNotEvaluated, args("--tag", "other"))
	if diff := cmp.Diff(want, attemptFiles(t, out)); diff != "" || gone.pulls.Load() == 0 || f.ran() > 0 {
		t.Errorf("of another tag, %d images were asked for and %d tests run (-before +after):\n%s", gone.pulls.Load(), f.ran(), diff)
	}
	if n := strings.Count(stderr, "its image cannot be had, and the result of an earlier call stays"); n != 11 {
		t.Errorf("it is told of %d attempts that their results stay, want all 11 with a patch:\n%s", n, stderr)
	}
	f.run(t, exitNotEvaluated, args("--no-cache")) // which takes no results, and destroys none
	if diff := cmp.Diff(want, attemptFiles(t, out)); diff != "" {
		t.Errorf("with --no-cache (-before +after):\n%s", diff)
	}
	f.run(t, exitFine, args())
	if diff := cmp.Diff(want, attemptFiles(t, out)); diff != "" || f.ran() > 0 {
		t.Errorf("at last, %d tests run (-before +after):\n%s", f.ran(), diff)
	}
	f = newFakeEngine()
	f.run(t, exitFine, args("--tag", "other"))
	if f.ran() == 0 {
		t.Error("no test was run in images of another tag")
	}
}

// A call that is killed when it has begun to make an attempt again leaves no verdict of
// the log it has removed.
func TestKilledWhileRemaking(t *testing.T) {
	good, hangs := patchLine{"name-000", "a", patchOf("PATCH-GOOD", 0)}, patchLine{"name-000", "a", patchOf("PATCH-HANGS", 0)}
	for _, more := range [][]string{nil, {"--no-cache"}} {
		dir := data(t, 1, good)
		out := t.TempDir()
		f := newFakeEngine()
		f.run(t, exitFine, fakeRun(dir, out))
		files := reports.Layout{Root: out}.Instance("run", "a", "name-000")
		if err := os.RemoveAll(filepath.Join(out, "cache")); err != nil {
			t.Fatal(err)
		}
		writePredictions(t, filepath.Join(dir, "preds.jsonl"), hangs)
		if !killWhen(t, func() bool {
			patch, _ := os.ReadFile(files.Patch) // written when all of the earlier attempt is gone
			_, err := os.Stat(files.TestOutput)
			return strings.Contains(string(patch), "PATCH-HANGS") && err == nil
		}, 0, asCommand(t, "evalrun-fake"), fakeRun(dir, out, more...)) {
			t.Fatal("the call that makes it again ended by itself")
		}
		writePredictions(t, filepath.Join(dir, "preds.jsonl"), good)
		f.run(t, exitFine, fakeRun(dir, out))
		if a := stored(t, out, "run", "a")["name-000"]; f.ran() != 2 || a.Outcome != grading.Resolved {
			t.Errorf("%v: tests were run %d times, want twice; %s", more, f.ran(), a.Outcome)
		}
		if stdout, _ := f.run(t, exitFine, []string{"report", "verify", "run", "--out", out, "-d", filepath.Join(dir, "rows.jsonl")}); !strings.Contains(stdout, " 0 differ, 0 unchecked") {
			t.Errorf("%v: report verify says\n%s", more, stdout)
		}
	}
}

// A result whose log is gone is made again, and said to be.
func TestLogIsGone(t *testing.T) {
	dir := data(t, 2, patchLine{"name-000", "a", patchOf("PATCH-GOOD", 0)}, patchLine{"name-001", "a", patchOf("PATCH-FAILS", 1)})
	out := t.TempDir()
	f := newFakeEngine()
	f.run(t, exitFine, fakeRun(dir, out))
	log := reports.Layout{Root: out}.Instance("run", "a", "name-001").TestOutput
	if err := errors.Join(os.Truncate(log, 10), os.RemoveAll(filepath.Join(out, "cache"))); err != nil {
		t.Fatal(err)
	}
	_, stderr := f.run(t, exitFine, fakeRun(dir, out))
	if f.ran() != 3 || strings.Count(stderr, "the log of the result of an earlier call is gone, or is another one") != 1 {
		t.Errorf("tests were run %d times, want 3:\n%s", f.ran(), stderr)
	}
	if stdout, _ := f.run(t, exitFine, []string{"report", "verify", "run", "--out", out, "-d", filepath.Join(dir, "rows.jsonl")}); !strings.Contains(stdout, " 0 differ, 0 unchecked") {
		t.Errorf("report verify says\n%s", stdout)
	}
}

// What earlier calls have made is not what this one took: nothing is added to what is
// known of durations, nor where a log is only graded again.
func TestResumeTeachesNothing(t *testing.T) {
	dir := data(t, 2, patchLine{"name-000", "a", patchOf("PATCH-GOOD", 0)}, patchLine{"name-001", "a", patchOf("PATCH-FAILS", 1)})
	out := t.TempDir()
	f := newFakeEngine()
	history := historyFile(filepath.Join(out, "cache"))
	f.run(t, exitFine, fakeRun(dir, out))
	want, err := os.ReadFile(history)
	if err != nil || strings.Count(string(want), "\n") != 2 {
		t.Fatalf("of two attempts there is %q, %v", want, err)
	}
	for _, more := range [][]string{nil, {"--rules", "strict"}, nil} {
		f.run(t, exitFine, fakeRun(dir, out, more...))
		if got, err := os.ReadFile(history); err != nil || string(got) != string(want) || f.ran() != 2 {
			t.Errorf("%v: of %d attempts there is %q, %v", more, f.ran(), got, err)
		}
	}
}

// Under other rules the log is graded again, and nothing is run: in a run that goes
// on, and in another one.
func TestOtherRules(t *testing.T) {
	dir := data(t, 5, patchLine{"name-000", "a", patchOf("PATCH-GOOD", 0)}, patchLine{"name-001", "a", patchOf("PATCH-FAILS", 1)},
		patchLine{"name-002", "a", patchOf("PATCH-BREAKS", 2)}, patchLine{"name-003", "a", ""}, patchLine{"name-004", "a", patchOf("PATCH-HANGS", 4)})
	out := t.TempDir()
	f := newFakeEngine()
	call := func(more ...string) {
		t.Helper()
		f.run(t, exitFine, fakeRun(dir, out, append(more, "-t", "300ms")...))
	}
	call()
	want := stored(t, out, "run", "a")
	made := 3
	for i, run := range []string{"run", "another"} {
		call("--run-id", run, "--rules", []string{"strict", "swebench-4.1"}[i])
		if run == "another" {
			made++ // what timed out is no other run's result
		}
		if n := f.ran(); n != made {
			t.Fatalf("run %s: tests were run %d times, want %d", run, n, made)
		}
		for id, a := range stored(t, out, run, "a") {
			if a.Outcome != want[id].Outcome || a.Rules == want[id].Rules || a.Key == want[id].Key {
				t.Errorf("%s: %s under %s, %s under %s", id, want[id].Outcome, want[id].Rules, a.Outcome, a.Rules)
			}
			if graded := a.Outcome != grading.EmptyPatch && !(run == "another" && id == "name-004"); a.Regraded != graded {
				t.Errorf("%s: graded again: %v", id, a.Regraded)
			}
			if v := a.Verdict; v != nil && string(v.Rules) != a.Rules {
				t.Errorf("%s: the verdict is of %s", id, v.Rules)
			}
		}
		if stdout, _ := f.run(t, exitFine, []string{"report", "verify", run, "--out", out, "-d", filepath.Join(dir, "rows.jsonl")}); !strings.Contains(stdout, " 0 differ") {
			t.Errorf("report verify says\n%s", stdout)
		}
	}
	// Tests of the row that are other ones: the same log has another verdict.
	text, err := os.ReadFile(filepath.Join(dir, "rows.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	writeText(t, filepath.Join(dir, "rows.jsonl"), strings.ReplaceAll(string(text), `"PASS_TO_PASS":["tests/test_x.py::test_old"]`, `"PASS_TO_PASS":["tests/test_x.py::test_gone"]`))
	call()
	if a := stored(t, out, "run", "a")["name-000"]; f.ran() != made || a.Outcome != grading.Unresolved {
		t.Errorf("with other tests: run %d times, %s", f.ran(), a.Outcome)
	}
	// Another parser: what never came to its end has no verdict of that one either.
	writeText(t, filepath.Join(dir, "rows.jsonl"), strings.ReplaceAll(string(text), `"log_parser":"parse_log_pytest"`, `"log_parser":"parse_log_pytest_v2"`))
	call()
	if a := stored(t, out, "run", "a")["name-004"]; f.ran() != made || a.Outcome != grading.TimedOut || a.LogParser != "parse_log_pytest_v2" {
		t.Errorf("with another parser: run %d times, %s of %s", f.ran(), a.Outcome, a.LogParser)
	}
}
