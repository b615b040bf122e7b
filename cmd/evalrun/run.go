package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/evalrun/evalrun/cache"
	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/engine"
	"github.com/evalrun/evalrun/internal/runner"
	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/reports"
)

type runCmd struct {
	datasetFlags
	Predictions   []string   `short:"p" required:"" sep:"none" placeholder:"PATH" help:"gold, empty, a .json or .jsonl file, or a folder of patches; may be repeated."`
	RunID         string     `default:"run" help:"Name of the run; a call with the same name goes on where the last one stopped."`
	Workers       int        `short:"j" default:"0" help:"Attempts at a time; 0 is one per processor."`
	Output        string     `name:"out" default:"." placeholder:"DIR" help:"Folder for logs/ and the run summaries."`
	ReportDir     string     `placeholder:"DIR" help:"Folder for the run summaries, when not --out."`
	Rules         string     `default:"swebench-5" help:"Grading rules: swebench-5, swebench-4.1 or strict."`
	Script        string     `enum:"phases,whole" default:"phases" help:"Run evaluation scripts phase by phase, each with a status of its own, or whole, in one process."`
	Capabilities  bool       `name:"row-capabilities" help:"Give sandboxes the capabilities their rows ask for, such as SYS_ADMIN for browsers; without it they do without."`
	NoCache       bool       `help:"Run again what an earlier call of this run has already graded."`
	Model         string     `placeholder:"NAME" help:"Model name of a folder of patches, or of predictions that name none."`
	AllowUnknown  bool       `help:"Predictions for instances the dataset does not have are left out, not refused."`
	LastWins      bool       `help:"Of two predictions of one model for one instance take the later one."`
	AcceptAliases bool       `help:"Take keys such as model and patch for model_name_or_path and model_patch."`
	JSON          bool       `name:"json" help:"Print the results as JSON on standard output."`
	Show          string     `enum:"all,failed,none" default:"all" help:"Instances in the table: all, failed, none."`
	Limits        limitFlags `embed:"" prefix:""`
	imageFlags
}

func (runCmd) Help() string {
	return `Examples:
  evalrun run -d verified -p gold -i 'sympy__sympy-2*' --repo-mirror ./mirrors
  evalrun run -d data/SWE-bench_Lite.test.parquet -p preds.jsonl --run-id claude -j 2
  evalrun run -d multilingual -p gold --repo gin-gonic/gin --namespace swebench --images pull
`
}

// Run grades the predictions, one run per model.
func (c *runCmd) Run(e *env) error {
	rules, err := grading.ParseRules(c.Rules)
	if err != nil {
		return err
	}
	limits, err := c.limits()
	if err != nil {
		return err
	}
	ds, selected, err := c.load(e, c.cacheDir())
	if err != nil {
		return err
	}
	if len(selected) == 0 {
		return errors.New("no instance is selected")
	}
	sets, records, err := c.predictions(e, ds)
	if err != nil {
		return err
	}
	return c.grade(e, job{ds, selected, sets, records, rules, limits})
}

// job is what a run is asked to do, read and checked.
type job struct {
	dataset  *datasets.Dataset
	selected []datasets.Instance
	sets     []datasets.PredictionSet
	records  []reports.PredictionRecord
	rules    grading.Rules
	limits   runner.Limits
}

func (c *runCmd) predictions(e *env, ds *datasets.Dataset) ([]datasets.PredictionSet, []reports.PredictionRecord, error) {
	var sets []datasets.PredictionSet
	var records []reports.PredictionRecord
	from := map[string]string{}
	for _, path := range c.Predictions {
		got, problems, err := datasets.LoadPredictions(path, ds, datasets.PredictionOptions{
			Model: c.Model, AllowUnknown: c.AllowUnknown, LastWins: c.LastWins, AcceptAliases: c.AcceptAliases,
		})
		if err != nil {
			return nil, nil, fmt.Errorf("predictions %s:\n%w", path, err)
		}
		showWarnings(e.stderr, problems.Warnings())
		for _, s := range got {
			if other, ok := from[s.Model]; ok {
				return nil, nil, fmt.Errorf("model %q has predictions in %s and in %s: one run grades one patch per instance; use two run ids", s.Model, other, path)
			}
			from[s.Model] = path
		}
		sets = append(sets, got...)
		records = append(records, reports.PredictionRecord{Path: path, SHA256: hashOf(path)})
	}
	return sets, records, nil
}

