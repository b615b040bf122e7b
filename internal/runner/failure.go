package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/cause"
	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/reports"
)

const (
	// patience is how long an engine that is gone may stay away: a daemon that is
	// started anew comes back within it.
	patience = 3 * time.Minute
	// mostWaits bounds how often one attempt waits for an engine: what it runs
	// could be why it goes away.
	mostWaits = 20
)

// newPauses are the pauses between tries: exponential, with full jitter, so that
// those that failed together do not come back together.
func newPauses() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.Multiplier, b.RandomizationFactor, b.MaxInterval = time.Second, 2, 1, 15*time.Second
	return b
}

// breaker ends a run in which the last attempts failed alike: what is wrong is
// wrong with the machine, and going on would only fail the rest.
type breaker struct {
	limit int

	mu       sync.Mutex
	cause    cause.Cause
	alike    int // in a row
	any      int // in a row, whatever the cause
	gone     time.Time
	hadImage bool
}

// anyFactor is how many times as many failures of different causes are borne.
const anyFactor = 4

// worked says that something has gone well.
func (b *breaker) worked() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.alike, b.any, b.gone = 0, 0, time.Time{}
}

// image says that an image could be had, so that one that cannot is alone.
func (b *breaker) image() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hadImage = true
}

// away is how long the engine has been gone, counted from the first that told.
func (b *breaker) away() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone.IsZero() {
		b.gone = time.Now()
	}
	return time.Since(b.gone)
}

// failed counts the failure of an attempt. The error it returns ends the run.
func (b *breaker) failed(err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := cause.Of(err)
	if c == cause.Image && b.hadImage {
		return nil // of this instance alone
	}
	if c != b.cause {
		b.cause, b.alike = c, 0
	}
	b.alike++
	b.any++
	over := c == cause.Engine && !b.gone.IsZero() && time.Since(b.gone) > patience
	switch {
	case b.alike >= b.limit:
		return fmt.Errorf("%w: %s (the last %d alike); %s; the last: %w", ErrEngineGone, c, b.alike, c.Advice(), err)
	case over:
		return fmt.Errorf("%w: %s, for %s by now; %s; the last: %w", ErrEngineGone, c, time.Since(b.gone).Round(time.Second), c.Advice(), err)
	case b.any >= anyFactor*b.limit:
		return fmt.Errorf("%w: %d in a row, of different causes; %s; the last: %w", ErrEngineGone, b.any, c.Advice(), err)
	}
	return nil
}

// outlasts waits for an engine that is gone to come back, and reports whether to
// try again then. It is no try of the attempt's.
func (r *Runner) outlasts(ctx context.Context, err error, pauses *backoff.ExponentialBackOff, waits *int) bool {
	if cause.Of(err) != cause.Engine || *waits >= mostWaits || r.breaker.away() > patience {
		return false
	}
	*waits++
	pause(ctx, pauses.NextBackOff()) // an interrupt is noticed by what is tried next
	return ctx.Err() == nil
}

// troubled tells of trouble, and outlasts it where the engine is gone.
func (r *Runner) troubled(ctx context.Context, job Job, err error, pauses *backoff.ExponentialBackOff, waits *int) bool {
	if !isStorage(err) {
		r.emit(Event{Kind: Trouble, Job: job, Err: err})
	}
	return r.outlasts(ctx, err, pauses, waits)
}

// image gets an instance's image, waiting for an engine that is gone.
func (r *Runner) image(ctx context.Context, job Job) (Image, error) {
	pauses, waits := newPauses(), 0
	for {
		img, err := r.o.Images.Image(ctx, job.Instance)
		if err == nil {
			r.breaker.image()
			return img, nil
		}
		if ctx.Err() != nil || errors.Is(err, ErrEndRun) {
			return img, err
		}
		r.emit(Event{Kind: Trouble, Job: job, Err: err})
		if !r.outlasts(ctx, err, pauses, &waits) {
			return img, err
		}
	}
}

// noImage fills in the outcome of an attempt whose image could not be had.
func (r *Runner) noImage(ctx context.Context, err error, a *reports.Attempt) error {
	if ctx.Err() != nil {
		return nil
	}
	a.Outcome, a.Reason = grading.InfraFailed, err.Error()
	if errors.Is(err, ErrEndRun) {
		return err
	}
	var engine *sandbox.EngineError
	switch cause.Of(err) {
	case cause.Engine, cause.Timeout, cause.Disk, cause.Memory:
	case cause.Network, cause.Image:
		a.Outcome = grading.BuildFailed
	default:
		if !errors.As(err, &engine) {
			a.Outcome = grading.BuildFailed
			return nil // the recipe's doing, and so this instance's alone
		}
	}
	return r.breaker.failed(err)
}
