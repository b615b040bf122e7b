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
	lacking  map[lack]bool // images that could not be had, in this row
}

// lack is that an instance's image cannot be had.
type lack struct {
	instance string
	cause    cause.Cause
}

// anyFactor is how many times as many failures of different causes are borne.
const anyFactor = 4

// worked says that an attempt has come to its end.
func (b *breaker) worked() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.alike, b.any, b.gone = 0, 0, time.Time{}
	clear(b.lacking)
}

// answered says that the engine has done what it was asked for, and so is there: tests
// may run for longer than it takes until it goes away once more.
func (b *breaker) answered() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gone = time.Time{}
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
	return b.count(err)
}

// imageFailed counts that the image of an instance cannot be had: once, however many
// patches there are that need it, since they all come in a row.
func (b *breaker) imageFailed(instance string, err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	one := lack{instance, cause.Of(err)}
	if b.lacking[one] {
		return b.over(err)
	}
	if b.lacking == nil {
		b.lacking = map[lack]bool{}
	}
	b.lacking[one] = true
	return b.count(err)
}

func (b *breaker) count(err error) error {
	c := cause.Of(err)
	if c == cause.Image && b.hadImage {
		return nil // of this instance alone
	}
	if c != b.cause {
		b.cause, b.alike = c, 0
	}
	b.alike++
	b.any++
	over := b.over(err)
	switch {
	case b.alike >= b.limit:
		return fmt.Errorf("%w: %s (the last %d alike); %s; the last: %w", ErrEngineGone, c, b.alike, c.Advice(), err)
	case over != nil:
		return over
	case b.any >= anyFactor*b.limit:
		return fmt.Errorf("%w: %d in a row, of different causes; %s; the last: %w", ErrEngineGone, b.any, c.Advice(), err)
	}
	return nil
}

// over is the end of a run whose engine stays away; nil as long as it may come back.
func (b *breaker) over(err error) error {
	c := cause.Of(err)
	if c != cause.Engine || b.gone.IsZero() || time.Since(b.gone) <= patience {
		return nil
	}
	return fmt.Errorf("%w: %s, for %s by now; %s; the last: %w", ErrEngineGone, c, time.Since(b.gone).Round(time.Second), c.Advice(), err)
}

// exec runs a command, and takes note that the engine is there.
func (r *Runner) exec(ctx context.Context, box sandbox.Sandbox, cmd sandbox.Command) (sandbox.Result, error) {
	res, err := box.Exec(ctx, cmd)
	if err == nil {
		r.breaker.answered()
	}
	return res, err
}

// outlasts reports whether to wait for an engine that is gone, and then to try again. It
// is no try of the attempt's.
func (r *Runner) outlasts(err error, waits int) bool {
	return cause.Of(err) == cause.Engine && waits < mostWaits && r.breaker.away() <= patience
}

// troubled tells of trouble, and outlasts it where the engine is gone; again says that
// the attempt is tried once more in any case.
func (r *Runner) troubled(ctx context.Context, job Job, err error, again bool, pauses *backoff.ExponentialBackOff, waits *int) bool {
	wait := r.outlasts(err, *waits)
	if !isStorage(err) {
		r.emit(Event{Kind: Trouble, Job: job, Err: err, Again: wait || again})
	}
	if !wait {
		return false
	}
	*waits++
	return pause(ctx, pauses.NextBackOff()) == nil
}

// image gets an instance's image. An engine that is gone is waited for, and what else
// may pass is tried as often as an attempt is.
func (r *Runner) image(ctx context.Context, job Job) (Image, error) {
	pauses, waits, try := newPauses(), 0, 1
	for {
		img, err := r.o.Images.Image(ctx, job.Instance)
		if err == nil {
			if waits > 0 || try > 1 { // else it may be one that was remembered
				r.breaker.answered()
			}
			r.breaker.image()
			return img, nil
		}
		if ctx.Err() != nil || errors.Is(err, ErrEndRun) {
			return img, err
		}
		wait := r.outlasts(err, waits)
		again := wait || try < engineTries && imagePasses(err)
		r.emit(Event{Kind: Trouble, Job: job, Err: err, Again: again})
		if !again {
			return img, err
		}
		if wait {
			waits++
		} else {
			try++
		}
		if pause(ctx, pauses.NextBackOff()) != nil {
			return img, err
		}
	}
}

// imagePasses reports whether to ask for an image again. What the network failed was
// tried again by who pulls or builds, and an engine that is gone has been waited for.
func imagePasses(err error) bool {
	c := cause.Of(err)
	return c.Passes() && c != cause.Network && c != cause.Engine
}

// noImage fills in the outcome of an attempt whose image could not be had. The error it
// returns ends the run.
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
	return r.breaker.imageFailed(a.InstanceID, err)
}
