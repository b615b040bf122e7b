package runner_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/cause"
	"github.com/evalrun/evalrun/internal/runner"
	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/sandboxtest"
)

func broken(c cause.Cause, text string) error {
	return &sandbox.EngineError{Op: "fake", Err: cause.As(c, errors.New(text))}
}

// outage is when an engine is away, counted from the start of the bubble.
type outage struct{ from, to time.Duration }

// away makes an engine of the fake that goes away now and then: nothing starts, runs or
// goes, and what ran is dead. Tests take their time, other commands three seconds.
func (k *kit) away(tests time.Duration, outages ...outage) {
	now := func() time.Duration { return time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) }
	gone := func() error {
		if slices.ContainsFunc(outages, func(o outage) bool { return now() >= o.from && now() < o.to }) {
			return broken(cause.Engine, "connection refused")
		}
		return nil
	}
	k.fake.OnStart = func(context.Context, sandbox.Spec) error { return gone() }
	k.fake.OnDestroy = func(context.Context, *sandboxtest.FakeSandbox) error { return gone() }
	k.images.image = func(_ context.Context, inst *datasets.Instance) (runner.Image, error) {
		return runner.Image{Ref: inst.ID}, gone()
	}
	for name, p := range k.phases {
		k.phases[name] = func(ctx context.Context, box *sandboxtest.FakeSandbox, cmd sandbox.Command) (sandbox.Result, error) {
			if err := gone(); err != nil {
				return sandbox.Result{ExitCode: -1}, err
			}
			lasts := 3 * time.Second
			if name == "test.sh" {
				lasts = tests
			}
			for _, o := range outages {
				if until := o.from - now(); until >= 0 {
					lasts = min(lasts, until)
				}
			}
			res, err := takes(lasts, p)(ctx, box, cmd)
			if lost := gone(); lost != nil {
				return sandbox.Result{ExitCode: -1}, lost
			}
			return res, err
		}
	}
}

// A daemon that is started anew in the middle costs time and no result: not those
// that ran, not those whose images were asked for.
func TestDaemonRestart(t *testing.T) {
	for from := range 20 {
		k := newKit(t)
		k.options.Workers, k.options.Builders = 3, 2
		begin := time.Duration(from) * 1700 * time.Millisecond
		k.away(3*time.Second, outage{begin, begin + time.Minute})
		attempts, left, err := k.run(t, nil, jobs(12)...)
		if err != nil || len(left) > 0 || outcomes(attempts)[grading.Resolved] != 12 {
			t.Errorf("gone after %s for a minute: %v, %v, left %v", begin, outcomes(attempts), err, left)
		}
	}
}

// Tests may run for longer than a daemon may stay away: a second restart before any of
// them has come to its end is not the first one going on.
func TestDaemonRestartsTwice(t *testing.T) {
	for from := range 10 {
		k := newKit(t)
		k.options.Workers, k.options.Builders = 3, 2
		first := time.Duration(from) * 7 * time.Second
		second := first + 8*time.Minute
		k.away(10*time.Minute, outage{first, first + 30*time.Second}, outage{second, second + 30*time.Second})
		attempts, left, err := k.run(t, nil, jobs(8)...)
		if err != nil || len(left) > 0 || outcomes(attempts)[grading.Resolved] != 8 {
			t.Errorf("gone after %s and %s for half a minute: %v, %v, left %v", first, second, outcomes(attempts), err, left)
		}
	}
}

