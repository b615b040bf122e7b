package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports"
)

// stored reads the attempts of a model back.
func stored(t *testing.T, out, run, model string) map[string]reports.Attempt {
	t.Helper()
	list, problems := reports.LoadAttempts(reports.Layout{Root: out}, run, model)
	for _, p := range problems {
		t.Error(p)
	}
	found := map[string]reports.Attempt{}
	for _, a := range list {
		found[a.InstanceID] = a
	}
	return found
}

// data is a folder with a dataset of so many instances, and predictions.
func data(t *testing.T, instances int, list ...patchLine) string {
	t.Helper()
	dir := t.TempDir()
	writeRows(t, filepath.Join(dir, "rows.jsonl"), instances)
	writePredictions(t, filepath.Join(dir, "preds.jsonl"), list...)
	return dir
}

// A patch that was graded is not run again: not for another model, nor in another
// run; --no-cache runs it all the same. Where a result came from is on record.
func TestReuse(t *testing.T) {
	dir := data(t, 3,
		patchLine{"name-000", "a", patchOf("PATCH-GOOD", 0)}, patchLine{"name-000", "b", patchOf("PATCH-GOOD", 0)},
		patchLine{"name-001", "a", patchOf("PATCH-FAILS", 1)}, patchLine{"name-001", "b", patchOf("PATCH-GOOD", 1)},
		patchLine{"name-002", "a", patchOf("PATCH-HANGS", 2)}, patchLine{"name-002", "b", patchOf("PATCH-HANGS", 2)})
	out := t.TempDir()
	f := newFakeEngine()
	run := func(name string, wantRan int, more ...string) {
		t.Helper()
		before := f.ran()
		f.run(t, exitFine, fakeRun(dir, out, append([]string{"--run-id", name, "-t", "300ms"}, more...)...))
		if n := f.ran() - before; n != wantRan {
			t.Errorf("run %s: tests were run %d times, want %d", name, n, wantRan)
		}
	}
	run("one", 5) // what timed out is nobody else's result
	run("one", 0) // but its own
	run("two", 2)
	run("three", 6, "--no-cache")
	run("four", 5, "--cpus", "2")

	// Runs that share results are no repetitions, and are not shown as such unsaid.
	const said = "results were not made again"
	if stdout, _ := f.run(t, exitFine, []string{"report", "one", "two", "--out", out, "--show", "none"}); !strings.Contains(stdout, said) {
		t.Errorf("report of runs that share results:\n%s", stdout)
	}
	if stdout, _ := f.run(t, exitFine, []string{"report", "one::a", "three::a", "--out", out, "--show", "none"}); strings.Contains(stdout, said) {
		t.Errorf("report of runs that share none:\n%s", stdout)
	}

	b := stored(t, out, "one", "b")
	if from := b["name-000"].ReusedFrom; from == nil || *from != (reports.Origin{RunID: "one", Model: "a", InstanceID: "name-000"}) {
		t.Errorf("the same patch of another model is from %+v", from)
	}
	if a := b["name-001"]; a.ReusedFrom != nil || a.Outcome != grading.Resolved {
		t.Errorf("another patch: %s, from %+v", a.Outcome, a.ReusedFrom)
	}
	two := stored(t, out, "two", "b")
	if a := two["name-001"]; a.RunID != "two" || a.ReusedFrom == nil || *a.ReusedFrom != (reports.Origin{RunID: "one", Model: "b", InstanceID: "name-001"}) || !a.Reused {
		t.Errorf("of another run: %+v", a)
	}
	if a := two["name-002"]; a.Outcome != grading.TimedOut || a.ReusedFrom != nil {
		t.Errorf("timed out: %s, from %+v", a.Outcome, a.ReusedFrom)
	}
	for _, a := range stored(t, out, "three", "b") {
		if a.ReusedFrom != nil {
			t.Errorf("--no-cache, and %s is from %+v", a.InstanceID, a.ReusedFrom)
		}
	}
	// What was taken over has all the files of what was run.
	for _, name := range []string{"patch.diff", "eval.sh", "test_output.txt", "report.json", "run_instance.log"} {
		want, err1 := os.ReadFile(filepath.Join(out, "logs/run_evaluation/one/a/name-000", name))
		got, err2 := os.ReadFile(filepath.Join(out, "logs/run_evaluation/two/b/name-000", name))
		if err := errors.Join(err1, err2); err != nil || !bytes.Equal(want, got) {
			t.Errorf("%s: %v\n%s", name, err, cmp.Diff(string(want), string(got)))
		}
	}
	record, err := reports.LoadRun(reports.Layout{Root: out}, "two")
	if err != nil || record.Reused["a"] != 2 || record.Reused["b"] != 2 {
		t.Errorf("run.json tells of %v, %v", record.Reused, err)
	}
	if stdout, _ := f.run(t, exitFine, []string{"report", "verify", "two", "--out", out, "-d", filepath.Join(dir, "rows.jsonl")}); !strings.Contains(stdout, " 0 differ") {
		t.Errorf("report verify says\n%s", stdout)
	}
}

