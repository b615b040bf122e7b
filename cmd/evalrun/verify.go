package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/evalrun/evalrun/cache"
	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/datasets/hub"
	"github.com/evalrun/evalrun/internal/verify"
	"github.com/evalrun/evalrun/reports"
)

type reportVerifyCmd struct {
	RunID   string `arg:"" name:"run" help:"Name of the run, or its folder."`
	Output  string `name:"out" default:"." placeholder:"DIR" help:"Folder that holds logs/."`
	Reports string `name:"report-dir" placeholder:"DIR" help:"Folder of the run summaries, when not --out."`
	Dataset string `short:"d" placeholder:"NAME" help:"Dataset of the run, as for run; by default the file run.json names, where it is here."`
	Split   string `short:"s" default:"test" help:"Split of the dataset."`
	Digest  string `placeholder:"SHA256" help:"Digest that the statement of the run must have."`
	JSON    bool   `name:"json" help:"Print JSON."`
}

func (reportVerifyCmd) Help() string {
	return `Computes again, and compares with what the run has written: hashes of the dataset, its
rows, the predictions and every file of the run (SHA256SUMS); the verdict of every attempt
from its log; report.json and the official summaries; and statement.json, the canonical
form of the whole (docs/report-format.md), whose digest is printed. Nothing is run. Exit
code 1 when something differs. What could not be checked is listed, and is no failure.

Examples:
  evalrun report verify nightly -d verified
  evalrun report verify results/logs/run_evaluation/nightly -d rows.jsonl --digest 3f5a…
`
}

// Run verifies a run, with all its attempts.
func (c *reportVerifyCmd) Run(e *env) error {
	layout, name := c.layout()
	r, record, err := c.verify(e, layout, name)
	if err != nil {
		return err
	}
	for n := 2; layout.Number() == 1 && n <= record.Attempts; n++ {
		more, _, err := c.verify(e, layout.Attempt(n), name)
		if err != nil {
			return err
		}
		r.Add(fmt.Sprintf("attempt %d: ", n), more)
	}
	if c.Digest != "" && c.Digest != r.Digest {
		r.Counts.Differs++
		r.Checks = append(r.Checks, verify.Check{What: "digest", Status: verify.Differs, Detail: fmt.Sprintf("wanted %s", c.Digest)})
	}
	return c.show(e, record.RunID, &r)
}

// layout is that of the run, which is given by name or as a folder.
func (c *reportVerifyCmd) layout() (layout reports.Layout, name string) {
	layout, name = reports.Layout{Root: c.Output}, c.RunID
	for _, file := range []string{"run.json", "journal.jsonl"} {
		if _, err := os.Stat(filepath.Join(name, file)); err == nil {
			layout = reports.LayoutOf(name)
			layout.ReportDir = filepath.Join(layout.Attempt(1).RunDir(""), "..", "..", "..") // of <out>/logs/run_evaluation/<run>
			break
		}
	}
	if c.Reports != "" {
		layout.ReportDir = c.Reports
	}
	return layout, name
}

// verify verifies one of the attempts at each instance; mostly there is one.
func (c *reportVerifyCmd) verify(e *env, layout reports.Layout, name string) (verify.Report, reports.RunRecord, error) {
	in := verify.Input{Layout: layout, Predictions: map[string]string{}}
	var err error
	if in.Record, err = reports.LoadRun(in.Layout, name); err != nil {
		// Where there is a run, its run.json is one more file that is not what it was.
		if _, none := os.Stat(in.Layout.JournalFile(name)); none == nil || !errors.Is(err, fs.ErrNotExist) {
			err = &exitError{exitFailed, err}
		}
		return verify.Report{}, in.Record, err
	}
	in.Layout = in.Layout.WithNames(in.Record.Models, in.Record.InstanceIDs)
	for _, model := range in.Record.Models {
		if e.ctx.Err() != nil {
			return verify.Report{}, in.Record, e.ctx.Err()
		}
		attempts, bad := reports.LoadAttempts(in.Layout, in.Record.RunID, model)
		in.Attempts, in.Unreadable = append(in.Attempts, attempts...), append(in.Unreadable, bad...)
	}
	for _, p := range in.Record.Predictions {
		if sum := hashOf(p.Path); sum != "" {
			in.Predictions[p.Path] = sum
		}
	}
	if in.Dataset, err = c.dataset(e, in.Record.Dataset); err != nil {
		return verify.Report{}, in.Record, err
	}
	r, err := verify.Run(e.ctx, in)
	return r, in.Record, err
}

// dataset is nil where none is given and the one of the run is no file here.
func (c *reportVerifyCmd) dataset(e *env, was reports.DatasetRecord) (*datasets.Dataset, error) {
	name, split := c.Dataset, c.Split
	if name == "" {
		if _, err := os.Stat(was.Name); err != nil {
			return nil, nil
		}
		name, split = was.Name, was.Split
	}
	client := hub.New(hub.Options{CacheDir: filepath.Join(cache.Dir(), "hub"), Log: func(msg string) { fmt.Fprintln(e.stderr, msg) }})
	ds, err := datasets.Load(e.ctx, name, datasets.LoadOptions{Split: split, Hub: client})
	if err != nil {
		return nil, fmt.Errorf("dataset %s:\n%w", name, err)
	}
	return ds, nil
}

func (c *reportVerifyCmd) show(e *env, run string, r *verify.Report) error {
	if c.JSON {
		if err := writeJSON(e.stdout, r); err != nil {
			return err
		}
	} else {
		const most = 50
		for i, check := range r.Checks {
			if i == most {
				fmt.Fprintf(e.stdout, "… and %d more; --json has all\n", len(r.Checks)-most)
				break
			}
			fmt.Fprintf(e.stdout, "%-9s  %s: %s\n", check.Status, reports.SafeText(check.What), reports.SafeText(check.Detail))
		}
		fmt.Fprintf(e.stdout, "run %s: %d the same, %d differ, %d unchecked\nstatement sha256:%s\n",
			reports.SafeText(run), r.Counts.Same, r.Counts.Differs, r.Counts.Unchecked, r.Digest)
	}
	if r.Counts.Differs > 0 {
		return &exitError{code: exitFailed}
	}
	return nil
}
