package runner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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
	"github.com/evalrun/evalrun/reports"
)

// gradingRevision is raised when the same log could get another verdict.
const gradingRevision = 1

// attempt makes one attempt and writes its record. A nil record means the run
// was interrupted; an error ends the run.
func (r *Runner) attempt(ctx context.Context, worker int, rd ready) (*reports.Attempt, error) {
	a := r.record(rd.job)
	a.Start = time.Now().UTC()
	a.Network = r.o.Network()
	a.Image, a.ImageDigest, a.Env = rd.image.Ref, rd.image.Digest, rd.image.Env
	a.Deviations, a.History = rd.image.Deviations, rd.image.History
	a.Key = r.key(rd)
	if old := r.reusable(&a); old != nil {
		return old, nil
	}
	r.o.Observer.Worker(worker, a.InstanceID+" start")
	files := r.o.Layout.Instance(a.RunID, a.Model, a.InstanceID)
	if err := os.MkdirAll(files.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("instance %s: make its folder: %w", a.InstanceID, err)
	}
	if err := r.writeInputs(rd.job, files); err != nil {
		return nil, err
	}
	stop := r.decide(ctx, worker, rd, &a, files)
	if ctx.Err() != nil && a.Outcome == "" {
		return nil, nil
	}
	a.Seconds = time.Since(a.Start).Seconds()
	if err := r.save(&a, files); err != nil {
		return nil, err
	}
	return &a, stop
}

// key names everything that determines a verdict.
func (r *Runner) key(rd ready) string {
	l := r.limits(rd.job)
	return cache.NewKey("attempt").Int("grading", gradingRevision).
		String("patch", patchHash(rd.job.Prediction)).String("row", rd.job.Instance.Hash()).
		Bool("capabilities", r.o.RowCapabilities).Strings("evaluation", evaluationOf(rd.job.Recipe.Evaluation)).String("rules", string(r.o.Rules)).String("image", rd.image.Digest).
		Int("memory", l.Sandbox.MemoryBytes).Int("pids", l.Sandbox.Pids).Int("cpus", int64(l.Sandbox.CPUs*1000)).
		Int("disk", l.Sandbox.DiskBytes).Int("timeout", int64(l.Timeout)).Int("output", l.OutputBytes).Sum()
}

// evaluationOf is what is run: derived from the row, and so not in its hash.
func evaluationOf(e datasets.Evaluation) []string {
	if e.Whole {
		return []string{"whole", e.Script, e.LogParser, e.EvalType}
	}
	return append([]string{"phases", e.Prelude, e.Setup, e.Build, e.Test, e.TestPatch, e.LogParser, e.EvalType}, e.ResetFiles...)
}

// reusable returns the record of an earlier call that still holds: the same
// key, and a result of the patch rather than of its surroundings.
func (r *Runner) reusable(a *reports.Attempt) *reports.Attempt {
	old, ok := r.o.Earlier[JobKey{a.Model, a.InstanceID}]
	if !ok || old.Key != a.Key || !old.Outcome.Evaluated() {
		return nil
	}
	old.Reused = true
	return &old
}

// writeInputs puts down what is about to be run, for people and other tools.
func (r *Runner) writeInputs(job Job, files reports.InstanceFiles) error {
	text := ""
	if job.Prediction.Patch != nil {
		text = *job.Prediction.Patch
	}
	if err := cache.WriteFile(files.Patch, []byte(text), 0o644); err != nil {
		return fmt.Errorf("instance %s: write patch.diff: %w", job.Instance.ID, err)
	}
	if err := cache.WriteFile(files.EvalScript, []byte(job.Recipe.Evaluation.Script), 0o755); err != nil {
		return fmt.Errorf("instance %s: write eval.sh: %w", job.Instance.ID, err)
	}
	// A log of an earlier attempt must not be taken for this one's.
	for _, old := range []string{files.TestOutput, files.Report, files.Attempt} {
		if err := os.Remove(old); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("instance %s: remove the record of an earlier attempt: %w", job.Instance.ID, err)
		}
	}
	return nil
}

func (r *Runner) save(a *reports.Attempt, files reports.InstanceFiles) error {
	if err := cache.WriteFile(files.Log, []byte(instanceLog(a)), 0o644); err != nil {
		return fmt.Errorf("instance %s: write run_instance.log: %w", a.InstanceID, err)
	}
	return reports.WriteAttempt(r.o.Layout, a)
}

