// Package runner runs attempts: a bounded number at a time, each from a fresh
// sandbox to a record on disk, with infrastructure failures retried and never
// scored as the patch's.
//
// It must not know which engine it runs on, how images are built or how a
// report is drawn.
package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/reports"
)

// Job is one attempt to be made.
type Job struct {
	Instance   *datasets.Instance
	Recipe     *datasets.Recipe
	Prediction *datasets.Prediction
}

// Image is what an attempt starts from.
type Image struct {
	Ref        string
	Digest     string
	Env        []string // environment of its processes, for the record
	Deviations []string // where the environment is not the pinned one
	History    string   // what is known of commits after base_commit
	AddEnv     []string // what of Env the image does not set by itself
}

// Images gives the image of an instance, building or pulling it if need be.
type Images interface {
	Image(ctx context.Context, inst *datasets.Instance) (Image, error)
}

// Observer is told what happens while it happens. Its methods must be safe for
// concurrent use and return quickly.
type Observer interface {
	Worker(worker int, text string) // what a worker does now; "" when idle
	Done(a *reports.Attempt)
}

// Options configure Run.
type Options struct {
	RunID    string
	Layout   reports.Layout
	Driver   sandbox.Driver
	Images   Images
	Observer Observer

	Workers  int
	Builders int // images prepared at a time
	Limits   Limits
	Rules    grading.Rules
	Network  func() string // what the probe found, for the records
	// Unenforced are limits the engine cannot hold, in words, for the records.
	Unenforced []string
	Labels     map[string]string
	// RowCapabilities gives sandboxes the capabilities their rows ask for.
	RowCapabilities bool
	// Earlier are records of earlier calls of this run. One whose key is equal
	// and whose outcome is a result of the patch is taken instead of running.
	Earlier map[JobKey]reports.Attempt
	// MaxEngineFailures ends the run when this many attempts in a row failed for
	// the engine's sake: the daemon is gone, and going on would only fail the rest.
	MaxEngineFailures int
}

// JobKey names a job within a run.
type JobKey struct{ Model, InstanceID string }

// Limits are what one attempt may use.
type Limits struct {
	Sandbox     sandbox.Limits
	Timeout     time.Duration // from the first command to the last
	OutputBytes int64         // of the tests' output kept; the middle is left out above
}

// applyTimeout is what the commands that apply a patch may take; the time is ours, not
// the tests'.
const applyTimeout = 5 * time.Minute

// Tries of one attempt when the engine fails.
const engineTries = 3

// gradeMemory bounds the bytes of logs being graded at once.
const gradeMemory = 64 << 20

// ErrEngineGone ends a run whose engine fails every attempt.
var ErrEngineGone = errors.New("the engine failed several attempts in a row")

// ErrEndRun is wrapped by errors of Images after which no attempt may be made.
var ErrEndRun = errors.New("the run cannot go on")

// Runner runs the attempts of one run.
type Runner struct {
	o        Options
	grading  *semaphore.Weighted
	failures atomic.Int64 // engine failures in a row
	bin      *bin
}

// New returns a Runner.
func New(o Options) *Runner {
	if o.MaxEngineFailures == 0 {
		o.MaxEngineFailures = 5
	}
	o.Workers, o.Builders = max(1, o.Workers), max(1, o.Builders)
	return &Runner{o: o, grading: semaphore.NewWeighted(gradeMemory), bin: newBin(o.Workers)}
}

// ready is a job whose image is there, or is known not to be.
type ready struct {
	index int // among the jobs
	job   Job
	image Image
	err   error
}

// Run makes the attempts and returns their records, in the order of the jobs;
// a job that was not reached has outcome not_run. The error is context.Cause
// when the run was interrupted, ErrEngineGone when it gave up, or a failure to
// write results. When Run returns, nothing it started is left running.
func (r *Runner) Run(parent context.Context, jobs []Job) ([]reports.Attempt, error) {
	attempts := make([]reports.Attempt, len(jobs))
	for i := range jobs {
		attempts[i] = r.record(jobs[i])
		attempts[i].Outcome = grading.NotRun
		attempts[i].Reason = "the run ended before this instance was reached"
	}
	g, ctx := errgroup.WithContext(parent)
	prepared := r.prepareAll(ctx, g, jobs)
	for w := range r.o.Workers {
		g.Go(func() error { return r.work(ctx, w, prepared, attempts) })
	}
	err := g.Wait()
	r.bin.wait()
	if err == nil {
		err = context.Cause(parent)
	}
	return attempts, err
}

