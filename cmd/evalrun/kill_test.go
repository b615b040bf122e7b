package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/cache"
	"github.com/evalrun/evalrun/reports"
	"github.com/evalrun/evalrun/reports/provenance"
)

// asCommand is the test binary under a name by which it is something else.
func asCommand(t *testing.T, name string) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(exe, bin); err != nil {
		t.Fatal(err)
	}
	return bin
}

// twoModels are predictions of two models, some of them the same.
func twoModels(instances int) []patchLine {
	var list []patchLine
	kinds := []string{"PATCH-GOOD", "PATCH-FAILS", "PATCH-GOOD", "PATCH-BREAKS"}
	for i := range instances {
		id := fmt.Sprintf("name-%03d", i)
		list = append(list, patchLine{id, "org/one", patchOf(kinds[i%4], i)})
		switch i % 3 {
		case 0:
			list = append(list, patchLine{id, "two", patchOf(kinds[i%4], i)})
		case 1:
			list = append(list, patchLine{id, "two", patchOf("PATCH-FAILS", 1000+i)})
		default:
			list = append(list, patchLine{id, "two", ""})
		}
	}
	return list
}

// times are what differs between two runs that mean the same.
var times = []*regexp.Regexp{
	regexp.MustCompile(`"(start|at|created_at|finished_at|[a-z_]*seconds)": [^,\n]*`),
	regexp.MustCompile(`(?m)^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}`),
	regexp.MustCompile(`in \d+\.\d\d s,`),
	regexp.MustCompile(`(?m)^[0-9a-f]{32} |"log_sha256":"[0-9a-f]{64}"`), // what a script made up for itself, and of a log with that
}

// withoutTimes is a text without the times it names.
func withoutTimes(text []byte) string {
	for _, re := range times {
		text = re.ReplaceAll(text, []byte("TIME"))
	}
	return string(text)
}

// resultsIn are the files a run has written, without times, the journal, the hashes of
// both, and what is nobody's result. A temporary file is an error.
func resultsIn(t *testing.T, out string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(out, path)
		if err != nil {
			return err
		}
		if _, temp := cache.TempOf(d.Name()); temp && !strings.HasPrefix(name, "cache/") {
			t.Errorf("%s is left", name)
		}
		if strings.HasPrefix(name, "cache/") || strings.HasPrefix(d.Name(), ".") || d.Name() == "journal.jsonl" || d.Name() == "evalrun.log" || d.Name() == provenance.SumsFile || strings.HasPrefix(d.Name(), "images.lock") {
			return nil
		}
		data, err := os.ReadFile(path)
		files[name] = withoutTimes(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// run runs evalrun on the fake engine in this process.
func (f *fakeEngine) run(t *testing.T, want int, args []string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	if code := f.main(args, &out, &errs); code != want {
		t.Fatalf("evalrun %s: exit code %d, want %d\n%s", strings.Join(args, " "), code, want, errs.String())
	}
	return out.String(), errs.String()
}

// Killed at whatever moment, and with the journal cut off at whatever byte, a run
// that goes on ends with the files of one that was never disturbed.
func TestKilledAnywhere(t *testing.T) {
	points := 200
	if testing.Short() {
		points = 20
	}
	const instances = 12
	data := t.TempDir()
	writeRows(t, filepath.Join(data, "rows.jsonl"), instances)
	writePredictions(t, filepath.Join(data, "preds.jsonl"), twoModels(instances)...)
	bin := asCommand(t, "evalrun-fake")

	whole := t.TempDir()
	began := time.Now()
	if out, err := exec.Command(bin, fakeRun(data, whole, "--json")...).CombinedOutput(); err != nil {
		t.Fatalf("undisturbed: %v\n%s", err, out)
	}
	long := time.Since(began)
	info, err := os.Stat(reports.Layout{Root: whole}.JournalFile("run"))
	if err != nil {
		t.Fatal(err)
	}
	size := info.Size()
	want := resultsIn(t, whole)
	if n := len(want); n < 2*instances*4 {
		t.Fatalf("the undisturbed run has written %d files", n)
	}
	wantJSON, _ := newFakeEngine().run(t, exitFine, fakeRun(data, whole, "--json"))
	random := rand.New(rand.NewPCG(6, 0))
	var killed, kept atomic.Int64
	t.Run("points", func(t *testing.T) {
		for i := range points {
			at, cut := randomMoment(random, size), 1.0
			if i%2 == 0 {
				cut = random.Float64()
			}
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				out := filepath.Join(t.TempDir(), "out")
				journal := reports.Layout{Root: out}.JournalFile("run")
				if killAt(t, at, journal, bin, fakeRun(data, out)) {
					killed.Add(1)
				}
				done := cutJournal(t, journal, cut)
				kept.Add(int64(done))
				f := newFakeEngine()
				gotJSON, stderr := f.run(t, exitFine, fakeRun(data, out, "--json"))
				if diff := cmp.Diff(want, resultsIn(t, out)); diff != "" {
					t.Fatalf("killed %s after %d bytes of the journal: (-undisturbed +resumed)\n%s\n%s", at.then, at.bytes, diff, stderr)
				}
				if diff := cmp.Diff(withoutTimes([]byte(wantJSON)), withoutTimes([]byte(gotJSON))); diff != "" {
					t.Errorf("--json prints something else (-undisturbed +resumed):\n%s", diff)
				}
				if n := f.fake.Started(); n > 2*instances-done+1 {
					t.Errorf("%d sandboxes, one of them the probe's, though %d of %d attempts were done", n, done, 2*instances)
				}
				if n := f.fake.Live(); n > 0 {
					t.Errorf("%d sandboxes are left", n)
				}
			})
		}
	})
	if int(killed.Load()) < points/2 || kept.Load() == 0 {
		t.Errorf("%d of %d runs were killed before they ended, with %d attempts kept", killed.Load(), points, kept.Load())
	}
	t.Logf("%d points, %d killed before the end, %d attempts kept, undisturbed %s", points, killed.Load(), kept.Load(), long)
}

