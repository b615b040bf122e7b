package html

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot/plotter"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports"
	"github.com/evalrun/evalrun/reports/analysis"
)

func shortName(text string) string { return reports.ClipMiddle(reports.SafeText(text), 40) }

// upTo is a round end of the scale for values up to most.
func upTo(most float64) float64 {
	for _, full := range []float64{.2, .4, .6, .8} {
		if most <= full {
			return full
		}
	}
	return 1
}

// mostBars is how many systems have a bar of outcomes; of more the matrix tells.
const mostBars = 20

func plots(p *Page) ([]plot, error) {
	if len(p.Reports) == 0 {
		return nil, nil
	}
	charts := []*chart{ratesPlot(p)}
	if len(p.Sets) <= mostBars {
		charts = append(charts, outcomesPlot(p))
	}
	if len(p.Reports) <= wordySystems {
		charts = append(charts, reposPlot(p)...)
	}
	out := make([]plot, len(charts))
	for n, c := range charts {
		var err error
		if out[n], err = c.draw(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ratesPlot has a row for each system, or for each denominator of the only one.
func ratesPlot(p *Page) *chart {
	type row struct {
		name string
		rate analysis.Rate
	}
	var rows []row
	caption := "Resolved of all instances, with 95 % intervals (Wilson)"
	if len(p.Reports) == 1 {
		caption = "Resolved, with 95 % intervals (Wilson), by what it is a share of"
		for _, rate := range p.Reports[0].Rates {
			rows = append(rows, row{denominator(rate.Denominator), rate})
		}
	} else {
		for n := range p.Reports {
			rows = append(rows, row{p.Reports[n].Name, p.Reports[n].Headline()})
		}
	}
	most := 0.0
	for _, r := range rows {
		most = max(most, r.rate.Wilson[1])
	}
	c := newChart(caption, len(rows), 1, upTo(most))
	for n, r := range rows {
		text := describe(r.rate)
		c.name(n, r.name)
		c.interval(n, 0, 0, r.rate.Rate, r.rate.Wilson, text)
		c.note(n, r.rate.Wilson[1], "", fmt.Sprintf("%.1f %%", 100*r.rate.Rate))
		c.Label += "; " + shortName(r.name) + " " + text
	}
	return c
}

func describe(r analysis.Rate) string {
	return fmt.Sprintf("%d of %d, %.1f %%, %.1f to %.1f", r.Resolved, r.Of, 100*r.Rate, 100*r.Wilson[0], 100*r.Wilson[1])
}

func denominator(name string) string {
	switch name {
	case analysis.OfTotal:
		return "of all instances"
	case analysis.OfSubmitted:
		return "of those submitted"
	case analysis.OfEvaluated:
		return "of those evaluated"
	case analysis.OfQuarantine:
		return "without quarantined"
	}
	return name
}

// outcomesPlot has a bar for each system, divided by outcome.
func outcomesPlot(p *Page) *chart {
	c := newChart("How the attempts ended", len(p.Sets), 1, 1)
	classes := map[grading.Outcome]string{}
	for n, s := range p.Sets {
		counts := map[grading.Outcome]int{}
		for i := range s.Items {
			counts[s.Items[i].Outcome]++
		}
		c.name(n, s.Name)
		c.Label += "; " + shortName(s.Name)
		var last *plotter.BarChart
		for _, o := range outcomeOrder(counts) {
			if classes[o] == "" {
				classes[o] = barClass(o, classes)
				c.Keys = append(c.Keys, key{classes[o], reports.SafeText(string(o))})
			}
			text := fmt.Sprintf("%s: %d of %d", reports.SafeText(string(o)), counts[o], len(s.Items))
			last = c.bar(n, last, float64(counts[o])/float64(len(s.Items)), classes[o], text)
			c.Label += ", " + text
		}
	}
	return c
}

func outcomeOrder(counts map[grading.Outcome]int) []grading.Outcome {
	var out []grading.Outcome
	for _, o := range reports.Outcomes() {
		if counts[o] > 0 {
			out = append(out, o)
		}
	}
	for _, o := range sortedKeys(counts) {
		if !slices.Contains(out, o) {
			out = append(out, o)
		}
	}
	return out
}

// barClass gives outcomes of one kind paler and paler colours.
func barClass(o grading.Outcome, taken map[grading.Outcome]string) string {
	kind := newOutcome(o).Kind
	n := 1
	for other := range taken {
		if newOutcome(other).Kind == kind {
			n++
		}
	}
	if n == 1 {
		return kind
	}
	return fmt.Sprintf("%s f%d", kind, min(n, 5))
}

// reposPlot has a row for each repository, a mark for each system.
func reposPlot(p *Page) []*chart {
	parts := map[string][]*analysis.Part{}
	for n := range p.Reports {
		for _, part := range byRepository(&p.Reports[n]) {
			if parts[part.Value] == nil {
				parts[part.Value] = make([]*analysis.Part, len(p.Reports))
			}
			parts[part.Value][n] = part
		}
	}
	if len(parts) < 2 || len(parts) > 60 {
		return nil
	}
	names := sortedKeys(parts)
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(instancesIn(parts[b]), instancesIn(parts[a])) })
	c := newChart("Resolved by repository, with 95 % intervals (Wilson, each for itself); most instances first", len(names), len(p.Reports), 1)
	for row, name := range names {
		c.name(row, name)
		c.Label += "; " + shortName(name)
		for n, part := range parts[name] {
			if part == nil {
				continue
			}
			shift := 0.0
			if len(p.Reports) > 1 {
				shift = 11 * (float64(n) - float64(len(p.Reports)-1)/2)
			}
			text := fmt.Sprintf("%d of %d, %.0f to %.0f %%", part.Resolved, part.Of, 100*part.Wilson[0], 100*part.Wilson[1])
			c.interval(row, n, shift, part.Rate, part.Wilson, text)
			c.Label += " " + text
		}
		c.note(row, 1, "soft", fmt.Sprintf("n = %d", instancesIn(parts[name])))
	}
	if len(p.Reports) > 1 {
		for n := range p.Reports {
			c.Keys = append(c.Keys, key{fmt.Sprintf("k%d", n%len(shapes)), reports.SafeText(p.Reports[n].Name)})
		}
	}
	return []*chart{c}
}

func instancesIn(parts []*analysis.Part) int {
	n := 0
	for _, p := range parts {
		if p != nil {
			n = max(n, p.Of)
		}
	}
	return n
}

func byRepository(r *analysis.Report) []*analysis.Part {
	if r.Slices == nil {
		return nil
	}
	var out []*analysis.Part
	for i := range r.Slices.By {
		if r.Slices.By[i].Property == "repository" {
			for k := range r.Slices.By[i].Parts {
				out = append(out, &r.Slices.By[i].Parts[k])
			}
		}
	}
	return out
}

// heatMap has a cell for each system and repository, where a plot would be too
// crowded.
type heatMap struct {
	Head []string
	Rows []heatRow
}

type heatRow struct {
	Name  string
	Cells []heatCell
}

type heatCell struct {
	Text, Title string
	Step        int // 0 to 10: how much colour
}

func heat(p *Page) *heatMap {
	if len(p.Reports) <= wordySystems {
		return nil
	}
	of := map[string]int{}
	for n := range p.Reports {
		for _, part := range byRepository(&p.Reports[n]) {
			of[part.Value] = max(of[part.Value], part.Of)
		}
	}
	if len(of) < 2 {
		return nil
	}
	repos := sortedKeys(of)
	slices.SortStableFunc(repos, func(a, b string) int { return cmp.Compare(of[b], of[a]) })
	h := &heatMap{}
	for _, repo := range repos {
		h.Head = append(h.Head, fmt.Sprintf("%s (%d)", shortName(repo), of[repo]))
	}
	for n := range p.Reports {
		row := heatRow{Name: shortName(p.Reports[n].Name), Cells: make([]heatCell, len(repos))}
		for _, part := range byRepository(&p.Reports[n]) {
			row.Cells[slices.Index(repos, part.Value)] = heatCell{
				Text: fmt.Sprintf("%.0f", 100*part.Rate), Step: int(math.Round(10 * part.Rate)),
				Title: fmt.Sprintf("%s: %d of %d, %.0f to %.0f %%", shortName(part.Value), part.Resolved, part.Of, 100*part.Wilson[0], 100*part.Wilson[1]),
			}
		}
		h.Rows = append(h.Rows, row)
	}
	return h
}
