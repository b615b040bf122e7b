package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports"
	"github.com/evalrun/evalrun/reports/analysis"
	"github.com/evalrun/evalrun/reports/html"
	"github.com/evalrun/evalrun/reports/render"
	"github.com/evalrun/evalrun/reports/results"
)

type reportCmd struct {
	Show   reportShowCmd   `cmd:"" default:"withargs" help:"Show results (the default)."`
	Verify reportVerifyCmd `cmd:"" help:"Compute hashes and verdicts of a run again and compare."`
}

type reportShowCmd struct {
	Sources    []string `arg:"" name:"source" help:"Runs, files or folders with results."`
	Output     string   `name:"out" default:"." placeholder:"DIR" help:"Folder that holds logs/."`
	Model      string   `placeholder:"NAME" help:"Only this model."`
	Format     string   `enum:"table,json,markdown,csv,junit" default:"table" help:"table, json, markdown, csv or junit."`
	JSON       bool     `name:"json" help:"As --format json."`
	HTML       string   `name:"html" placeholder:"FILE" help:"Write one HTML file with all details instead."`
	Force      bool     `help:"Replace a file that evalrun has not written."`
	Show       string   `enum:"all,failed,none" default:"all" help:"Instances in the table."`
	Slices     bool     `help:"Divide by repository and, with -d, by language, difficulty, patch size and date."`
	Quarantine string   `type:"existingfile" placeholder:"FILE" help:"Instances, one a line, for a rate without them beside the others."`
	Watch      bool     `help:"Follow a run that is going on, until it is over."`
	Interval   duration `default:"2s" help:"How often --watch looks."`
	universeFlags
}

func (reportShowCmd) Help() string {
	return `Reads what graders have left, also of a run that is going on or was interrupted.
` + sourceHelp + `
Several runs of one model are shown together: pass@k, pass^k, run-to-run variation.
Exit code 3: not everything shown was evaluated, or reached yet; it is shown all the same.

Examples:
  evalrun report claude
  evalrun report claude --show failed --slices -d verified
  evalrun report claude --watch
  evalrun report claude-1 claude-2 claude-3 --show none
  evalrun report claude --out results --model acme/agent-2 --json > agent-2.json
  evalrun report evaluation/verified/20250807_openhands_gpt5 -d verified --show none
  evalrun report claude --format junit > junit.xml
  evalrun report claude --html claude.html
`
}

// Run shows what graders have left on disk.
func (c *reportShowCmd) Run(e *env) error {
	if c.JSON {
		c.Format = "json"
	}
	quarantine, err := readList("--quarantine", c.Quarantine)
	if err != nil {
		return err
	}
	u, err := c.load(e)
	if err != nil {
		return err
	}
	o := analysis.Options{Facts: facts(u), Quarantine: quarantine.set(), Slices: c.Slices}
	if c.HTML != "" && c.Watch {
		return errors.New("--html and --watch do not go together")
	}
	if c.HTML != "" {
		if err := html.MayReplace(c.HTML, c.Force); err != nil {
			return fmt.Errorf("--html: %w", err)
		}
		roomForPages()
	}
	if c.Watch {
		return c.watch(e, u, o)
	}
	sets, err := c.sets(e, u)
	if err != nil {
		return err
	}
	quarantine.warn(e, sets...)
	if c.HTML != "" {
		err = writeReport(e, c.HTML, sets, o)
	} else {
		err = c.render(e, e.stdout, sets, o)
	}
	return cmp.Or(err, complete(sets))
}

// complete is nil where everything was evaluated, or is the system's own doing.
func complete(sets []*results.Set) error {
	open, all := 0, 0
	for _, s := range sets {
		all += len(s.Items)
		for i := range s.Items {
			if !s.Items[i].Scored() {
				open++
			}
		}
	}
	if open == 0 {
		return nil
	}
	return &exitError{exitNotEvaluated, fmt.Errorf("%d of %d results are missing: they were not reached, or could not be evaluated; the reasons are in the report", open, all)}
}

// sets reads the sources.
func (c *reportShowCmd) sets(e *env, u *results.Universe) ([]*results.Set, error) {
	sets, err := results.LoadAll(e.ctx, c.Sources, results.Options{Root: c.Output})
	if err != nil {
		return nil, err
	}
	showNotes(e, sets)
	if err := u.Check(sets...); err != nil {
		return nil, err
	}
	var chosen []*results.Set
	var names []string
	for _, s := range sets {
		names = append(names, s.Model)
		if c.Model != "" && c.Model != s.Model {
			continue
		}
		switch {
		case s.Open && u == nil:
			return nil, fmt.Errorf("%s: a submission names only some of its instances: give the dataset with -d, so that the others can be counted", s.Source)
		case s.Open, u != nil && (c.Unknown || len(c.Instance)+len(c.Repo) > 0):
			if out := s.Select(u.IDs); len(out) > 0 {
				fmt.Fprintf(e.stderr, "note: %s: %d instances are not among those selected\n", reports.SafeText(s.Name), len(out))
			}
		}
		chosen = append(chosen, s)
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no model %q here; there is %s", c.Model, strings.Join(names, ", "))
	}
	return chosen, nil
}

