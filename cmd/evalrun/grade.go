package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evalrun/evalrun/cache"
	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/regrade"
	"github.com/evalrun/evalrun/reports"
)

type gradeCmd struct {
	spools []func() // remove copies of pipes
	Paths  []string `arg:"" optional:"" name:"path" help:"Folder of logs (logs/run_evaluation, or any folder in it), or one log."`
	datasetFlags
	Predictions   []string `short:"p" sep:"none" placeholder:"PATH" help:"Predictions the logs belong to: tells empty patches, and instances that were never run."`
	LogsJSONL     string   `name:"logs-jsonl" placeholder:"FILE" help:"Grade a file of log lines instead: {\"instance_id\", \"log\", \"encoding\"}, also .gz; - is standard input."`
	Rules         string   `default:"swebench-5" help:"Grading rules: swebench-5, swebench-4.1 or strict."`
	Against       string   `placeholder:"RULES" help:"List the instances that have another verdict under these rules."`
	Workers       int      `short:"j" default:"0" help:"Logs read at a time; 0 is one per processor."`
	Output        string   `name:"out" placeholder:"DIR" help:"Write the official report.json of each attempt and the run summary here."`
	Model         string   `placeholder:"NAME" help:"Only this model's logs; the model of predictions that name none."`
	LastWins      bool     `help:"Of two predictions of one model for one instance take the later one."`
	AllowUnknown  bool     `help:"Predictions for instances the dataset does not have are left out, not refused."`
	AcceptAliases bool     `help:"Take keys such as model and patch for model_name_or_path and model_patch."`
	JSON          bool     `name:"json" help:"Print JSON: an object per model; one line per log with --logs-jsonl; a list with --against."`
	Show          string   `enum:"all,failed,none" default:"all" help:"Instances in the table: all, failed, none."`
}

func (gradeCmd) Help() string {
	return `Grades logs that are there already; nothing is run. Folders are those of the official
harness (<run>/<model>/<instance>/test_output.txt) or of a run of evalrun, whose record
of the test phase then goes before what its log says of itself. One log alone needs its
instance (-i). With --out the official files are written; the logs' folders are only read.

Examples:
  evalrun grade -d verified logs/run_evaluation/my-run
  evalrun grade -d verified logs/run_evaluation/my-run -p preds.jsonl --json
  evalrun grade -d rows.jsonl -i 'my__project-1' test_output.txt
  evalrun grade -d lite logs/run_evaluation --rules swebench-5 --against swebench-4.1
  evalrun grade -d verified --logs-jsonl logs.jsonl.gz --json > verdicts.jsonl
`
}

// Run grades stored logs.
func (c *gradeCmd) Run(e *env) error {
	o := regrade.Options{Workers: c.Workers}
	var err error
	if o.Rules, err = grading.ParseRules(c.Rules); err != nil {
		return err
	}
	if c.Against != "" {
		if o.Against, err = grading.ParseRules(c.Against); err != nil {
			return err
		}
	}
	switch {
	case len(c.Paths) > 0 && c.LogsJSONL != "":
		return errors.New("give folders or files of logs, or --logs-jsonl FILE, not both")
	case len(c.Paths) == 0 && c.LogsJSONL == "":
		return errors.New("give folders or files of logs, or --logs-jsonl FILE")
	case c.LogsJSONL != "" && c.Output != "":
		return errors.New("--out writes what folders of logs have; with --logs-jsonl the answers go to standard output")
	}
	ds, selected, err := c.load(e, cache.Dir())
	if err != nil {
		return err
	}
	rows := map[string]*datasets.Instance{}
	for i := range selected {
		rows[selected[i].ID] = &selected[i]
	}
	if c.LogsJSONL != "" {
		return c.lines(e, o, ds, rows)
	}
	return c.logs(e, o, ds, selected, rows)
}

