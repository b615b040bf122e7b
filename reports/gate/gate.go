// Package gate decides for a CI job whether results are good enough: against a
// minimum, a list, a baseline, or a baseline within chance.
//
// A gate says no only for what the system did. Where the environment or the
// infrastructure left a question open, the answer is that it is open. The package
// must not know files, environments of CI systems, or exit statuses.
package gate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports/results"
	"github.com/evalrun/evalrun/reports/stats"
)

// Rules are what is asked. Those that are zero are not asked.
type Rules struct {
	MinRate    *float64        // resolved over the total without the flaky, at least
	MustPass   []string        // instances that must be resolved
	Baseline   *results.Set    // what NoNew and Alpha compare with
	NoNew      bool            // no instance that the baseline resolved may be unresolved
	Alpha      float64         // not significantly worse than the baseline, one-sided exact McNemar
	Flaky      map[string]bool // instances whose verdict decides nothing here
	CommonOnly bool            // the baseline may have other instances
}

// Status of a check, and of the whole.
type Status string

const (
	Passed    Status = "passed"
	Failed    Status = "failed"
	Undecided Status = "undecided" // what could not be evaluated decides it
)

// Check is one rule and what came of it.
type Check struct {
	Rule      string   `json:"rule"`
	Status    Status   `json:"status"`
	Reason    string   `json:"reason"`
	Instances []string `json:"instances,omitempty"` // those at fault, or open
	Flaky     []string `json:"flaky,omitempty"`     // those that would have been, and are known to be flaky
}

// Result is the answer of a gate.
type Result struct {
	SchemaVersion int      `json:"schema_version"`
	Status        Status   `json:"status"`
	Reason        string   `json:"reason"` // one line
	Name          string   `json:"name"`
	Resolved      int      `json:"resolved"`
	Of            int      `json:"of"`
	Baseline      string   `json:"baseline,omitempty"`
	Checks        []Check  `json:"checks"`
	Notes         []string `json:"notes,omitempty"`
}

// Schema is the schema_version of Result.
const Schema = 1

// Run applies the rules to a set. An error means that they cannot be applied.
func Run(s *results.Set, rules Rules) (Result, error) {
	r := Result{SchemaVersion: Schema, Name: s.Name, Resolved: s.Resolved(), Of: len(s.Items)}
	if rules.MinRate == nil && len(rules.MustPass) == 0 && !rules.NoNew && rules.Alpha == 0 {
		return r, fmt.Errorf("the gate has no rule: give --min-rate, --must-pass, --no-regression or --alpha")
	}
	if rules.Alpha != 0 && !(rules.Alpha > 0 && rules.Alpha < 1) {
		return r, fmt.Errorf("alpha is %g: want more than 0 and less than 1", rules.Alpha)
	}
	if (rules.NoNew || rules.Alpha > 0) && rules.Baseline == nil {
		return r, fmt.Errorf("--no-regression and --alpha compare with something: give --baseline")
	}
	if len(s.Items) == 0 {
		return r, fmt.Errorf("%s has no instances", s.Name)
	}
	if b := rules.Baseline; b != nil {
		r.Baseline = b.Name
		notes, err := sameInstances(s, b, rules.CommonOnly)
		if err != nil {
			return r, err
		}
		r.Notes = notes
		if !b.Open && !slices.ContainsFunc(s.Items, func(it results.Item) bool { return b.Find(it.ID) != nil }) {
			return r, fmt.Errorf("%s and the baseline %s have no instance in common", s.Name, b.Name)
		}
	}
	if rules.MinRate != nil {
		r.Checks = append(r.Checks, minRate(s, *rules.MinRate, rules))
	}
	if len(rules.MustPass) > 0 {
		check, err := mustPass(s, rules)
		if err != nil {
			return r, err
		}
		r.Checks = append(r.Checks, check)
	}
	if rules.NoNew {
		r.Checks = append(r.Checks, noNew(s, rules))
	}
	if rules.Alpha > 0 {
		r.Checks = append(r.Checks, notWorse(s, rules))
	}
	r.conclude()
	return r, nil
}

