package runner_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/runner"
	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/sandboxtest"
)

// Nothing of the row's or the model's runs before it is certain that sandboxes are cut
// off; what is ours goes on meanwhile.
func TestCutOff(t *testing.T) {
	for _, script := range []string{"setup.sh", "test.sh"} {
		t.Run(script, func(t *testing.T) {
			k := newKit(t)
			var proven, applied, ran time.Time
			k.options.Network = func(ctx context.Context, image runner.Image) (string, error) {
				if image.Ref != "image-of-a" {
					t.Errorf("asked about the image %+v", image)
				}
				err := sandboxtest.Sleep(ctx, time.Minute)
				proven = time.Now()
				return "none (verified)", err
			}
			note := func(name string, when *time.Time) {
				next := k.phases[name]
				k.phases[name] = func(ctx context.Context, box *sandboxtest.FakeSandbox, cmd sandbox.Command) (sandbox.Result, error) {
					*when = time.Now()
					return next(ctx, box, cmd)
				}
			}
			note("apply.sh", &applied)
			note(script, &ran)
			set := withEvaluation(func(e *datasets.Evaluation) {
				if script == "setup.sh" {
					e.Setup = "set up"
				}
			})
			attempts, _, err := k.run(t, nil, job("a", set))
			if a := attempts[0]; err != nil || a.Outcome != grading.Resolved || a.Network != "none (verified)" {
				t.Fatalf("%s %q, network %q, %v", a.Outcome, a.Reason, a.Network, err)
			}
			if !applied.Before(proven) || ran.Before(proven) {
				t.Errorf("applied %s before the proof, ran %s after it", proven.Sub(applied), ran.Sub(proven))
			}
		})
	}
}

// A sandbox that is not cut off ends the run, and is no result of the model's.
func TestNotCutOff(t *testing.T) {
	k := newKit(t)
	k.options.Workers = 1
	open := errors.New("the sandbox is not cut off")
	k.options.Network = func(context.Context, runner.Image) (string, error) {
		return "", fmt.Errorf("%w: %w", runner.ErrEndRun, open)
	}
	attempts, _, err := k.run(t, nil, job("a"), job("b"), job("c"))
	if !errors.Is(err, open) {
		t.Errorf("the run ended with %v", err)
	}
	for _, a := range attempts {
		if a.Outcome != grading.InfraFailed && a.Outcome != grading.NotRun || a.Outcome == grading.InfraFailed && !strings.Contains(a.Reason, open.Error()) {
			t.Errorf("%s: %s %q", a.InstanceID, a.Outcome, a.Reason)
		}
	}
	if slices.ContainsFunc(k.ran, func(name string) bool { return strings.HasSuffix(name, "/test.sh") }) {
		t.Errorf("tests have run: %v", k.ran)
	}
}

// What a set-up has left running is over before the test files come back, and before the
// tests where none do.
func TestAloneAfterSetup(t *testing.T) {
	for _, withTestPatch := range []bool{true, false} {
		k := newKit(t)
		var order []string
		run := k.fake.OnExec
		k.fake.OnExec = func(ctx context.Context, box *sandboxtest.FakeSandbox, cmd sandbox.Command) (sandbox.Result, error) {
			order = append(order, fmt.Sprintf("%s %t", cmd.Argv[len(cmd.Argv)-1], cmd.Alone))
			return run(ctx, box, cmd)
		}
		set := withEvaluation(func(e *datasets.Evaluation) {
			e.Setup = "set up"
			if !withTestPatch {
				e.TestPatch = ""
			}
		})
		k.run(t, nil, job("a", set))
		setup := slices.Index(order, "/evalrun/setup.sh false")
		if setup < 0 || setup+2 >= len(order) {
			t.Fatalf("commands %q", order)
		}
		if next := order[setup+1]; !strings.HasSuffix(next, " true") {
			t.Errorf("after the set-up came %s; all: %q", next, order)
		}
	}
}
