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
	try    int // 1 is the first
	index  int // of the job
	batch  int // of the forecast
	job    Job
	image  Image
	patch  prepared
	limits Limits
	a      *reports.Attempt
	files  reports.InstanceFiles

	began    time.Time // as a clock that is set meanwhile does not change it
	entered  bool      // it has a worker
	worker   int       // that runs the commands
	room     func()    // gives back what it has of the machine
	box      sandbox.Sandbox
	log      *capture
	deadline time.Time
	test     region
	testExit int
	modelRan bool   // code of the model has run in the sandbox
	tree     string // of the tracked files before the tests, where they are not seen from outside

	watched bool                      // what the sandbox writes is seen from outside
	written map[string]sandbox.Change // by path, before the tests
	blind   error                     // why not all of that was seen

	testFiles []string // those that are restored
	odd       []string // what a person has to be told if it is resolved

	unpatched bool     // the tests run without the patch
	missing   string   // what they wanted to fetch, where none ran
	failedIn  []string // phases of set-up and build in which a command has failed

	// The first line about what a flag keeps from the row, the flag, and the phase.
	refused, refusedBy, refusedIn string

	structured grading.StructuredKind // the report asked for besides the log
	reports    []string               // where the runner writes it
	cases      grading.Structured     // what it says
	antBuild   string                 // the build file that asks ant for it
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
	cutOff := t.cutOff(ctx)
	defer cutOff()
	t.box, err = t.start(ctx)
	if err != nil {
		return false, err
	}
	defer t.r.bin.take(ctx, t.a.InstanceID, t.box)
	done, err = t.work(ctx, apply, restore, cutOff)
	if done && err == nil {
		if err = t.collect(ctx); err == nil {
			err = t.aftermath(ctx)
		}
	}
	usage, usageErr := t.box.Usage(context.WithoutCancel(ctx))
	if usageErr == nil || usage.OOMKills > 0 {
		t.a.Usage = reports.UsageRecord{
			PeakMemoryBytes: usage.PeakMemoryBytes, HeldMemoryBytes: usage.HeldMemoryBytes, OOMKills: usage.OOMKills,
			CPUSeconds: usage.CPUSeconds, ThrottledSeconds: usage.ThrottledSeconds, DiskBytes: usage.DiskBytes,
		}
	}
	t.limited(usage)
	if err != nil && ctx.Err() == nil && t.ownLimit(usage) {
		return false, nil
	}
	return done, err
}

// cutOff finds out, while the sandbox starts, whether it is cut off. Who asks for the
// answer waits for it, and one has to.
func (t *trial) cutOff(ctx context.Context) (answer func() error) {
	var words string
	var err error
	found := make(chan struct{})
	go func() {
		defer close(found)
		words, err = t.r.o.Network(ctx, t.image)
	}()
	return func() error {
		<-found
		t.a.Network = words
		return err
	}
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

// say tells what the worker does now, if there is one.
func (t *trial) say(what string) {
	if !t.entered {
		return
	}
	if t.try > 1 {
		what = fmt.Sprintf("%s, try %d", what, t.try)
	}
	t.r.o.Observer.Worker(t.worker, t.a.InstanceID+" "+what)
}

func (t *trial) start(ctx context.Context) (sandbox.Sandbox, error) {
	if wanted := t.job.Recipe.Evaluation.Capabilities; len(wanted) > 0 && !t.r.o.RowCapabilities {
		t.warn("the row asks for the capabilities %s, which were not given (--row-capabilities)", strings.Join(wanted, ", "))
	}
	began := time.Now()
	box, err := t.r.start(ctx, t.job, t.image)
	t.a.StartSeconds = time.Since(began).Seconds()
	return box, err
}

// work runs everything in the sandbox, in order, until something gives the attempt
// its outcome. What is ours only needs no worker, as starting the sandbox does not.
func (t *trial) work(ctx context.Context, apply, restore *script, cutOff func() error) (done bool, err error) {
	t.watch(ctx)
	t.beforeReport(ctx)
	first, last, err := t.ours(apply, restore)
	if err != nil {
		return false, err
	}
	if ok, err := t.scripts(ctx, first...); !ok || err != nil {
		return false, err
	}
	if err := cutOff(); err != nil {
		return false, err
	}
	defer t.leave()
	if err := t.enter(ctx); err != nil {
		return false, err
	}
	return t.phases(ctx, last)
}

// ours are the scripts of ours that run before any code of the model does, and those
// that run before the tests.
func (t *trial) ours(apply, restore *script) (first, last []*script, err error) {
	if !t.unpatched {
		first = append(first, apply)
	}
	protect, err := t.protectScript()
	if err != nil {
		return nil, nil, err
	}
	if protect != nil {
		first = append(first, protect)
	}
	if restore != nil {
		last = append(last, restore)
	}
	if !t.watched {
		snapshot, err := t.snapshotScript()
		if err != nil {
			return nil, nil, err
		}
		last = append(last, snapshot)
	}
	if t.job.Recipe.Evaluation.Setup == "" {
		return append(first, last...), nil, nil // nothing comes in between
	}
	return first, last, nil
}

// phases runs the phases of the evaluation.
func (t *trial) phases(ctx context.Context, last []*script) (done bool, err error) {
	e := &t.job.Recipe.Evaluation
	// Applying has a limit of its own; from here on the clock is the patch's.
	t.deadline = time.Now().Add(t.limits.Timeout)
	t.modelRan = e.Whole || e.Setup != ""
	if e.Whole {
		t.noteWritten(ctx)
		return t.phase(ctx, "eval", "", exitCodeRecorded(e.Script))
	}
	if e.Setup == "" {
		if ok, err := t.scripts(ctx, last...); !ok || err != nil {
			return false, err
		}
		t.noteWritten(ctx)
	} else if ok, err := t.setUp(ctx, last); !ok || err != nil {
		return false, err
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

// setUp runs the set-up of the row, and what of ours comes between it and the tests: for
// that no worker is needed, and another attempt may have this one's. None of that, nor
// what it then takes to get one again, counts against the limit.
func (t *trial) setUp(ctx context.Context, last []*script) (ok bool, err error) {
	e := &t.job.Recipe.Evaluation
	if ok, err := t.phase(ctx, "setup", e.Prelude, e.Setup); !ok || err != nil {
		return false, err
	}
	t.rest()
	began := time.Now()
	// Nothing of the model's may work on while test files are restored.
	if len(last) > 0 {
		last[0].alone = true
	} else if res, err := t.r.exec(ctx, t.box, sandbox.Command{Argv: []string{"true"}, Dir: "/", Alone: true, Timeout: applyTimeout}); err != nil {
		return false, err
	} else if res.ExitCode == -1 || res.TimedOut {
		return false, fmt.Errorf("after the set-up: %w", sandbox.ErrDead)
	}
	if ok, err := t.scripts(ctx, last...); !ok || err != nil {
		return false, err
	}
	t.noteWritten(ctx)
	rested := time.Now()
	err = t.goOn(ctx, true)
	t.a.WaitedSeconds += time.Since(rested).Seconds()
	t.deadline = t.deadline.Add(time.Since(began))
	return err == nil, err
}

func (t *trial) addPhase(name string, res sandbox.Result, where region) {
	t.a.Phases = append(t.a.Phases, reports.PhaseRecord{
		Name: name, ExitCode: res.ExitCode, At: max(0, (time.Since(t.began) - res.Elapsed).Seconds()), Seconds: res.Elapsed.Seconds(), OutputBytes: where.bytes,
		Truncated: where.truncated, TimedOut: res.TimedOut,
	})
}

func newNonce() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