func (c *reportShowCmd) render(e *env, w io.Writer, sets []*results.Set, o analysis.Options) error {
	switch c.Format {
	case "csv":
		return render.CSV(w, sets, o.Facts)
	case "junit":
		return render.JUnit(w, sets, o.Facts)
	case "json":
		return c.json(w, sets, o)
	}
	_, width := terminalOf(w)
	var doc render.Document
	for i, s := range sets {
		r := analysis.NewReport(s, o)
		part := render.Report(&r)
		if c.Format == "table" {
			if err := c.instances(w, s, width); err != nil {
				return err
			}
			part[0].Heading, part[0].Lines = "", []string{""} // told above it
			if err := part.WriteText(w, width); err != nil {
				return err
			}
		} else {
			doc = append(doc, part...)
		}
		if last := i+1 == len(sets) || sets[i+1].Record != s.Record; last && s.Record != nil {
			doc = append(doc, render.Provenance(s.Record)...)
		}
	}
	for _, group := range repeated(sets) {
		a := analysis.NewAttempts(group, o)
		doc = append(doc, render.Attempts(&a)...)
	}
	if c.Format == "markdown" {
		return doc.WriteMarkdown(w)
	}
	return doc.WriteText(w, width)
}

// instances draws the table of attempts and the summary, as run does.
func (c *reportShowCmd) instances(w io.Writer, s *results.Set, width int) error {
	terminal, _ := terminalOf(w)
	opts := reports.TableOptions{Width: width, Color: terminal && os.Getenv("NO_COLOR") == "", Show: shown(c.Show)}
	if _, err := fmt.Fprintf(w, "\n%s\n", reports.SafeText(s.Name)); err != nil {
		return err
	}
	attempts := attemptsOf(s)
	if err := reports.WriteTable(w, attempts, opts); err != nil {
		return err
	}
	return reports.NewSummary(s.Run, s.Model, s.IDs(), attempts).WriteText(w, width)
}

// statistics is a Document with what package analysis has to say.
type statistics struct {
	reports.Document
	Statistics analysis.Report    `json:"statistics"`
	Attempts   *analysis.Attempts `json:"attempts,omitempty"` // where there are several runs of the model
}

func (c *reportShowCmd) json(w io.Writer, sets []*results.Set, o analysis.Options) error {
	together := map[string]*analysis.Attempts{}
	for _, group := range repeated(sets) {
		a := analysis.NewAttempts(group, o)
		together[a.Model] = &a
	}
	for _, s := range sets {
		doc := statistics{
			Document:   document(s),
			Statistics: analysis.NewReport(s, o), Attempts: together[s.Model],
		}
		if err := writeJSON(w, doc); err != nil {
			return err
		}
	}
	return nil
}

// document is what a set has of one.
func document(s *results.Set) reports.Document {
	doc := reports.NewDocument(s.Record, s.Run, s.Model, s.IDs(), attemptsOf(s))
	for i := range doc.Instances {
		if it := s.Find(doc.Instances[i].InstanceID); it != nil {
			doc.Instances[i].Submitted = &it.Submitted
		}
	}
	return doc
}

// repeated are the groups of sets that are runs of one model on the same instances.
func repeated(sets []*results.Set) [][]*results.Set {
	byModel := map[string][]*results.Set{}
	var order []string
	for _, s := range sets {
		if byModel[s.Model] == nil {
			order = append(order, s.Model)
		}
		byModel[s.Model] = append(byModel[s.Model], s)
	}
	var groups [][]*results.Set
	for _, model := range order {
		group := byModel[model]
		if _, err := results.Align(group, nil, false); len(group) > 1 && err == nil {
			groups = append(groups, group)
		}
	}
	return groups
}

// attemptsOf are records with as much of an attempt as a set has.
func attemptsOf(s *results.Set) []reports.Attempt {
	attempts := make([]reports.Attempt, len(s.Items))
	for i := range s.Items {
		it := &s.Items[i]
		if it.Record != nil {
			attempts[i] = *it.Record
			continue
		}
		a := reports.Attempt{SchemaVersion: reports.AttemptSchema, InstanceID: it.ID, Model: s.Model, RunID: s.Run, Repo: it.Repo,
			Outcome: it.Outcome, Reason: it.Reason, Seconds: it.Seconds}
		if it.FailToPass != nil && it.PassToPass != nil {
			a.Verdict = &grading.Report{Resolved: it.Resolved(), Found: true, Tests: &grading.TestsStatus{
				FailToPass: grading.Split{Success: it.FailToPass.Passed, Failure: it.FailToPass.Failed},
				PassToPass: grading.Split{Success: it.PassToPass.Passed, Failure: it.PassToPass.Failed},
			}}
		}
		attempts[i] = a
	}
	return attempts
}

// watch shows a run again whenever it has got further, until it is over.
func (c *reportShowCmd) watch(e *env, u *results.Universe, o analysis.Options) error {
	if len(c.Sources) != 1 || c.Format != "table" && c.Format != "markdown" {
		return errors.New("--watch follows one run, as a table or Markdown")
	}
	if c.Interval <= 0 {
		return errors.New("--interval: want more than 0")
	}
	terminal, _ := terminalOf(e.stdout)
	last := ""
	for {
		running, err := results.Running(c.Sources[0], c.Output)
		if err != nil {
			return err
		}
		now, err := results.Progress(c.Sources[0], c.Output)
		if err != nil {
			return err
		}
		if now != last || !running {
			last = now
			sets, err := c.sets(e, u)
			if err != nil {
				return err
			}
			if terminal {
				fmt.Fprint(e.stdout, "\x1b[H\x1b[2J")
			}
			if err := c.render(e, e.stdout, sets, o); err != nil {
				return err
			}
			if !running {
				return complete(sets)
			}
		}
		select {
		case <-e.ctx.Done():
			return e.ctx.Err()
		case <-time.After(time.Duration(c.Interval)):
		}
	}
}
