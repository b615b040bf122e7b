// Package sandboxtest states what every sandbox engine owes, as tests, and has a
// fake engine for the tests of what stands on one.
package sandboxtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evalrun/evalrun/internal/sandbox"
)

// Options say what the suite cannot find out through the interface.
type Options struct {
	// Count tells how many sandboxes of this process there are on the engine.
	Count func(t testing.TB) int
	// Capabilities is the mask of the capabilities a process has, as in the line
	// CapEff of /proc/self/status.
	Capabilities string
	// Watched says that a watchdog stands in for the kernel's limits, and comes
	// late; processors are not limited.
	Watched bool
	// Leaks lists what sandboxes of this process have left on the machine: mounts,
	// control groups, processes. May be nil.
	Leaks func(t testing.TB) []string
	// Daemon says that sandboxes are children of a daemon that others started.
	Daemon bool
	// Slow engines get fewer exit codes and fewer sandboxes in a row, unless
	// EVALRUN_CONFORMANCE is full.
	Slow bool
}

// Run runs the suite. The image must have a shell, bash, tar and the usual small
// tools, and a folder /testbed.
func Run(t *testing.T, newDriver func(t *testing.T) sandbox.Driver, image string, opts Options) {
	// What this process knows is nothing a sandbox may learn.
	t.Setenv(secretName, "hunter2")
	s := &suite{driver: newDriver(t), image: image, opts: opts}
	for _, group := range []struct {
		name string
		run  func(*suite, *testing.T)
	}{
		{"Files", (*suite).files},
		{"Commands", (*suite).commands},
		{"Endings", (*suite).endings},
		{"Limits", (*suite).limits},
		{"Isolation", (*suite).isolation},
		{"Surroundings", (*suite).surroundings},
		{"Life", (*suite).life},
	} {
		t.Run(group.name, func(t *testing.T) { group.run(s, t) })
	}
}

const secretName = "EVALRUN_TEST_SECRET"

// brief reports whether to do less than all.
func (s *suite) brief() bool {
	return testing.Short() || s.opts.Slow && os.Getenv("EVALRUN_CONFORMANCE") != "full"
}

type suite struct {
	driver sandbox.Driver
	image  string
	opts   Options
}

// patience is how long anything may take before the suite calls it a hang.
const patience = 2 * time.Minute

// test runs a test with a sandbox of its own, beside the others.
func (s *suite) test(t *testing.T, name string, limits sandbox.Limits, f func(t *testing.T, b *box)) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		f(t, s.start(t, limits))
	})
}

func (s *suite) spec(limits sandbox.Limits) sandbox.Spec {
	return sandbox.Spec{
		Image: s.image, Name: "conformance", Labels: map[string]string{"evalrun.run": "conformance"},
		Env: []string{"FROM_SPEC=spec value"}, Limits: limits, Expiry: time.Now().Add(time.Hour),
	}
}

func (s *suite) start(t *testing.T, limits sandbox.Limits) *box {
	t.Helper()
	return s.startSpec(t, s.spec(limits))
}

func (s *suite) startSpec(t *testing.T, spec sandbox.Spec) *box {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	b, err := s.driver.Start(ctx, spec)
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	t.Cleanup(func() {
		if err := b.Destroy(context.Background()); err != nil {
			t.Errorf("Destroy: %v", err)
		}
	})
	return &box{Sandbox: b, ctx: ctx}
}

// box is a sandbox with the context of its test.
type box struct {
	sandbox.Sandbox
	ctx context.Context
}

// do runs a shell script, which must run to its end, and returns what it printed.
func (b *box) do(t *testing.T, script string, edit ...func(*sandbox.Command)) (string, sandbox.Result) {
	t.Helper()
	out, res, err := b.try(b.ctx, script, edit...)
	if err != nil {
		t.Fatalf("Exec: %v\n%s", err, out)
	}
	return out, res
}

func (b *box) try(ctx context.Context, script string, edit ...func(*sandbox.Command)) (string, sandbox.Result, error) {
	var out bytes.Buffer
	cmd := sandbox.Command{Argv: []string{"/bin/sh", "-c", script}, Output: &out, Timeout: patience}
	for _, e := range edit {
		e(&cmd)
	}
	res, err := b.Exec(ctx, cmd)
	return out.String(), res, err
}

// expect runs a script that must print exactly this and exit with 0.
func (b *box) expect(t *testing.T, want, script string, edit ...func(*sandbox.Command)) {
	t.Helper()
	out, res := b.do(t, script, edit...)
	if out != want || res.ExitCode != 0 {
		t.Errorf("%q printed %q and exited with %d, want %q and 0", clip(script), clip(out), res.ExitCode, clip(want))
	}
}

// usable checks that commands still run.
func (b *box) usable(t *testing.T) {
	t.Helper()
	b.expect(t, "still here\n", "echo still here")
}

// quiet checks that nothing writes to a file any more.
func (b *box) quiet(t *testing.T, file string) {
	t.Helper()
	size := func() int {
		data, err := b.Read(b.ctx, file, 64<<20)
		if err != nil {
			t.Fatalf("Read: %v", err)
		}
		return len(data)
	}
	before := size()
	if before == 0 {
		t.Fatal("the process never ran")
	}
	time.Sleep(500 * time.Millisecond)
	if after := size(); after != before {
		t.Errorf("a process is still at work: %s grew from %d to %d bytes", file, before, after)
	}
}

func within(d time.Duration) func(*sandbox.Command) {
	return func(c *sandbox.Command) { c.Timeout = d }
}

// dead checks that an error says that the sandbox is dead.
func dead(t *testing.T, err error) {
	t.Helper()
	var engine *sandbox.EngineError
	if !errors.Is(err, sandbox.ErrDead) || !errors.As(err, &engine) {
		t.Errorf("the error is %v, want an *EngineError around ErrDead", err)
	}
}

func clip(s string) string {
	if len(s) > 300 {
		return s[:300] + "…"
	}
	return s
}

// probe returns the program in the folder probe, as a file to put in.
var probe = sync.OnceValues(func() (sandbox.File, error) {
	f := sandbox.File{Path: "/evalrun/probe", Mode: 0o755}
	if kept := os.Getenv("EVALRUN_TEST_PROBE"); kept != "" {
		data, err := os.ReadFile(kept)
		f.Data = data
		return f, err
	}
	dir, err := os.MkdirTemp("", "evalrun-probe-")
	if err != nil {
		return f, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "probe")
	cmd := exec.Command("go", "build", "-o", path, "github.com/evalrun/evalrun/internal/sandbox/sandboxtest/probe")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return f, fmt.Errorf("compile the probe: %w\n%s", err, out)
	}
	f.Data, err = os.ReadFile(path)
	return f, err
})

// KeepProbe leaves the probe in a file, for a process that cannot compile it and is
// told of it by EVALRUN_TEST_PROBE.
func KeepProbe(path string) error {
	f, err := probe()
	if err != nil {
		return err
	}
	return os.WriteFile(path, f.Data, 0o755)
}

// withProbe puts the probe in before the command.
func withProbe(t *testing.T) func(*sandbox.Command) {
	t.Helper()
	f, err := probe()
	if err != nil {
		t.Fatal(err)
	}
	return func(c *sandbox.Command) { c.Files = append(c.Files, f) }
}

func lines(s string) []string { return strings.Split(strings.TrimSuffix(s, "\n"), "\n") }
