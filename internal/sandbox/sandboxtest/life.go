package sandboxtest

import (
	"context"
	"errors"
	"fmt"
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
	t.Run("FiftyInARow", s.fiftyInARow)
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

func (s *suite) fiftyInARow(t *testing.T) {
	before := s.opts.Count(t)
	n := 50
	if testing.Short() {
		n = 5
	}
	for i := range n {
		if err := s.once(fmt.Sprintf("echo %d", i), fmt.Sprintf("%d\n", i)); err != nil {
			t.Fatalf("sandbox %d: %v", i, err)
		}
	}
	s.none(t, before)
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