// prepareAll gets the images of the jobs, some at a time, and passes the jobs on
// as their images are there. A builder takes all jobs of one instance in a row,
// so that two of them never wait for the same image.
func (r *Runner) prepareAll(ctx context.Context, g *errgroup.Group, jobs []Job) <-chan ready {
	groups := make(chan []int, len(jobs))
	for start := 0; start < len(jobs); {
		var group []int
		for i := start; i < len(jobs) && jobs[i].Instance.ID == jobs[start].Instance.ID; i++ {
			group = append(group, i)
		}
		groups <- group
		start += len(group)
	}
	close(groups)
	prepared := make(chan ready, r.o.Workers)
	var builders sync.WaitGroup
	for range r.o.Builders {
		builders.Add(1)
		g.Go(func() error {
			defer builders.Done()
			for group := range groups {
				for _, i := range group {
					if !r.prepare(ctx, ready{index: i, job: jobs[i]}, prepared) {
						return nil
					}
				}
			}
			return nil
		})
	}
	g.Go(func() error {
		builders.Wait()
		close(prepared)
		return nil
	})
	return prepared
}

// prepare gets the image of a job that needs one and passes it on; false means
// that the run has ended.
func (r *Runner) prepare(ctx context.Context, rd ready, to chan<- ready) bool {
	if !rd.job.Prediction.Empty() {
		rd.image, rd.err = r.o.Images.Image(ctx, rd.job.Instance)
	}
	select {
	case to <- rd:
		return true
	case <-ctx.Done():
		return false
	}
}

// work is one worker: it makes attempts, one after another.
func (r *Runner) work(ctx context.Context, worker int, prepared <-chan ready, attempts []reports.Attempt) error {
	defer r.o.Observer.Worker(worker, "")
	for rd := range prepared {
		if ctx.Err() != nil {
			return nil
		}
		a, err := r.attempt(ctx, worker, rd)
		if a != nil {
			attempts[rd.index] = *a
			r.o.Observer.Done(a)
		}
		if err != nil {
			return err
		}
		r.o.Observer.Worker(worker, "")
	}
	return nil
}

// record is the part of an attempt's record that is known beforehand.
func (r *Runner) record(job Job) reports.Attempt {
	limits := r.limits(job)
	a := reports.Attempt{
		InstanceID: job.Instance.ID, Repo: job.Instance.Repo, Model: job.Prediction.Model, RunID: r.o.RunID,
		Rules: string(r.o.Rules), LogParser: job.Recipe.Evaluation.LogParser,
		Limits: reports.LimitsRecord{
			CPUs: limits.Sandbox.CPUs, MemoryBytes: limits.Sandbox.MemoryBytes, Pids: limits.Sandbox.Pids,
			DiskBytes: limits.Sandbox.DiskBytes, OutputBytes: limits.OutputBytes, TimeoutSeconds: limits.Timeout.Seconds(),
			Unenforced: r.o.Unenforced,
		},
	}
	a.Patch = patchRecord(job.Prediction)
	return a
}

// limits are the run's, or the row's own where it has some.
func (r *Runner) limits(job Job) Limits {
	l := r.o.Limits
	if s := job.Recipe.Evaluation.TimeoutSeconds; s > 0 {
		l.Timeout = time.Duration(s) * time.Second
	}
	if m := job.Recipe.Evaluation.MemoryMiB; m > 0 {
		l.Sandbox.MemoryBytes = int64(m) << 20
	}
	return l
}

// engineFailed counts a failure of the engine and ends the run when it is one
// of too many in a row.
func (r *Runner) engineFailed(err error) error {
	if n := r.failures.Add(1); n >= int64(r.o.MaxEngineFailures) {
		return fmt.Errorf("%w (%d); the last: %w", ErrEngineGone, n, err)
	}
	return nil
}
