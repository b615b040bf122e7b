package regrade

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/grading/logparse"
	"github.com/evalrun/evalrun/reports"
)

// Options say how logs are graded again.
type Options struct {
	Rules   grading.Rules
	Against grading.Rules // a second rule set to compare with; "" is none
	Workers int           // logs at a time; 0 is one per processor
}

// Job is one log, its row, and the prediction it belongs to where that is known.
type Job struct {
	Log        Log
	Instance   *datasets.Instance
	Prediction *datasets.Prediction
}

// Result is what became of a Job.
type Result struct {
	Attempt    reports.Attempt
	Difference *Difference // with Options.Against, where the verdicts differ
}

// memory bounds the logs that are read at the same time: some parsers hold what
// they read.
const memory = 64 << 20

// Grade grades every job. The results have the order of the jobs; the error is
// about logs that could not be read, and comes with the results of the others,
// whose outcome is not_run.
func Grade(ctx context.Context, o Options, jobs []Job) ([]Result, error) {
	results := make([]Result, len(jobs))
	errs := make([]error, len(jobs))
	held := semaphore.NewWeighted(memory)
	var g errgroup.Group
	g.SetLimit(o.workers())
	for i := range jobs {
		g.Go(func() error {
			weight := int64(1)
			if info, err := os.Stat(jobs[i].Log.Path); err == nil {
				weight = min(max(info.Size(), 1), memory)
			}
			if err := held.Acquire(ctx, weight); err != nil {
				errs[i] = context.Cause(ctx)
				results[i].Attempt = start(o, jobs[i])
				return nil
			}
			defer held.Release(weight)
			results[i], errs[i] = grade(o, jobs[i])
			return nil
		})
	}
	g.Wait()
	if ctx.Err() != nil {
		return results, context.Cause(ctx)
	}
	return results, errors.Join(errs...)
}

func (o Options) workers() int {
	if o.Workers > 0 {
		return o.Workers
	}
	return runtime.NumCPU()
}

// start is the record of a job before its log is read.
func start(o Options, j Job) reports.Attempt {
	a := reports.Attempt{
		SchemaVersion: reports.AttemptSchema, InstanceID: j.Instance.ID, Model: j.Log.Model, RunID: j.Log.RunID, Repo: j.Instance.Repo,
		Outcome: grading.NotRun, Rules: string(o.Rules), LogParser: Parser(j.Instance),
	}
	if own := j.Log.own; own != nil {
		a = *own
		a.Rules, a.Verdict, a.Reused = string(o.Rules), nil, false
	}
	if p := j.Prediction; p != nil {
		a.Model = p.Model
		a.Patch.Null, a.Patch.Bytes = p.Null(), p.Size()
	}
	return a
}

func grade(o Options, j Job) (Result, error) {
	r := Result{Attempt: start(o, j)}
	a := &r.Attempt
	switch {
	case j.Prediction != nil && j.Prediction.Empty():
		a.Outcome, a.Reason = grading.EmptyPatch, "the prediction has no patch"
		return r, nil
	case j.Log.own != nil && !reports.GradingReached(j.Log.own):
		return r, nil // it ended before its tests did; its record says how
	case j.Log.unusable != "":
		a.Outcome, a.Reason = grading.InfraFailed, j.Log.unusable
		return r, nil
	case j.Log.Path == "":
		a.Outcome, a.Reason = withoutLog(j.Log.Dir)
		return r, nil
	}
	e := newEvidence(j.Log)
	v, err := e.verdict(o.Rules, j.Instance)
	// The run itself has looked for doubts only where it found its log resolved.
	if own := j.Log.own; err == nil && (own == nil || v.outcome == grading.Resolved && own.Outcome != grading.Resolved) {
		a.Trust.Doubts, err = e.doubts(v.report, j.Instance)
	}
	if err != nil {
		a.Outcome, a.Reason = grading.NotRun, "its log could not be read: "+err.Error()
		return r, fmt.Errorf("%s: %s: %w", a.InstanceID, j.Log.Path, err)
	}
	a.Outcome, a.Reason = v.outcome, v.reason
	if o.Against != "" {
		other, err := e.verdict(o.Against, j.Instance)
		if err != nil {
			return r, fmt.Errorf("%s: %s: %w", a.InstanceID, j.Log.Path, err)
		}
		r.Difference = differ(a, v, other, j.Instance)
	}
	for _, d := range a.Trust.Doubts {
		if j.Log.own == nil {
			a.Trust.Flagged = append(a.Trust.Flagged, d.String())
		}
	}
	v.report.Statuses = logparse.Statuses{} // thousands of logs' would add up
	a.Verdict = &v.report
	a.Warnings = append(a.Warnings, contradictions(j, a.Outcome)...)
	if a.Outcome != grading.Resolved && j.Log.Dir != "" {
		a.Sign = reports.ScanLogs(j.Log.Path, filepath.Join(j.Log.Dir, "run_instance.log"))
	}
	return r, nil
}