// lines is the batch form: one answer for each line.
func (c *gradeCmd) lines(e *env, o regrade.Options, ds *datasets.Dataset, rows map[string]*datasets.Instance) error {
	var in io.Reader = os.Stdin
	if c.LogsJSONL != "-" {
		f, err := datasets.OpenText(c.LogsJSONL)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	out := bufio.NewWriter(e.stdout)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	n, bad := 0, 0
	var differences []*regrade.Difference
	lookup := func(id string) (*datasets.Instance, error) {
		if inst, ok := rows[id]; ok {
			return inst, nil
		}
		if _, ok := ds.Lookup(id); ok {
			return nil, regrade.ErrNotSelected
		}
		return nil, errors.New("the dataset has no such instance")
	}
	err := regrade.Lines(e.ctx, o, in, lookup, func(l regrade.Line) error {
		n++
		if l.Err != nil {
			if bad++; bad <= maxWarnings {
				fmt.Fprintf(e.stderr, "warning: %s: %s\n", reports.SafeText(c.LogsJSONL), reports.SafeText(l.Err.Error()))
			}
		}
		switch {
		case c.Against != "":
			if l.Difference != nil {
				differences = append(differences, l.Difference)
			}
			return nil
		case c.JSON:
			return enc.Encode(l)
		}
		_, err := fmt.Fprintf(out, "%-40s %-13s %s\n", reports.SafeText(l.InstanceID), l.Outcome, reports.SafeText(l.Reason))
		return err
	})
	if err = errors.Join(err, out.Flush()); err != nil {
		return fmt.Errorf("%s: %w", c.LogsJSONL, err)
	}
	if c.Against != "" {
		if err := c.showDifferences(e, o, differences, n); err != nil {
			return err
		}
	}
	if bad > 0 {
		return &exitError{exitNotEvaluated, fmt.Errorf("%d of %d lines could not be graded", bad, n)}
	}
	return nil
}

// logs grades folders and files.
func (c *gradeCmd) logs(e *env, o regrade.Options, ds *datasets.Dataset, selected []datasets.Instance, rows map[string]*datasets.Instance) error {
	defer func() {
		for _, remove := range c.spools {
			remove()
		}
	}()
	runs, err := c.find(e, ds, selected, rows)
	if err != nil {
		return err
	}
	if err := c.predict(e, ds, runs, rows); err != nil {
		return err
	}
	var ids []string
	for i := range selected {
		ids = append(ids, selected[i].ID)
	}
	var differences []*regrade.Difference
	graded, missing := 0, 0
	var readErr error
	for _, r := range runs {
		results, err := regrade.Grade(e.ctx, o, r.jobs)
		if e.ctx.Err() != nil {
			return err
		}
		readErr = errors.Join(readErr, err)
		var attempts []reports.Attempt
		for _, result := range results {
			attempts = append(attempts, result.Attempt)
			if graded++; !result.Attempt.Outcome.Evaluated() {
				missing++
			}
			if result.Difference != nil {
				differences = append(differences, result.Difference)
			}
		}
		if c.Against == "" {
			if err := c.show(e, r, ids, attempts); err != nil {
				return err
			}
		}
		if err := c.write(e, r, ids, attempts); err != nil {
			return err
		}
	}
	if c.Against != "" {
		if err := c.showDifferences(e, o, differences, graded); err != nil {
			return err
		}
	}
	if missing > 0 {
		readErr = errors.Join(fmt.Errorf("%d of %d logs give no verdict on their patch; the reasons are in the table", missing, graded), readErr)
	}
	if readErr != nil {
		return &exitError{exitNotEvaluated, readErr}
	}
	return nil
}

// storedRun is the logs of one model in one run.
type storedRun struct {
	id, model string
	jobs      []regrade.Job
	predicted []string // ids of all its predictions, where they are known
}

// find groups the logs below the paths by run and model.
func (c *gradeCmd) find(e *env, ds *datasets.Dataset, selected []datasets.Instance, rows map[string]*datasets.Instance) ([]*storedRun, error) {
	var runs []*storedRun
	var unknown []string
	for _, path := range c.Paths {
		stored, done, err := spooled(e.ctx, path)
		if err != nil {
			return nil, err
		}
		c.spools = append(c.spools, done)
		logs, err := regrade.Find(stored)
		if len(logs) == 0 && err != nil {
			return nil, err
		}
		if err != nil {
			fmt.Fprintln(e.stderr, "warning:", reports.SafeLines(err.Error()))
		}
		for _, log := range logs {
			if log.InstanceID == "" {
				if len(selected) != 1 {
					return nil, fmt.Errorf("%s: say which instance the log is of, with -i ID", path)
				}
				log.InstanceID, log.Model, log.RunID = selected[0].ID, "log", filepath.Base(path)
			}
			if c.Model != "" && !log.IsModel(c.Model) {
				continue
			}
			inst, ok := rows[log.InstanceID]
			if !ok {
				if _, ok := ds.Lookup(log.InstanceID); !ok {
					unknown = append(unknown, log.InstanceID)
				}
				continue
			}
			i := slices.IndexFunc(runs, func(r *storedRun) bool { return r.id == log.RunID && r.model == log.Model })
			if i < 0 {
				i = len(runs)
				runs = append(runs, &storedRun{id: log.RunID, model: log.Model})
			}
			runs[i].jobs = append(runs[i].jobs, regrade.Job{Log: log, Instance: inst})
		}
	}
	if n := len(unknown); n > 0 {
		fmt.Fprintf(e.stderr, "warning: %d logs of instances the dataset does not have are left out: %s\n", n, reports.SafeText(someOf(unknown)))
	}
	if len(runs) == 0 {
		return nil, errors.New("there is no log of a selected instance")
	}
	return runs, nil
}

// predict gives the jobs their predictions, and adds those that left no log.
func (c *gradeCmd) predict(e *env, ds *datasets.Dataset, runs []*storedRun, rows map[string]*datasets.Instance) error {
	for _, path := range c.Predictions {
		sets, problems, err := datasets.LoadPredictions(path, ds, datasets.PredictionOptions{
			Model: c.Model, AllowUnknown: c.AllowUnknown, LastWins: c.LastWins, AcceptAliases: c.AcceptAliases,
		})
		if err != nil {
			return fmt.Errorf("predictions %s:\n%w", path, err)
		}
		showWarnings(e.stderr, problems.Warnings())
		for s := range sets {
			used := false
			for _, r := range runs {
				if r.jobs[0].Log.IsModel(sets[s].Model) {
					used = true
					if err := r.take(&sets[s], rows); err != nil {
						return fmt.Errorf("predictions %s: %w", path, err)
					}
				}
			}
			if !used {
				fmt.Fprintf(e.stderr, "warning: %s: model %s has predictions and no logs\n", reports.SafeText(path), reports.SafeText(sets[s].Model))
			}
		}
	}
	return nil
}

// take gives the jobs their predictions. Empty ones were never run, so that they
// have no log; they get a job all the same.
func (r *storedRun) take(set *datasets.PredictionSet, rows map[string]*datasets.Instance) error {
	r.model = set.Model
	byID := map[string]*datasets.Prediction{}
	for p, err := range set.Predictions.All() {
		if err != nil {
			return err
		}
		byID[p.InstanceID] = p
		r.predicted = append(r.predicted, p.InstanceID)
	}
	logged := map[string]bool{}
	for i := range r.jobs {
		id := r.jobs[i].Instance.ID
		logged[id] = true
		r.jobs[i].Prediction = byID[id]
	}
	for id, p := range byID {
		if inst := rows[id]; inst != nil && !logged[id] && p.Empty() {
			r.jobs = append(r.jobs, regrade.Job{Log: regrade.Log{RunID: r.id, Model: r.model, InstanceID: id}, Instance: inst, Prediction: p})
		}
	}
	slices.SortFunc(r.jobs, func(a, b regrade.Job) int { return cmp.Compare(a.Instance.ID, b.Instance.ID) })
	return nil
}

// someOf lists the first names.
func someOf(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + ", …"
}