// sameInstances refuses a baseline of other instances, or notes them.
func sameInstances(s, b *results.Set, common bool) ([]string, error) {
	var missing, gone []string
	for i := range s.Items {
		if b.Find(s.Items[i].ID) == nil && !b.Open {
			missing = append(missing, s.Items[i].ID)
		}
	}
	for i := range b.Items {
		if s.Find(b.Items[i].ID) == nil {
			gone = append(gone, b.Items[i].ID)
		}
	}
	var notes []string
	if s.Rules != "" && b.Rules != "" && s.Rules != b.Rules {
		notes = append(notes, fmt.Sprintf("graded by %s, the baseline by %s", s.Rules, b.Rules))
	}
	if s.Dataset != "" && b.Dataset != "" && s.Dataset != b.Dataset {
		notes = append(notes, "the dataset is not the baseline's")
	}
	if len(missing)+len(gone) == 0 {
		return notes, nil
	}
	text := fmt.Sprintf("%d not in the baseline, %d of the baseline not here", len(missing), len(gone))
	if !common {
		return nil, fmt.Errorf("%s and the baseline are not of the same instances: %s (%s); give --common to compare on what both have, or write the baseline anew with --write-baseline",
			s.Name, text, some(append(missing, gone...)))
	}
	return append(notes, "instances: "+text), nil
}

func minRate(s *results.Set, least float64, rules Rules) Check {
	c := Check{Rule: "min-rate"}
	resolved, open, of := 0, 0, 0
	for i := range s.Items {
		it := &s.Items[i]
		if rules.Flaky[it.ID] {
			c.Flaky = append(c.Flaky, it.ID)
			continue
		}
		of++
		switch {
		case it.Resolved():
			resolved++
		case !it.Scored():
			open++
			c.Instances = append(c.Instances, it.ID)
		}
	}
	rate := func(k int) float64 { return float64(k) / float64(max(of, 1)) }
	what := fmt.Sprintf("%d of %d resolved, %.1f %%", resolved, of, 100*rate(resolved)) + flakyText(c.Flaky)
	switch {
	case rate(resolved) >= least:
		c.Status, c.Reason, c.Instances = Passed, fmt.Sprintf("%s, wanted %.1f %%", what, 100*least), nil
	case rate(resolved+open) >= least:
		c.Status, c.Reason = Undecided, fmt.Sprintf("%s, wanted %.1f %%, and %d could not be evaluated", what, 100*least, open)
	default:
		c.Status, c.Reason, c.Instances = Failed, fmt.Sprintf("%s, wanted %.1f %%", what, 100*least), nil
	}
	return c
}

func mustPass(s *results.Set, rules Rules) (Check, error) {
	var unknown []string
	for _, id := range rules.MustPass {
		if s.Find(id) == nil {
			unknown = append(unknown, id)
		}
	}
	if len(unknown) > 0 {
		return Check{}, fmt.Errorf("--must-pass names instances that %s does not have: %s", s.Name, some(unknown))
	}
	c := required(s, rules.MustPass, rules.Flaky, "must-pass", "must be resolved and is not", "must be resolved and are not")
	if c.Status == Passed {
		c.Reason = fmt.Sprintf("all %d that must be are resolved", len(rules.MustPass)) + flakyText(c.Flaky)
	}
	return c, nil
}

func noNew(s *results.Set, rules Rules) Check {
	var before []string
	for i := range rules.Baseline.Items {
		if it := &rules.Baseline.Items[i]; it.Resolved() && s.Find(it.ID) != nil {
			before = append(before, it.ID)
		}
	}
	c := required(s, before, rules.Flaky, "no-regression", "that the baseline resolved is no longer resolved", "that the baseline resolved are no longer resolved")
	if c.Status == Passed {
		c.Reason = fmt.Sprintf("all %d that the baseline resolved still are", len(before)) + flakyText(c.Flaky)
	}
	return c
}