// A call that was killed when it had written its end leaves nothing, either.
func TestKilledAfterTheEnd(t *testing.T) {
	data, out := t.TempDir(), t.TempDir()
	writeRows(t, filepath.Join(data, "rows.jsonl"), 2)
	writePredictions(t, filepath.Join(data, "preds.jsonl"), twoModels(2)...)
	newFakeEngine().run(t, exitFine, fakeRun(data, out))
	layout := reports.Layout{Root: out}
	for _, file := range []string{filepath.Join(layout.RunDir("run"), provenance.SumsFile), layout.SummaryFile("run", "two")} {
		temp := filepath.Join(filepath.Dir(file), "."+filepath.Base(file)+".0123456789abcdef.tmp")
		if err := os.WriteFile(temp, []byte("half"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	newFakeEngine().run(t, exitFine, fakeRun(data, out))
	resultsIn(t, out)
}

// What a run has written verifies when it ends, and when it has gone on: nothing is
// written after the list of its files.
func TestWhatWasRunVerifies(t *testing.T) {
	data, out := t.TempDir(), t.TempDir()
	writeRows(t, filepath.Join(data, "rows.jsonl"), 3)
	writePredictions(t, filepath.Join(data, "preds.jsonl"), twoModels(3)...)
	for range 2 {
		newFakeEngine().run(t, exitFine, fakeRun(data, out))
		said, _ := newFakeEngine().run(t, exitFine, []string{"report", "verify", "run", "--out", out, "-d", filepath.Join(data, "rows.jsonl")})
		if !strings.Contains(said, " 0 differ, 0 unchecked") {
			t.Error(said)
		}
	}
}

// cutJournal cuts a journal off at a part of its length, as a machine without power
// does, and counts the attempts in what is left.
func cutJournal(t *testing.T, path string, at float64) (done int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	if err == nil {
		err = os.Truncate(path, int64(at*float64(len(text))))
	}
	if err != nil {
		t.Fatal(err)
	}
	j, err := reports.LoadJournal(path)
	if err != nil {
		return 0 // it does not reach the run's first event
	}
	for _, a := range j.Attempts {
		if a.Outcome.Evaluated() {
			done++
		}
	}
	return done
}

// A moment is when a run is killed: some time after its journal has come to a size.
// Counted so, moments are spread over the run however busy the machine is.
type moment struct {
	bytes int64
	then  time.Duration
}

// randomMoment is one between the start and shortly after the end of a run with a
// journal of a size.
func randomMoment(random *rand.Rand, journal int64) moment {
	const written, hashing = 5 * time.Millisecond, 200 * time.Millisecond
	if x := 1.2 * random.Float64(); x < 1 {
		return moment{int64(x * float64(journal)), time.Duration(random.Float64() * float64(written))}
	}
	return moment{journal * 97 / 100, time.Duration(random.Float64() * float64(hashing))}
}

// killAt runs a command and kills it at a moment; false when it had ended by itself.
func killAt(t *testing.T, at moment, journal, bin string, args []string) bool {
	t.Helper()
	return killWhen(t, func() bool {
		info, err := os.Stat(journal)
		return at.bytes == 0 || err == nil && info.Size() >= at.bytes
	}, at.then, bin, args)
}

// killWhen runs a command and kills it some time after something is so.
func killWhen(t *testing.T, is func() bool, then time.Duration, bin string, args []string) bool {
	t.Helper()
	cmd := exec.Command(bin, args...)
	cmd.Stdout, cmd.Stderr = io.Discard, io.Discard
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for {
		select {
		case <-ended:
			return false
		case <-poll.C:
		}
		if is() {
			time.Sleep(then)
			cmd.Process.Kill()
			return <-ended != nil
		}
	}
}
