package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/evalrun/evalrun/internal/observe"
	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/sandboxtest"
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

// overheard is what a run has said so far.
type overheard struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *overheard) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *overheard) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// fetch gets a page of a run, until it has all of what is wanted.
func fetch(t *testing.T, url string, want ...string) {
	t.Helper()
	var text []byte
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(10 * time.Millisecond) {
		answer, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		text, err = io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s, %v", url, answer.Status, err)
		}
		if !slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(string(text), w) }) {
			return
		}
	}
	t.Errorf("%s lacks some of %q:\n%s", url, want, text)
}

// While a run goes on its status page tells what its workers do, and its metrics count
// what it has done; with the run they end.
func TestStatusOfRun(t *testing.T) {
	dir := data(t, 3, patchLine{"name-000", "a", patchOf("PATCH-GOOD", 0)}, patchLine{"name-001", "a", patchOf("PATCH-GOOD", 1)}, patchLine{"name-002", "a", patchOf("PATCH-FAILS", 2)})
	f := newFakeEngine()
	release := make(chan struct{})
	exec := f.fake.OnExec
	f.fake.OnExec = func(ctx context.Context, box *sandboxtest.FakeSandbox, cmd sandbox.Command) (sandbox.Result, error) {
		if box.Spec.Labels["evalrun.instance"] == "name-001" && slices.ContainsFunc(cmd.Files, func(file sandbox.File) bool { return path.Base(file.Path) == "test.sh" }) {
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		return exec(ctx, box, cmd)
	}
	var stderr overheard
	ended := make(chan int, 1)
	go func() { ended <- f.main(fakeRun(dir, t.TempDir(), "--status-addr", "0"), io.Discard, &stderr) }()
	let := sync.OnceFunc(func() { close(release) })
	defer let()
	address := regexp.MustCompile(`(?m)^status: (http://127\.0\.0\.1:\d+/)$`)
	var url string
	for url == "" {
		if m := address.FindStringSubmatch(stderr.String()); m != nil {
			url = m[1]
		}
		select {
		case code := <-ended:
			t.Fatalf("the run ended with exit code %d, and had not said where its status is:\n%s", code, stderr.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
	fetch(t, url+"metrics", `evalrun_attempts_total{outcome="resolved",reused="no",run="run"} 1`, `evalrun_attempts_total{outcome="unresolved",reused="no",run="run"} 1`,
		`evalrun_jobs{run="run"} 3`, `evalrun_jobs_done{run="run"} 2`, `evalrun_workers_busy{run="run"} 1`, `evalrun_stage_seconds_count{run="run",stage="test"} 2`)
	fetch(t, url, "<h1>Run run</h1>", "2 of 3 done", "<td>name-001 ")
	let()
	if code := <-ended; code != exitFine {
		t.Fatalf("exit code %d\n%s", code, stderr.String())
	}
	if answer, err := http.Get(url); err == nil {
		answer.Body.Close()
		t.Error("the status page outlives the run")
	}
}

// A run sends its spans where OpenTelemetry's variables say.
func TestTracesOfRun(t *testing.T) {
	var mu sync.Mutex
	spans := map[string][]string{} // by name: what they say of an instance's outcome
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var req collector.ExportTraceServiceRequest
		if err != nil || proto.Unmarshal(body, &req) != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, resource := range req.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				for _, span := range scope.Spans {
					var said []string
					for _, a := range span.Attributes {
						if a.Key == "evalrun.instance" || a.Key == "evalrun.outcome" {
							said = append(said, a.Value.GetStringValue())
						}
					}
					spans[span.Name] = append(spans[span.Name], strings.Join(said, " "))
				}
			}
		}
	}))
	defer server.Close()
	for _, name := range []string{"OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_SDK_DISABLED"} {
		t.Setenv(name, "")
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	dir := data(t, 2, patchLine{"name-000", "a", patchOf("PATCH-GOOD", 0)}, patchLine{"name-001", "a", patchOf("PATCH-FAILS", 1)})
	newFakeEngine().run(t, exitFine, fakeRun(dir, t.TempDir()))
	mu.Lock()
	defer mu.Unlock()
	for name, want := range map[string][]string{
		"run": {""}, "image": {"name-000", "name-001"}, "attempt": {"name-000 resolved", "name-001 unresolved"}, "test": {"", ""},
	} {
		slices.Sort(spans[name])
		if !slices.Equal(spans[name], want) {
			t.Errorf("spans %q are of %q, want %q", name, spans[name], want)
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
