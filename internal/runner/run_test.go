package runner_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/runner"
	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/sandboxtest"
	"github.com/evalrun/evalrun/internal/schedule"
	"github.com/evalrun/evalrun/reports"
)

func jobs(n int) []runner.Job {
	list := make([]runner.Job, n)
	for i := range list {
		list[i] = job(fmt.Sprintf("name-%02d", i))
	}
	return list
}

func outcomes(attempts []reports.Attempt) map[grading.Outcome]int {
	n := map[grading.Outcome]int{}
	for _, a := range attempts {
		n[a.Outcome]++
	}
	return n
}

// Records come in the order of the jobs, whatever order they end in, and no more
// sandboxes are there at once than the workers use and are being taken down.
func TestOrderAndBounds(t *testing.T) {
	for seed := range uint64(5) {
		k := newKit(t)
		k.options.Workers = 3
		random := rand.New(rand.NewPCG(seed, 0))
		delay := make(chan time.Duration, 1000)
		for range 1000 {
			delay <- time.Duration(random.IntN(10000)) * time.Millisecond
		}
		k.phases["test.sh"] = func(ctx context.Context, box *sandboxtest.FakeSandbox, cmd sandbox.Command) (sandbox.Result, error) {
			return takes(<-delay, prints(passing, 0))(ctx, box, cmd)
		}
		k.images.image = func(ctx context.Context, inst *datasets.Instance) (runner.Image, error) {
			return runner.Image{Ref: inst.ID}, sandboxtest.Sleep(ctx, <-delay)
		}
		k.fake.OnDestroy = func(ctx context.Context, _ *sandboxtest.FakeSandbox) error { return sandboxtest.Sleep(ctx, <-delay) }
		attempts, _, err := k.run(t, nil, jobs(40)...)
		if err != nil || outcomes(attempts)[grading.Resolved] != 40 {
			t.Errorf("seed %d: %v, %v", seed, outcomes(attempts), err)
		}
		if most := k.fake.Most(); most < 3 || most > 9 { // two lanes for each worker, 3 being taken down
			t.Errorf("seed %d: %d sandboxes at once with 3 workers", seed, most)
		}
		for w, text := range k.seen.workers {
			if text != "" {
				t.Errorf("worker %d still shows %q", w, text)
			}
		}
	}
}

// All models' jobs for one instance ask for its image one after another.
func TestOneBuilderPerInstance(t *testing.T) {
	k := newKit(t)
	k.options.Builders = 4
	asking := map[string]bool{}
	k.images.image = func(ctx context.Context, inst *datasets.Instance) (runner.Image, error) {
		k.mu.Lock()
		if asking[inst.ID] {
			t.Errorf("two builders ask for the image of %s", inst.ID)
		}
		asking[inst.ID] = true
		k.mu.Unlock()
		err := sandboxtest.Sleep(ctx, time.Second)
		k.mu.Lock()
		asking[inst.ID] = false
		k.mu.Unlock()
		return runner.Image{Ref: inst.ID}, err
	}
	var list []runner.Job
	for _, j := range jobs(5) {
		for _, model := range []string{"one", "two", "three"} {
			list = append(list, job(j.Instance.ID, func(j *runner.Job) { j.Prediction.Model = model }))
		}
	}
	attempts, _, err := k.run(t, nil, list...)
	if err != nil || outcomes(attempts)[grading.Resolved] != 15 {
		t.Errorf("%v, %v", outcomes(attempts), err)
	}
}

