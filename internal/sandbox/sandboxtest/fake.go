package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/evalrun/evalrun/internal/sandbox"
)

// Fake is an engine that runs nothing: its sandboxes answer commands as the test
// says. Functions that are nil let all go well. They must heed ctx when they
// take time, and may be called concurrently.
type Fake struct {
	// OnStart is asked before a sandbox starts; an error keeps it from starting.
	OnStart func(ctx context.Context, spec sandbox.Spec) error
	// OnExec answers a command. The time limit of the command ends its ctx; what
	// it returns then does not matter.
	OnExec func(ctx context.Context, box *FakeSandbox, cmd sandbox.Command) (sandbox.Result, error)
	// OnRead answers Read; without it there are no files.
	OnRead func(ctx context.Context, box *FakeSandbox, path string) ([]byte, error)
	// OnUsage answers Usage.
	OnUsage func(box *FakeSandbox) (sandbox.Usage, error)
	// OnDestroy is asked before a sandbox goes; an error keeps it.
	OnDestroy func(ctx context.Context, box *FakeSandbox) error

	mu      sync.Mutex
	live    map[*FakeSandbox]bool
	started int
	most    int
}

// FakeSandbox is a sandbox of a Fake.
type FakeSandbox struct {
	Spec sandbox.Spec
	N    int // the how-manieth of its engine, from 1

	fake *Fake
	mu   sync.Mutex
	dead bool
}

var _ sandbox.Driver = (*Fake)(nil)

// Start implements sandbox.Driver.
func (f *Fake) Start(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	f.mu.Lock()
	f.started++
	b := &FakeSandbox{Spec: spec, N: f.started, fake: f}
	f.mu.Unlock()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if f.OnStart != nil {
		if err := f.OnStart(ctx, spec); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.live == nil {
		f.live = map[*FakeSandbox]bool{}
	}
	f.live[b] = true
	f.most = max(f.most, len(f.live))
	return b, nil
}

// Sweep implements sandbox.Driver; there is never anything to sweep.
func (f *Fake) Sweep(context.Context) (int, error) { return 0, nil }

// Live counts the sandboxes that have not been destroyed.
func (f *Fake) Live() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.live)
}

// Started counts the calls of Start.
func (f *Fake) Started() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.started
}

// Most counts the sandboxes there were at once, at most.
func (f *Fake) Most() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.most
}

// Kill ends the sandbox as if it had died by itself.
func (b *FakeSandbox) Kill() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dead = true
}

func (b *FakeSandbox) isDead() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dead
}

// Exec implements sandbox.Sandbox.
func (b *FakeSandbox) Exec(ctx context.Context, cmd sandbox.Command) (sandbox.Result, error) {
	if ctx.Err() != nil {
		b.Kill()
		return sandbox.Result{ExitCode: -1}, context.Cause(ctx)
	}
	if b.isDead() {
		return sandbox.Result{ExitCode: -1}, &sandbox.EngineError{Op: "fake: exec", Err: sandbox.ErrDead}
	}
	limited, cancel := ctx, context.CancelFunc(func() {})
	if cmd.Timeout > 0 {
		limited, cancel = context.WithTimeout(ctx, cmd.Timeout)
	}
	defer cancel()
	begun := time.Now()
	var res sandbox.Result
	var err error
	if b.fake.OnExec != nil {
		res, err = b.fake.OnExec(limited, b, cmd)
	}
	res.Elapsed = time.Since(begun)
	switch {
	case ctx.Err() != nil:
		b.Kill()
		return sandbox.Result{ExitCode: -1, Elapsed: res.Elapsed}, context.Cause(ctx)
	case limited.Err() != nil:
		b.Kill()
		return sandbox.Result{ExitCode: -1, TimedOut: true, Elapsed: res.Elapsed}, nil
	case err == nil && b.isDead():
		res.ExitCode = -1
	}
	return res, err
}

// Read implements sandbox.Sandbox.
func (b *FakeSandbox) Read(ctx context.Context, path string, limit int64) ([]byte, error) {
	if b.fake.OnRead != nil {
		data, err := b.fake.OnRead(ctx, b, path)
		return data[:min(int64(len(data)), limit)], err
	}
	return nil, &fs.PathError{Op: "read", Path: path, Err: fs.ErrNotExist}
}

// Usage implements sandbox.Sandbox.
func (b *FakeSandbox) Usage(context.Context) (sandbox.Usage, error) {
	if b.fake.OnUsage != nil {
		return b.fake.OnUsage(b)
	}
	return sandbox.Usage{}, nil
}

// Destroy implements sandbox.Sandbox.
func (b *FakeSandbox) Destroy(ctx context.Context) error {
	if b.fake.OnDestroy != nil {
		if err := b.fake.OnDestroy(ctx, b); err != nil {
			return &sandbox.EngineError{Op: "fake: destroy", Err: err}
		}
	}
	b.Kill()
	b.fake.mu.Lock()
	defer b.fake.mu.Unlock()
	delete(b.fake.live, b)
	return nil
}

// Trouble is an engine failure.
func Trouble(text string) error {
	return &sandbox.EngineError{Op: "fake", Err: errors.New(text)}
}

// Sleep waits, or until ctx is done.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("slept less than %s: %w", d, context.Cause(ctx))
	case <-time.After(d):
		return nil
	}
}