// A run of the same name elsewhere is another run.
func TestReuseFromNamesake(t *testing.T) {
	dir := data(t, 1, patchLine{"name-000", "a", patchOf("PATCH-GOOD", 0)})
	out, other := t.TempDir(), t.TempDir()
	f := newFakeEngine()
	f.run(t, exitFine, fakeRun(dir, out, "--run-id", "one"))
	f.run(t, exitFine, append(fakeRun(dir, other, "--run-id", "one"), "--cache", filepath.Join(out, "cache")))
	if n := f.ran(); n != 1 {
		t.Errorf("the tests were run %d times, want once", n)
	}
	a := stored(t, other, "one", "a")["name-000"]
	if want := (reports.Origin{RunID: "one", Model: "a", InstanceID: "name-000"}); a.ReusedFrom == nil || *a.ReusedFrom != want || !a.Reused {
		t.Errorf("from %+v", a.ReusedFrom)
	}
}

// A result of another run that is damaged is made again, and said to be.
func TestDamagedVerdict(t *testing.T) {
	dir := data(t, 1, patchLine{"name-000", "a", patchOf("PATCH-GOOD", 0)})
	out := t.TempDir()
	f := newFakeEngine()
	f.run(t, exitFine, fakeRun(dir, out, "--run-id", "one"))
	damaged := 0
	err := filepath.WalkDir(filepath.Join(out, "cache", "verdicts"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || len(d.Name()) != 64 {
			return err
		}
		damaged++
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		text[len(text)/2] ^= 1
		return os.WriteFile(path, text, 0o644)
	})
	if err != nil || damaged != 1 {
		t.Fatalf("%d entries, %v", damaged, err)
	}
	_, stderr := f.run(t, exitFine, fakeRun(dir, out, "--run-id", "two"))
	if a := stored(t, out, "two", "a")["name-000"]; f.ran() != 2 || a.ReusedFrom != nil || a.Outcome != grading.Resolved || !strings.Contains(stderr, "damaged") {
		t.Errorf("tests were run %d times, %s, from %+v\n%s", f.ran(), a.Outcome, a.ReusedFrom, stderr)
	}
	f.run(t, exitFine, fakeRun(dir, out, "--run-id", "three"))
	if f.ran() != 2 {
		t.Error("what was made again was not kept")
	}
}