// One instance's missing image does not concern the others.
func TestBuildFailureIsAlone(t *testing.T) {
	k := newKit(t)
	k.images.image = func(_ context.Context, inst *datasets.Instance) (runner.Image, error) {
		if inst.ID == "name-01" {
			return runner.Image{}, errors.New("broken")
		}
		return runner.Image{Ref: inst.ID}, nil
	}
	attempts, _, err := k.run(t, nil, jobs(4)...)
	want := map[grading.Outcome]int{grading.Resolved: 3, grading.BuildFailed: 1}
	if diff := cmp.Diff(want, outcomes(attempts)); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// An engine that fails every time ends the run, and nothing is scored.
func TestBreaker(t *testing.T) {
	k := newKit(t)
	k.options.MaxEngineFailures = 5
	k.fake.OnStart = func(context.Context, sandbox.Spec) error { return sandboxtest.Trouble("cannot connect") }
	attempts, _, err := k.run(t, nil, jobs(20)...)
	if !errors.Is(err, runner.ErrEngineGone) || !strings.Contains(err.Error(), "cannot connect") {
		t.Errorf("the error is %v, want ErrEngineGone with the last failure", err)
	}
	// Each attempt is tried three times before it counts.
	if n := k.fake.Started(); n < 15 || n > 27 { // two lanes for each worker
		t.Errorf("%d starts were tried, want those of 5 attempts, or of some that were under way", n)
	}
	for _, a := range attempts {
		if a.Outcome != grading.NotRun && a.Outcome != grading.InfraFailed {
			t.Errorf("%s: %s %s", a.InstanceID, a.Outcome, a.Reason)
		}
	}
	if n := outcomes(attempts)[grading.NotRun]; n < 11 {
		t.Errorf("%d were not run, want most", n)
	}
}

// Failures that are not in a row do not end the run; nor do sandboxes that die
// of what runs in them.
func TestBreakerIsForRows(t *testing.T) {
	k := newKit(t)
	k.options.Workers, k.options.MaxEngineFailures = 1, 2
	k.phases["apply.sh"] = inTurn(
		fails(sandboxtest.Trouble("EOF")), k.phases["apply.sh"],
		fails(sandboxtest.Trouble("EOF")), k.phases["apply.sh"],
		fails(sandboxtest.Trouble("EOF")), k.phases["apply.sh"])
	attempts, _, err := k.run(t, nil, jobs(5)...)
	if err != nil || outcomes(attempts)[grading.Resolved] != 5 {
		t.Errorf("%v, %v", outcomes(attempts), err)
	}

	k = newKit(t)
	k.options.MaxEngineFailures = 2
	k.phases["test.sh"] = dies
	attempts, _, err = k.run(t, nil, jobs(8)...)
	if err != nil || outcomes(attempts)[grading.Unresolved] != 8 {
		t.Errorf("dying sandboxes: %v, %v", outcomes(attempts), err)
	}
}

// Interrupted, the run keeps what was done and says what was not.
func TestInterrupt(t *testing.T) {
	k := newKit(t)
	stopped := errors.New("interrupted by the user")
	k.phases["test.sh"] = takes(time.Minute, prints(passing, 0))
	ctx := func() context.Context {
		ctx, cancel := context.WithCancelCause(context.Background())
		time.AfterFunc(150*time.Second, func() { cancel(stopped) })
		return ctx
	}
	attempts, _, err := k.run(t, ctx, jobs(10)...)
	if !errors.Is(err, stopped) {
		t.Errorf("the error is %v, want the cause of the interruption", err)
	}
	want := map[grading.Outcome]int{grading.Resolved: 4, grading.NotRun: 6}
	if diff := cmp.Diff(want, outcomes(attempts)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	stored := k.stored(t)
	for _, a := range attempts {
		if _, ok := stored[a.InstanceID]; ok != (a.Outcome == grading.Resolved) {
			t.Errorf("%s is %s, and on disk: %v", a.InstanceID, a.Outcome, ok)
		}
		if a.Outcome == grading.NotRun && a.Reason == "" {
			t.Errorf("%s was not run for no reason", a.InstanceID)
		}
	}
	if len(k.seen.done) != 4 {
		t.Errorf("%d are said to be done", len(k.seen.done))
	}
}

// At whatever moment it comes, an interrupt leaves nothing behind and no wrong
// result.
func TestInterruptAnywhere(t *testing.T) {
	for i := range 30 {
		k := newKit(t)
		for name, p := range k.phases {
			k.phases[name] = takes(time.Second, p)
		}
		k.phases["test.sh"] = inTurn(fails(sandboxtest.Trouble("EOF")), k.phases["test.sh"])
		k.fake.OnStart = func(ctx context.Context, _ sandbox.Spec) error { return sandboxtest.Sleep(ctx, time.Second) }
		k.images.image = func(ctx context.Context, inst *datasets.Instance) (runner.Image, error) {
			return runner.Image{Ref: inst.ID}, sandboxtest.Sleep(ctx, time.Second)
		}
		ctx := func() context.Context {
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(time.Duration(i)*900*time.Millisecond, cancel)
			return ctx
		}
		attempts, left, err := k.run(t, ctx, jobs(6)...)
		if err != nil && !errors.Is(err, context.Canceled) || len(left) > 0 {
			t.Errorf("after %d times 0.9 s: %v, %v", i, err, left)
		}
		for _, a := range attempts {
			if a.Outcome != grading.Resolved && a.Outcome != grading.NotRun {
				t.Errorf("after %d times 0.9 s: %s %s", i, a.Outcome, a.Reason)
			}
		}
	}
}

// ledger takes an attempt's own result, or else one of the same key.
type ledger struct {
	mu       sync.Mutex
	started  []string
	finished []reports.Attempt
}

func (l *ledger) Result(_ context.Context, want *reports.Attempt, _ *datasets.Instance) (*reports.Attempt, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.finished {
		if a.Key != want.Key || !a.Outcome.Evaluated() {
			continue
		}
		if a.Resumed = a.ID() == want.ID(); a.Resumed {
			return &a, nil
		}
		if a.RunKey == want.RunKey && a.Outcome != grading.TimedOut {
			from := a.Origin()
			a.Model, a.Attempt, a.ReusedFrom = want.Model, want.Attempt, &from
			return &a, nil
		}
	}
	return nil, nil
}

func (l *ledger) Earlier(id reports.AttemptID) (*reports.Attempt, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range slices.Backward(l.finished) {
		if a.ID() == id {
			return &a, nil
		}
	}
	return nil, nil
}

func (l *ledger) Holds(id reports.AttemptID) bool {
	a, _ := l.Earlier(id)
	return a != nil && a.Outcome.Evaluated()
}

func (l *ledger) Started(a *reports.Attempt) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.started = append(l.started, a.InstanceID)
	return nil
}

func (l *ledger) Finished(a *reports.Attempt) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finished = append(l.finished, *a)
	return nil
}

