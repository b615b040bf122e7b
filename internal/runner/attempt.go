package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/evalrun/evalrun/cache"
	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/patch"
	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/screen"
	"github.com/evalrun/evalrun/reports"
)

// attempt makes one attempt and writes its record. A nil record means the run
// was interrupted; an error ends the run.
func (r *Runner) attempt(ctx context.Context, rd ready) (*reports.Attempt, error) {
	if found, err := r.known(ctx, &rd); err != nil || found != nil || ctx.Err() != nil {
		return found, err
	}
	a := r.record(rd.job)
	rd.began = time.Now()
	a.Start = rd.began.UTC()
	a.Image, a.ImageDigest, a.Env = rd.image.Ref, rd.image.Digest, rd.image.Env
	a.Deviations, a.History = rd.image.Deviations, rd.image.History
	a.ImageSeconds = rd.imageTook.Seconds()
	a.Key, a.RunKey = r.key(rd), r.runKey(rd)
	files := r.files(&a)
	if err := r.o.Ledger.Started(&a); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(files.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("instance %s: make its folder: %w", a.InstanceID, err)
	}
	var gone error
	if rd.text, gone = rd.job.Prediction.Text(); gone != nil {
		a.Outcome, a.Reason, a.Patch = grading.InfraFailed, gone.Error(), reports.PatchRecord{}
	}
	if err := r.writeInputs(rd.job, rd.text, files); err != nil {
		return nil, err
	}
	stop := r.decide(ctx, rd, &a, files)
	if ctx.Err() != nil && a.Outcome == "" {
		return nil, nil
	}
	a.Seconds = time.Since(rd.began).Seconds() - a.WaitedSeconds
	if err := r.save(&a, files); err != nil {
		return nil, err
	}
	return &a, stop
}

// writeTexts puts down what is run, for people and other tools. A prediction without
// a patch has an empty file; one whose patch cannot be read has none.
func (r *Runner) writeTexts(job Job, patch *string, files reports.InstanceFiles) error {
	if patch == nil && job.Prediction.Null() {
		patch = new("")
	}
	if patch != nil {
		if err := cache.WriteFile(files.Patch, []byte(*patch), 0o644); err != nil {
			return fmt.Errorf("instance %s: write patch.diff: %w", job.Instance.ID, err)
		}
	}
	if err := cache.WriteFile(files.EvalScript, []byte(job.Recipe.Evaluation.Script), 0o755); err != nil {
		return fmt.Errorf("instance %s: write eval.sh: %w", job.Instance.ID, err)
	}
	return nil
}

// writeInputs puts down what is about to be run.
func (r *Runner) writeInputs(job Job, patch *string, files reports.InstanceFiles) error {
	// What an earlier attempt left must not be taken for this one's.
	// Its record goes first: there is none whose log is gone.
	for _, old := range []string{files.Attempt, files.Report, files.TestOutput, files.Patch} {
		if err := os.Remove(old); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("instance %s: remove the record of an earlier attempt: %w", job.Instance.ID, err)
		}
	}
	return r.writeTexts(job, patch, files)
}

func (r *Runner) save(a *reports.Attempt, files reports.InstanceFiles) error {
	if err := cache.WriteFile(files.Log, []byte(instanceLog(a)), 0o644); err != nil {
		return fmt.Errorf("instance %s: write run_instance.log: %w", a.InstanceID, err)
	}
	a.LogBytes = 0
	if info, err := os.Stat(files.TestOutput); err == nil {
		a.LogBytes = info.Size()
	} else if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("instance %s: the log of its tests: %w", a.InstanceID, err)
	}
	if err := reports.WriteAttempt(r.o.Layout.Attempt(a.Attempt), a); err != nil {
		return err
	}
	return r.o.Ledger.Finished(a)
}