// An entry that somebody has written in, to make a failure a success, is not taken,
// however well it is packed.
func TestRewrittenVerdict(t *testing.T) {
	for what, change := range map[string]func(string) string{
		"log": func(s string) string {
			return strings.Replace(s, "\nFAILED tests/test_x.py::test_new", "\nPASSED tests/test_x.py::test_new", 1)
		},
		"attempt": func(s string) string { return strings.Replace(s, `"outcome":"unresolved"`, `"outcome":"resolved"`, 1) },
		"digest":  func(s string) string { return regexp.MustCompile(`"Sum":"\w+"`).ReplaceAllString(s, `"Sum":""`) },
	} {
		t.Run(what, func(t *testing.T) {
			dir := data(t, 1, patchLine{"name-000", "a", patchOf("PATCH-FAILS", 0)})
			out := t.TempDir()
			f := newFakeEngine()
			f.run(t, exitFine, fakeRun(dir, out, "--run-id", "one"))
			entries, err := filepath.Glob(filepath.Join(out, "cache", "verdicts", "??", "*"))
			if err != nil || len(entries) != 1 {
				t.Fatalf("entries %v, %v", entries, err)
			}
			before := unpackZstd(t, entries[0])
			after := change(before)
			if after == before {
				t.Fatalf("nothing to change in\n%s", before)
			}
			packZstd(t, entries[0], after)
			_, stderr := f.run(t, exitFine, fakeRun(dir, out, "--run-id", "two"))
			a := stored(t, out, "two", "a")["name-000"]
			if f.ran() != 2 || a.ReusedFrom != nil || a.Outcome != grading.Unresolved {
				t.Errorf("tests were run %d times, %s, from %+v", f.ran(), a.Outcome, a.ReusedFrom)
			}
			if said := strings.Contains(stderr, "name-000: a result of another run is damaged"); said != (what != "digest") {
				t.Errorf("it says\n%s", stderr)
			}
			if again := unpackZstd(t, entries[0]); !strings.Contains(again, `"outcome":"unresolved"`) || strings.Contains(again, `"Sum":""`) {
				t.Errorf("what was made again is not kept:\n%s", again)
			}
		})
	}
}

func unpackZstd(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	z, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	out, err := z.DecodeAll(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func packZstd(t *testing.T, path, text string) {
	t.Helper()
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	writeText(t, path, string(z.EncodeAll([]byte(text), nil)))
}

// The plan of a run knows what was graded before, and what is the same patch; the run
// itself says how many results it took over.
func TestPlanReuse(t *testing.T) {
	dir := data(t, 4,
		patchLine{"name-000", "a", patchOf("PATCH-GOOD", 0)}, patchLine{"name-000", "b", patchOf("PATCH-GOOD", 0)},
		patchLine{"name-001", "a", patchOf("PATCH-FAILS", 1)}, patchLine{"name-001", "b", patchOf("PATCH-GOOD", 1)},
		patchLine{"name-002", "a", ""}, patchLine{"name-003", "a", patchOf("PATCH-GOOD", 3)}, patchLine{"name-003", "b", patchOf("PATCH-GOOD", 3)})
	out := t.TempDir()
	f := newFakeEngine()
	f.run(t, exitFine, fakeRun(dir, out, "--run-id", "one", "-i", "name-000,name-001"))
	plan := func(more ...string) (doc planDocument) {
		t.Helper()
		args := fakeRun(dir, out, append([]string{"--json"}, more...)...)
		args[0] = "plan"
		stdout, _ := f.run(t, exitFine, args)
		if err := json.Unmarshal([]byte(stdout), &doc); err != nil {
			t.Fatal(err)
		}
		return doc
	}
	type counts struct{ Attempts, Reused, OtherRuns, SamePatch, Empty, Left int }
	for _, c := range []struct {
		args []string
		want counts
	}{
		{[]string{"--run-id", "two"}, counts{7, 0, 4, 1, 1, 1}},
		{[]string{"--run-id", "one"}, counts{7, 4, 0, 1, 1, 1}},
		{[]string{"--run-id", "two", "--no-cache"}, counts{7, 0, 0, 0, 1, 6}},
		{[]string{"--run-id", "two", "--cpus", "2"}, counts{7, 0, 0, 2, 1, 4}},
	} {
		doc := plan(c.args...)
		left := 0
		for _, n := range doc.Known {
			left += n
		}
		if got := (counts{doc.Attempts, doc.Reused, doc.OtherRuns, doc.SamePatch, doc.Empty, left}); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.args, got, c.want)
		}
	}
	before := f.ran()
	stdout, _ := f.run(t, exitFine, fakeRun(dir, out, "--run-id", "two"))
	if n := f.ran() - before; n != 1 {
		t.Errorf("%d were made, the plan said 1", n)
	}
	for _, want := range []string{"reused 2 of 4: ", "reused 3 of 3: "} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the run does not say %q:\n%s", want, stdout)
		}
	}
}

