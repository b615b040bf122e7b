package render

import (
	"fmt"
	"strings"

	"github.com/evalrun/evalrun/reports/analysis"
)

func percent(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }

func span(in analysis.Interval) string {
	return fmt.Sprintf("%.1f to %.1f", 100*in[0], 100*in[1])
}

func points(x float64) string { return fmt.Sprintf("%+.1f", 100*x) }

var denominators = map[string]string{
	analysis.OfTotal: "of all", analysis.OfSubmitted: "of submitted",
	analysis.OfEvaluated: "of evaluated", analysis.OfQuarantine: "not quarantined",
}

// Report shows the rates of one set, its partial credit and its slices.
func Report(r *analysis.Report) Document {
	head := r.Headline()
	doc := Document{{
		Heading: r.Name,
		Lines:   []string{fmt.Sprintf("resolved %d of %d: %s (95 %% interval %s)", head.Resolved, head.Of, percent(head.Rate), span(head.Wilson))},
		Table:   rates(r),
	}}
	if p := r.Partial; p != nil {
		doc = append(doc, partial(p))
	}
	if r.Slices != nil {
		doc = append(doc, slicesOf(r.Slices)...)
	}
	return doc
}

func rates(r *analysis.Report) *Table {
	t := &Table{
		Head: []string{"resolved", "rate", "of", "Wilson 95 %", "Clopper-Pearson", "by repository"},
	}
	t.Right = numbersAfter(1, len(t.Head))
	t.Right[0] = false
	for _, rate := range r.Rates {
		if rate.Of == 0 {
			continue // nothing to say of nothing
		}
		byRepo := "-"
		if c := rate.Clustered; c != nil {
			byRepo = span(c.Interval)
		}
		t.Rows = append(t.Rows, cells(denominators[rate.Denominator], percent(rate.Rate), fmt.Sprintf("%d/%d", rate.Resolved, rate.Of),
			span(rate.Wilson), span(rate.ClopperPearson), byRepo))
	}
	return t
}

func partial(p *analysis.Partial) Block {
	t := &Table{Head: []string{"partial credit", "mean share", "by repository", "tests", "all passed", "share of scored"}}
	t.Right = numbersAfter(1, len(t.Head))
	add := func(name string, c *analysis.Credits) {
		if c == nil {
			return
		}
		in := "-"
		if c.Clustered != nil {
			in = span(c.Clustered.Interval)
		}
		t.Rows = append(t.Rows, cells(name, percent(c.MeanShare), in, fmt.Sprintf("%d/%d", c.Passed, c.Tests),
			fmt.Sprintf("%d/%d", c.All, c.Instances), percent(c.OfScored)))
	}
	add("FAIL_TO_PASS", p.FailToPass)
	add("PASS_TO_PASS", p.PassToPass)
	return Block{Lines: []string{""}, Table: t}
}

func slicesOf(s *analysis.Slices) Document {
	if s.Parts == 0 {
		return Document{{Heading: "slices", Lines: []string{"nothing to divide by: no property has two values"}}}
	}
	doc := Document{{
		Heading: "slices",
		Lines: []string{fmt.Sprintf("%d parts are shown; of their 95 %% intervals about %.1f miss by chance. The last column holds for all of them together (Bonferroni).",
			s.Parts, s.ExpectedMisses)},
	}}
	for _, by := range s.By {
		t := &Table{Head: []string{strings.ReplaceAll(by.Property, "_", " "), "resolved", "rate", "Wilson 95 %", "all together"}}
		t.Right = numbersAfter(1, len(t.Head))
		for _, p := range by.Parts {
			t.Rows = append(t.Rows, cells(p.Value, fmt.Sprintf("%d/%d", p.Resolved, p.Of), percent(p.Rate), span(p.Wilson), span(p.Simultaneous)))
		}
		block := Block{Lines: []string{""}, Table: t}
		if by.Unknown > 0 {
			block.Lines = append(block.Lines, fmt.Sprintf("%s of %d instances is not known", t.Head[0], by.Unknown))
		}
		doc = append(doc, block)
	}
	return doc
}

// Attempts shows several runs of one system.
func Attempts(a *analysis.Attempts) Document {
	lines := []string{fmt.Sprintf("mean %s, from %s to %s", percent(a.Spread.Mean), percent(a.Spread.Low), percent(a.Spread.High))}
	if sd := a.Spread.StdDev; sd != nil {
		lines[0] += fmt.Sprintf(", standard deviation %.1f points", 100**sd)
	}
	if w, b := a.Spread.WithinVar, a.Spread.BetweenVar; w != nil && b != nil && *w+*b > 0 {
		lines = append(lines, fmt.Sprintf("%.0f %% of an instance's variance comes from running again, the rest from which instance it is", 100**w/(*w+*b)))
	}
	if a.Shared > 0 {
		lines = append(lines, fmt.Sprintf("%d results were not made again but taken from another attempt at the same patch, so that this is less than the spread of as many runs; `--attempts` or `--no-cache` make each", a.Shared))
	}
	runs := &Table{Head: []string{"run", "resolved", "rate", "Wilson 95 %"}, Right: numbersAfter(1, 4)}
	for _, r := range a.Runs {
		runs.Rows = append(runs.Rows, cells(r.Name, fmt.Sprintf("%d/%d", r.Resolved, r.Of), percent(r.Rate), span(r.Wilson)))
	}
	pass := &Table{Head: []string{"k", "pass@k", "95 %", "pass^k", "95 %", "instances"}, Right: numbersAfter(0, 6)}
	for _, p := range a.Pass {
		pass.Rows = append(pass.Rows, cells(fmt.Sprint(p.K), percent(p.AtK), clusteredSpan(p.AtKError), percent(p.HatK), clusteredSpan(p.HatKError), fmt.Sprint(p.Instances)))
	}
	return Document{
		{Heading: fmt.Sprintf("%s, %d runs", a.Model, len(a.Runs)), Lines: lines, Table: runs},
		{Lines: []string{""}, Table: pass},
	}
}

func clusteredSpan(c *analysis.Clustered) string {
	if c == nil {
		return "-"
	}
	return span(c.Interval)
}
