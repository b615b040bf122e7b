package reports

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports/stats"
)

// SummarySchema is the schema_version of Summary and of Document.
const SummarySchema = 1

// Summary answers, for one model of a run: how many, how sure, and why not the
// others. Its counts always add up: the outcomes to Total, Evaluated and
// NotEvaluated to Total, the reasons of each group to the group.
type Summary struct {
	SchemaVersion int    `json:"schema_version"`
	RunID         string `json:"run_id"`
	Model         string `json:"model_name_or_path"`

	Total    int                     `json:"total"`
	Outcomes map[grading.Outcome]int `json:"outcomes"` // every known outcome, zeros too

	Evaluated       int      `json:"evaluated"`     // the outcome is a result of the patch
	NotEvaluated    int      `json:"not_evaluated"` // somebody else's doing
	NotEvaluatedWhy []Reason `json:"not_evaluated_why"`

	Resolved          int        `json:"resolved"`
	Flagged           int        `json:"flagged"`              // of those resolved, the ones a person should look at
	ResolvedRate      float64    `json:"resolved_rate"`        // Resolved / Total
	Interval95        [2]float64 `json:"interval_95"`          // Wilson score interval of ResolvedRate
	RateOfEvaluated   float64    `json:"rate_of_evaluated"`    // Resolved / Evaluated
	RateIfAllResolved float64    `json:"rate_if_all_resolved"` // had every instance not evaluated been resolved
}

// Reason groups the instances that were not evaluated for the same cause.
type Reason struct {
	Fault     string          `json:"fault"` // environment, infrastructure, dataset, none
	Outcome   grading.Outcome `json:"outcome"`
	Reason    string          `json:"reason"` // as in attempt.json; "" if nothing was recorded
	Count     int             `json:"count"`
	Instances []string        `json:"instances"`
}

// Outcomes lists the known outcomes in the order in which they are shown.
func Outcomes() []grading.Outcome {
	return []grading.Outcome{
		grading.Resolved, grading.Unresolved, grading.EmptyPatch, grading.ApplyFailed,
		grading.TimedOut, grading.OutOfMemory, grading.DiskLimit, grading.SilenceLimit, grading.Tampering, grading.Inconsistent,
		grading.Ungradeable, grading.BuildFailed, grading.InfraFailed, grading.NotRun,
	}
}

// NewSummary counts the attempts of one model over the instances of the run.
// An instance without attempt counts as not run; an attempt at an instance that
// is not in ids does not count. With ids nil the attempts say what was run.
func NewSummary(run, model string, ids []string, attempts []Attempt) Summary {
	s := Summary{
		SchemaVersion: SummarySchema, RunID: run, Model: model,
		Outcomes: map[grading.Outcome]int{}, NotEvaluatedWhy: []Reason{},
	}
	for _, o := range Outcomes() {
		s.Outcomes[o] = 0
	}
	all := perInstance(run, model, ids, attempts)
	for _, a := range all {
		s.Total++
		s.Outcomes[a.Outcome]++
		if a.Outcome == grading.Resolved && len(a.Trust.Flagged) > 0 {
			s.Flagged++
		}
		if a.Outcome.Evaluated() {
			s.Evaluated++
		} else {
			s.NotEvaluated++
		}
	}
	s.NotEvaluatedWhy = reasonsOf(all)
	s.Resolved = s.Outcomes[grading.Resolved]
	s.ResolvedRate = rate(s.Resolved, s.Total)
	s.RateOfEvaluated = rate(s.Resolved, s.Evaluated)
	s.RateIfAllResolved = rate(s.Resolved+s.NotEvaluated, s.Total)
	in := stats.Wilson(s.Resolved, s.Total, 0.95)
	s.Interval95 = [2]float64{in.Low, in.High}
	return s
}

// perInstance gives exactly one attempt for each instance, in the order of ids.
func perInstance(run, model string, ids []string, attempts []Attempt) []Attempt {
	if ids == nil {
		for i := range attempts {
			ids = append(ids, attempts[i].InstanceID)
		}
	}
	known := byInstance(attempts)
	seen := make(map[string]bool, len(ids))
	out := make([]Attempt, 0, len(ids))
	for _, id := range ids {
		if seen[id] {
			continue
		}
		seen[id] = true
		if a := known[id]; a != nil {
			out = append(out, *a)
			continue
		}
		out = append(out, Attempt{
			SchemaVersion: AttemptSchema, RunID: run, Model: model, InstanceID: id,
			Outcome: grading.NotRun, Reason: "no attempt was recorded",
		})
	}
	return out
}

