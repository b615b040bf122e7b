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
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/patch"
	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/schedule"
	"github.com/evalrun/evalrun/internal/screen"
	"github.com/evalrun/evalrun/reports"
)

// Image is what an attempt starts from.
type Image struct {
	Ref        string
	Digest     string
	Env        []string // environment of its processes, for the record
	Deviations []string // where the environment is not the pinned one
	History    string   // what is known of commits after base_commit
	AddEnv     []string // what of Env the image does not set by itself
	Fetched    bool     // it was not on this machine before
	Pinned     string   // the same as Ref by its digest, where that is known beforehand
}

// Images gives the image of an instance, building or pulling it if need be.
type Images interface {
	Image(ctx context.Context, inst *datasets.Instance) (Image, error)
	// There is the image if it need not be built or pulled, as far as it matters to what
	// is run in it. Of one that is not there, or of which the engine cannot say, Ref and
	// Pinned are the names it would have; they are empty where that is not known either.
	There(ctx context.Context, inst *datasets.Instance) (img Image, ok bool, err error)
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
	Builders int // images built at a time
	Pulls    int // images pulled at a time, beside those
	// Pulled says whether an instance's image is pulled; nil is that all are built.
	Pulled func(*datasets.Instance) bool
	Limits Limits
	Rules  grading.Rules
	// Network proves that what runs from an image is cut off, and says so in words for
	// the records. It is asked for every attempt, before anything of the row's or the
	// model's runs, and may remember; its error ends the run.
	Network func(ctx context.Context, image Image) (string, error)
	// Unenforced are limits the engine cannot hold, in words, for the records.
	Unenforced []string
	// RowCapabilities gives sandboxes the capabilities their rows ask for.
	RowCapabilities bool
	// Policy says what patches may touch.
	Policy screen.Policy
	// Verify says which resolved attempts are run again with nothing but the
	// patch's source files.
	Verify Verify
	// Ledger keeps results and gives those that need not be made again; nil for none.
	Ledger Ledger
	// Apart makes every attempt, also one at a patch that another one is at.
	Apart bool
	// History says what attempts will take, and is told what they took; without it
	// the order of the jobs is kept and nothing but Workers bounds them.
	History *schedule.History
	// Layer names what an instance's image shares with others and has to be
	// fetched or built but once; nil is nothing.
	Layer func(*datasets.Instance) string
	// Capacity bounds what all attempts at work are expected to need together.
	Capacity schedule.Resources
	// Deadline ends the run: what is not done then is not run. Zero is none.
	Deadline time.Time
	// Events is told what happens to jobs, from any goroutine; nil is nobody. It
	// must return quickly.
	Events func(Event)
	// MaxEngineFailures ends the run when this many attempts in a row failed alike
	// for the engine's sake, or four times as many in whatever way.
	MaxEngineFailures int
}

// Limits are what one attempt may use.
type Limits struct {
	Sandbox     sandbox.Limits
	Timeout     time.Duration // from the first command to the last
	Silence     time.Duration // between two pieces of output; 0 is no limit
	OutputBytes int64         // of the tests' output kept; the middle is left out above
	// ReadOnly keeps what runs from writing anywhere but to the checkout, root's home
	// and folders in memory.
	ReadOnly bool
	User     string // UID:GID of what runs, which the checkout then belongs to; "" is root
}

// applyTimeout is what the commands that apply a patch may take; the time is ours, not
// the tests'.
const applyTimeout = 5 * time.Minute

// changesTimeout is what looking for changed files may take.
const changesTimeout = time.Minute

// Tries of one attempt, or of one image, when the engine fails.
const engineTries = 3

// gradeMemory bounds the bytes of logs being graded at once.
const gradeMemory = 64 << 20

// ErrEngineGone ends a run whose engine fails every attempt.
var ErrEngineGone = errors.New("the run is ended, since attempt after attempt fails")

// ErrDeadline ends a run whose deadline has come.
var ErrDeadline = errors.New("the run's deadline has come")

// ErrEndRun is wrapped by errors of Images after which no attempt may be made.
var ErrEndRun = errors.New("the run cannot go on")

// Runner runs the attempts of one run.
type Runner struct {
	o         Options
	grading   *semaphore.Weighted
	breaker   *breaker
	bin       *bin
	workers   *workers
	builds    *semaphore.Weighted // of images
	pulls     *semaphore.Weighted // of images
	lanes     *semaphore.Weighted // who makes an attempt
	admission *schedule.Admission
	forecast  atomic.Pointer[schedule.Forecast]
}

// New returns a Runner.
func New(o Options) *Runner {
	if o.MaxEngineFailures == 0 {
		o.MaxEngineFailures = 5
	}
	if o.Ledger == nil {
		o.Ledger, o.Apart = noLedger{}, true
	}
	o.Workers, o.Builders, o.Pulls = max(1, o.Workers), max(1, o.Builders), max(1, o.Pulls)
	return &Runner{
		o: o, breaker: &breaker{limit: o.MaxEngineFailures}, grading: semaphore.NewWeighted(gradeMemory), bin: newBin(o.Workers), workers: newWorkers(o.Workers),
		builds: semaphore.NewWeighted(int64(o.Builders)), pulls: semaphore.NewWeighted(int64(o.Pulls)), lanes: semaphore.NewWeighted(int64(lanes * o.Workers)),
		admission: schedule.NewAdmission(o.Capacity),
	}
}

