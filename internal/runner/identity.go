package runner

import (
	"context"

	"github.com/evalrun/evalrun/cache"
	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/internal/screen"
	"github.com/evalrun/evalrun/reports"
)

// Ledger knows what was graded before and keeps what is graded now.
type Ledger interface {
	// Result gives the result an attempt need not be made for, with its log in
	// place, or nil. want is its record as far as it is known.
	Result(ctx context.Context, want *reports.Attempt, inst *datasets.Instance) (*reports.Attempt, error)
	// Started and Finished are told of every attempt that is made; the files of one
	// that is finished are written. Their errors end the run.
	Started(a *reports.Attempt) error
	Finished(a *reports.Attempt) error
	// Earlier gives the record that an earlier call has left of an attempt, or nil.
	Earlier(id reports.AttemptID) (*reports.Attempt, error)
	// Holds reports whether there is a result of the patch that making the attempt would
	// take away, also one that this call must not take.
	Holds(id reports.AttemptID) bool
}

// noLedger knows nothing.
type noLedger struct{}

func (noLedger) Result(context.Context, *reports.Attempt, *datasets.Instance) (*reports.Attempt, error) {
	return nil, nil
}
func (noLedger) Started(*reports.Attempt) error  { return nil }
func (noLedger) Finished(*reports.Attempt) error { return nil }
func (noLedger) Earlier(reports.AttemptID) (*reports.Attempt, error) {
	return nil, nil
}
func (noLedger) Holds(reports.AttemptID) bool { return false }

// gradingRevision is raised when the same log could get another verdict.
const gradingRevision = 4

// trialRevision is raised when the same attempt could leave another log, or get another
// second opinion.
const trialRevision = 2

// RunKey is the run_key an attempt from an image has; "" where nothing is run.
func (r *Runner) RunKey(job Job, image Image) string {
	if job.Prediction.Empty() {
		return ""
	}
	return r.runKey(ready{job: job, image: image})
}

// runKey names everything that determines what is run, and so what the log says.
func (r *Runner) runKey(rd ready) string {
	l, e := r.limits(rd.job), rd.job.Recipe.Evaluation
	return cache.NewKey("trial").Int("revision", trialRevision).
		String("instance", rd.job.Instance.ID).String("commit", rd.job.Instance.BaseCommit).
		String("patch", rd.job.Prediction.SHA256()).Bool("null", rd.job.Prediction.Null()).Int("repetition", int64(rd.job.Repetition)).
		Strings("evaluation", evaluationOf(e)).Bool("row capabilities", r.o.RowCapabilities).Strings("capabilities", e.Capabilities).
		String("policy", r.o.Policy.String()).Int("screen", screen.Revision).String("verify", string(r.o.Verify)).
		String("image", rd.image.Digest).Strings("env", rd.image.AddEnv).
		Int("memory", l.Sandbox.MemoryBytes).Int("pids", l.Sandbox.Pids).Int("cpus", int64(l.Sandbox.CPUs*1000)).Int("disk", l.Sandbox.DiskBytes).
		Int("timeout", int64(l.Timeout)).Int("silence", int64(l.Silence)).Int("output", l.OutputBytes).
		Bool("read-only", l.ReadOnly).String("user", l.User).Strings("unenforced", r.o.Unenforced).Sum()
}

// key names everything that determines a verdict.
func (r *Runner) key(rd ready) string {
	return cache.NewKey("attempt").String("trial", r.runKey(rd)).Int("grading", gradingRevision).
		String("row", rd.job.Instance.Hash()).String("rules", string(r.o.Rules)).
		Strings("parser", []string{rd.job.Recipe.Evaluation.LogParser, rd.job.Recipe.Evaluation.EvalType}).Sum()
}

// evaluationOf is what is run: derived from the row, and so not in its hash.
func evaluationOf(e datasets.Evaluation) []string {
	if e.Whole {
		return []string{"whole", e.Script}
	}
	return append([]string{"phases", e.Prelude, e.Setup, e.Build, e.Test, e.TestPatch}, e.ResetFiles...)
}

// recall asks the ledger for a result the attempt need not be made for.
func (r *Runner) recall(ctx context.Context, rd ready) (*reports.Attempt, error) {
	want := r.record(rd.job)
	want.Key, want.RunKey = r.key(rd), r.runKey(rd)
	if rd.job.Prediction.Empty() || rd.err != nil {
		want.RunKey = "" // nothing is run: there is nothing to share
	}
	found, err := r.o.Ledger.Result(ctx, &want, rd.job.Instance)
	if err != nil || found == nil || found.Resumed {
		return found, err
	}
	// Of another attempt, or under other rules: the files are made for this one.
	text, err := rd.job.Prediction.Text()
	if err != nil {
		return nil, nil // told when the attempt is made
	}
	files := r.files(found)
	if err := r.writeTexts(rd.job, text, files); err != nil {
		return nil, err
	}
	err = r.save(found, files)
	found.Resumed = found.ReusedFrom == nil // nothing was run for it
	return found, err
}

func (r *Runner) files(a *reports.Attempt) reports.InstanceFiles {
	return r.o.Layout.Attempt(a.Attempt).Instance(a.RunID, a.Model, a.InstanceID)
}
