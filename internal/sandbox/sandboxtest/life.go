package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evalrun/evalrun/internal/sandbox"
)

func (s *suite) life(t *testing.T) {
	t.Run("DestroyTwice", s.destroyTwice)
	t.Run("SweepLeavesLive", s.sweepLeavesLive)
	t.Run("NoSuchImage", s.noSuchImage)
	t.Run("StartCancelled", s.startCancelled)
	t.Run("InARow", s.inARow)
	t.Run("ManyAtOnce", s.manyAtOnce)
}

// none checks that as many sandboxes are there as before.
func (s *suite) none(t *testing.T, before int) {
	t.Helper()
	if after := s.opts.Count(t); after != before {
		t.Errorf("%d sandboxes are left behind", after-before)
	}
}

func (s *suite) destroyTwice(t *testing.T) {
	before := s.opts.Count(t)
	b := s.start(t, sandbox.Limits{})
	if s.opts.Count(t) != before+1 {
		t.Errorf("%d sandboxes, want %d", s.opts.Count(t), before+1)
	}
	var g sync.WaitGroup
	for range 3 {
		g.Go(func() {
			if err := b.Destroy(b.ctx); err != nil {
				t.Errorf("Destroy: %v", err)
			}
		})
	}
	g.Wait()
	s.none(t, before)
}

func (s *suite) sweepLeavesLive(t *testing.T) {
	b := s.start(t, sandbox.Limits{})
	if _, err := s.driver.Sweep(b.ctx); err != nil {
		t.Fatal(err)
	}
	b.usable(t)
}

func (s *suite) noSuchImage(t *testing.T) {
	before := s.opts.Count(t)
	spec := s.spec(sandbox.Limits{})
	spec.Image = "evalrun/no-such-image:here"
	_, err := s.driver.Start(context.Background(), spec)
	var engine *sandbox.EngineError
	if !errors.As(err, &engine) || errors.Is(err, sandbox.ErrDead) {
		t.Errorf("the error is %v, want an *EngineError", err)
	}
	s.none(t, before)
}

// Interrupted at any moment of its start, a sandbox leaves nothing behind.
func (s *suite) startCancelled(t *testing.T) {
	before := s.opts.Count(t)
	for i := range 10 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i*25)*time.Millisecond)
		b, err := s.driver.Start(ctx, s.spec(sandbox.Limits{}))
		if err == nil {
			err = b.Destroy(context.Background())
		} else if errors.Is(err, context.DeadlineExceeded) {
			err = nil
		}
		if err != nil {
			t.Errorf("after %d ms: %v", i*25, err)
		}
		cancel()
	}
	s.none(t, before)
}

// One sandbox after the other leaves nothing: no process, mount, control group or
// file on the machine, and nothing in this process.
func (s *suite) inARow(t *testing.T) {
	n := 200
	switch {
	case testing.Short():
		n = 5
	case s.brief():
		n = 30
	}
	row := func(from, to int) {
		for i := from; i < to; i++ {
			if err := s.once(fmt.Sprintf("sleep 1000 & echo %d", i), fmt.Sprintf("%d\n", i)); err != nil {
				t.Fatalf("sandbox %d: %v", i, err)
			}
		}
	}
	before := s.opts.Count(t)
	row(0, 3) // connections, pools and the like are there from now on
	was := holdings(t)
	row(3, n)
	s.none(t, before)
	now := holdings(t)
	for name, count := range was {
		// A few come and go with the runtime's own threads and idle connections.
		if now[name] > count+3 {
			t.Errorf("%s: %d after 3 sandboxes, %d after %d", name, count, now[name], n)
		}
	}
	if s.opts.Leaks != nil {
		if left := s.opts.Leaks(t); len(left) > 0 {
			t.Errorf("left on the machine: %q", left)
		}
	}
}

// Sixty-four that are started in the same moment all work, and leave nothing.
func (s *suite) manyAtOnce(t *testing.T) {
	n := 64
	if testing.Short() {
		n = 8
	}
	before := s.opts.Count(t)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if err := s.once(fmt.Sprintf("echo %d", i), fmt.Sprintf("%d\n", i)); err != nil {
				t.Errorf("sandbox %d: %v", i, err)
			}
		})
	}
	all.Wait()
	s.none(t, before)
	if s.opts.Leaks != nil {
		if left := s.opts.Leaks(t); len(left) > 0 {
			t.Errorf("left on the machine: %q", left)
		}
	}
}

// holdings counts what this process holds.
func holdings(t *testing.T) map[string]int {
	t.Helper()
	count := func(pattern string) int {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	children := 0
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, path := range lists {
		text, _ := os.ReadFile(path) // a thread may have ended
		children += len(strings.Fields(string(text)))
	}
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return map[string]int{
		"open files": count("/proc/self/fd/*"), "goroutines": runtime.NumGoroutine(), "child processes": children, "MiB of memory": int(memory.HeapAlloc >> 20),
	}
}

func (s *suite) once(script, want string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	b, err := s.driver.Start(ctx, s.spec(sandbox.Limits{}))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Destroy(ctx)) }()
	out, res, err := (&box{b, ctx}).try(ctx, script)
	if err == nil && (out != want || res.ExitCode != 0) {
		err = fmt.Errorf("printed %q, exit code %d", out, res.ExitCode)
	}
	return err
}
