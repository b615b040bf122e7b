package runner

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/schedule"
	"github.com/evalrun/evalrun/reports"
)

// plan groups the jobs and puts the longest first.
func (r *Runner) plan(jobs Jobs) ([]group, error) {
	groups, err := r.groups(jobs)
	if err != nil {
		return nil, err
	}
	tests := make([]int, len(groups))
	for i, g := range groups {
		tests[i] = jobs.Instance(g.first).Tests()
	}
	typical := schedule.Typical(tests)
	tasks := make([]schedule.Task, len(groups))
	for i, g := range groups {
		tasks[i] = schedule.Task{Seconds: g.expected.ByTests(tests[i], typical), Layer: g.layer, Times: g.n - g.empty}
	}
	ordered := make([]group, 0, len(groups))
	var batches []schedule.Batch
	for at, i := range schedule.Order(tasks, r.o.Workers) {
		g := groups[i]
		g.place, g.priority = at, -float64(at)
		ordered = append(ordered, g)
		batches = append(batches, schedule.Batch{Estimate: g.expected, Tasks: g.n - g.empty}, schedule.Batch{Tasks: g.empty})
	}
	r.forecast.Store(schedule.NewForecast(batches, r.o.Workers))
	return ordered, nil
}

// groups are the jobs by instance, in their order.
func (r *Runner) groups(jobs Jobs) ([]group, error) {
	var groups []group
	for start := 0; start < jobs.Len(); {
		inst := jobs.Instance(start)
		g := group{first: start}
		for i := start; i < jobs.Len() && jobs.Instance(i).ID == inst.ID; i++ {
			g.n++
			if jobs.Empty(i) {
				g.empty++
			} else if g.n == g.empty+1 { // the first, which stands for all
				j, err := jobs.Job(i)
				if err != nil {
					return nil, err
				}
				g.expected = r.Estimate(j)
			}
		}
		if r.o.Layer != nil {
			g.layer = r.o.Layer(inst)
		}
		groups = append(groups, g)
		start += g.n
	}
	return groups, nil
}

