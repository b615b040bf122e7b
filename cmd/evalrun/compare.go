package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/evalrun/evalrun/reports"
	"github.com/evalrun/evalrun/reports/analysis"
	"github.com/evalrun/evalrun/reports/html"
	"github.com/evalrun/evalrun/reports/render"
	"github.com/evalrun/evalrun/reports/results"
)

type compareCmd struct {
	Sources   []string `arg:"" name:"source" help:"Runs, files or folders with results: two systems or more."`
	Output    string   `name:"out" default:"." placeholder:"DIR" help:"Folder that holds logs/."`
	Format    string   `enum:"table,json,markdown" default:"table" help:"table, json or markdown."`
	JSON      bool     `name:"json" help:"As --format json."`
	HTML      string   `name:"html" placeholder:"FILE" help:"Write one HTML file, with the details side by side, instead."`
	Force     bool     `help:"Replace a file that evalrun has not written."`
	Common    bool     `help:"Compare on the instances that all have; without it, different instances are refused."`
	Alpha     float64  `default:"0.05" help:"What is called significant, over all pairs together."`
	Resamples int      `default:"10000" help:"Resamples of the bootstrap."`
	Seed      uint64   `default:"1" help:"Seed of the bootstrap and of the random halves."`
	Splits    int      `default:"1000" help:"Random halves for the stability of the ranking."`
	Flips     int      `default:"20" help:"Instances shown that only one of a pair resolved."`
	universeFlags
}

func (compareCmd) Help() string {
	return `Wins, losses and ties on the same instances; exact McNemar test, Holm's correction over
all pairs, paired bootstrap interval, tie groups, what the set could have shown, and
which test decided each instance that differs. docs/statistics.md explains each.

` + sourceHelp + `
Examples:
  evalrun compare claude gpt
  evalrun compare run-1::acme/agent-1 run-1::acme/agent-2 --flips 100
  evalrun compare acme__agent-1.run.json acme__agent-2.run.json --format markdown
  evalrun compare -d verified evaluation/verified/20250807_openhands_gpt5 evaluation/verified/20250901_warp
  evalrun compare -d verified evaluation/verified --json > board.json
  evalrun compare claude gpt --html claude-gpt.html
`
}

// Run compares systems.
func (c *compareCmd) Run(e *env) error {
	if !(c.Alpha > 0 && c.Alpha < 1) {
		return errors.New("--alpha: want more than 0 and less than 1")
	}
	if c.Resamples > 10_000_000 || c.Splits > 1_000_000 {
		return errors.New("--resamples: want no more than 10000000; --splits: no more than 1000000")
	}
	if c.Resamples < 100 || c.Splits < 0 || c.Flips < 0 {
		return errors.New("--resamples: want 100 or more; --splits and --flips: 0 or more")
	}
	if c.HTML != "" {
		if err := html.MayReplace(c.HTML, c.Force); err != nil {
			return fmt.Errorf("--html: %w", err)
		}
	}
	u, err := c.load(e)
	if err != nil {
		return err
	}
	if c.HTML != "" {
		roomForPages()
	}
	sets, err := results.LoadAll(e.ctx, c.Sources, results.Options{Root: c.Output})
	if err != nil {
		return err
	}
	showNotes(e, sets)
	if len(sets) < 2 {
		return fmt.Errorf("%s is one system (%s): want two or more to compare", c.Sources[0], sets[0].Name)
	}
	notes, err := results.Align(sets, u, c.Common)
	if err != nil {
		return err
	}
	result, err := analysis.Compare(e.ctx, sets, analysis.CompareOptions{
		Options: analysis.Options{Facts: facts(u)}, Alpha: c.Alpha, Resamples: c.Resamples, Seed: c.Seed, Splits: c.Splits, Flips: true,
	})
	if err != nil {
		return err
	}
	result.Notes = append(result.Notes, notes...)
	if c.HTML != "" {
		return writeComparison(e, c.HTML, sets, &result, facts(u))
	}
	if c.JSON || c.Format == "json" {
		return writeJSON(e.stdout, comparison{result, records(sets)})
	}
	options := render.ComparisonOptions{}
	if len(result.Pairs) <= 3 {
		options.Flips = c.Flips
	}
	doc := append(render.Comparison(&result, options), render.ProvenanceOf(sets)...)
	if c.Format == "markdown" {
		return doc.WriteMarkdown(e.stdout)
	}
	_, width := terminalOf(e.stdout)
	return doc.WriteText(e.stdout, width)
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// comparison is what compare prints as JSON.
type comparison struct {
	analysis.Comparison
	// Provenance are the runs the systems are of, as in their run.json; systems whose
	// results others wrote have none.
	Provenance map[string]*reports.RunRecord `json:"provenance,omitempty"`
}

func records(sets []*results.Set) map[string]*reports.RunRecord {
	known := map[string]*reports.RunRecord{}
	for _, s := range sets {
		if s.Record != nil {
			known[s.Name] = s.Record
		}
	}
	return known
}
