package sandboxtest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/evalrun/evalrun/internal/sandbox"
)

func (s *suite) endings(t *testing.T) {
	s.test(t, "TimeoutEndsEverything", sandbox.Limits{}, timeoutEndsEverything)
	s.test(t, "CancelEndsEverything", sandbox.Limits{}, cancelEndsEverything)
	s.test(t, "CancelledBefore", sandbox.Limits{}, cancelledBefore)
	s.test(t, "CannotEndItself", sandbox.Limits{}, cannotEndItself)
	s.test(t, "OrphansAreReaped", sandbox.Limits{Pids: 200}, orphansAreReaped)
	s.test(t, "Alone", sandbox.Limits{}, alone)
	s.test(t, "FirstIsWatched", sandbox.Limits{}, s.firstIsWatched)
	s.test(t, "Gutted", sandbox.Limits{}, gutted)
	s.test(t, "NoSuchFolder", sandbox.Limits{}, noSuchFolder)
	s.test(t, "DestroyedUnderIt", sandbox.Limits{}, destroyedUnderIt)
}

// daemons are processes that do not want to end, each writing to /beats.
const daemons = `
beat() { while :; do echo "$1" >>/beats; sleep 0.05; done; }
(trap '' TERM INT HUP QUIT; beat deaf) &
setsid sh -c 'trap "" TERM; while :; do echo session >>/beats; sleep 0.05; done' >/dev/null 2>&1 </dev/null &
(setsid sh -c '(while :; do echo orphan >>/beats; sleep 0.05; done) &' &)
until [ "$(sort -u /beats 2>/dev/null | wc -l)" -ge 3 ]; do sleep 0.05; done
echo all there
sleep 1000
`

func timeoutEndsEverything(t *testing.T, b *box) {
	out, res := b.do(t, daemons, within(4*time.Second))
	if !res.TimedOut || res.ExitCode != -1 || res.Elapsed < 4*time.Second {
		t.Errorf("%+v, want a time-out after 4 s", res)
	}
	if out != "all there\n" {
		t.Fatalf("output %q", out)
	}
	b.quiet(t, "/beats")
	_, _, err := b.try(b.ctx, "true")
	dead(t, err)
}

func cancelEndsEverything(t *testing.T, b *box) {
	ctx, cancel := context.WithCancelCause(b.ctx)
	stopped := errors.New("stopped by the test")
	go func() {
		// Once it is at work, and only then.
		for {
			if data, err := b.Read(b.ctx, "/beats", 1<<20); err == nil && len(data) > 500 || b.ctx.Err() != nil {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		cancel(stopped)
	}()
	_, res, err := b.try(ctx, daemons)
	if !errors.Is(err, stopped) || res.TimedOut || res.ExitCode != -1 {
		t.Errorf("%+v, error %v; want the cause of the cancellation", res, err)
	}
	b.quiet(t, "/beats")
}

func cancelledBefore(t *testing.T, b *box) {
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()
	if _, _, err := b.try(ctx, "touch /ran"); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v, want context.Canceled", err)
	}
}

func cannotEndItself(t *testing.T, b *box) {
	b.do(t, "sleep 1000 & for s in TERM INT HUP QUIT KILL STOP USR1 CHLD; do kill -$s 1; done; kill -KILL -1; true")
	b.usable(t)
	// The first process needs no process of its own that could be taken away.
	b.do(t, "for i in 1 2 3; do kill -KILL -1; done")
	b.usable(t)
}

func orphansAreReaped(t *testing.T, b *box) {
	b.do(t, "for i in $(seq 100); do (sh -c 'exit 0' &); done; sleep 1")
	var usage sandbox.Usage
	for range 50 {
		var err error
		if usage, err = b.Usage(b.ctx); err != nil {
			t.Fatal(err)
		}
		if usage.Pids <= 3 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("%d processes are left of 100 that ended", usage.Pids)
}

// What others have left running is over before the files of a command are there.
func alone(t *testing.T, b *box) {
	file := sandbox.File{Path: "/evalrun/file", Mode: 0o644, Data: []byte("good\n")}
	put := func(c *sandbox.Command) { c.Files, c.Alone = []sandbox.File{file}, true }
	b.expect(t, "good\n", "cat /evalrun/file", put) // where there are none
	b.do(t, strings.ReplaceAll(daemons, "sleep 1000", "(while :; do echo bad >/evalrun/file; done) &"))
	b.expect(t, "good\n", "sleep 0.2; cat /evalrun/file", put)
	b.quiet(t, "/beats")
	b.do(t, strings.ReplaceAll(daemons, "sleep 1000", ""))
	b.expect(t, "no files\n", "echo no files", func(c *sandbox.Command) { c.Alone = true })
	b.quiet(t, "/beats")
}

// Nor can anything live on in the first process, which is not ended: where it can be
// looked at from outside, a sandbox is dead in which it was changed.
func (s *suite) firstIsWatched(t *testing.T, b *box) {
	b.do(t, "sleep 0.2")
	b.expect(t, "fine\n", "echo fine", func(c *sandbox.Command) { c.Alone = true })
	out, res := b.do(t, `at=$(sed -n 's/-.*\[stack\]$//p' /proc/1/maps); printf x | dd of=/proc/1/mem bs=1 count=1 conv=notrunc seek=$((0x$at)) 2>&1`)
	if res.ExitCode != 0 {
		t.Skip("it cannot be reached from inside: " + out)
	}
	_, _, err := b.try(b.ctx, "echo fine", func(c *sandbox.Command) { c.Alone = true })
	dead(t, err)
}

// A sandbox whose content no longer allows a process to start is dead, by its
// own doing and not the engine's.
func gutted(t *testing.T, b *box) {
	b.do(t, "cd /; rm -rf /testbed")
	_, _, err := b.try(b.ctx, "true")
	dead(t, err)
}

// When the image never had the folder, nothing that ran is to blame.
func noSuchFolder(t *testing.T, b *box) {
	_, _, err := b.try(b.ctx, "true", func(c *sandbox.Command) { c.Dir = "/no/such/folder" })
	var engine *sandbox.EngineError
	if !errors.As(err, &engine) || errors.Is(err, sandbox.ErrDead) {
		t.Errorf("the error is %v, want an *EngineError that is not ErrDead", err)
	}
	b.usable(t)
}

func destroyedUnderIt(t *testing.T, b *box) {
	ended := make(chan error, 1)
	go func() {
		_, res, err := b.try(b.ctx, "touch /started; sleep 1000")
		if err == nil && res.ExitCode != -1 {
			err = errors.New("the command is said to have ended by itself")
		} else {
			err = nil
		}
		ended <- err
	}()
	for range 200 {
		if _, err := b.Read(b.ctx, "/started", 1); err == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err := b.Destroy(b.ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	var engine *sandbox.EngineError
	if _, _, err := b.try(b.ctx, "true"); !errors.As(err, &engine) {
		t.Errorf("a command in a destroyed sandbox gave %v, want an *EngineError", err)
	}
}