// required checks that all of ids are resolved.
func required(s *results.Set, ids []string, flaky map[string]bool, rule, one, many string) Check {
	c := Check{Rule: rule, Status: Passed}
	var broken, open []string
	for _, id := range ids {
		switch it := s.Find(id); {
		case it.Resolved():
		case flaky[id]:
			c.Flaky = append(c.Flaky, id)
		case it.Scored():
			broken = append(broken, id)
		default:
			open = append(open, id)
		}
	}
	text := many
	switch {
	case len(broken) > 0:
		if len(broken) == 1 {
			text = one
		}
		c.Status, c.Instances, c.Reason = Failed, broken, fmt.Sprintf("%d %s: %s", len(broken), text, some(broken))
	case len(open) > 0:
		c.Status, c.Instances, c.Reason = Undecided, open, fmt.Sprintf("%d could not be evaluated: %s", len(open), some(open))
	}
	return c
}

// notWorse asks whether losses outnumber wins by more than chance would.
func notWorse(s *results.Set, rules Rules) Check {
	c := Check{Rule: "not-worse", Status: Passed}
	wins, losses, both, open := 0, 0, 0, 0
	for i := range s.Items {
		it := &s.Items[i]
		old := rules.Baseline.Find(it.ID)
		switch {
		case old == nil || rules.Flaky[it.ID]:
		case !it.Scored() || !old.Scored():
			open++
		case it.Resolved() && old.Resolved():
			both++
		case it.Resolved():
			wins++
		case old.Resolved():
			losses++
			c.Instances = append(c.Instances, it.ID)
		}
	}
	p := stats.McNemarWorse(wins, losses)
	c.Reason = fmt.Sprintf("%d gained, %d lost: p %.3g, alpha %g", wins, losses, p, rules.Alpha)
	// What is open could have been won or lost.
	best := stats.McNemarWorse(wins+open, losses)
	worst := stats.McNemarWorse(wins, losses+open)
	switch {
	case p < rules.Alpha && best < rules.Alpha:
		c.Status, c.Reason = Failed, "significantly worse: "+c.Reason
	case worst >= rules.Alpha || open == 0:
		c.Instances = nil
	default:
		c.Status, c.Reason = Undecided, fmt.Sprintf("%s; %d could not be evaluated and would decide", c.Reason, open)
	}
	return c
}

// conclude: what failed has failed, whatever else is open.
func (r *Result) conclude() {
	r.Status = Passed
	var reasons []string
	for _, status := range []Status{Failed, Undecided} {
		for _, c := range r.Checks {
			if c.Status == status && (r.Status == Passed || r.Status == status) {
				r.Status = status
				reasons = append(reasons, c.Rule+": "+c.Reason)
			}
		}
	}
	if r.Status == Passed {
		for _, c := range r.Checks {
			reasons = append(reasons, c.Rule+": "+c.Reason)
		}
	}
	r.Reason = strings.Join(reasons, "; ")
}

func flakyText(flaky []string) string {
	if len(flaky) == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d flaky left aside)", len(flaky))
}

func some(ids []string) string {
	const most = 3
	text := strings.Join(ids[:min(most, len(ids))], ", ")
	if len(ids) > most {
		text += fmt.Sprintf(" and %d more", len(ids)-most)
	}
	return text
}

// Changes lists what is resolved now and was not, and the other way, both in the
// order of ids. Instances that were not scored in both are in neither.
func Changes(s, baseline *results.Set) (gained, lost []Change) {
	for i := range s.Items {
		it := &s.Items[i]
		old := baseline.Find(it.ID)
		if old == nil || !it.Scored() || !old.Scored() || it.Resolved() == old.Resolved() {
			continue
		}
		change := Change{ID: it.ID, Before: old.Outcome, Now: it.Outcome, Reason: it.Reason}
		if it.Resolved() {
			gained = append(gained, change)
		} else {
			lost = append(lost, change)
		}
	}
	byID := func(a, b Change) int { return cmp.Compare(a.ID, b.ID) }
	slices.SortFunc(gained, byID)
	slices.SortFunc(lost, byID)
	return gained, lost
}

// Change is an instance that is resolved in one of two sets only.
type Change struct {
	ID     string
	Before grading.Outcome
	Now    grading.Outcome
	Reason string
}