// One that stays away ends the run; nothing is scored, and what is wrong is said
// together with what to do.
func TestDaemonStaysAway(t *testing.T) {
	k := newKit(t)
	k.away(3*time.Second, outage{20 * time.Second, time.Hour})
	began := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	var ended time.Duration
	k.options.Events = func(ev runner.Event) {
		k.mu.Lock()
		defer k.mu.Unlock()
		ended = max(ended, ev.At.Sub(began))
	}
	attempts, _, err := k.run(t, nil, jobs(40)...)
	if !errors.Is(err, runner.ErrEngineGone) || !strings.Contains(err.Error(), cause.Engine.String()) || !strings.Contains(err.Error(), cause.Engine.Advice()) {
		t.Errorf("the error is %v", err)
	}
	if ended > 10*time.Minute {
		t.Errorf("it took %s to give up", ended)
	}
	for _, a := range attempts {
		if a.Outcome != grading.Resolved && a.Outcome != grading.NotRun && a.Outcome != grading.InfraFailed {
			t.Errorf("%s: %s %s", a.InstanceID, a.Outcome, a.Reason)
		}
	}
	if n := outcomes(attempts); n[grading.NotRun] < 20 {
		t.Errorf("%v", n)
	}
}

// What a patch does may be why the daemon goes away: one attempt does not wait for
// ever, and the others go on. It is the patch's where the tests work without it.
func TestAttemptThatEndsTheDaemon(t *testing.T) {
	for name, always := range map[string]bool{"with the patch": false, "with and without": true} {
		k := newKit(t)
		patched := map[*sandboxtest.FakeSandbox]bool{}
		applies, passes := k.phases["apply.sh"], k.phases["test.sh"]
		k.phases["apply.sh"] = func(ctx context.Context, box *sandboxtest.FakeSandbox, cmd sandbox.Command) (sandbox.Result, error) {
			k.mu.Lock()
			patched[box] = true
			k.mu.Unlock()
			return applies(ctx, box, cmd)
		}
		k.phases["test.sh"] = func(ctx context.Context, box *sandboxtest.FakeSandbox, cmd sandbox.Command) (sandbox.Result, error) {
			k.mu.Lock()
			breaks := box.Spec.Labels["evalrun.instance"] == "name-03" && (always || patched[box])
			k.mu.Unlock()
			if breaks {
				return sandbox.Result{ExitCode: -1}, broken(cause.Engine, "unexpected EOF")
			}
			return takes(time.Second, passes)(ctx, box, cmd)
		}
		want := grading.Unresolved
		if always {
			want = grading.InfraFailed
		}
		attempts, _, err := k.run(t, nil, jobs(8)...)
		if err != nil || outcomes(attempts)[grading.Resolved] != 7 || attempts[3].Outcome != want {
			t.Errorf("%s: %v, %v; want the fourth %s", name, outcomes(attempts), err, want)
		}
	}
}

// A run that is interrupted while it waits for an engine that has gone in the last try says
// nothing of the patch.
func TestInterruptedInTheLastTry(t *testing.T) {
	k := newKit(t)
	var cancel context.CancelFunc
	slow := fails(sandboxtest.Trouble("too slow"))
	k.phases["test.sh"] = inTurn(slow, slow, slow, prints(passing, 0), func(context.Context, *sandboxtest.FakeSandbox, sandbox.Command) (sandbox.Result, error) {
		time.AfterFunc(10*time.Millisecond, cancel)
		return sandbox.Result{ExitCode: -1}, broken(cause.Engine, "unexpected EOF")
	})
	attempts, _, err := k.run(t, func() (ctx context.Context) {
		ctx, cancel = context.WithCancel(context.Background())
		return ctx
	}, job("a"))
	if !errors.Is(err, context.Canceled) || attempts[0].Outcome != grading.NotRun {
		t.Errorf("%v, %s: %s", err, attempts[0].Outcome, attempts[0].Reason)
	}
}

