package runner

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/evalrun/evalrun/internal/sandbox"
)

// lanes is how many attempts there are for one worker: while one runs its
// commands, the next starts its sandbox and the last is looked at and graded, or one
// whose set-up has run has its test files restored.
const lanes = 2

// workers are what bounds the commands that run at a time. Starting a sandbox and
// grading a log need none.
type workers struct {
	free   chan int
	again  chan int            // to those that had one before, who go first
	starts *semaphore.Weighted // engines are slow at starting many sandboxes at once
}

func newWorkers(n int) *workers {
	w := &workers{free: make(chan int, n), again: make(chan int), starts: semaphore.NewWeighted(int64(n+1) / 2)}
	for i := range n {
		w.free <- i
	}
	return w
}

// take waits for a free worker. Those that take one again are served first.
func (w *workers) take(ctx context.Context, again bool) (worker int, err error) {
	var first chan int
	if again {
		first = w.again
	}
	select {
	case worker = <-w.free:
		return worker, nil
	case worker = <-first:
		return worker, nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

func (w *workers) give(worker int) {
	select {
	case w.again <- worker:
	default:
		w.free <- worker
	}
}

// start starts the sandbox of an attempt.
func (r *Runner) start(ctx context.Context, job Job, image Image) (sandbox.Sandbox, error) {
	if err := r.workers.starts.Acquire(ctx, 1); err != nil {
		return nil, context.Cause(ctx)
	}
	defer r.workers.starts.Release(1)
	began := time.Now()
	box, err := r.o.Driver.Start(ctx, r.spec(job, image))
	if err == nil {
		r.breaker.answered()
	}
	r.emit(Event{Kind: Started, Job: job, Took: time.Since(began), Err: err})
	return box, err
}

// spec is the sandbox of an attempt. It may wait for a worker, twice, as long as another
// attempt lasts, with all its tries, one without the patch, and a second opinion.
func (r *Runner) spec(job Job, image Image) sandbox.Spec {
	limits := r.limits(job)
	var capabilities []string
	if r.o.RowCapabilities {
		capabilities = job.Recipe.Evaluation.Capabilities
	}
	env := image.AddEnv
	if limits.User != "" {
		env = append(slices.Clip(env), "HOME=/tmp") // root's is root's
	}
	return sandbox.Spec{
		User: limits.User, ReadOnly: limits.ReadOnly, Writable: []string{workDir, ourDir, "/root"}, Owned: []string{workDir, ourDir},
		Capabilities: capabilities, Image: image.Digest, Env: env, Name: job.Instance.ID, Limits: limits.Sandbox,
		Labels: map[string]string{"evalrun.run": r.o.RunID, "evalrun.instance": job.Instance.ID},
		Expiry: time.Now().Add((3*(engineTries+2) + 1) * (r.o.Limits.Timeout + limits.Timeout + 4*applyTimeout)),
	}
}