// Results of an earlier call are taken as long as they still hold.
func TestResume(t *testing.T) {
	first := newKit(t)
	// By instance, as scripts before the tests of one run beside the tests of another.
	only := func(id string, then, otherwise phase) phase {
		return func(ctx context.Context, box *sandboxtest.FakeSandbox, cmd sandbox.Command) (sandbox.Result, error) {
			if box.Spec.Labels["evalrun.instance"] == id {
				return then(ctx, box, cmd)
			}
			return otherwise(ctx, box, cmd)
		}
	}
	first.phases["test.sh"] = only("unresolved", prints(failing, 1), prints(passing, 0))
	first.phases["apply.sh"] = only("broken", fails(sandboxtest.Trouble("EOF")), first.phases["apply.sh"])
	first.options.Workers, first.options.Builders, first.options.MaxEngineFailures = 1, 1, 100
	all := []runner.Job{job("resolved"), job("unresolved"), job("broken"), job("empty", withPatch(""))}
	before, _, err := first.run(t, nil, all...)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		edit func(*kit, []runner.Job)
		runs int // jobs that are made again
	}{
		{"the same", func(*kit, []runner.Job) {}, 1},
		{"other patch", func(_ *kit, j []runner.Job) { withPatch(strings.ReplaceAll(goodPatch, "new", "newer"))(&j[0]) }, 2},
		{"other limit", func(k *kit, _ []runner.Job) { k.options.Limits.Sandbox.MemoryBytes++ }, 3},
		{"other time limit", func(k *kit, _ []runner.Job) { k.options.Limits.Timeout++ }, 3},
		{"other rules", func(k *kit, _ []runner.Job) { k.options.Rules = grading.Strict }, 3},
		{"other row", func(_ *kit, j []runner.Job) { j[1].Instance.PassToPass = nil }, 2},
		{"other image", func(k *kit, _ []runner.Job) {
			k.images.image = func(context.Context, *datasets.Instance) (runner.Image, error) {
				return runner.Image{Ref: "x", Digest: "sha256:other"}, nil
			}
		}, 3},
		{"other model", func(_ *kit, j []runner.Job) {
			for i := range j {
				j[i].Prediction.Model = "another"
			}
		}, 1}, // the others are at the same patches
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := newKit(t)
			known := &ledger{}
			for _, a := range before {
				known.Finished(&a)
			}
			k.options.Ledger, k.options.History = known, schedule.NewHistory()
			again := []runner.Job{job("resolved"), job("unresolved"), job("broken"), job("empty", withPatch(""))}
			tt.edit(k, again)
			attempts, _, err := k.run(t, nil, again...)
			if err != nil {
				t.Fatal(err)
			}
			if n := k.fake.Started(); n != tt.runs {
				t.Errorf("%d were run again, want %d", n, tt.runs)
			}
			if tt.name == "the same" {
				if e := k.options.History.Estimate("resolved", "owner/name"); e.Level == schedule.ByInstance {
					t.Errorf("what was not run is remembered: %+v", e)
				}
			}
			reused := 0
			for i, a := range attempts {
				if a.Resumed {
					reused++
					want := before[i]
					if diff := cmp.Diff(want.Outcome, a.Outcome); diff != "" || a.Key != want.Key {
						t.Errorf("%s was taken over as something else:\n%s", a.InstanceID, diff)
					}
				}
			}
			if want := len(again) - tt.runs; reused != want && tt.name != "other model" && reused != want-1 {
				t.Errorf("%d were taken over, want %d", reused, want)
			}
			if len(k.seen.done) != len(again) {
				t.Errorf("%d were told as done, want all", len(k.seen.done))
			}
		})
	}
}

