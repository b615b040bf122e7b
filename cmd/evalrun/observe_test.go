package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/evalrun/evalrun/internal/observe"
	"github.com/evalrun/evalrun/reports"
)

// The log goes into the run's folder, to a file of one's own, or nowhere; a second
// call of the run adds to it.
func TestRunLog(t *testing.T) {
	for _, name := range []string{"OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		t.Setenv(name, "")
	}
	layout := reports.Layout{Root: t.TempDir()}
	if err := os.MkdirAll(layout.RunDir("r"), 0o755); err != nil {
		t.Fatal(err)
	}
	usual, own := filepath.Join(layout.RunDir("r"), "evalrun.log"), filepath.Join(t.TempDir(), "own.log")
	for _, tt := range []struct {
		flags observeFlags
		path  string
		lines int
	}{
		{observeFlags{}, usual, 2}, {observeFlags{}, usual, 4}, {observeFlags{LogFile: own}, own, 2}, {observeFlags{LogFile: "none"}, usual, 4},
	} {
		var stderr bytes.Buffer
		w, stop, err := tt.flags.watch(&env{ctx: t.Context(), stderr: &stderr}, layout, observe.Options{RunID: "r"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		w.Begin()
		stop(errors.New("the end"))
		data, err := os.ReadFile(tt.path)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(data), "\n"); n != tt.lines || !strings.Contains(string(data), "the end") || stderr.Len() > 0 {
			t.Errorf("%+v: %d lines in %s, want %d; said %q", tt.flags, n, tt.path, tt.lines, stderr.String())
		}
	}
	for want, flags := range map[string]observeFlags{
		"--log-file":    {LogFile: filepath.Join(own, "below-a-file")},
		"--status-addr": {LogFile: "none", StatusAddr: "192.0.2.1:1"}, // an address of no machine
	} {
		if _, _, err := flags.watch(&env{ctx: t.Context(), stderr: &bytes.Buffer{}}, layout, observe.Options{RunID: "r"}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", flags, err)
		}
	}
}

// A log that cannot be written is said once, and the run is what it is without; one
// that nobody reads is refused, and not waited for.
func TestLogCannotBeWritten(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(err)
	}
	dir := data(t, 3, patchLine{"name-000", "a", patchOf("PATCH-GOOD", 0)}, patchLine{"name-001", "a", patchOf("PATCH-GOOD", 1)})
	_, stderr := newFakeEngine().run(t, exitFine, fakeRun(dir, t.TempDir(), "--log-file", "/dev/full"))
	if n := strings.Count(stderr, "--log-file: write /dev/full: no space left on device"); n != 1 {
		t.Errorf("said %d times:\n%s", n, stderr)
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	if _, stderr := newFakeEngine().run(t, exitUsage, fakeRun(dir, t.TempDir(), "--log-file", pipe)); !strings.Contains(stderr, "--log-file: open "+pipe) {
		t.Errorf("of a pipe:\n%s", stderr)
	}
}

// What is told when the progress display has ended, such as of a log that first fails at
// its last line, is told.
func TestNoteAfterTheEnd(t *testing.T) {
	for _, terminal := range []bool{false, true} {
		var stderr bytes.Buffer
		c := call{e: &env{stderr: &stderr}, ui: &display{}}
		c.note("before")
		c.ui.progress = newProgress(&stderr, terminal, 80, 1)
		c.note("meanwhile")
		c.ui.progress.Close()
		c.note("after\x1b[31m")
		c.ui.progress.Done("name", "resolved", 1)
		said := stderr.String()
		for _, want := range []string{"before\n", "meanwhile\n"} {
			if !strings.Contains(said, want) {
				t.Errorf("on a terminal %v: lacks %q in %q", terminal, want, said)
			}
		}
		if i := strings.LastIndex(said, "after"); i < 0 || strings.ContainsRune(said[i:], '\x1b') || !strings.HasSuffix(said, "\n") || strings.Count(said[i:], "\n") != 1 {
			t.Errorf("on a terminal %v: the end is %q", terminal, said[max(0, len(said)-80):])
		}
	}
}

// A journal that was replaced is said to be damaged, and what attempts have written is
// taken from their own files; one that is no file ends the run at once.
func TestJournalReplaced(t *testing.T) {
	dir := data(t, 1, patchLine{"name-000", "a", patchOf("PATCH-GOOD", 0)})
	out := t.TempDir()
	f := newFakeEngine()
	f.run(t, exitFine, fakeRun(dir, out))
	journal := reports.Layout{Root: out}.JournalFile("run")
	writeText(t, journal, strings.Repeat("\x03\x07random\xff", 500))
	if _, stderr := f.run(t, exitFine, fakeRun(dir, out)); !strings.Contains(stderr, `the journal of run "run" is damaged at byte 0`) || f.ran() != 1 {
		t.Errorf("tests were run %d times, and it says\n%s", f.ran(), stderr)
	}
	if err := errors.Join(os.Remove(journal), syscall.Mkfifo(journal, 0o600)); err != nil {
		t.Skip(err)
	}
	for _, args := range [][]string{fakeRun(dir, out), {"report", journal}} {
		if _, stderr := f.run(t, exitUsage, args); !strings.Contains(stderr, "is not a regular file") {
			t.Errorf("%v:\n%s", args[0], stderr)
		}
	}
}