// What may pass is tried as often for an image as for a sandbox, and what may not, or
// was tried again by who pulls, is not. Each time it is told whether it will be.
func TestImageTries(t *testing.T) {
	for _, tt := range []struct {
		cause cause.Cause
		tries int
		want  grading.Outcome
	}{
		{cause.Timeout, 3, grading.InfraFailed}, {cause.Disk, 3, grading.InfraFailed}, {cause.Memory, 3, grading.InfraFailed},
		{cause.Network, 1, grading.BuildFailed}, {cause.Image, 1, grading.BuildFailed}, {cause.Unknown, 1, grading.InfraFailed},
	} {
		for failures := 1; failures <= tt.tries; failures++ {
			k := newKit(t)
			asked, again := 0, []bool{}
			k.images.image = func(_ context.Context, inst *datasets.Instance) (runner.Image, error) {
				if asked++; asked <= failures {
					return runner.Image{}, broken(tt.cause, "trouble")
				}
				return runner.Image{Ref: inst.ID}, nil
			}
			k.options.Events = func(ev runner.Event) {
				k.mu.Lock()
				defer k.mu.Unlock()
				if ev.Kind == runner.Trouble {
					again = append(again, ev.Again)
				}
			}
			wantAsked, wantAgain, want := failures+1, slices.Repeat([]bool{true}, failures), grading.Resolved
			if failures == tt.tries {
				wantAsked, want = tt.tries, tt.want
				wantAgain[failures-1] = false
			}
			a := k.one(t, job("a"))
			if a.Outcome != want || asked != wantAsked || !slices.Equal(again, wantAgain) {
				t.Errorf("%s, %d times: %s after it was asked for %d times, told to be tried again %v; want %s, %d, %v",
					tt.cause, failures, a.Outcome, asked, again, want, wantAsked, wantAgain)
			}
		}
	}
}

// patches are jobs at one instance, each with a patch of its own.
func patches(id string, n int) []runner.Job {
	list := make([]runner.Job, n)
	for i := range list {
		list[i] = job(id, withPatch(strings.ReplaceAll(goodPatch, "+new", fmt.Sprint("+new ", i))), func(j *runner.Job) { j.Prediction.Model = fmt.Sprint("model ", i) })
	}
	return list
}

// Patches that need one image which cannot be had come in a row, and are no sign of what
// is wrong with the machine; as many images are.
func TestOneBadImage(t *testing.T) {
	unreachable := func(bad func(id string) bool) *kit {
		k := newKit(t)
		k.options.Workers, k.options.Builders = 1, 1
		k.phases["test.sh"] = takes(time.Minute, prints(passing, 0))
		k.images.image = func(_ context.Context, inst *datasets.Instance) (runner.Image, error) {
			if bad(inst.ID) {
				return runner.Image{}, cause.As(cause.Network, errors.New("i/o timeout"))
			}
			return runner.Image{Ref: inst.ID}, nil
		}
		return k
	}
	k := unreachable(func(id string) bool { return id == "bad" })
	attempts, _, err := k.run(t, nil, append(patches("bad", 8), jobs(20)...)...)
	want := map[grading.Outcome]int{grading.Resolved: 20, grading.BuildFailed: 8}
	if diff := cmp.Diff(want, outcomes(attempts)); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}

	k = unreachable(func(string) bool { return true })
	var list []runner.Job
	for i := range 10 {
		list = append(list, patches(fmt.Sprint("bad-", i), 3)...)
	}
	attempts, _, err = k.run(t, nil, list...)
	if !errors.Is(err, runner.ErrEngineGone) || !strings.Contains(err.Error(), cause.Network.Advice()) {
		t.Errorf("the error is %v, want one with %q", err, cause.Network.Advice())
	}
	if n := outcomes(attempts)[grading.NotRun]; n < 10 || n > 20 { // the fifth image is that of the 13th attempt
		t.Errorf("%v", outcomes(attempts))
	}
}

