package regrade

import (
	"slices"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports"
)

// Difference is one log whose verdict depends on the rules.
type Difference struct {
	InstanceID string  `json:"instance_id"`
	Model      string  `json:"model_name_or_path"`
	Verdicts   [2]Side `json:"verdicts"` // under the rules, and under those compared with

	// The first test of the row that fails under one rule set only, and its list.
	// Both are empty where a rule set does not take the log at all.
	List string `json:"list,omitempty"`
	Test string `json:"test,omitempty"`
}

// Side is the verdict under one rule set.
type Side struct {
	Rules   grading.Rules   `json:"rules"`
	Outcome grading.Outcome `json:"outcome"`
	Status  string          `json:"status,omitempty"` // of the deciding test: what the log says, or "absent"
	Reason  string          `json:"reason,omitempty"`
}

// differ returns nil where both rule sets agree.
func differ(attempt *reports.Attempt, a, b verdict, inst *datasets.Instance) *Difference {
	if a.outcome == b.outcome {
		return nil
	}
	d := &Difference{InstanceID: attempt.InstanceID, Model: attempt.Model}
	d.List, d.Test = deciding(&a.report, &b.report, inst)
	for i, v := range []verdict{a, b} {
		d.Verdicts[i] = Side{Rules: v.report.Rules, Outcome: v.outcome, Reason: v.reason}
		if d.Test == "" {
			continue
		}
		d.Verdicts[i].Status = statusOf(v.report, d.Test)
	}
	return d
}

func statusOf(r grading.Report, test string) string {
	if status, found := r.Statuses.Get(test); found {
		return string(status)
	}
	if status, found := grading.StatusOf(r.Rules, r.Statuses, test); found {
		return string(status) + " (by the beginning of its name)"
	}
	return "absent"
}

// deciding finds the first test that fails in one report only.
func deciding(a, b *grading.Report, inst *datasets.Instance) (list, test string) {
	if a.Tests == nil || b.Tests == nil {
		return "", ""
	}
	for _, l := range []struct {
		name  string
		tests []string
		a, b  []string
	}{
		{"FAIL_TO_PASS", inst.FailToPass, a.Tests.FailToPass.Failure, b.Tests.FailToPass.Failure},
		{"PASS_TO_PASS", inst.PassToPass, a.Tests.PassToPass.Failure, b.Tests.PassToPass.Failure},
	} {
		for _, t := range l.tests {
			if slices.Contains(l.a, t) != slices.Contains(l.b, t) {
				return l.name, t
			}
		}
	}
	return "", ""
}
