package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/evalrun/evalrun/reports/analysis"
	"github.com/evalrun/evalrun/reports/leaderboard"
	"github.com/evalrun/evalrun/reports/results"
)

type leaderboardCmd struct {
	Build  boardCmd  `cmd:"" default:"withargs" help:"Make a board of many systems (the default)."`
	Bundle bundleCmd `cmd:"" help:"Make a submission's folder from a run."`
	Check  checkCmd  `cmd:"" help:"Look for what is wrong with a submission; grade its logs again."`
}

type boardCmd struct {
	Sources []string `arg:"" name:"source" help:"Runs, files or folders with results."`
	Output  string   `name:"out" default:"." placeholder:"DIR" help:"Folder that holds logs/."`
	To      string   `default:"board" placeholder:"DIR" help:"Folder of the site: index.html and board.json."`
	Title   string   `default:"Leaderboard" help:"Title of the site."`
	Details bool     `help:"Patches, tests and logs are part of the site."`
	Force   bool     `help:"Replace files that evalrun has not written."`
	JSON    bool     `name:"json" help:"Print board.json and write nothing."`
	Common  bool     `help:"Compare on the instances that all have; without it, different instances are refused."`
	Alpha   float64  `default:"0.05" help:"What is called significant, over all pairs together."`
	Splits  int      `default:"1000" help:"Random halves for the stability of the ranking."`
	Seed    uint64   `default:"1" help:"Seed of the random halves."`
	universeFlags
}

func (boardCmd) Help() string {
	return `A site that can be served as it is or opened from disk: the board with intervals and
tie groups, rates by repository, who resolved which instance, what nobody and what
everybody resolves. board.json has the same as data.

` + sourceHelp + `
Examples:
  evalrun leaderboard -d verified evaluation/verified --to site --title 'SWE-bench Verified'
  evalrun leaderboard claude gpt acme__agent-2.run.json --details
  evalrun leaderboard -d verified evaluation/verified my-run --json > board.json
`
}

// Run makes a board.
func (c *boardCmd) Run(e *env) error {
	if !(c.Alpha > 0 && c.Alpha < 1) {
		return errors.New("--alpha: want more than 0 and less than 1")
	}
	if c.Splits < 0 || c.Splits > 1_000_000 {
		return errors.New("--splits: want from 0 to 1000000")
	}
	if !c.JSON {
		if err := leaderboard.MayReplace(c.To, c.Force); err != nil {
			return fmt.Errorf("--to: %w", err)
		}
	}
	roomForPages()
	u, err := c.load(e)
	if err != nil {
		return err
	}
	sets, err := results.LoadAll(e.ctx, c.Sources, results.Options{Root: c.Output, Light: !c.Details})
	if err != nil {
		return err
	}
	showNotes(e, sets)
	if len(sets) < 2 {
		return fmt.Errorf("%s is one system (%s): want two or more for a board", c.Sources[0], sets[0].Name)
	}
	notes, err := results.Align(sets, u, c.Common)
	if err != nil {
		return err
	}
	comparison, err := analysis.Compare(e.ctx, sets, analysis.CompareOptions{
		Options: analysis.Options{Facts: facts(u)}, Alpha: c.Alpha, Resamples: 1, Seed: c.Seed, Splits: c.Splits,
	})
	if err != nil {
		return err
	}
	comparison.Notes = append(comparison.Notes, notes...)
	o := leaderboard.Options{Title: c.Title, Version: version, Facts: facts(u)}
	if u != nil {
		o.Dataset = u.SHA256
	}
	board := leaderboard.New(sets, &comparison, o)
	if c.JSON {
		return writeJSON(e.stdout, board)
	}
	written, err := board.WriteSite(e.ctx, c.To, sets, facts(u), c.Details)
	if err != nil {
		return err
	}
	told(e, filepath.Join(c.To, "index.html"), written)
	_, width := terminalOf(e.stdout)
	return board.Document(false).WriteText(e.stdout, width)
}
