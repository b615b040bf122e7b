package runner

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/evalrun/evalrun/internal/cause"
	"github.com/evalrun/evalrun/internal/sandbox"
)

// bin destroys sandboxes while their workers go on, a bounded number at a time,
// so that taking one down does not add to the time of the next attempt.
type bin struct {
	slots chan struct{}
	tasks sync.WaitGroup

	mu   sync.Mutex
	left []Leftover
}

// Leftover is a sandbox that could not be removed.
type Leftover struct {
	InstanceID string
	Err        error

	box sandbox.Sandbox
}

func newBin(size int) *bin { return &bin{slots: make(chan struct{}, size)} }

// take destroys the sandbox; it waits only while the bin is full. An interrupted
// run removes its sandboxes too.
func (b *bin) take(ctx context.Context, instance string, box sandbox.Sandbox) {
	b.slots <- struct{}{}
	b.tasks.Go(func() {
		defer func() { <-b.slots }()
		if err := b.destroy(ctx, box); err != nil {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.left = append(b.left, Leftover{instance, fmt.Errorf("instance %s: its sandbox is still there: %w", instance, err), box})
		}
	})
}

// destroy tries again while the engine is gone and the run goes on.
func (b *bin) destroy(ctx context.Context, box sandbox.Sandbox) error {
	pauses, began := newPauses(), time.Now()
	for {
		err := box.Destroy(context.WithoutCancel(ctx))
		if cause.Of(err) != cause.Engine || time.Since(began) > patience || pause(ctx, pauses.NextBackOff()) != nil {
			return err
		}
	}
}

func (b *bin) wait() { b.tasks.Wait() }

// again destroys what could not be destroyed when the attempts ended: an engine that
// went away meanwhile is waited for.
func (b *bin) again(ctx context.Context) {
	b.mu.Lock()
	left := b.left
	b.left = nil
	b.mu.Unlock()
	for _, l := range left {
		b.take(ctx, l.InstanceID, l.box)
	}
	b.wait()
}

// Leftovers are the sandboxes that Run could not remove. A later sweep will.
func (r *Runner) Leftovers() []Leftover {
	r.bin.mu.Lock()
	defer r.bin.mu.Unlock()
	return slices.Clone(r.bin.left)
}