// The breaker tells failures that are alike from those that are not.
func TestBreakerCauses(t *testing.T) {
	tests := []struct {
		name  string
		image func(n int) error // of the n-th image asked for
		start func(n int) error // of the n-th sandbox
		stops string            // what the error of the run names; "" is no error
	}{
		{name: "disk", start: func(int) error { return broken(cause.Disk, "no space left on device") }, stops: cause.Disk.Advice()},
		{name: "no image at all", image: func(int) error { return cause.As(cause.Image, errors.New("manifest unknown")) }, stops: cause.Image.Advice()},
		{name: "no image after the first", image: func(n int) error {
			if n == 0 {
				return nil
			}
			return cause.As(cause.Image, errors.New("manifest unknown"))
		}},
		{name: "the registry cannot be reached", image: func(int) error { return cause.As(cause.Network, errors.New("i/o timeout")) }, stops: cause.Network.Advice()},
		{name: "every recipe is broken", image: func(int) error { return errors.New("exit code: 1") }},
		{name: "in turn", start: func(n int) error {
			return broken([]cause.Cause{cause.Disk, cause.Memory}[n/3%2], "trouble")
		}, stops: "20 in a row, of different causes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := newKit(t)
			k.options.Workers, k.options.Builders = 1, 1
			var mu sync.Mutex
			asked, started := 0, 0
			k.images.image = func(_ context.Context, inst *datasets.Instance) (runner.Image, error) {
				mu.Lock()
				defer mu.Unlock()
				asked++
				if tt.image == nil {
					return runner.Image{Ref: inst.ID}, nil
				}
				return runner.Image{Ref: inst.ID}, tt.image(asked - 1)
			}
			k.fake.OnStart = func(context.Context, sandbox.Spec) error {
				mu.Lock()
				defer mu.Unlock()
				started++
				if tt.start == nil {
					return nil
				}
				return tt.start(started - 1)
			}
			// One lane, so that failures come in a row.
			attempts, _, err := k.run(t, nil, jobs(60)...)
			if tt.stops == "" {
				if err != nil || outcomes(attempts)[grading.NotRun] > 0 {
					t.Errorf("%v, %v", outcomes(attempts), err)
				}
				return
			}
			if !errors.Is(err, runner.ErrEngineGone) || !strings.Contains(err.Error(), tt.stops) {
				t.Errorf("the error is %v, want one with %q", err, tt.stops)
			}
			if n := outcomes(attempts)[grading.NotRun]; n < 30 {
				t.Errorf("%v: it should have stopped before", outcomes(attempts))
			}
		})
	}
}

// The first failure is told when it happens, with the instance and its cause, and
// everything that happens to a job in its order.
func TestEvents(t *testing.T) {
	k := newKit(t)
	k.options.Workers, k.options.Builders = 1, 1
	k.fake.OnStart = func(context.Context, sandbox.Spec) error {
		if k.fake.Started() == 1 {
			return broken(cause.Memory, "cannot allocate memory")
		}
		return nil
	}
	k.phases["test.sh"] = takes(7*time.Second, prints(passing, 0))
	var got []string
	k.options.Events = func(ev runner.Event) {
		text := fmt.Sprintf("%s: %s", ev.Job.Instance.ID, ev.Kind)
		if ev.Err != nil {
			text += fmt.Sprintf(", %s", cause.Of(ev.Err))
		}
		if ev.Again {
			text += ", tried again"
		}
		if ev.Kind == runner.Finished {
			text += fmt.Sprintf(" after %s: %s", ev.Took.Truncate(time.Second)-ev.Took.Truncate(time.Second)%(5*time.Second), ev.Attempt.Outcome)
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		got = append(got, text)
	}
	a := k.one(t, job("a"))
	want := []string{
		"a: image ready", "a: sandbox started, the host is out of memory", "a: trouble, the host is out of memory, tried again",
		"a: sandbox started", "a: at work", "a: finished after 5s: resolved",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(a.Warnings) != 1 || !strings.Contains(a.Warnings[0], "cannot allocate memory") {
		t.Errorf("the record says %q", a.Warnings)
	}
	last := a.Phases[len(a.Phases)-1]
	if last.Name != "test" || last.Seconds != 7 || last.At < 0 || last.At > 3 {
		t.Errorf("the tests ran for %g s at %g s", last.Seconds, last.At)
	}
}
