package runner

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/evalrun/evalrun/internal/schedule"
	"github.com/evalrun/evalrun/reports"
)

// group is all jobs of one instance that stand in a row: they share an image, and
// one builder takes them all, so that two never wait for the same.
type group struct {
	jobs    []int
	layer   string
	seconds float64 // expected of the longest

	priority float64 // between the stages: earlier in the order is higher
}

// plan groups the jobs and puts the longest first.
func (r *Runner) plan(jobs []Job) []group {
	var groups []group
	estimates := make([]schedule.Estimate, len(jobs))
	for start := 0; start < len(jobs); {
		inst := jobs[start].Instance
		g := group{}
		for i := start; i < len(jobs) && jobs[i].Instance.ID == inst.ID; i++ {
			g.jobs = append(g.jobs, i)
			estimates[i] = r.Estimate(jobs[i])
			g.seconds = max(g.seconds, estimates[i].Seconds)
		}
		if r.o.Layer != nil {
			g.layer = r.o.Layer(inst)
		}
		groups = append(groups, g)
		start += len(g.jobs)
	}
	tasks := make([]schedule.Task, len(groups))
	for i, g := range groups {
		tasks[i] = schedule.Task{Seconds: g.seconds, Layer: g.layer}
	}
	ordered := make([]group, 0, len(groups))
	order := make([]int, 0, len(jobs))
	for at, i := range schedule.Order(tasks, r.o.Workers) {
		groups[i].priority = -float64(at)
		ordered = append(ordered, groups[i])
		order = append(order, groups[i].jobs...)
	}
	r.forecast.Store(schedule.NewForecast(estimates, order, r.o.Workers))
	return ordered
}

// Order is the instances in the order in which their images are asked for.
func (r *Runner) Order(jobs []Job) []string {
	groups := r.plan(jobs)
	ids := make([]string, len(groups))
	for i, g := range groups {
		ids[i] = jobs[g.jobs[0]].Instance.ID
	}
	return ids
}

// Estimate is what is expected of a job; no more than its limits allow.
func (r *Runner) Estimate(job Job) schedule.Estimate {
	if job.Prediction.Empty() {
		return schedule.Estimate{}
	}
	var e schedule.Estimate
	if r.o.History != nil {
		e = r.o.History.Estimate(job.Instance.ID, job.Instance.Repo)
	}
	l := r.limits(job)
	if s := l.Timeout.Seconds(); s > 0 {
		e.Seconds = min(e.Seconds, s)
	}
	if n := l.Sandbox.CPUs; n > 0 {
		e.Needs.CPUs = min(e.Needs.CPUs, n)
	}
	if n := l.Sandbox.MemoryBytes; n > 0 {
		e.Needs.MemoryBytes = min(e.Needs.MemoryBytes, n)
	}
	if n := l.Sandbox.DiskBytes; n > 0 {
		e.Needs.DiskBytes = min(e.Needs.DiskBytes, n)
	}
	return e
}

// prepareAll gets the images of the jobs, some at a time, and passes the jobs on
// as their images are there.
func (r *Runner) prepareAll(ctx context.Context, g *errgroup.Group, jobs []Job, groups []group) *schedule.Queue[ready] {
	shared := make([]string, len(groups))
	for i := range groups {
		shared[i] = groups[i].layer
	}
	layers := schedule.NewLayers(shared)
	// No more images wait than workers will soon ask for: they take up disk.
	prepared := schedule.NewQueue[ready](r.o.Workers)
	var builders sync.WaitGroup
	for range r.o.Builders {
		builders.Add(1)
		g.Go(func() error {
			defer builders.Done()
			for {
				i, done, ok := layers.Next(ctx)
				if !ok || !r.prepareGroup(ctx, jobs, groups[i], prepared, done) {
					return nil
				}
			}
		})
	}
	g.Go(func() error {
		builders.Wait()
		prepared.Close()
		return nil
	})
	return prepared
}

// prepareGroup gets the images of a group's jobs that need one and passes them on;
// false means that the run has ended. fetched is called as soon as what the image
// shares with others is there.
func (r *Runner) prepareGroup(ctx context.Context, jobs []Job, g group, to *schedule.Queue[ready], fetched func()) bool {
	once := sync.OnceFunc(fetched)
	defer once()
	for _, i := range g.jobs {
		if r.follows[i] {
			continue // until the one it follows is done
		}
		rd := ready{index: i, job: jobs[i]}
		if !rd.job.Prediction.Empty() {
			began := time.Now()
			rd.image, rd.err = r.image(ctx, rd.job)
			rd.imageTook = time.Since(began)
			if ctx.Err() == nil { // an interrupt says nothing of the image
				r.emit(Event{Kind: ImageReady, Job: rd.job, Image: rd.image, Took: rd.imageTook, Err: rd.err})
			}
			once()
		}
		if !to.Put(ctx, g.priority, rd) {
			return false
		}
	}
	return true
}

// enter waits for a worker, and until the machine has room for what the attempt is
// expected to need. leave gives both back.
func (t *trial) enter(ctx context.Context) (waited time.Duration, leave func(), err error) {
	worker, waited, err := t.r.workers.take(ctx)
	if err != nil {
		return waited, nil, err
	}
	t.worker, t.entered = worker, true
	began := time.Now()
	out, err := t.r.admission.Enter(ctx, t.r.Estimate(t.job).Needs, func() { t.say("waits for room") })
	waited += time.Since(began)
	if err != nil {
		t.r.o.Observer.Worker(worker, "")
		t.r.workers.give(worker)
		return waited, nil, err
	}
	t.r.emit(Event{Kind: Entered, Job: t.job, Took: waited})
	if !t.unpatched {
		t.r.forecast.Load().Begin(t.index, time.Now())
	}
	return waited, func() {
		t.entered = false
		out()
		t.r.o.Observer.Worker(worker, "")
		t.r.workers.give(worker)
	}, nil
}

// learn takes down what an attempt took, where it ran; nil is one that was
// interrupted.
func (r *Runner) learn(rd ready, a *reports.Attempt) {
	ran := a != nil && !a.Reused && a.Outcome.Evaluated() && len(a.Phases) > 1
	r.forecast.Load().End(rd.index, time.Now(), ran)
	if ran && r.o.History != nil {
		r.o.History.Observe(schedule.Observation{
			Instance: a.InstanceID, Repo: a.Repo, Seconds: a.Seconds, CPUSeconds: a.Usage.CPUSeconds,
			MemoryBytes: a.Usage.PeakMemoryBytes, DiskBytes: a.Usage.DiskBytes,
		})
	}
}

// Left is how long the rest of the run will take, as a range; ok is false while
// nothing can be said.
func (r *Runner) Left() (low, high time.Duration, ok bool) {
	f := r.forecast.Load()
	if f == nil {
		return 0, 0, false
	}
	return f.Left(time.Now())
}