// plan is the jobs of a run, in the order they are made.
type plan struct {
	jobs      []runner.Job
	ids       []string            // of the selected instances
	predicted map[string][]string // model -> ids of all its predictions, selected or not
}

func (c *runCmd) plan(selected []datasets.Instance, sets []datasets.PredictionSet, recipes map[string]*datasets.Recipe) plan {
	p := plan{predicted: map[string][]string{}}
	for i := range selected {
		p.ids = append(p.ids, selected[i].ID)
	}
	for _, set := range sets {
		for i := range set.Predictions {
			p.predicted[set.Model] = append(p.predicted[set.Model], set.Predictions[i].InstanceID)
		}
	}
	predicted := map[string]map[string]*datasets.Prediction{}
	for s := range sets {
		set := &sets[s]
		predicted[set.Model] = map[string]*datasets.Prediction{}
		for i := range set.Predictions {
			predicted[set.Model][set.Predictions[i].InstanceID] = &set.Predictions[i]
		}
	}
	// Instance by instance, so that all models use an image while it is there.
	for i := range selected {
		for s := range sets {
			model := sets[s].Model
			pred, ok := predicted[model][selected[i].ID]
			if !ok {
				continue
			}
			p.jobs = append(p.jobs, runner.Job{Instance: &selected[i], Recipe: recipes[selected[i].ID], Prediction: pred})
		}
	}
	return p
}

func (c *runCmd) grade(e *env, j job) error {
	layout := c.layout(j)
	unlock, err := holdRun(e.ctx, layout, c.RunID)
	if err != nil {
		return err
	}
	defer unlock()
	eng, err := openEngine(e.ctx, c.Engine)
	if err != nil {
		return err
	}
	defer eng.Close()
	if swept, err := eng.Sandbox.Sweep(e.ctx); err != nil {
		return &exitError{exitNotEvaluated, err}
	} else if swept > 0 {
		fmt.Fprintf(e.stderr, "removed %d containers that an earlier run left behind\n", swept)
	}
	ui := &display{}
	provider, err := c.provider(e, eng, j.selected, ui.built)
	if err != nil {
		return err
	}
	if c.Script == "whole" {
		for _, recipe := range provider.Recipes {
			recipe.Evaluation.Whole = recipe.Evaluation.Script != ""
		}
	}
	p := c.plan(j.selected, j.sets, provider.Recipes)
	if j.limits.Sandbox.CPUs == 0 {
		j.limits.Sandbox.CPUs = max(1, float64(eng.Info.CPUs)/float64(c.workers()))
	}
	record := c.record(j, eng)
	// Before anything runs: a run that is killed can still be shown.
	if err := reports.WriteRun(layout, record); err != nil {
		return err
	}
	terminal, width := terminalOf(e.stderr)
	ui.progress = newProgress(e.stderr, terminal, width, len(p.jobs))
	images := &probingImages{Provider: provider, engine: eng}
	r := runner.New(runner.Options{
		RunID: c.RunID, Layout: layout, Driver: eng.Sandbox, Images: images, Observer: ui, Workers: c.workers(), Builders: c.Builders,
		Limits: j.limits, Rules: j.rules, Unenforced: eng.Unenforced(), Network: images.found, Earlier: c.earlier(e, layout, j.sets),
		RowCapabilities: c.Capabilities,
	})
	attempts, runErr := r.Run(e.ctx, p.jobs)
	ui.progress.Close()
	record.Network = images.found()
	leftovers := &reports.Leftovers{}
	for _, left := range r.Leftovers() {
		leftovers.Containers = append(leftovers.Containers, left.InstanceID)
		fmt.Fprintf(e.stderr, "warning: %s (`evalrun clean` tries again)\n", reports.SafeText(left.Err.Error()))
	}
	if err := c.write(e, layout, p, &record, attempts, leftovers, width); err != nil {
		return &exitError{exitNotEvaluated, errors.Join(runErr, err)}
	}
	return c.verdict(e, attempts, runErr)
}

// holdRun keeps a second process from working on the same run.
func holdRun(ctx context.Context, layout reports.Layout, run string) (func(), error) {
	dir := layout.RunDir(run)
	for _, d := range []string{dir, filepath.Dir(layout.SummaryFile(run, "model"))} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	unlock, err := cache.Lock(ctx, filepath.Join(dir, ".lock"))
	if err != nil {
		return nil, fmt.Errorf("run %q is in use by another process; give --run-id another name (%w)", run, err)
	}
	return unlock, nil
}

func (c *runCmd) workers() int {
	if c.Workers > 0 {
		return c.Workers
	}
	return runtime.NumCPU()
}

func (c *runCmd) limits() (runner.Limits, error) {
	var errs []error
	size := func(flag, text string) int64 {
		n, err := parseSize(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", flag, err))
		}
		return n
	}
	l := runner.Limits{
		Sandbox: sandbox.Limits{
			CPUs: c.Limits.CPUs, MemoryBytes: size("memory", c.Limits.Memory), Pids: c.Limits.Pids, DiskBytes: size("disk", c.Limits.Disk),
		},
		Timeout: time.Duration(c.Limits.Timeout), OutputBytes: size("output", c.Limits.Output),
	}
	if c.Limits.Timeout <= 0 {
		errs = append(errs, errors.New("--timeout: want more than 0"))
	}
	if n := c.Limits.CPUs; n != 0 && !(n >= 0.01 && n <= 4096) {
		errs = append(errs, errors.New("--cpus: want 0 (an even share), or 0.01 or more"))
	}
	if d := l.Sandbox.DiskBytes; d > 0 && d < 1<<20 {
		errs = append(errs, errors.New("--disk: want 1MiB or more"))
	}
	if c.Workers < 0 || c.Builders < 1 {
		errs = append(errs, errors.New("--workers: want 0 (one per processor) or more; --builders: want 1 or more"))
	}
	if c.RunID == "" {
		errs = append(errs, errors.New("--run-id: want a name"))
	}
	if l.OutputBytes > 0 && l.OutputBytes < 64<<10 {
		errs = append(errs, errors.New("--output: want 64KiB or more, or nothing of the results is left"))
	}
	if m := l.Sandbox.MemoryBytes; m > 0 && m < 16<<20 {
		errs = append(errs, errors.New("--memory: want 16MiB or more"))
	}
	if c.Limits.Pids < 16 {
		errs = append(errs, errors.New("--pids: want 16 or more"))
	}
	return l, errors.Join(errs...)
}

func (c *runCmd) layout(j job) reports.Layout {
	var models []string
	for _, s := range j.sets {
		models = append(models, s.Model)
	}
	return reports.Layout{Root: c.Output, ReportDir: c.ReportDir}.WithNames(models, j.dataset.IDs())
}

// earlier are the records a previous call of this run has left.
func (c *runCmd) earlier(e *env, layout reports.Layout, sets []datasets.PredictionSet) map[runner.JobKey]reports.Attempt {
	known := map[runner.JobKey]reports.Attempt{}
	if c.NoCache {
		return known
	}
	for _, s := range sets {
		attempts, problems := reports.LoadAttempts(layout, c.RunID, s.Model)
		for _, p := range problems {
			fmt.Fprintln(e.stderr, "warning:", p)
		}
		for _, a := range attempts {
			known[runner.JobKey{Model: s.Model, InstanceID: a.InstanceID}] = a
		}
	}
	return known
}

