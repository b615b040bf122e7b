package runner_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/runner"
	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/sandboxtest"
	"github.com/evalrun/evalrun/internal/schedule"
)

// tested are the instances whose tests ran, in their order.
func (k *kit) tested() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var ids []string
	for _, what := range k.ran {
		if id, ok := strings.CutSuffix(what, "/test.sh"); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// What took longest before is begun first, and what it takes now is remembered.
func TestLongestFirst(t *testing.T) {
	k := newKit(t)
	k.options.Workers, k.options.Builders = 1, 1
	k.options.History = schedule.NewHistory()
	for id, s := range map[string]float64{"name-00": 10, "name-01": 1000, "name-02": 100} {
		k.options.History.Observe(schedule.Observation{Instance: id, Repo: "owner/name", Seconds: s})
	}
	k.phases["test.sh"] = takes(7*time.Second, prints(passing, 0))
	k.fake.OnUsage = func(*sandboxtest.FakeSandbox) (sandbox.Usage, error) {
		return sandbox.Usage{PeakMemoryBytes: 1 << 20, CPUSeconds: 14, DiskBytes: 99}, nil
	}
	attempts, _, err := k.run(t, nil, append(jobs(3), job("new"), job("empty", withPatch("")))...)
	if err != nil || outcomes(attempts)[grading.Resolved] != 4 {
		t.Errorf("%v, %v", outcomes(attempts), err)
	}
	// The new one is expected to be like its repository.
	got := k.tested()
	slices.Sort(got[:2]) // the first two come to the worker at once
	if diff := cmp.Diff([]string{"name-01", "new", "name-02", "name-00"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	e := k.options.History.Estimate("new", "owner/name")
	if e.Level != schedule.ByInstance || e.Seconds < 6.5 || e.Seconds > 7.5 || e.Needs.CPUs < 1.9 || e.Needs.MemoryBytes < 1<<20-2 || e.Needs.DiskBytes < 97 {
		t.Errorf("afterwards %+v is expected of the new one", e)
	}
	if e := k.options.History.Estimate("empty", "owner/name"); e.Level == schedule.ByInstance {
		t.Errorf("an attempt without a run is remembered: %+v", e)
	}
}

// Of instances of which no more is known those with more tests are begun first; one that
// has run is where what it took puts it.
func TestUnknownOnesByTheirTests(t *testing.T) {
	k := newKit(t)
	k.options.Workers, k.options.Builders = 1, 1
	k.options.History = schedule.NewHistory()
	k.options.History.Observe(schedule.Observation{Instance: "known", Repo: "owner/name", Seconds: 100})
	k.phases["test.sh"] = takes(7*time.Second, prints(passing, 0))
	with := func(passToPass int) func(*runner.Job) {
		return func(j *runner.Job) {
			of := *j.Instance
			for i := range passToPass {
				of.PassToPass = append(of.PassToPass, fmt.Sprint("test_", i))
			}
			j.Instance = &of
		}
	}
	_, _, err := k.run(t, nil, job("few"), job("many", with(300)), job("known", with(10000)), job("some", with(9)), job("more", with(50)))
	if err != nil {
		t.Error(err)
	}
	got := k.tested()
	slices.Sort(got[:2]) // the first two come to the worker at once
	if diff := cmp.Diff([]string{"many", "more", "known", "some", "few"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What a limit ended early says nothing of how long it takes; what outlived all that was
// expected does.
func TestCutShortIsNotLearnt(t *testing.T) {
	for _, tt := range []struct {
		before, timeout time.Duration
	}{
		{100 * time.Second, time.Second},
		{100 * time.Second, 1000 * time.Second},
	} {
		k := newKit(t)
		k.options.History = schedule.NewHistory()
		k.options.History.Observe(schedule.Observation{Instance: "name-00", Repo: "owner/name", Seconds: tt.before.Seconds()})
		k.options.Limits.Timeout = tt.timeout
		k.phases["test.sh"] = takes(time.Hour, prints(passing, 0))
		attempts, _, err := k.run(t, nil, job("name-00"))
		if err != nil || outcomes(attempts)[grading.TimedOut] != 1 {
			t.Errorf("%v, %v", outcomes(attempts), err)
		}
		before := schedule.NewHistory()
		before.Observe(schedule.Observation{Instance: "name-00", Repo: "owner/name", Seconds: tt.before.Seconds()})
		was, is := before.Estimate("name-00", "owner/name").Seconds, k.options.History.Estimate("name-00", "owner/name").Seconds
		if learnt := is != was; learnt != (tt.timeout > tt.before) {
			t.Errorf("ended after %s, where %s was expected: %.0f s were expected before and %.0f s are now", tt.timeout, tt.before, was, is)
		}
	}
}

// The first image of a layer is fetched alone; meanwhile another layer's is.
func TestLayersAreFetchedOnce(t *testing.T) {
	k := newKit(t)
	k.options.Builders = 3
	k.options.Layer = func(inst *datasets.Instance) string { return inst.ID[:1] }
	have, busy := map[string]bool{}, map[string]int{}
	k.images.image = func(ctx context.Context, inst *datasets.Instance) (runner.Image, error) {
		layer := inst.ID[:1]
		k.mu.Lock()
		busy[layer]++
		if !have[layer] && busy[layer] > 1 {
			t.Errorf("two fetch layer %s", layer)
		}
		k.mu.Unlock()
		err := sandboxtest.Sleep(ctx, time.Minute)
		k.mu.Lock()
		have[layer] = true
		busy[layer]--
		k.mu.Unlock()
		return runner.Image{Ref: inst.ID}, err
	}
	var list []runner.Job
	for i := range 4 {
		list = append(list, job(fmt.Sprint("a", i)), job(fmt.Sprint("b", i)))
	}
	attempts, _, err := k.run(t, nil, list...)
	if err != nil || outcomes(attempts)[grading.Resolved] != 8 {
		t.Errorf("%v, %v", outcomes(attempts), err)
	}
}

// Builds and pulls have a bound each, and neither holds up the other.
func TestPullsBesideBuilds(t *testing.T) {
	k := newKit(t)
	k.options.Workers, k.options.Builders, k.options.Pulls = 8, 1, 2
	pulled := func(inst *datasets.Instance) bool { return strings.HasPrefix(inst.ID, "pulled") }
	k.options.Pulled = pulled
	busy, most := map[bool]int{}, map[bool]int{}
	var ready []string
	k.images.image = func(ctx context.Context, inst *datasets.Instance) (runner.Image, error) {
		kind := pulled(inst)
		k.mu.Lock()
		busy[kind]++
		most[kind] = max(most[kind], busy[kind])
		k.mu.Unlock()
		took := time.Hour
		if kind {
			took = time.Minute
		}
		err := sandboxtest.Sleep(ctx, took)
		k.mu.Lock()
		busy[kind]--
		ready = append(ready, inst.ID)
		k.mu.Unlock()
		return runner.Image{Ref: inst.ID}, err
	}
	attempts, _, err := k.run(t, nil, job("built-1"), job("built-2"), job("pulled-1"), job("pulled-2"), job("pulled-3"))
	if err != nil || outcomes(attempts)[grading.Resolved] != 5 {
		t.Errorf("%v, %v", outcomes(attempts), err)
	}
	slices.Sort(ready[:2])
	if diff := cmp.Diff([]string{"pulled-1", "pulled-2", "pulled-3", "built-1", "built-2"}, ready); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if most[true] != 2 || most[false] != 1 {
		t.Errorf("at once %d were pulled (want 2) and %d built (want 1)", most[true], most[false])
	}
}

// While test files are restored after a set-up the worker goes to another attempt, and never
// more run their own code than there are workers. What one waits for a worker in between
// does not count against its limit.
func TestRestoringNeedsNoWorker(t *testing.T) {
	const n, setup, restore, test = 10, 3 * time.Second, time.Second, 5 * time.Second
	k := newKit(t)
	k.options.Workers, k.options.Builders = 1, 1
	k.options.Limits.Timeout = setup + restore + test + time.Second
	var first, last time.Time
	running, most := 0, 0
	needs := func(d time.Duration, then phase) phase {
		return func(ctx context.Context, box *sandboxtest.FakeSandbox, cmd sandbox.Command) (sandbox.Result, error) {
			k.mu.Lock()
			if first.IsZero() {
				first = time.Now()
			}
			running++
			most = max(most, running)
			k.mu.Unlock()
			res, err := takes(d, then)(ctx, box, cmd)
			k.mu.Lock()
			running--
			last = time.Now()
			k.mu.Unlock()
			return res, err
		}
	}
	k.phases["setup.sh"] = needs(setup, k.phases["setup.sh"])
	k.phases["test.sh"] = needs(test, k.phases["test.sh"])
	k.phases["restore.sh"] = takes(restore, k.phases["restore.sh"])
	var list []runner.Job
	for i := range n {
		list = append(list, job(fmt.Sprint("name-", i), withEvaluation(func(e *datasets.Evaluation) { e.Setup = "set up" })))
	}
	attempts, _, err := k.run(t, nil, list...)
	if err != nil || outcomes(attempts)[grading.Resolved] != n {
		t.Errorf("%v, %v", outcomes(attempts), err)
	}
	if most != 1 {
		t.Errorf("%d ran their own code at once with one worker", most)
	}
	// The last one, with nothing beside it, waits for its own.
	if took, want := last.Sub(first), n*(setup+test)+restore; took > want {
		t.Errorf("the run took %s; with nothing but set-up and tests, and one time of restoring, it takes %s", took, want)
	}
}

// However many workers there are, what runs at once fits into memory.
func TestAdmission(t *testing.T) {
	k := newKit(t)
	k.options.Workers = 8
	k.options.History = schedule.NewHistory()
	k.options.Capacity = schedule.Resources{MemoryBytes: 1 << 30}
	k.options.History.Observe(schedule.Observation{Instance: "x", Repo: "owner/name", Seconds: 10, MemoryBytes: 300 << 20})
	running, most := 0, 0
	k.phases["test.sh"] = func(ctx context.Context, box *sandboxtest.FakeSandbox, cmd sandbox.Command) (sandbox.Result, error) {
		k.mu.Lock()
		running++
		most = max(most, running)
		k.mu.Unlock()
		defer func() { k.mu.Lock(); running--; k.mu.Unlock() }()
		return takes(time.Minute, prints(passing, 0))(ctx, box, cmd)
	}
	attempts, _, err := k.run(t, nil, jobs(20)...)
	if err != nil || outcomes(attempts)[grading.Resolved] != 20 {
		t.Errorf("%v, %v", outcomes(attempts), err)
	}
	if most != 3 {
		t.Errorf("%d ran at once, want the 3 that fit", most)
	}
}

// When the deadline comes, what is done is kept, what runs is ended, and the rest
// is not run; nothing of it is scored.
func TestDeadline(t *testing.T) {
	k := newKit(t)
	k.phases["test.sh"] = takes(time.Minute, prints(passing, 0))
	// A bubble's clock begins at midnight, 2000-01-01.
	k.options.Deadline = time.Date(2000, 1, 1, 0, 2, 30, 0, time.UTC)
	attempts, left, err := k.run(t, nil, jobs(10)...)
	if !errors.Is(err, runner.ErrDeadline) || len(left) > 0 {
		t.Errorf("%v, %v", err, left)
	}
	want := map[grading.Outcome]int{grading.Resolved: 4, grading.NotRun: 6}
	if diff := cmp.Diff(want, outcomes(attempts)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, a := range attempts {
		if a.Outcome == grading.NotRun && !strings.Contains(a.Reason, "deadline") {
			t.Errorf("%s: %q", a.InstanceID, a.Reason)
		}
	}
	if n := len(k.stored(t)); n != 4 {
		t.Errorf("%d records are on disk, want 4", n)
	}
}

// The range for the rest holds what it says, here where all is known.
func TestTimeLeft(t *testing.T) {
	k := newKit(t)
	k.options.History = schedule.NewHistory()
	for range 10 {
		k.options.History.Observe(schedule.Observation{Instance: "x", Repo: "owner/name", Seconds: 60})
	}
	r := runner.New(k.options)
	if _, _, ok := r.Left(); ok {
		t.Error("before it has begun something is said")
	}
	var said [][2]time.Duration
	k.phases["test.sh"] = func(ctx context.Context, box *sandboxtest.FakeSandbox, cmd sandbox.Command) (sandbox.Result, error) {
		low, high, ok := k.runner.Left()
		if !ok {
			t.Error("nothing is said, with a history")
		}
		k.mu.Lock()
		said = append(said, [2]time.Duration{low, high})
		k.mu.Unlock()
		return takes(time.Minute, prints(passing, 0))(ctx, box, cmd)
	}
	if _, _, err := k.run(t, nil, jobs(10)...); err != nil {
		t.Fatal(err)
	}
	for i, s := range said {
		left := time.Duration(5-i/2) * time.Minute
		if s[0] > left || s[1] < left {
			t.Errorf("at the %dth the range is %s to %s, and %s are left", i, s[0], s[1], left)
		}
	}
	if slices.IsSortedFunc(said, func(a, b [2]time.Duration) int { return int(a[1] - b[1]) }) {
		t.Error("the range does not shrink")
	}
}