// ready is a job whose image is there, or is known not to be.
type ready struct {
	index int // among the jobs
	batch int // of the forecast
	job   Job
	image Image
	err   error
	// there is what is known of the image without asking for it.
	there func() glimpse
	// standIn says that image is what the attempt would be made from, and was not asked
	// for: an earlier result holds with it.
	standIn bool

	followers []int     // jobs that can take its result
	text      *string   // of the patch
	patch     *prepared // nil where none is to be applied

	imageTook time.Duration
	began     time.Time // the attempt, by a clock that nobody sets

	structured grading.StructuredKind // the report asked for besides the log
}

// prepared is a patch made ready to be applied, or why it cannot be.
type prepared struct {
	patch.Prepared
	screen screen.Report
	err    error
}

// Run makes the attempts and returns their records, in the order of the jobs;
// a job that was not reached has outcome not_run. The error is that of Make.
func (r *Runner) Run(ctx context.Context, jobs []Job) ([]reports.Attempt, error) {
	attempts := make([]reports.Attempt, len(jobs))
	err := r.Make(ctx, List(jobs), func(job int, a *reports.Attempt) { attempts[job] = *a })
	for i := range attempts {
		if attempts[i].Outcome == "" {
			attempts[i] = r.NotRun(jobs[i], err)
		}
	}
	return attempts, err
}

// Make makes the attempts and keeps nothing of them: keep is given the record of each
// that has come to an end, with the place of its job, from any goroutine. One with outcome
// not_run is in no ledger: its image cannot be had, and an earlier result stays. The error is
// context.Cause when the run was interrupted, ErrDeadline when its time was over,
// ErrEngineGone when it gave up, or a failure to read jobs or to write results. When Make
// returns, nothing it started is left running.
func (r *Runner) Make(parent context.Context, jobs Jobs, keep func(job int, a *reports.Attempt)) error {
	if !r.o.Deadline.IsZero() {
		limited, cancel := context.WithDeadlineCause(parent, r.o.Deadline, ErrDeadline)
		defer cancel()
		parent = limited
	}
	groups, err := r.plan(jobs)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(parent)
	prepared := r.prepareAll(ctx, g, jobs, groups)
	for range lanes * r.o.Workers {
		g.Go(func() error { return r.work(ctx, g, jobs, prepared, keep) })
	}
	err = g.Wait()
	r.bin.wait()
	if err == nil {
		r.bin.again(parent) // the group's context has ended
		err = context.Cause(parent)
	}
	return err
}

// NotRun is the record of a job that Make did not reach; err is what that returned.
func (r *Runner) NotRun(job Job, err error) reports.Attempt {
	a := r.record(job)
	a.Outcome, a.Reason = grading.NotRun, "the run ended before this instance was reached"
	if errors.Is(err, ErrDeadline) {
		a.Reason = "the run's deadline came before this instance was done"
	}
	return a
}

// work makes attempts, one after another.
func (r *Runner) work(ctx context.Context, g *errgroup.Group, jobs Jobs, prepared *schedule.Queue[ready], keep func(int, *reports.Attempt)) error {
	for ctx.Err() == nil {
		rd, ok := prepared.Take(ctx)
		if !ok {
			return nil
		}
		if err := r.lead(ctx, g, jobs, rd, keep); err != nil {
			return err
		}
	}
	return nil
}

// lead makes an attempt, and then those that have waited for it.
func (r *Runner) lead(ctx context.Context, g *errgroup.Group, jobs Jobs, rd ready, keep func(int, *reports.Attempt)) error {
	if err := r.lanes.Acquire(ctx, 1); err != nil {
		return nil // the run has ended
	}
	defer r.lanes.Release(1)
	for _, i := range rd.followers {
		if rd.standIn {
			break // there is no image that they could need
		}
		f, err := jobs.Job(i)
		if err != nil {
			return err
		}
		r.emit(Event{Kind: Follows, Job: f}) // before the image it will need could be done with
	}
	a, err := r.make(ctx, rd, keep)
	if err != nil {
		return err
	}
	return r.follow(ctx, g, jobs, rd, a, keep)
}

// make makes one attempt and passes its record on.
func (r *Runner) make(ctx context.Context, rd ready, keep func(int, *reports.Attempt)) (*reports.Attempt, error) {
	began := time.Now()
	a, err := r.attempt(ctx, rd)
	r.learn(rd, a)
	if a != nil {
		r.o.Observer.Done(a)
		r.emit(Event{Kind: Finished, Job: rd.job, Attempt: a, Took: time.Since(began)})
		keep(rd.index, a)
	}
	return a, err
}

// record is the part of an attempt's record that is known beforehand.
func (r *Runner) record(job Job) reports.Attempt {
	limits := r.limits(job)
	a := reports.Attempt{
		InstanceID: job.Instance.ID, Repo: job.Instance.Repo, Model: job.Prediction.Model, RunID: r.o.RunID, Attempt: attemptNumber(job),
		Rules: string(r.o.Rules), LogParser: job.Recipe.Evaluation.LogParser,
		Limits: reports.LimitsRecord{
			CPUs: limits.Sandbox.CPUs, MemoryBytes: limits.Sandbox.MemoryBytes, Pids: limits.Sandbox.Pids,
			DiskBytes: limits.Sandbox.DiskBytes, OutputBytes: limits.OutputBytes, TimeoutSeconds: limits.Timeout.Seconds(),
			CPUsGuaranteed: limits.Sandbox.CPUsGuaranteed, MemoryGuaranteedBytes: limits.Sandbox.MemoryReservation(),
			SilenceSeconds: limits.Silence.Seconds(), ReadOnly: limits.ReadOnly, User: limits.User, Unenforced: r.o.Unenforced,
		},
	}
	a.Patch = patchRecord(job.Prediction)
	return a
}

// attemptNumber is not told of the first.
func attemptNumber(job Job) int {
	if job.Attempt <= 1 {
		return 0
	}
	return job.Attempt
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
