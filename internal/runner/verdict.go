package runner

import (
	"context"
	"fmt"
	"io"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/grading/logparse"
)

// grade reads the log and decides the outcome.
func (t *trial) grade(ctx context.Context) error {
	// Some parsers hold what they read in memory; all workers together hold a
	// bounded part of the logs.
	where := t.test
	weight := min(max(where.end-where.start, 1), gradeMemory)
	if err := t.r.grading.Acquire(ctx, weight); err != nil {
		return context.Cause(ctx)
	}
	defer t.r.grading.Release(weight)
	open := func() (io.ReadCloser, error) { return t.log.section(where) }
	inst := t.job.Instance
	e := &t.job.Recipe.Evaluation
	in := logparse.Context{Repo: inst.Repo, Version: inst.Version, InstanceID: inst.ID}
	want := grading.Expectation{FailToPass: inst.FailToPass, PassToPass: inst.PassToPass, FailOnly: t.failOnly()}
	var verdict grading.Report
	var err error
	if e.Whole {
		verdict, err = grading.FromLogSource(t.r.o.Rules, open, e.LogParser, in, want)
	} else {
		verdict, err = grading.FromRegionSource(t.r.o.Rules, open, t.testExit, e.LogParser, in, want)
	}
	if err != nil {
		return err
	}
	t.a.Verdict = &verdict
	missing := ""
	if !verdict.Found && verdict.Statuses.Len() == 0 {
		last := where
		last.start = max(last.start, last.end-offlineScan)
		text, err := t.readRegion(last)
		if err != nil {
			return err
		}
		missing = grading.OfflineSign(text)
	}
	t.a.Outcome, t.a.Reason = t.outcome(&verdict, missing)
	return nil
}

// failOnly is the row's own word, or where it has none that of the rule set's
// release of the official harness.
func (t *trial) failOnly() bool {
	switch {
	case t.job.Instance.EvalType != "":
		return t.job.Instance.FailOnly()
	case t.job.Instance.Recipe != nil:
		return t.job.Recipe.Evaluation.EvalType == "fail_only"
	}
	return grading.FailOnlyRepo(t.r.o.Rules, t.job.Instance.Repo)
}

// offlineScan is how much of the end of a log without results is searched for
// signs of the missing network.
const offlineScan = 1 << 20

// outcome decides whose doing it was. missing is what the tests could not fetch.
func (t *trial) outcome(v *grading.Report, missing string) (grading.Outcome, string) {
	switch {
	case v.Resolved:
		return grading.Resolved, ""
	case t.a.Usage.OOMKills > 0:
		return grading.OutOfMemory, t.memoryReason()
	case v.Found:
		return grading.Unresolved, v.Reason
	case !logparse.Known(t.job.Recipe.Evaluation.LogParser):
		return grading.Ungradeable, v.Reason
	case missing != "":
		return grading.Ungradeable, "no test ran, and the image lacks what the tests wanted to fetch: " + missing
	case v.Statuses.Len() == 0:
		// With an image whose gold patch passes this is the patch's doing: it broke
		// the build, the import or the runner. What the log says of the
		// surroundings is no evidence, since the patch can write it.
		return grading.Unresolved, fmt.Sprintf("no test ran: the test command exited with %d", t.testExit)
	}
	return grading.Unresolved, v.Reason
}

func (t *trial) readRegion(r region) (string, error) {
	in, err := t.log.section(r)
	if err != nil {
		return "", err
	}
	defer in.Close()
	text, err := io.ReadAll(in)
	return string(text), err
}