// reasonsOf groups what was not evaluated, the largest groups first.
func reasonsOf(attempts []Attempt) []Reason {
	type key struct {
		outcome grading.Outcome
		reason  string
	}
	groups := map[key]*Reason{}
	for _, a := range attempts {
		if a.Outcome.Evaluated() {
			continue
		}
		k := key{a.Outcome, a.Reason}
		if groups[k] == nil {
			groups[k] = &Reason{Fault: faultName(a.Outcome), Outcome: a.Outcome, Reason: a.Reason}
		}
		groups[k].Count++
		groups[k].Instances = append(groups[k].Instances, a.InstanceID)
	}
	out := make([]Reason, 0, len(groups))
	for _, g := range groups {
		slices.Sort(g.Instances)
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b Reason) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Fault, b.Fault),
			cmp.Compare(a.Outcome, b.Outcome), cmp.Compare(a.Reason, b.Reason))
	})
	return out
}

// faultName is how the reports spell whose doing an outcome is.
func faultName(o grading.Outcome) string { return cmp.Or(string(o.Fault()), "none") }

func rate(k, n int) float64 {
	if n == 0 {
		return 0
	}
	return float64(k) / float64(n)
}

// WriteText writes the summary as the few lines below the table, none wider
// than width columns.
func (s Summary) WriteText(w io.Writer, width int) error {
	width = tableWidth(width)
	lines := []string{"model " + SafeText(s.Model)}
	if s.RunID != "" {
		lines[0] += ", run " + SafeText(s.RunID)
	}
	lines = append(lines, fmt.Sprintf("resolved %d of %d: %s (95 %% interval %s to %s)", s.Resolved, s.Total,
		percent(s.ResolvedRate), percent(s.Interval95[0]), percent(s.Interval95[1])))
	if s.Flagged > 0 {
		lines = append(lines, fmt.Sprintf("%d of the %d resolved should be looked at: \"flagged\" in the table, trust in attempt.json", s.Flagged, s.Resolved))
	}
	lines = append(lines, wrapList("outcomes: ", s.outcomeCounts(), width)...)
	if s.NotEvaluated == 0 {
		lines = append(lines, fmt.Sprintf("evaluated %d, not evaluated 0", s.Evaluated))
	} else {
		in := stats.Wilson(s.Resolved, s.Evaluated, 0.95)
		lines = append(lines, fmt.Sprintf("evaluated %d (resolved %s, %s to %s), not evaluated %d:",
			s.Evaluated, percent(s.RateOfEvaluated), percent(in.Low), percent(in.High), s.NotEvaluated))
	}
	const most = 10
	for i, r := range s.NotEvaluatedWhy {
		if i == most {
			lines = append(lines, fmt.Sprintf("  … and %d more reasons", len(s.NotEvaluatedWhy)-most))
			break
		}
		lines = append(lines, "  "+r.line())
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, Clip(line, width)); err != nil {
			return err
		}
	}
	return nil
}

func (r Reason) line() string {
	text := fmt.Sprintf("%d × %s (%s)", r.Count, SafeText(string(r.Outcome)), r.Fault)
	if r.Fault == "none" {
		text = fmt.Sprintf("%d × %s", r.Count, SafeText(string(r.Outcome)))
	}
	if r.Reason != "" {
		text += ": " + SafeText(firstLine(r.Reason))
	}
	if r.Count == 1 {
		text += " [" + SafeText(r.Instances[0]) + "]"
	}
	return text
}

// outcomeCounts lists what occurred, known outcomes first.
func (s Summary) outcomeCounts() []string {
	var parts []string
	known := map[grading.Outcome]bool{}
	for _, o := range Outcomes() {
		known[o] = true
		if n := s.Outcomes[o]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, o))
		}
	}
	var others []string
	for o, n := range s.Outcomes {
		if !known[o] {
			others = append(others, fmt.Sprintf("%d %s", n, SafeText(string(o))))
		}
	}
	slices.Sort(others)
	return append(parts, others...)
}

// wrapList sets items behind a head, in as many lines as they need.
func wrapList(head string, items []string, width int) []string {
	if len(items) == 0 {
		return nil
	}
	indent := strings.Repeat(" ", displayWidth(head))
	lines := []string{head + items[0]}
	for _, item := range items[1:] {
		last := &lines[len(lines)-1]
		if displayWidth(*last)+2+displayWidth(item) < width {
			*last += ", " + item
			continue
		}
		*last += ","
		lines = append(lines, indent+item)
	}
	return lines
}

func percent(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }
