package runner

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/grading/logparse"
	"github.com/evalrun/evalrun/internal/patch"
	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/reports"
)

// Where the checkout and our files stand in a sandbox.
const (
	workDir = "/testbed"
	ourDir  = "/evalrun"
)

// trial is one try at one attempt: one sandbox, from start to end.
type trial struct {
	r      *Runner
	worker int
	job    Job
	image  Image
	patch  patch.Prepared
	limits Limits
	a      *reports.Attempt
	files  reports.InstanceFiles

	box      sandbox.Sandbox
	log      *capture
	deadline time.Time
	test     region
	testExit int
	modelRan bool // code of the model has run in the sandbox
}

// run fills in the attempt's record. A nil error means that it has an outcome.
func (t *trial) run(ctx context.Context) (err error) {
	restore, err := t.restoreScript()
	if err != nil {
		// The row's own paths: not the patch's doing, and no use trying again.
		t.a.Outcome, t.a.Reason = grading.Ungradeable, err.Error()
		return nil
	}
	apply, err := t.applyScript()
	if err != nil {
		return err
	}
	if t.log, err = newCapture(t.files.TestOutput); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.log.close()) }()
	done, err := t.inSandbox(ctx, apply, restore)
	if err != nil || !done {
		return err
	}
	return t.grade(ctx)
}

// inSandbox runs everything that needs the sandbox. done is false when the
// attempt has its outcome already.
func (t *trial) inSandbox(ctx context.Context, apply, restore *script) (done bool, err error) {
	t.say("start")
	t.box, err = t.r.o.Driver.Start(ctx, t.spec())
	if err != nil {
		return false, err
	}
	defer t.r.bin.take(ctx, t.a.InstanceID, t.box)
	done, err = t.phases(ctx, apply, restore)
	usage, usageErr := t.box.Usage(context.WithoutCancel(ctx))
	if usageErr == nil || usage.OOMKills > 0 {
		t.a.Usage = reports.UsageRecord{
			PeakMemoryBytes: usage.PeakMemoryBytes, OOMKills: usage.OOMKills,
			CPUSeconds: usage.CPUSeconds, ThrottledSeconds: usage.ThrottledSeconds,
		}
	}
	if err != nil && ctx.Err() == nil && t.ownLimit(usage) {
		return false, nil
	}
	return done, err
}

// ownLimit reports whether a failure came of a limit of the sandbox itself, and
// then makes it the outcome: what a patch's code does must not look like the
// engine's trouble.
func (t *trial) ownLimit(usage sandbox.Usage) bool {
	pids := t.limits.Sandbox.Pids
	switch {
	case usage.OOMKills > 0:
		t.a.Outcome, t.a.Reason = grading.OutOfMemory, t.memoryReason()
	case pids > 0 && usage.Pids >= pids-pids/8:
		t.a.Outcome = grading.Unresolved
		t.a.Reason = fmt.Sprintf("%d processes were left running; the limit of %d leaves no room to go on", usage.Pids, pids)
	default:
		return false
	}
	return true
}

func (t *trial) memoryReason() string {
	return fmt.Sprintf("processes were killed at the memory limit of %d MiB", t.limits.Sandbox.MemoryBytes>>20)
}

func (t *trial) say(what string) { t.r.o.Observer.Worker(t.worker, t.a.InstanceID+" "+what) }

func (t *trial) spec() sandbox.Spec {
	labels := map[string]string{"evalrun.run": t.a.RunID, "evalrun.instance": t.a.InstanceID}
	for k, v := range t.r.o.Labels {
		labels[k] = v
	}
	var capabilities []string
	switch wanted := t.job.Recipe.Evaluation.Capabilities; {
	case t.r.o.RowCapabilities:
		capabilities = wanted
	case len(wanted) > 0:
		t.a.Warnings = append(t.a.Warnings, "the row asks for the capabilities "+strings.Join(wanted, ", ")+", which were not given (--row-capabilities)")
	}
	return sandbox.Spec{
		Capabilities: capabilities,
		Image:        t.image.Digest, Env: t.image.AddEnv, Name: t.a.InstanceID, Labels: labels, Limits: t.limits.Sandbox,
		Expiry: time.Now().Add(t.limits.Timeout + 2*applyTimeout + time.Hour),
	}
}

// phases runs everything in the sandbox, in order, until something gives the
// attempt its outcome.
func (t *trial) phases(ctx context.Context, apply, restore *script) (done bool, err error) {
	e := &t.job.Recipe.Evaluation
	first := []*script{apply}
	if restore != nil && e.Setup == "" {
		first, restore = append(first, restore), nil // nothing comes in between
	}
	if ok, err := t.scripts(ctx, first...); !ok || err != nil {
		return false, err
	}
	// Applying has a limit of its own; from here on the clock is the patch's.
	t.deadline = time.Now().Add(t.limits.Timeout)
	t.modelRan = e.Whole || e.Setup != ""
	if e.Whole {
		return t.phase(ctx, "eval", "", exitCodeRecorded(e.Script))
	}
	if e.Setup != "" {
		if ok, err := t.phase(ctx, "setup", e.Prelude, e.Setup); !ok || err != nil {
			return false, err
		}
		if err := t.quiet(ctx); err != nil {
			return false, err
		}
	}
	if restore != nil {
		if ok, err := t.scripts(ctx, restore); !ok || err != nil {
			return false, err
		}
	}
	t.modelRan = true
	if e.Build != "" {
		if ok, err := t.phase(ctx, "build", e.Prelude, e.Build); !ok || err != nil {
			return false, err
		}
	}
	// As the official script's own markers look in its trace.
	t.log.line("+ : '" + logparse.StartTestOutput + "'")
	ok, err := t.phase(ctx, "test", e.Prelude, e.Test)
	if ok {
		t.log.line("+ : '" + logparse.EndTestOutput + "'")
		t.log.line(fmt.Sprintf("%s: %d", logparse.TestExitCode, t.testExit))
	}
	return ok, err
}

func (t *trial) addPhase(name string, res sandbox.Result, where region) {
	t.a.Phases = append(t.a.Phases, reports.PhaseRecord{
		Name: name, ExitCode: res.ExitCode, Seconds: res.Elapsed.Seconds(), OutputBytes: where.bytes,
		Truncated: where.truncated, TimedOut: res.TimedOut,
	})
}

func newNonce() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