// Order is the instances in the order in which their images are asked for.
func (r *Runner) Order(jobs Jobs) ([]string, error) {
	groups, err := r.plan(jobs)
	ids := make([]string, len(groups))
	for i, g := range groups {
		ids[i] = jobs.Instance(g.first).ID
	}
	return ids, err
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
func (r *Runner) prepareAll(ctx context.Context, g *errgroup.Group, jobs Jobs, groups []group) *schedule.Queue[ready] {
	// No more images wait than workers will soon ask for: they take up disk.
	prepared := schedule.NewQueue[ready](r.o.Workers)
	pulled, built := r.apart(jobs, groups)
	var preparing sync.WaitGroup
	for _, stage := range []struct {
		groups []*group
		bound  int
	}{{pulled, r.o.Pulls}, {built, r.o.Builders}} {
		shared := make([]string, len(stage.groups))
		for i, of := range stage.groups {
			shared[i] = of.layer
		}
		layers := schedule.NewLayers(shared)
		for range min(stage.bound, len(stage.groups)) {
			preparing.Add(1)
			g.Go(func() error {
				defer preparing.Done()
				for {
					i, done, ok := layers.Next(ctx)
					if !ok {
						return nil
					}
					if more, err := r.prepareGroup(ctx, jobs, stage.groups[i], prepared, done); !more {
						return err
					}
				}
			})
		}
	}
	g.Go(func() error {
		preparing.Wait()
		prepared.Close()
		return nil
	})
	return prepared
}

// apart tells the groups whose images are pulled from those whose are built: a slow build
// holds up no pull, and the other way round. The order stays within each.
func (r *Runner) apart(jobs Jobs, groups []group) (pulled, built []*group) {
	for i := range groups {
		of := &groups[i]
		if r.pulled(jobs.Instance(of.first)) {
			pulled = append(pulled, of)
		} else {
			built = append(built, of)
		}
	}
	return pulled, built
}

// pulled reports whether the image of an instance is pulled, if it is not there.
func (r *Runner) pulled(inst *datasets.Instance) bool { return r.o.Pulled != nil && r.o.Pulled(inst) }

// prepareGroup gets the images of a group's jobs that need one and passes them on;
// false means that the run has ended. fetched is called as soon as what the image
// shares with others is there, or the first job has turned out to need none.
func (r *Runner) prepareGroup(ctx context.Context, jobs Jobs, g *group, to *schedule.Queue[ready], fetched func(bool)) (more bool, err error) {
	var once sync.Once
	shared := func(there bool) { once.Do(func() { fetched(there) }) }
	defer shared(false)
	there := sync.OnceValue(func() glimpse { return r.glimpse(ctx, jobs.Instance(g.first)) })
	followers, follows := map[int][]int{}, make([]bool, g.n)
	if !r.o.Apart {
		if followers, follows, err = sameWork(jobs, g); err != nil {
			return false, err
		}
	}
	for i := g.first; i < g.first+g.n; i++ {
		if follows[i-g.first] {
			continue // until the one it follows is done
		}
		rd := ready{index: i, batch: g.batch(jobs.Empty(i)), followers: followers[i], there: there}
		if rd.job, err = jobs.Job(i); err != nil {
			return false, err
		}
		if !jobs.Empty(i) {
			if err := r.stand(ctx, &rd); err != nil {
				return false, err
			}
			if !rd.standIn {
				r.fetch(ctx, &rd)
			}
			shared(!rd.standIn)
		}
		if !to.Put(ctx, g.priority, rd) {
			return false, nil
		}
	}
	return true, nil
}

// enter waits until the machine has room for what the attempt is expected to need, and
// then for a worker: who waits for room holds up no worker, and who has rested has it still.
// leave gives both back.
func (t *trial) enter(ctx context.Context) error {
	began := time.Now()
	out, err := t.r.admission.Enter(ctx, t.r.Estimate(t.job).Needs)
	if err != nil {
		t.a.WaitedSeconds += time.Since(began).Seconds()
		return err
	}
	t.room = out
	if err := t.goOn(ctx, false); err != nil {
		t.a.WaitedSeconds += time.Since(began).Seconds()
		return err
	}
	waited := time.Since(began)
	t.a.WaitedSeconds += waited.Seconds()
	t.r.emit(Event{Kind: Entered, Job: t.job, Took: waited})
	if !t.unpatched {
		t.r.forecast.Load().Begin(t.index, t.batch, time.Now())
	}
	return nil
}

// goOn waits for a worker; one that has rested goes first.
func (t *trial) goOn(ctx context.Context, rested bool) (err error) {
	if t.worker, err = t.r.workers.take(ctx, rested); err == nil {
		t.entered = true
	}
	return err
}

// rest gives the worker back, if the attempt has one, and keeps its room: what it has
// written stays.
func (t *trial) rest() {
	if !t.entered {
		return
	}
	t.entered = false
	t.r.o.Observer.Worker(t.worker, "")
	t.r.workers.give(t.worker)
}

// leave gives the room back, too.
func (t *trial) leave() {
	if t.room != nil {
		t.room()
		t.room = nil
	}
	t.rest()
}

// learn takes down what an attempt took, where it ran; nil is one that was
// interrupted.
func (r *Runner) learn(rd ready, a *reports.Attempt) {
	ran := a != nil && !a.Reused && !a.Resumed && a.Outcome.Evaluated() && len(a.Phases) > 1
	r.forecast.Load().End(rd.index, rd.batch, time.Now(), ran)
	if ran && r.o.History != nil && !r.cutShort(a) {
		r.o.History.Observe(schedule.Observation{
			Instance: a.InstanceID, Repo: a.Repo, Seconds: a.Seconds, CPUSeconds: a.Usage.CPUSeconds,
			MemoryBytes: needed(a.Usage), DiskBytes: a.Usage.DiskBytes,
		})
	}
}

// cutShort says that an attempt was ended by a limit before the time that was expected
// of it: how long it would have taken it does not tell.
func (r *Runner) cutShort(a *reports.Attempt) bool {
	switch a.Outcome {
	case grading.TimedOut, grading.SilenceLimit, grading.OutOfMemory, grading.DiskLimit:
		return a.Seconds < r.o.History.Estimate(a.InstanceID, a.Repo).Seconds
	}
	return false
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