// decide fills in the outcome. The error it returns ends the run.
func (r *Runner) decide(ctx context.Context, rd ready, a *reports.Attempt, files reports.InstanceFiles) error {
	if a.Outcome != "" {
		return nil // there is no patch to be had
	}
	if rd.job.Prediction.Empty() {
		a.Outcome, a.Reason = grading.EmptyPatch, "the prediction has no patch"
		return nil
	}
	if rd.err != nil {
		return r.noImage(ctx, rd.err, a)
	}
	p, err := patch.Prepare(*rd.text)
	rd.patch = &prepared{p, screen.Patch(p, r.o.Policy), err}
	describePatch(a, rd.patch.Prepared)
	if rd.patch.err != nil {
		a.Outcome, a.Reason = grading.ApplyFailed, rd.patch.err.Error()
		if len(rd.patch.Problems) > 0 {
			a.Reason += ": " + rd.patch.Problems[0].String()
		}
		return nil
	}
	looks := rd.patch.screen // not a part of the patch, which would be kept with it
	a.Trust.Screen = &looks
	switch rd.patch.screen.Level {
	case screen.Blocked:
		a.Outcome, a.Reason = grading.Tampering, "the policy does not let it run: "+rd.patch.screen.Reason()
		return nil
	case screen.Suspicious:
		a.Trust.Flagged = append(a.Trust.Flagged, "the patch looks suspicious: "+rd.patch.screen.Reason())
	}
	if err := r.tryAll(ctx, rd, a, files); err != nil {
		return err
	}
	return r.secondOpinion(ctx, rd, a, files)
}

// tryAll tries until the attempt has an outcome. Trouble of the engine is tried
// again, and then told as such; it is never a result of the patch.
func (r *Runner) tryAll(ctx context.Context, rd ready, a *reports.Attempt, files reports.InstanceFiles) error {
	before, troubles, died, last := *a, slices.Clone(a.Warnings), 0, engineTries
	pauses, waits := newPauses(), 0
	for try := 1; ; try++ {
		before.WaitedSeconds = a.WaitedSeconds
		*a = before
		a.Warnings = slices.Clone(troubles)
		t := &trial{structured: rd.structured, r: r, began: rd.began, try: try, index: rd.index, batch: rd.batch, job: rd.job, image: rd.image, patch: *rd.patch, limits: r.limits(rd.job), a: a, files: files}
		err := t.run(ctx)
		dead := t.modelRan && errors.Is(err, sandbox.ErrDead)
		var stop error
		switch {
		case err == nil:
			r.ended(ctx, t)
			return nil
		case ctx.Err() != nil:
			a.Outcome = ""
			return nil
		case errors.Is(err, ErrEndRun):
			a.Outcome, a.Reason = grading.InfraFailed, err.Error()
			return err
		case r.troubled(ctx, rd.job, err, try < last && !(dead && died > 0), pauses, &waits):
			troubles = append(troubles, fmt.Sprintf("waited for the engine: %v", err))
			try--
			continue
		case ctx.Err() != nil: // while it was waited for the engine: that says nothing of the patch
			a.Outcome = ""
			return nil
		case isStorage(err):
			return fmt.Errorf("instance %s: %w", a.InstanceID, err)
		case try > engineTries && t.mayBePatch(err):
			a.Outcome, a.Reason = grading.Unresolved, "what the patch runs keeps its sandbox from working: "+err.Error()
			return nil
		case dead && died == 0:
			died++ // once may be the host's doing
		case dead:
			bad := r.control(ctx, t)
			if bad == nil {
				a.Outcome, a.Reason = grading.Unresolved, "the sandbox died of what ran in it, twice: "+err.Error()
				return nil
			}
			if err = fmt.Errorf("%w; and a sandbox without the patch does not work either: %w", err, bad); try == last {
				stop = r.breaker.failed(err)
			}
		case try == engineTries && t.mayBePatch(err) && r.worksWithout(ctx, t):
			last++
		case try == last:
			stop = r.breaker.failed(err)
		}
		if ctx.Err() == nil && try == last {
			a.Outcome, a.Reason = grading.InfraFailed, err.Error()
			return stop
		}
		troubles = append(troubles, fmt.Sprintf("try %d: %v", try, err))
		if err := pause(ctx, pauses.NextBackOff()); err != nil {
			a.Outcome = ""
			return nil
		}
	}
}

// ended completes the outcome of an attempt that has come to its end.
func (r *Runner) ended(ctx context.Context, t *trial) {
	r.breaker.worked()
	if t.missing != "" && !t.unpatched && !r.missingWithout(ctx, t) {
		t.a.Outcome, t.a.Reason = grading.Unresolved, "no test ran; without the patch they do, so that it is not the missing network: "+t.missing
	}
	r.refusal(ctx, t)
	if ctx.Err() != nil {
		t.a.Outcome = ""
	}
}