// withoutLog says how an attempt ended that left no output of its tests.
func withoutLog(dir string) (grading.Outcome, string) {
	said, err := readHead(filepath.Join(dir, "run_instance.log"))
	if err == nil && bytes.Contains(said, []byte(logparse.PatchApplyFailed)) {
		return grading.ApplyFailed, "none of the commands could apply it, says run_instance.log"
	}
	return grading.InfraFailed, "the attempt has no " + testOutput + "; run_instance.log may say why"
}

// Parser names the log parser of a row: its recipe's, its own, or the one the
// classic harness has for its repository.
func Parser(inst *datasets.Instance) string {
	if inst.Recipe != nil && inst.Recipe.Evaluation.LogParser != "" {
		return inst.Recipe.Evaluation.LogParser
	}
	if inst.LogParser != "" {
		return inst.LogParser
	}
	name, _ := logparse.ForRepo(inst.Repo)
	return name
}

func expectation(rules grading.Rules, inst *datasets.Instance) grading.Expectation {
	want := grading.Expectation{FailToPass: inst.FailToPass, PassToPass: inst.PassToPass}
	switch {
	case inst.EvalType != "":
		want.FailOnly = inst.FailOnly()
	case inst.Recipe != nil:
		want.FailOnly = inst.Recipe.Evaluation.EvalType == "fail_only"
	default:
		want.FailOnly = grading.FailOnlyRepo(rules, inst.Repo)
	}
	return want
}

// contradictions compares the outcome with what lies beside the log: a report or
// a patch of another attempt means that something here is stale.
func contradictions(j Job, outcome grading.Outcome) []string {
	if j.Log.Dir == "" {
		return nil
	}
	var warnings []string
	var stored map[string]struct {
		Resolved *bool `json:"resolved"`
	}
	if data, err := reports.ReadRegular(filepath.Join(j.Log.Dir, "report.json")); err == nil && json.Unmarshal(data, &stored) == nil {
		if said := stored[j.Instance.ID].Resolved; said != nil && *said != (outcome == grading.Resolved) {
			warnings = append(warnings, fmt.Sprintf("report.json says resolved %v, the log says %s: it is of another log, other tests or other rules", *said, outcome))
		}
	}
	if p := j.Prediction; p != nil && !p.Null() {
		text, err := p.Text()
		if err != nil {
			return append(warnings, err.Error())
		}
		if patch, err := reports.ReadRegular(filepath.Join(j.Log.Dir, "patch.diff")); err == nil && strings.TrimSpace(string(patch)) != strings.TrimSpace(*text) {
			warnings = append(warnings, "patch.diff is not the prediction's patch: the log is of another patch")
		}
	}
	return warnings
}

// readHead reads the first of a log, which may be of any length.
func readHead(path string) ([]byte, error) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return nil, cmp.Or(err, fs.ErrNotExist)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 16<<20))
}
