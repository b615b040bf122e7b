package sandboxtest

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evalrun/evalrun/internal/sandbox"
)

func (s *suite) commands(t *testing.T) {
	s.test(t, "ExitStatus", sandbox.Limits{}, s.exitStatus)
	s.test(t, "OneStreamInOrder", sandbox.Limits{}, oneStream)
	s.test(t, "StandardInput", sandbox.Limits{}, standardInput)
	s.test(t, "FolderAndEnvironment", sandbox.Limits{}, folderAndEnvironment)
	s.test(t, "Flood", sandbox.Limits{}, flood)
	s.test(t, "OpenOutput", sandbox.Limits{}, openOutput)
	s.test(t, "ClosedOutput", sandbox.Limits{}, closedOutput)
	s.test(t, "BrokenWriter", sandbox.Limits{}, brokenWriter)
	s.test(t, "Concurrent", sandbox.Limits{}, concurrent)
	s.test(t, "LastWords", sandbox.Limits{}, lastWords)
}

// Every status there is, and the end by every signal that ends.
func (s *suite) exitStatus(t *testing.T, b *box) {
	tests := map[string]int{"no-such-command": 127, "/etc/passwd": 126}
	for code := range 256 {
		if !s.brief() || code < 4 || code > 251 || code >= 125 && code <= 140 {
			tests[fmt.Sprintf("exit %d", code)] = code
		}
	}
	for _, n := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 24, 25, 26, 27, 29, 30, 31, 34, 64} {
		tests[fmt.Sprintf("kill -%d $$", n)] = 128 + n
	}
	for script, want := range tests {
		if _, res := b.do(t, script); res.ExitCode != want || res.TimedOut || res.DiskFull || res.Elapsed <= 0 {
			t.Errorf("%q: %+v, want exit code %d", script, res, want)
		}
	}
}

func oneStream(t *testing.T, b *box) {
	var want strings.Builder
	for i := range 500 {
		fmt.Fprintf(&want, "out %d\nerr %d\n", i, i)
	}
	b.expect(t, want.String(), `i=0; while [ $i -lt 500 ]; do echo out $i; echo err $i >&2; i=$((i + 1)); done`)
}

func standardInput(t *testing.T, b *box) {
	data := bytes.Repeat([]byte("0123456789abcde\n"), 1<<16)
	b.expect(t, "1048576\n", "wc -c", func(c *sandbox.Command) { c.Stdin = data })
	b.expect(t, "", "cat")
	// One that does not read its input ends all the same.
	b.expect(t, "done\n", "echo done", func(c *sandbox.Command) { c.Stdin = data })
}

func folderAndEnvironment(t *testing.T, b *box) {
	b.expect(t, "/testbed\n", "pwd")
	b.expect(t, "/tmp\n", "pwd", func(c *sandbox.Command) { c.Dir = "/tmp" })
	b.expect(t, "spec value|command value\n", `echo "$FROM_SPEC|$FROM_COMMAND"`, func(c *sandbox.Command) {
		c.Env = []string{"FROM_COMMAND=command value"}
	})
	b.expect(t, "overridden\n", `echo "$FROM_SPEC"`, func(c *sandbox.Command) { c.Env = []string{"FROM_SPEC=overridden"} })
	b.expect(t, "a  b|*|$HOME|\n", "", func(c *sandbox.Command) {
		c.Argv = []string{"printf", "%s|%s|%s|%s\n", "a  b", "*", "$HOME", ""}
	})
}

// counter counts what is written to it.
type counter struct{ n atomic.Int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}

func flood(t *testing.T, b *box) {
	size := int64(1 << 30)
	if testing.Short() {
		size = 64 << 20
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := &counter{}
	_, res := b.do(t, fmt.Sprintf("yes | head -c %d", size), func(c *sandbox.Command) { c.Output = got })
	runtime.ReadMemStats(&after)
	if got.n.Load() != size || res.ExitCode != 0 {
		t.Errorf("%d bytes arrived of %d, exit code %d", got.n.Load(), size, res.ExitCode)
	}
	if grown := int64(after.Sys) - int64(before.Sys); grown > 64<<20 {
		t.Errorf("this process grew by %d MiB", grown>>20)
	}
}

// Something left behind that holds the output open keeps nobody waiting, and
// goes on.
func openOutput(t *testing.T, b *box) {
	b.expect(t, "done\n", "sleep 1000 & echo $! >/pid; echo done")
	b.expect(t, "alive\n", "kill -0 $(cat /pid) && echo alive")
}

func closedOutput(t *testing.T, b *box) {
	out, res := b.do(t, "echo before; exec >&- 2>&-; sleep 1; touch /worked; exit 7")
	if out != "before\n" || res.ExitCode != 7 {
		t.Errorf("output %q, exit code %d; want the output before it closed, and 7", out, res.ExitCode)
	}
	b.expect(t, "yes\n", "[ -e /worked ] && echo yes")
	_, res = b.do(t, "exec >&- 2>&-; sleep 1000", within(time.Second))
	if !res.TimedOut || res.ExitCode != -1 {
		t.Errorf("with its output closed, a process past its time limit gave %+v", res)
	}
}

var errBroken = errors.New("no more room")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errBroken }

// A writer that fails must not hold the process up, and is told of.
func brokenWriter(t *testing.T, b *box) {
	_, _, err := b.try(b.ctx, "yes | head -c 1000000; touch /ended", func(c *sandbox.Command) { c.Output = failing{} })
	var engine *sandbox.EngineError
	if !errors.Is(err, errBroken) || errors.As(err, &engine) {
		t.Errorf("the error is %v, want the writer's and no EngineError", err)
	}
	b.expect(t, "ended\n", "[ -e /ended ] && echo ended")
}

func concurrent(t *testing.T, b *box) {
	waited := make(chan string, 1)
	go func() {
		out, _, err := b.try(b.ctx, "touch /waiting; until [ -e /go ]; do sleep 0.05; done; echo went")
		waited <- fmt.Sprint(out, err)
	}()
	b.expect(t, "", "until [ -e /waiting ]; do sleep 0.05; done; touch /go")
	if got := <-waited; got != "went\n<nil>" {
		t.Errorf("the first of two commands gave %q", got)
	}
}

// What was printed right before the time limit is not lost.
func lastWords(t *testing.T, b *box) {
	out, res := b.do(t, "seq 100000; echo last words; sleep 1000", within(5*time.Second))
	if !res.TimedOut || !strings.HasSuffix(out, "\nlast words\n") || len(lines(out)) != 100001 {
		t.Errorf("%+v, %d lines ending in %q", res, len(lines(out)), out[max(0, len(out)-50):])
	}
}