func (c *runCmd) record(j job, eng *engine.Engine) reports.RunRecord {
	limits := j.limits
	r := reports.RunRecord{
		RunID: c.RunID, CreatedAt: time.Now(), Dataset: reports.DatasetRecord{Name: j.dataset.Name, Split: j.dataset.Split, SHA256: j.dataset.SHA256},
		Predictions: j.records, Instances: len(j.selected), Evalrun: version, Rules: string(j.rules),
		Kernel: eng.Info.Kernel, Platform: eng.Platform(), Workers: c.workers(),
		Engine: reports.EngineRecord{Name: eng.Name, Version: eng.Info.Version, APIVersion: eng.Info.APIVersion,
			StorageDriver: eng.Info.StorageDriver, Cgroup: "v" + eng.Info.CgroupVersion},
		Limits: reports.LimitsRecord{
			CPUs: limits.Sandbox.CPUs, MemoryBytes: limits.Sandbox.MemoryBytes, Pids: limits.Sandbox.Pids, DiskBytes: limits.Sandbox.DiskBytes,
			OutputBytes: limits.OutputBytes, TimeoutSeconds: limits.Timeout.Seconds(), Unenforced: eng.Unenforced(),
		},
	}
	for i := range j.selected {
		r.InstanceIDs = append(r.InstanceIDs, j.selected[i].ID)
	}
	for _, s := range j.sets {
		r.Models = append(r.Models, s.Model)
	}
	return r
}

// write puts down run.json and the summaries, and shows the results.
func (c *runCmd) write(e *env, layout reports.Layout, p plan, record *reports.RunRecord, attempts []reports.Attempt, left *reports.Leftovers, width int) error {
	record.ImageDigests = map[string]string{}
	byModel := map[string][]reports.Attempt{}
	for _, a := range attempts {
		byModel[a.Model] = append(byModel[a.Model], a)
		if a.ImageDigest != "" {
			record.ImageDigests[a.InstanceID] = a.ImageDigest
		}
		for _, d := range a.Deviations {
			if !slices.Contains(record.Deviations, d) {
				record.Deviations = append(record.Deviations, d)
			}
		}
	}
	if err := reports.WriteRun(layout, *record); err != nil {
		return err
	}
	for _, model := range record.Models {
		official := reports.NewOfficialRun(reports.OfficialInput{DatasetIDs: p.ids, PredictionIDs: p.predicted[model], Attempts: byModel[model], Leftovers: left})
		path, err := reports.WriteOfficialRun(layout, c.RunID, model, official)
		if err != nil {
			return err
		}
		if err := showModel(e, c.JSON, c.Show, record, model, p.ids, byModel[model], width); err != nil {
			return err
		}
		if !c.JSON {
			fmt.Fprintf(e.stdout, "  %s\n  %s\n\n", path, layout.ModelDir(c.RunID, model))
		}
	}
	return nil
}

// verdict is the exit code of the run.
func (c *runCmd) verdict(e *env, attempts []reports.Attempt, runErr error) error {
	if e.ctx.Err() != nil {
		return &exitError{exitInterrupted, fmt.Errorf("interrupted; what was done is kept: the same command goes on from there")}
	}
	if runErr != nil {
		return &exitError{exitNotEvaluated, runErr}
	}
	missing := 0
	for _, a := range attempts {
		if !a.Outcome.Evaluated() {
			missing++
		}
	}
	if missing > 0 {
		return &exitError{exitNotEvaluated, fmt.Errorf("%d of %d predictions could not be evaluated; the reasons are in the table", missing, len(attempts))}
	}
	return nil
}

// showModel prints one model's results.
func showModel(e *env, asJSON bool, show string, record *reports.RunRecord, model string, ids []string, attempts []reports.Attempt, width int) error {
	if asJSON {
		return reports.NewDocument(record, record.RunID, model, ids, attempts).Write(e.stdout)
	}
	terminal, _ := terminalOf(e.stdout)
	opts := reports.TableOptions{Width: width, Color: terminal && os.Getenv("NO_COLOR") == ""}
	switch show {
	case "failed":
		opts.Show = reports.ShowNotResolved
	case "none":
		opts.Show = reports.ShowNone
	}
	fmt.Fprintf(e.stdout, "\n%s\n", reports.SafeText(model))
	if err := reports.WriteTable(e.stdout, attempts, opts); err != nil {
		return err
	}
	return reports.NewSummary(record.RunID, model, ids, attempts).WriteText(e.stdout, width)
}

// hashOf is the digest of a predictions file; folders and gold have none.
func hashOf(path string) string {
	info, err := os.Stat(path)
	if err != nil || info.IsDir() {
		return ""
	}
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	sum, err := cache.Digest(f)
	if err != nil {
		return ""
	}
	return sum
}
