package verify

import (
	"context"
	"fmt"
	"slices"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/regrade"
	"github.com/evalrun/evalrun/reports"
)

// checkVerdict grades the log again, by the rules the attempt was graded by, and
// compares the outcome and every test.
func checkVerdict(ctx context.Context, r *Report, what string, a *reports.Attempt, row *datasets.Instance, dir string) {
	if a.Verdict == nil {
		if a.Outcome == grading.Resolved {
			r.add(what, Differs, "resolved without a verdict")
		}
		return
	}
	if a.Outcome == grading.Resolved && !a.Verdict.Resolved {
		r.add(what, Differs, "the outcome is resolved, the verdict is not")
		return
	}
	for _, p := range a.Phases {
		if p.Truncated {
			r.add(what, Unchecked, "the middle of the log was left out, so that it cannot be graded again")
			return
		}
	}
	now, err := regraded(ctx, a, row, dir)
	switch {
	case err != nil:
		r.add(what, Unchecked, "%v", err)
	case now.Verdict == nil:
		r.add(what, Differs, "recorded %s, and now %s: %s", a.Outcome, now.Outcome, now.Reason)
	case now.Verdict.Resolved != a.Verdict.Resolved || now.Outcome != a.Outcome:
		r.add(what, Differs, "recorded %s, the log says %s: %s", a.Outcome, now.Outcome, now.Verdict.Reason)
	default:
		if test := firstDifference(a.Verdict.Tests, now.Verdict.Tests); test != "" {
			r.add(what, Differs, "%s", test)
			return
		}
		r.add(what, Same, "")
	}
}

// regraded is the attempt as its log says now.
func regraded(ctx context.Context, a *reports.Attempt, row *datasets.Instance, dir string) (*reports.Attempt, error) {
	rules, err := grading.ParseRules(a.Rules)
	if err != nil {
		return nil, err
	}
	logs, err := regrade.Find(dir)
	if err != nil {
		return nil, err
	}
	if len(logs) != 1 {
		return nil, fmt.Errorf("%s has %d logs", dir, len(logs))
	}
	results, err := regrade.Grade(ctx, regrade.Options{Rules: rules, Workers: 1}, []regrade.Job{{Log: logs[0], Instance: row}})
	if err != nil {
		return nil, err
	}
	return &results[0].Attempt, nil
}

// firstDifference names a test that is in another list now, "" if none is.
func firstDifference(recorded, now *grading.TestsStatus) string {
	if recorded == nil || now == nil {
		if recorded != now {
			return "tests are recorded, and none can be read; or the other way"
		}
		return ""
	}
	for _, list := range []struct {
		name     string
		was, now []string
	}{
		{"FAIL_TO_PASS success", recorded.FailToPass.Success, now.FailToPass.Success},
		{"FAIL_TO_PASS failure", recorded.FailToPass.Failure, now.FailToPass.Failure},
		{"PASS_TO_PASS success", recorded.PassToPass.Success, now.PassToPass.Success},
		{"PASS_TO_PASS failure", recorded.PassToPass.Failure, now.PassToPass.Failure},
	} {
		for _, test := range list.was {
			if !slices.Contains(list.now, test) {
				return fmt.Sprintf("recorded as %s: %q; the log does not say so", list.name, test)
			}
		}
		if len(list.was) != len(list.now) {
			return fmt.Sprintf("%s: %d recorded, the log has %d", list.name, len(list.was), len(list.now))
		}
	}
	return ""
}