// decide fills in the outcome. The error it returns ends the run.
func (r *Runner) decide(ctx context.Context, worker int, rd ready, a *reports.Attempt, files reports.InstanceFiles) error {
	if rd.job.Prediction.Empty() {
		a.Outcome, a.Reason = grading.EmptyPatch, "the prediction has no patch"
		return nil
	}
	if rd.err != nil {
		return r.noImage(ctx, rd.err, a)
	}
	prepared, err := patch.Prepare(*rd.job.Prediction.Patch)
	describePatch(a, prepared)
	if err != nil {
		a.Outcome, a.Reason = grading.ApplyFailed, err.Error()
		if len(prepared.Problems) > 0 {
			a.Reason += ": " + prepared.Problems[0].String()
		}
		return nil
	}
	return r.tryAll(ctx, worker, rd, prepared, a, files)
}

// noImage fills in the outcome of an attempt whose image could not be had.
func (r *Runner) noImage(ctx context.Context, err error, a *reports.Attempt) error {
	var engine *sandbox.EngineError
	switch {
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, ErrEndRun):
		a.Outcome, a.Reason = grading.InfraFailed, err.Error()
		return err
	case errors.As(err, &engine):
		a.Outcome, a.Reason = grading.InfraFailed, err.Error()
		return r.engineFailed(err)
	}
	a.Outcome, a.Reason = grading.BuildFailed, err.Error()
	return nil
}

// tryAll tries until the attempt has an outcome. Trouble of the engine is tried
// again, and then told as such; it is never a result of the patch.
func (r *Runner) tryAll(ctx context.Context, worker int, rd ready, prepared patch.Prepared, a *reports.Attempt, files reports.InstanceFiles) error {
	before, troubles, died := *a, slices.Clone(a.Warnings), 0
	for try := 1; ; try++ {
		*a = before
		a.Warnings = slices.Clone(troubles)
		t := &trial{r: r, worker: worker, job: rd.job, image: rd.image, patch: prepared, limits: r.limits(rd.job), a: a, files: files}
		err := t.run(ctx)
		var stop error
		switch {
		case err == nil:
			r.failures.Store(0)
			return nil
		case ctx.Err() != nil:
			a.Outcome = ""
			return nil
		case errors.Is(err, sandbox.ErrDead):
			// Once may be the host's doing. Twice is the tests'.
			if died++; died == 2 {
				a.Outcome, a.Reason = grading.Unresolved, "the sandbox died of what ran in it, twice: "+err.Error()
				return nil
			}
		case isStorage(err):
			return fmt.Errorf("instance %s: %w", a.InstanceID, err)
		case try == engineTries && t.modelRan && r.works(ctx, t):
			// Three sandboxes failed once the patch's code ran in them, and one
			// without it works.
			a.Outcome, a.Reason = grading.Unresolved, "what the patch runs keeps its sandbox from working: "+err.Error()
			return nil
		case try == engineTries:
			stop = r.engineFailed(err)
		}
		if try == engineTries {
			a.Outcome, a.Reason = grading.InfraFailed, err.Error()
			return stop
		}
		troubles = append(troubles, fmt.Sprintf("try %d: %v", try, err))
		r.o.Observer.Worker(worker, fmt.Sprintf("%s engine trouble, try %d", a.InstanceID, try+1))
		if err := pause(ctx, time.Duration(try*try)*time.Second); err != nil {
			a.Outcome = ""
			return nil
		}
	}
}

// works reports whether a fresh sandbox of the same kind, without the patch, runs
// a command.
func (r *Runner) works(ctx context.Context, t *trial) bool {
	box, err := r.o.Driver.Start(ctx, t.spec())
	if err != nil {
		return false
	}
	defer r.bin.take(ctx, t.a.InstanceID, box)
	res, err := box.Exec(ctx, sandbox.Command{Argv: []string{"/bin/true"}, Dir: "/", Timeout: time.Minute})
	return err == nil && res.ExitCode == 0
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
	rec := reports.PatchRecord{Null: p.Patch == nil}
	if p.Patch != nil {
		rec.SHA256, rec.Bytes = patchHash(p), len(*p.Patch)
	}
	return rec
}

func patchHash(p *datasets.Prediction) string {
	if p.Patch == nil {
		return ""
	}
	sum := sha256.Sum256([]byte(*p.Patch))
	return hex.EncodeToString(sum[:])
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
