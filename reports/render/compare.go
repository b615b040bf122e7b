package render

import (
	"fmt"

	"github.com/evalrun/evalrun/reports/analysis"
)

// ComparisonOptions say what is shown of a comparison.
type ComparisonOptions struct {
	Flips int // of each pair, at most; 0: none
}

// Comparison shows the systems in order, then every pair.
func Comparison(c *analysis.Comparison, o ComparisonOptions) Document {
	board := &Table{Head: []string{"group", "system", "resolved", "rate", "Wilson 95 %"}, Right: []bool{true, false, true, true, true}}
	for _, s := range c.Systems {
		board.Rows = append(board.Rows, cells(fmt.Sprint(s.Group), s.Name, fmt.Sprintf("%d/%d", s.Resolved, s.Of), percent(s.Rate), span(s.Wilson)))
	}
	doc := Document{{Heading: fmt.Sprintf("%d systems on %d instances", len(c.Systems), c.Instances), Lines: c.Notes, Table: board}}
	if len(c.Systems) > 2 {
		doc = append(doc, Block{Lines: []string{fmt.Sprintf("A group is a tie with its first: none of it is significantly worse (exact McNemar, Holm over %d pairs, alpha %g).", c.Tests, c.Alpha)}})
	}
	if s := c.Stability; s != nil && s.Spearman != nil && s.Range90 != nil && s.FullLength != nil && s.SameFirst != nil && s.SwappedPairs != nil {
		doc = append(doc, Block{Lines: []string{fmt.Sprintf(
			"Stability: on random halves of the instances the rankings correlate by %.2f (%.2f to %.2f in 90 %% of %d splits, seed %d), %.2f for the whole length; the first is the same in %s, %s of pairs change order.",
			*s.Spearman, s.Range90[0], s.Range90[1], s.Splits, s.Seed, *s.FullLength, percent(*s.SameFirst), percent(*s.SwappedPairs))}})
	}
	doc = append(doc, pairTable(c)...)
	if len(c.Pairs) <= 3 {
		for i := range c.Pairs {
			doc = append(doc, inWords(&c.Pairs[i], c))
		}
	}
	for i := range c.Pairs {
		if o.Flips > 0 && len(c.Pairs[i].Flips) > 0 {
			doc = append(doc, flips(&c.Pairs[i], o.Flips))
		}
	}
	return doc
}

// pairTable has a row for each pair, as long as somebody would read them.
func pairTable(c *analysis.Comparison) Document {
	const most = 60
	if n := len(c.Pairs); n > most {
		return Document{{Lines: []string{fmt.Sprintf("%d pairs; --json has each.", n)}}}
	}
	t := &Table{Head: []string{"A", "B", "won", "lost", "A - B", "bootstrap 95 %", "McNemar p", "Holm p", "could show"},
		Right: []bool{false, false, true, true, true, true, true, true, true}}
	for i := range c.Pairs {
		p := &c.Pairs[i]
		in, could := "-", "-"
		if p.Bootstrap != nil && p.Bootstrap.Interval != nil {
			in = fmt.Sprintf("%s to %s", points(p.Bootstrap.Interval[0]), points(p.Bootstrap.Interval[1]))
		}
		if p.SmallestDifference != nil {
			could = fmt.Sprintf("%.1f", 100**p.SmallestDifference)
		}
		t.Rows = append(t.Rows, cells(p.A, p.B, fmt.Sprint(p.Wins), fmt.Sprint(p.Losses), points(p.Difference), in, probability(p.P), probability(p.Holm), could))
	}
	return Document{{Heading: "pairs", Table: t}}
}

func probability(p float64) string {
	if p < 0.0001 {
		return fmt.Sprintf("%.0e", p)
	}
	return fmt.Sprintf("%.4f", p)
}

// inWords says what one pair comes to.
func inWords(p *analysis.Pair, c *analysis.Comparison) Block {
	text := fmt.Sprintf("%s and %s: %d instances, both %d, only A %d, only B %d, neither %d", p.A, p.B, p.Pairs, p.Both, p.Wins, p.Losses, p.Neither)
	if p.Excluded > 0 {
		text += fmt.Sprintf("; %d left out, which the environment or the infrastructure kept from being evaluated in one of them", p.Excluded)
	}
	lines := []string{"", text + "."}
	verdict := fmt.Sprintf("Not told apart at alpha %g (p %s).", c.Alpha, probability(p.Holm))
	if p.Significant {
		better := p.A
		if p.Wins < p.Losses {
			better = p.B
		}
		verdict = fmt.Sprintf("%s is better (p %s at alpha %g).", better, probability(p.Holm), c.Alpha)
	}
	lines = append(lines, verdict)
	if b := p.Bootstrap; b != nil && b.Interval != nil {
		line := fmt.Sprintf("Difference %s points, paired bootstrap %s to %s (%d resamples, seed %d)", points(p.Difference), points(b.Interval[0]), points(b.Interval[1]), b.Resamples, b.Seed)
		if p.Clustered != nil {
			line += fmt.Sprintf("; by repository %s to %s", points(p.Clustered.Interval[0]), points(p.Clustered.Interval[1]))
		}
		lines = append(lines, line+".")
	}
	if p.SmallestDifference != nil {
		lines = append(lines, fmt.Sprintf("With %d of %d that differ, this set shows a difference of %.1f points in 80 %% of cases; here net %d would have been significant, it is %d.",
			p.Wins+p.Losses, p.Pairs, 100**p.SmallestDifference, p.SignificantFrom, abs(p.Wins-p.Losses)))
	} else if p.Wins+p.Losses > 0 {
		lines = append(lines, fmt.Sprintf("With %d of %d that differ, no difference would show in 80 %% of cases: take more instances.", p.Wins+p.Losses, p.Pairs))
	}
	return Block{Lines: lines}
}

func abs(n int) int { return max(n, -n) }

// flips lists the instances that differ, and which test decided each.
func flips(p *analysis.Pair, most int) Block {
	t := &Table{Head: []string{"instance", "won by", "the other", "decided by"}}
	for i, f := range p.Flips {
		if i == most {
			break
		}
		// The winner leads to its logs, the other outcome to those of the other.
		winner, other := Cell{p.A, f.LogsA}, Cell{string(f.Loser), f.LogsB}
		if f.Winner == "b" {
			winner, other = Cell{p.B, f.LogsB}, Cell{string(f.Loser), f.LogsA}
		}
		what := f.Reason
		if len(f.Decided) > 0 {
			what = f.Decided[0].List + " " + f.Decided[0].Test
			if more := len(f.Decided) - 1 + f.More; more > 0 {
				what += fmt.Sprintf(" and %d more", more)
			}
		}
		t.Rows = append(t.Rows, []Cell{{Text: f.InstanceID}, winner, other, {Text: what}})
	}
	block := Block{Heading: fmt.Sprintf("%s and %s differ on %d", p.A, p.B, len(p.Flips)), Table: t}
	if n := len(p.Flips); n > most {
		block.Lines = []string{fmt.Sprintf("the first %d; --flips shows more, --json all", most)}
	}
	return block
}
