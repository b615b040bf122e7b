package runner

import (
	"context"
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
	open := t.output(where)
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
	if !verdict.Found && verdict.Statuses.Len() == 0 {
		last := where
		last.start = max(last.start, last.end-offlineScan)
		text, err := t.readRegion(last)
		if err != nil {
			return err
		}
		t.missing = grading.OfflineSign(text)
	}
	known := grading.Circumstances{Parser: e.LogParser, Missing: t.missing, Exit: &t.testExit}
	if t.a.Usage.OOMKills > 0 {
		known.OutOfMemory = t.memoryReason()
	}
	t.a.Outcome, t.a.Reason = verdict.Outcome(known)
	if t.a.Trust.Doubts, err = grading.CrossCheck(open, e.LogParser, want, verdict); err != nil {
		return err
	}
	if t.structured != grading.NoStructured {
		t.a.Trust.Report = string(t.structured)
		t.a.Trust.Doubts = append(t.a.Trust.Doubts, grading.CrossCheckStructured(t.structured, want, verdict, t.cases)...)
	}
	t.doubt()
	return nil
}

// doubt draws the consequences. A log that contradicts itself is not believed; a
// summary that is missing has honest reasons, too, and so may have a test that is
// expected to fail: a person has to look.
func (t *trial) doubt() {
	if t.a.Outcome == grading.Resolved {
		t.a.Trust.Flagged = append(t.a.Trust.Flagged, t.odd...)
	}
	for _, d := range t.a.Trust.Doubts {
		switch {
		case d.Check == grading.CheckUnfinished || d.Check == grading.CheckExpected:
			t.a.Trust.Flagged = append(t.a.Trust.Flagged, d.Detail)
		case t.a.Outcome == grading.Resolved:
			t.a.Outcome, t.a.Reason = grading.Inconsistent, "the log says resolved, and yet: "+d.String()
		}
	}
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

func (t *trial) readRegion(r region) (string, error) {
	in, err := t.log.section(r)
	if err != nil {
		return "", err
	}
	defer in.Close()
	text, err := io.ReadAll(in)
	return string(text), err
}