// mayBePatch reports whether the engine could have failed of what the patch runs, which
// has begun to run: a disk that all share is nobody's alone.
func (t *trial) mayBePatch(err error) bool {
	return t.modelRan && !errors.Is(err, sandbox.ErrHostFull)
}

// worksWithout reports whether the same tests come to their end without the patch, in
// whatever way. An engine that failed each time the patch's code ran may have been broken
// by it, or have had too much to do with tests that are heavy whatever the patch; that a
// sandbox starts and takes a command says nothing of those. Nor does it tell a patch from
// a busy hour that is over by now: where the tests work without it, the patch is tried
// once more, and only what fails then, too, is held against it.
func (r *Runner) worksWithout(ctx context.Context, failed *trial) bool {
	_, err := r.unpatched(ctx, failed)
	return err == nil
}

// control does in a fresh sandbox of the same kind, without the patch, what has
// to be possible whatever the patch: run a command, and bring back the test files.
func (r *Runner) control(ctx context.Context, failed *trial) error {
	box, err := r.start(ctx, failed.job, failed.image)
	if err != nil {
		return err
	}
	defer r.bin.take(ctx, failed.a.InstanceID, box)
	t := &trial{r: r, job: failed.job, image: failed.image, limits: failed.limits, box: box, a: &reports.Attempt{InstanceID: failed.a.InstanceID}}
	restore, err := t.restoreScript()
	if err != nil {
		return err
	}
	if restore == nil {
		res, err := r.exec(ctx, box, sandbox.Command{Argv: []string{"/bin/true"}, Dir: "/", Timeout: time.Minute})
		if err == nil && res.ExitCode != 0 {
			err = fmt.Errorf("/bin/true exited with %d", res.ExitCode)
		}
		return err
	}
	if ok, err := t.scripts(ctx, restore); !ok || err != nil {
		return errors.Join(err, errors.New(t.a.Reason))
	}
	return nil
}

// missingWithout reports whether the tests lack what they want to fetch without the
// patch, too. A patch could print as much; an image that cannot run its tests is
// nobody's failure but the dataset's. Where it cannot be told, the log is believed.
func (r *Runner) missingWithout(ctx context.Context, failed *trial) bool {
	t, err := r.unpatched(ctx, failed)
	if err != nil || t.a.Outcome != grading.Ungradeable {
		return err != nil
	}
	return t.missing != ""
}

// isStorage reports whether an error is about our own files rather than the engine.
func isStorage(err error) bool {
	var engine *sandbox.EngineError
	return !errors.As(err, &engine) && !errors.Is(err, sandbox.ErrDead)
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

func patchRecord(p *datasets.Prediction) reports.PatchRecord {
	return reports.PatchRecord{Null: p.Null(), SHA256: p.SHA256(), Bytes: p.Size()}
}

func describePatch(a *reports.Attempt, p patch.Prepared) {
	a.Patch.Files = p.Paths
	for _, problem := range p.Problems {
		a.Warnings = append(a.Warnings, "patch: "+problem.String())
	}
}

// instanceLog is run_instance.log: what was done, in the words other tools look for.
func instanceLog(a *reports.Attempt) string {
	var b strings.Builder
	at := a.Start.Format("2006-01-02 15:04:05,000")
	say := func(level, format string, args ...any) {
		fmt.Fprintf(&b, "%s - %s - %s\n", at, level, fmt.Sprintf(format, args...))
	}
	say("INFO", "instance %s, image %s", a.InstanceID, a.Image)
	for _, t := range a.Patch.Tries {
		say("INFO", "%s: exit status %d\n%s", t.Command, t.ExitCode, t.Output)
	}
	switch {
	case a.Patch.Applied != "":
		say("INFO", ">>>>> Applied Patch: %s", a.Patch.Applied)
	case a.Outcome == grading.ApplyFailed:
		say("INFO", ">>>>> Patch Apply Failed: %s", a.Reason)
	}
	for _, p := range a.Phases {
		say("INFO", "%s: exit status %d in %.2f s, %d bytes of output", p.Name, p.ExitCode, p.Seconds, p.OutputBytes)
	}
	for _, w := range a.Warnings {
		say("WARNING", "%s", w)
	}
	say("INFO", "outcome: %s %s", a.Outcome, a.Reason)
	return b.String()
}
