package runner_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/runner"
	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/sandboxtest"
)

// Those that may be made from another job's image are told of before that one is done
// with it.
func TestFollowersAreToldOf(t *testing.T) {
	k := newKit(t)
	k.options.Ledger = &ledger{}
	k.phases["test.sh"] = hangs("") // so that they are made, too
	var mu sync.Mutex
	var told []string
	k.options.Events = func(ev runner.Event) {
		mu.Lock()
		defer mu.Unlock()
		switch ev.Kind {
		case runner.Follows, runner.Started, runner.Finished:
			told = append(told, string(ev.Kind)+" "+ev.Job.Prediction.Model)
		}
	}
	var jobs []runner.Job
	for _, model := range []string{"a", "b"} {
		jobs = append(jobs, job("name", func(j *runner.Job) { j.Prediction.Model = model }))
	}
	if _, _, err := k.run(t, nil, jobs...); err != nil {
		t.Fatal(err)
	}
	if want := []string{"follows b", "sandbox started a", "finished a", "sandbox started b", "finished b"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// What one hanging patch of many models takes is the time of two: of the first, and of all
// others beside each other, as many at a time as there are workers.
func TestFollowersDoNotQueue(t *testing.T) {
	for workers, want := range map[int]time.Duration{8: 2, 2: 5, 1: 8} {
		k := newKit(t)
		k.options.Ledger, k.options.Workers = &ledger{}, workers
		k.phases["test.sh"] = hangs("")
		var jobs []runner.Job
		for i := range 8 {
			jobs = append(jobs, job("name", func(j *runner.Job) { j.Prediction.Model = fmt.Sprint(i) }))
		}
		var mu sync.Mutex
		var last time.Time
		k.options.Events = func(ev runner.Event) {
			mu.Lock()
			defer mu.Unlock()
			last = ev.At
		}
		attempts, _, err := k.run(t, nil, jobs...)
		if err != nil || outcomes(attempts)[grading.TimedOut] != 8 {
			t.Errorf("%d workers: %v, %v", workers, outcomes(attempts), err)
		}
		// A bubble's clock begins at midnight, 2000-01-01.
		took := last.Sub(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
		if limit := k.options.Limits.Timeout; took < want*limit || took > want*limit+time.Minute {
			t.Errorf("%d workers: it took %s, want %s", workers, took, want*limit)
		}
		if most := k.fake.Most(); most > 3*workers { // two lanes for each, and those being taken down
			t.Errorf("%d workers: %d sandboxes at once", workers, most)
		}
	}
}

// Where a failure says nothing of the patch, the next that is at it is made alone: the
// others may take its result.
func TestFollowersOfAFailure(t *testing.T) {
	k := newKit(t)
	k.options.Ledger, k.options.Workers, k.options.MaxEngineFailures = &ledger{}, 8, 100
	var mu sync.Mutex
	starts := 0
	k.fake.OnStart = func(context.Context, sandbox.Spec) error {
		mu.Lock()
		defer mu.Unlock()
		if starts++; starts <= 3 { // all tries of the first
			return sandboxtest.Trouble("EOF")
		}
		return nil
	}
	var jobs []runner.Job
	for i := range 8 {
		jobs = append(jobs, job("name", func(j *runner.Job) { j.Prediction.Model = fmt.Sprint(i) }))
	}
	attempts, _, err := k.run(t, nil, jobs...)
	if n := outcomes(attempts); err != nil || n[grading.InfraFailed] != 1 || n[grading.Resolved] != 7 || starts != 4 {
		t.Errorf("%v with %d starts, %v", n, starts, err)
	}
}

// One patch for one instance is run once, whoever else gave it; what is no result
// of the patch alone is nobody else's.
func TestSamePatch(t *testing.T) {
	another := func(model string, edits ...func(*runner.Job)) runner.Job {
		return job("name", append(edits, func(j *runner.Job) { j.Prediction.Model = model })...)
	}
	other := withPatch(strings.ReplaceAll(goodPatch, "new", "newer"))
	repeat := func(n int) func(*runner.Job) {
		return func(j *runner.Job) { j.Attempt, j.Repetition = n+1, n }
	}
	tests := []struct {
		name  string
		jobs  []runner.Job
		edit  func(*kit)
		runs  int
		taken int
	}{
		{"three models", []runner.Job{another("a"), another("b"), another("c")}, nil, 1, 2},
		{"two patches", []runner.Job{another("a"), another("b", other), another("c"), another("d", other)}, nil, 2, 2},
		{"repeated on purpose", []runner.Job{another("a"), another("a", repeat(1)), another("a", repeat(2))}, nil, 3, 0},
		{"no patch", []runner.Job{another("a", withPatch("")), another("b", withPatch(""))}, nil, 0, 0},
		{"apart", []runner.Job{another("a"), another("b")}, func(k *kit) { k.options.Apart = true }, 2, 0},
		{"timed out", []runner.Job{another("a"), another("b"), another("c")}, func(k *kit) { k.phases["test.sh"] = hangs("") }, 3, 0},
		{"the engine fails", []runner.Job{another("a"), another("b")}, func(k *kit) {
			k.fake.OnStart = func(context.Context, sandbox.Spec) error { return sandboxtest.Trouble("EOF") }
			k.options.MaxEngineFailures = 100
		}, 6, 0}, // each is tried three times
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := newKit(t)
			known := &ledger{}
			k.options.Ledger, k.options.Workers = known, 1
			if tt.edit != nil {
				tt.edit(k)
			}
			if k.options.Apart {
				known = &ledger{}
				k.options.Ledger = nil
			}
			attempts, _, err := k.run(t, nil, tt.jobs...)
			if err != nil {
				t.Fatal(err)
			}
			taken := 0
			for i, a := range attempts {
				if a.Outcome != attempts[0].Outcome || a.Outcome == grading.NotRun {
					t.Errorf("record %d is %s %s", i, a.Outcome, a.Reason)
				}
				if a.ReusedFrom != nil {
					taken++
					files := k.options.Layout.Attempt(a.Attempt).Instance(a.RunID, a.Model, a.InstanceID)
					for _, path := range []string{files.Patch, files.EvalScript, files.Report, files.Attempt, files.Log} {
						if _, err := os.Stat(path); err != nil {
							t.Error(err)
						}
					}
				}
			}
			if n := k.fake.Started(); n != tt.runs || taken != tt.taken {
				t.Errorf("%d sandboxes and %d results taken, want %d and %d", n, taken, tt.runs, tt.taken)
			}
			if len(k.seen.done) != len(tt.jobs) {
				t.Errorf("%d were told as done, want all", len(k.seen.done))
			}
		})
	}
}

// Of several at one patch, the first of which is an earlier result and took no image,
// those that have to be made get one.
func TestFollowersOfAnEarlierResult(t *testing.T) {
	for _, hanging := range []bool{false, true} {
		k := newKit(t)
		known := &ledger{}
		k.options.Ledger = known
		if hanging {
			k.phases["test.sh"] = hangs("")
		}
		model := func(name string) runner.Job {
			return job("name", func(j *runner.Job) { j.Prediction.Model = name })
		}
		k.one(t, model("a"))
		asked := 0
		image, _ := k.images.Image(t.Context(), model("a").Instance)
		k.images.there = func(*datasets.Instance) (runner.Image, bool, error) { return image, true, nil }
		k.images.image = func(context.Context, *datasets.Instance) (runner.Image, error) {
			k.mu.Lock()
			defer k.mu.Unlock()
			asked++
			return image, nil
		}
		attempts, _, err := k.run(t, nil, model("a"), model("b"), model("c"))
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{}
		for _, a := range attempts {
			if a.Outcome != attempts[0].Outcome {
				t.Errorf("%s: %s", a.Model, a.Outcome)
			}
			got[a.Model] = a.Resumed
		}
		want := 0
		if hanging {
			want = 2
		}
		if asked != want || !maps.Equal(got, map[string]bool{"a": true, "b": false, "c": false}) {
			t.Errorf("hanging %v: asked for %d images, resumed %v", hanging, asked, got)
		}
	}
}