// A sandbox that cannot be removed is told, and changes no outcome.
func TestLeftovers(t *testing.T) {
	k := newKit(t)
	k.fake.OnDestroy = func(_ context.Context, box *sandboxtest.FakeSandbox) error {
		if box.Spec.Labels["evalrun.instance"] == "name-01" {
			return errors.New("device busy")
		}
		return nil
	}
	attempts, left, err := k.run(t, nil, jobs(3)...)
	if err != nil || outcomes(attempts)[grading.Resolved] != 3 {
		t.Errorf("%v, %v", outcomes(attempts), err)
	}
	if len(left) != 1 || left[0].InstanceID != "name-01" || !strings.Contains(left[0].Err.Error(), "device busy") {
		t.Errorf("left over: %+v", left)
	}
}

// Results that cannot be written end the run: nothing is worth doing unrecorded.
func TestCannotWrite(t *testing.T) {
	k := newKit(t)
	files := k.options.Layout.Instance("run", "model", "name-03")
	if err := os.MkdirAll(k.options.Layout.ModelDir("run", "model"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files.Dir, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	attempts, _, err := k.run(t, nil, jobs(20)...)
	if err == nil || !strings.Contains(err.Error(), "name-03") {
		t.Errorf("the error is %v, want one that names the instance", err)
	}
	if n := outcomes(attempts); n[grading.NotRun] < 10 || n[grading.NotRun]+n[grading.Resolved] != 20 {
		t.Errorf("%v", n)
	}
}