// A plan says of a run whose journal cannot be read that it knows nothing of it, and
// nothing where there was none.
func TestPlanWithoutJournal(t *testing.T) {
	dir := data(t, 1, patchLine{"name-000", "a", patchOf("PATCH-GOOD", 0)})
	out := t.TempDir()
	f := newFakeEngine()
	f.run(t, exitFine, fakeRun(dir, out, "--run-id", "one"))
	layout := reports.Layout{Root: out}
	text, err := os.ReadFile(layout.JournalFile("one"))
	if err != nil {
		t.Fatal(err)
	}
	writeText(t, layout.JournalFile("copied"), string(text))
	if err := os.MkdirAll(layout.RunDir("pipe"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(layout.JournalFile("pipe"), 0o600); err != nil {
		t.Skip(err)
	}
	for run, want := range map[string]string{"one": "", "none": "", "copied": `journal of run "one"`, "pipe": "is not a regular file"} {
		args := fakeRun(dir, out, "--run-id", run)
		args[0] = "plan"
		_, stderr := f.run(t, exitFine, args)
		warned := strings.Contains(stderr, "warning: the plan is that of a new run")
		if warned != (want != "") || !strings.Contains(stderr, want) {
			t.Errorf("run %s: want %q in\n%s", run, want, stderr)
		}
	}
}

// A run that was made before there were journals goes on.
func TestRunWithoutJournal(t *testing.T) {
	dir := data(t, 2, patchLine{"name-000", "a", patchOf("PATCH-GOOD", 0)}, patchLine{"name-001", "a", patchOf("PATCH-FAILS", 1)})
	out := t.TempDir()
	f := newFakeEngine()
	f.run(t, exitFine, fakeRun(dir, out))
	if err := errors.Join(os.Remove(reports.Layout{Root: out}.JournalFile("run")), os.RemoveAll(filepath.Join(out, "cache"))); err != nil {
		t.Fatal(err)
	}
	f.run(t, exitFine, fakeRun(dir, out))
	if f.ran() != 2 {
		t.Errorf("tests were run %d times, want those of the first call", f.ran())
	}
	j, err := reports.LoadJournal(reports.Layout{Root: out}.JournalFile("run"))
	if err != nil || len(j.Attempts) != 2 {
		t.Errorf("the new journal: %+v, %v", j, err)
	}
}

// The journal alone is the run: files that are gone come back, and a report can be
// made of nothing else.
func TestJournalAlone(t *testing.T) {
	const instances = 6
	dir := data(t, instances, twoModels(instances)...)
	out := t.TempDir()
	f := newFakeEngine()
	f.run(t, exitFine, fakeRun(dir, out))
	want := resultsIn(t, out)
	shown, _ := f.run(t, exitFine, []string{"report", "run", "--out", out})

	folder := filepath.Join(out, "logs/run_evaluation/run")
	moved := filepath.Join(t.TempDir(), "elsewhere.jsonl")
	text, err := os.ReadFile(filepath.Join(folder, "journal.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	writeText(t, moved, string(text))
	again, _ := f.run(t, exitFine, []string{"report", moved})
	if diff := cmp.Diff(shown, again); diff != "" {
		t.Errorf("a report of the journal (-of the files +of the journal):\n%s", diff)
	}
	removed := 0
	for name := range want {
		base := filepath.Base(name)
		if base == "attempt.json" || base == "report.json" || base == "run.json" || base == "statement.json" {
			removed++
			if err := os.Remove(filepath.Join(out, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	ran := f.ran()
	f.run(t, exitFine, fakeRun(dir, out))
	if diff := cmp.Diff(want, resultsIn(t, out)); diff != "" || f.ran() != ran || removed < instances {
		t.Errorf("of %d files removed some did not come back, or %d tests were run (-before +after):\n%s", removed, f.ran()-ran, diff)
	}
}

// A second process that is asked for a run that goes on refuses, and says who has it.
func TestSecondProcess(t *testing.T) {
	dir := data(t, 1, patchLine{"name-000", "a", patchOf("PATCH-HANGS", 0)})
	out := t.TempDir()
	cmd := exec.Command(asCommand(t, "evalrun-fake"), fakeRun(dir, out)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	started := filepath.Join(out, "logs/run_evaluation/run/a/name-000/test_output.txt")
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(started); err == nil {
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatal("the first process does nothing")
		}
	}
	f := newFakeEngine()
	_, stderr := f.run(t, exitUsage, fakeRun(dir, out))
	if host, _ := os.Hostname(); !strings.Contains(stderr, fmt.Sprintf("process %d on %s", cmd.Process.Pid, host)) || f.fake.Started() > 0 {
		t.Errorf("the second process, with %d sandboxes, says\n%s", f.fake.Started(), stderr)
	}
}

// A run that was copied while it was at work goes on elsewhere, with other paths.
func TestCopiedRun(t *testing.T) {
	const instances = 8
	dir := data(t, instances, twoModels(instances)...)
	whole := t.TempDir()
	newFakeEngine().run(t, exitFine, fakeRun(dir, whole))
	want := resultsIn(t, whole)

	here := filepath.Join(t.TempDir(), "here")
	begun := moment{bytes: 4 << 10}
	if !killAt(t, begun, reports.Layout{Root: here}.JournalFile("run"), asCommand(t, "evalrun-fake"), fakeRun(dir, here)) {
		t.Fatal("the run ended before it was copied")
	}
	there := filepath.Join(t.TempDir(), "there", "deeper")
	if err := os.CopyFS(there, os.DirFS(here)); err != nil {
		t.Fatal(err)
	}
	writeText(t, filepath.Join(there, "logs/run_evaluation/run/.lock"), "process 1 on another-machine since 2026-01-01T00:00:00Z\n")
	if err := errors.Join(os.RemoveAll(here), os.RemoveAll(filepath.Join(there, "cache"))); err != nil {
		t.Fatal(err)
	}
	newFakeEngine().run(t, exitFine, fakeRun(dir, there))
	if diff := cmp.Diff(want, resultsIn(t, there)); diff != "" {
		t.Errorf("(-undisturbed +copied):\n%s", diff)
	}
	for _, name := range []string{"journal.jsonl", "run.json", "statement.json", "org__one/name-000/attempt.json"} {
		text, err := os.ReadFile(filepath.Join(there, "logs/run_evaluation/run", name))
		if err != nil || bytes.Contains(text, []byte(here)) || bytes.Contains(text, []byte(there)) {
			t.Errorf("%s: %v, or it names a folder of this machine:\n%s", name, err, text)
		}
	}
}

// A run's folder under another name is still that run: its files are not written
// under a name whose lock nobody holds.
func TestRenamedRun(t *testing.T) {
	dir := data(t, 2, patchLine{"name-000", "a", patchOf("PATCH-GOOD", 0)})
	out := t.TempDir()
	f := newFakeEngine()
	f.run(t, exitFine, fakeRun(dir, out, "--run-id", "one"))
	want := resultsIn(t, out)
	runs := filepath.Join(out, "logs", "run_evaluation")
	if err := os.CopyFS(filepath.Join(runs, "two"), os.DirFS(filepath.Join(runs, "one"))); err != nil {
		t.Fatal(err)
	}
	_, said := f.run(t, exitUsage, fakeRun(dir, out, "--run-id", "two"))
	if !strings.Contains(said, `journal of run "one"`) {
		t.Errorf("it says %s", said)
	}
	if err := os.RemoveAll(filepath.Join(runs, "two")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, resultsIn(t, out)); diff != "" {
		t.Errorf("run one is not what it was (-before +after):\n%s", diff)
	}
}
