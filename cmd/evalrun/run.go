package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/evalrun/evalrun/cache"
	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/engine"
	"github.com/evalrun/evalrun/internal/ledger"
	"github.com/evalrun/evalrun/internal/runner"
	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/screen"
	"github.com/evalrun/evalrun/reports"
)

type runCmd struct {
	datasetFlags
	Predictions   []string    `short:"p" required:"" sep:"none" placeholder:"PATH" help:"gold, empty, a .json or .jsonl file, or a folder of patches; may be repeated."`
	RunID         string      `default:"run" help:"Name of the run; a call with the same name goes on where the last one stopped."`
	Workers       workerCount `short:"j" default:"0" help:"Attempts at a time; 0 is one per processor, auto as many as there is room for, by what earlier ones took."`
	Deadline      endOfRun    `placeholder:"TIME" help:"End the run after a time (2h), at a time of day (22:30) or at a date; what is not done then is not_run, and the same command goes on from there."`
	Output        string      `name:"out" default:"." placeholder:"DIR" help:"Folder for logs/ and the run summaries."`
	ReportDir     string      `placeholder:"DIR" help:"Folder for the run summaries, when not --out."`
	Rules         string      `default:"swebench-5" help:"Grading rules: swebench-5, swebench-4.1 or strict."`
	Script        string      `enum:"phases,whole" default:"phases" help:"Run evaluation scripts phase by phase, each with a status of its own, or whole, in one process."`
	Capabilities  bool        `name:"row-capabilities" help:"Give sandboxes the capabilities their rows ask for, such as SYS_ADMIN for browsers; without it they do without."`
	Policy        string      `placeholder:"FILE" help:"What patches may touch: a JSON file, see docs/security.md; without it the default policy."`
	Verify        string      `enum:"none,suspicious,all" default:"suspicious" help:"Resolved attempts to run again with nothing but the patch's source files: none, suspicious, all."`
	NoCache       bool        `help:"Make every attempt, whatever was graded before: by another run, for another model with the same patch, or by an earlier call of this run. A call with --no-cache that was interrupted is gone on from; of a run that is through, all is made again, also where some attempts could not be evaluated."`
	Model         string      `placeholder:"NAME" help:"Model name of a folder of patches, or of predictions that name none."`
	AllowUnknown  bool        `help:"Predictions for instances the dataset does not have are left out, not refused."`
	Attempts      int         `default:"0" placeholder:"K" help:"Attempts at each instance. A model may then have up to K predictions for an instance, in one file or in several; where it has one, that is run K times."`
	LastWins      bool        `help:"Of two predictions of one model for one instance take the later one."`
	AcceptAliases bool        `help:"Take keys such as model and patch for model_name_or_path and model_patch."`
	JSON          bool        `name:"json" help:"Print the results as JSON on standard output."`
	Show          string      `enum:"all,failed,none" default:"all" help:"Instances in the table: all, failed, none."`
	Limits        limitFlags  `embed:"" prefix:""`
	Room          diskFlags   `embed:"" prefix:""`
	observeFlags
	imageFlags
}

func (runCmd) Help() string {
	return `Examples:
  evalrun run -d verified -p gold -i 'sympy__sympy-2*' --repo-mirror ./mirrors
  evalrun run -d data/SWE-bench_Lite.test.parquet -p preds.jsonl --run-id claude -j 2
  evalrun run -d verified -p preds.jsonl -j auto --deadline 06:30
  evalrun run -d verified -p preds.jsonl --status-addr 9464 --log-level debug
  evalrun run -d verified -p rollouts.jsonl --attempts 8 --run-id rollouts
  evalrun run -d verified -p gold --attempts 3 --run-id flaky
  evalrun run -d multilingual -p gold --repo gin-gonic/gin --namespace swebench --images pull
`
}

// Run grades the predictions, one run per model.
func (c *runCmd) Run(e *env) error {
	spool := c.spool()
	defer spool.Close()
	j, err := c.job(e, spool)
	if err != nil {
		return err
	}
	return c.grade(e, j)
}

// spool keeps patches that cannot be read again from where they are given.
func (c *runCmd) spool() *datasets.Spool {
	return datasets.NewSpool(filepath.Join(c.cacheDir(), "predictions"))
}

// job reads and checks what is asked for.
func (c *runCmd) job(e *env, spool *datasets.Spool) (job, error) {
	rules, err := grading.ParseRules(c.Rules)
	if err != nil {
		return job{}, err
	}
	limits, err := c.limits()
	if err := errors.Join(err, c.observeFlags.check()); err != nil {
		return job{}, err
	}
	policy, err := readPolicy(c.Policy)
	if err != nil {
		return job{}, err
	}
	ds, selected, err := c.load(e, c.cacheDir())
	if err != nil {
		return job{}, err
	}
	if len(selected) == 0 {
		return job{}, errors.New("no instance is selected")
	}
	sets, records, err := c.predictions(e, ds, selected, spool)
	return job{ds, selected, sets, records, rules, limits, policy}, err
}

// job is what a run is asked to do, read and checked.
type job struct {
	dataset  *datasets.Dataset
	selected []datasets.Instance
	sets     []datasets.PredictionSet
	records  []reports.PredictionRecord
	rules    grading.Rules
	limits   runner.Limits
	policy   screen.Policy
}

func readPolicy(path string) (screen.Policy, error) {
	if path == "" {
		return screen.Policy{}, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return screen.Policy{}, fmt.Errorf("--policy: %w", err)
	}
	defer f.Close()
	policy, err := screen.ReadPolicy(f)
	if err != nil {
		return policy, fmt.Errorf("--policy %s: %w", path, err)
	}
	return policy, nil
}

// sweep removes what runs that are over have left.
func (c *runCmd) sweep(e *env, eng *engine.Engine) error {
	say := func(n int, where string) {
		if n > 0 {
			fmt.Fprintf(e.stderr, "removed %d sandboxes that an earlier run left behind%s\n", n, where)
		}
	}
	swept, err := eng.Sandbox.Sweep(e.ctx)
	if err != nil {
		return &exitError{exitNotEvaluated, err}
	}
	say(swept, "")
	if e.openEngine != nil {
		return nil // of a test
	}
	swept, err = engine.SweepOthers(e.ctx, engine.Options{CacheDir: c.cacheDir()}, eng)
	if err != nil && e.ctx.Err() == nil {
		fmt.Fprintf(e.stderr, "warning: what earlier runs left on another engine stays (`evalrun clean` tries again): %s\n", reports.SafeText(err.Error()))
	}
	say(swept, " on another engine")
	return nil
}

// whole has scripts run in one process, where that is asked for.
func (c *runCmd) whole(recipes map[string]*datasets.Recipe) {
	if c.Script != "whole" {
		return // but for those that cannot be split
	}
	for _, recipe := range recipes {
		recipe.Evaluation.Whole = recipe.Evaluation.Script != ""
	}
}

// shareOut gives a sandbox the processors that no flag names.
func (c *runCmd) shareOut(limits *sandbox.Limits, cpus int) {
	if limits.CPUs == 0 {
		limits.CPUs = c.Workers.share(cpus)
	}
	if limits.CPUsGuaranteed == 0 {
		limits.CPUsGuaranteed = min(c.Workers.share(cpus), limits.CPUs)
	}
}

// begin writes down what the run is about, before anything runs: one that is killed
// can still be shown.
func (c *runCmd) begin(e *env, layout reports.Layout, p *plan, record reports.RunRecord, known *ledger.Ledger) error {
	for n := range p.numbers() {
		if err := reports.WriteRun(layout.Attempt(n), p.record(record, n)); err != nil {
			return err
		}
	}
	if err := known.Begin(p.event(record)); err != nil {
		return &exitError{exitNotEvaluated, advised(err)}
	}
	if n := known.Done(); n > 0 {
		fmt.Fprintf(e.stderr, "run %s goes on: earlier calls have finished %d attempts\n", reports.SafeText(c.RunID), n)
	}
	return nil
}

// ledger takes the run for this process.
func (c *runCmd) ledger(e *env, layout reports.Layout) (*ledger.Ledger, error) {
	return ledger.Open(e.ctx, ledger.Options{
		Layout: layout, RunID: c.RunID, Fresh: c.NoCache, Verdicts: ledger.Verdicts(c.cacheDir()), Opinions: c.Verify == string(runner.VerifyAll),
		Warn: func(text string) { fmt.Fprintln(e.stderr, "warning:", reports.SafeText(text)) },
	})
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
			CPUsGuaranteed: c.Limits.CPUsGuaranteed,
		},
		Timeout: time.Duration(c.Limits.Timeout), Silence: time.Duration(c.Limits.Silence), OutputBytes: size("output", c.Limits.Output),
	}
	user, err := parseUser(c.Limits.User)
	if err != nil {
		errs = append(errs, err)
	}
	l.ReadOnly, l.User = c.Limits.ReadOnly, user
	if text := c.Limits.MemoryGuaranteed; text != "" {
		l.Sandbox.MemoryGuaranteedBytes = size("memory-guaranteed", text)
	}
	return l, errors.Join(append(errs, c.check(l)...)...)
}

// check names what cannot be meant.
func (c *runCmd) check(l runner.Limits) []error {
	cpus, sure, memory, disk := c.Limits.CPUs, c.Limits.CPUsGuaranteed, l.Sandbox.MemoryBytes, l.Sandbox.DiskBytes
	var errs []error
	for _, rule := range []struct {
		broken bool
		text   string
	}{
		{c.Limits.Timeout <= 0, "--timeout: want more than 0"},
		{c.Limits.Silence < 0, "--silence: want 0 (no limit) or more"},
		{cpus != 0 && !(cpus >= 0.01 && cpus <= 4096), "--cpus: want 0 (an even share), or 0.01 or more"},
		{sure != 0 && !(sure >= 0.01 && (cpus == 0 || sure <= cpus)), "--cpus-guaranteed: want 0 (an even share), or 0.01 to what --cpus allows"},
		{memory > 0 && l.Sandbox.MemoryGuaranteedBytes > memory, "--memory-guaranteed: want at most what --memory allows"},
		{disk > 0 && disk < 1<<20, "--disk: want 1MiB or more"},
		{c.Builders < 1, "--builders: want 1 or more"},
		{c.Pulls < 1, "--pulls: want 1 or more"},
		{!c.Deadline.at.IsZero() && !c.Deadline.at.After(time.Now()), fmt.Sprintf("--deadline: %s is past", c.Deadline.at.Format(time.RFC3339))},
		{c.Attempts < 0 || c.Attempts > maxAttempts, fmt.Sprintf("--attempts: want 0 to %d", maxAttempts)},
		{c.Attempts > 0 && c.LastWins, "--attempts and --last-wins do not go together: every prediction is an attempt, or one replaces the other"},
		{c.RunID == "", "--run-id: want a name"},
		{l.OutputBytes > 0 && l.OutputBytes < 64<<10, "--output: want 64KiB or more, or nothing of the results is left"},
		{memory > 0 && memory < 16<<20, "--memory: want 16MiB or more"},
		{c.Limits.Pids < 16, "--pids: want 16 or more"},
	} {
		if rule.broken {
			errs = append(errs, errors.New(rule.text))
		}
	}
	return errs
}

func (c *runCmd) layout(j job) reports.Layout {
	var models []string
	for _, s := range j.sets {
		models = append(models, s.Model)
	}
	return reports.Layout{Root: c.Output, ReportDir: c.ReportDir}.WithNames(models, j.dataset.IDs())
}

func (c *runCmd) record(j job, eng *engine.Engine) reports.RunRecord {
	limits := j.limits
	r := reports.RunRecord{
		RunID: c.RunID, CreatedAt: time.Now(), Dataset: reports.DatasetRecord{Name: j.dataset.Name, Split: j.dataset.Split, SHA256: j.dataset.SHA256},
		Predictions: j.records, Instances: len(j.selected), Evalrun: version, Rules: string(j.rules),
		Kernel: eng.Info.Kernel, Platform: eng.Platform(), Workers: c.Workers.most(),
		Engine: reports.EngineRecord{Name: eng.Name, Version: eng.Info.Version, APIVersion: eng.Info.APIVersion,
			StorageDriver: eng.Info.StorageDriver, Cgroup: "v" + eng.Info.CgroupVersion, Runtime: eng.Info.Runtime, Why: eng.Why},
		Limits: reports.LimitsRecord{
			CPUs: limits.Sandbox.CPUs, MemoryBytes: limits.Sandbox.MemoryBytes, Pids: limits.Sandbox.Pids, DiskBytes: limits.Sandbox.DiskBytes,
			OutputBytes: limits.OutputBytes, TimeoutSeconds: limits.Timeout.Seconds(), SilenceSeconds: limits.Silence.Seconds(),
			CPUsGuaranteed: limits.Sandbox.CPUsGuaranteed, MemoryGuaranteedBytes: limits.Sandbox.MemoryGuaranteedBytes,
			ReadOnly: limits.ReadOnly, User: limits.User, Unenforced: eng.Unenforced(),
		},
	}
	for i := range j.selected {
		r.InstanceIDs = append(r.InstanceIDs, j.selected[i].ID)
	}
	for _, s := range j.sets {
		r.Models = append(r.Models, s.Model)
	}
	if c.Attempts > 1 {
		r.Attempts = c.Attempts
	}
	c.provenance(&r, j, eng)
	return r
}

// advised says what to do about a full disk.
func advised(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("%w\nthe disk is full: make room and give the same command again; what was done is kept", err)
	}
	return err
}

// verdict is the exit code of the run.
func (c *runCmd) verdict(e *env, results *endings, runErr error) error {
	if e.ctx.Err() != nil {
		return &exitError{exitInterrupted, fmt.Errorf("interrupted; what was done is kept: the same command goes on from there")}
	}
	missing := 0
	for i := range results.of {
		if !results.at(i).outcome.Evaluated() {
			missing++
		}
	}
	if errors.Is(runErr, runner.ErrDeadline) {
		if missing == 0 {
			return nil // an earlier call has made what this one did not come to
		}
		return &exitError{exitNotEvaluated, fmt.Errorf("%w: %d of %d predictions are not evaluated; the same command goes on from there", runErr, missing, len(results.of))}
	}
	if runErr != nil {
		return &exitError{exitNotEvaluated, advised(runErr)}
	}
	if missing > 0 {
		return &exitError{exitNotEvaluated, fmt.Errorf("%d of %d predictions could not be evaluated; the reasons are in the table", missing, len(results.of))}
	}
	return nil
}

// shown is what --show asks for.
func shown(show string) reports.Show {
	switch show {
	case "failed":
		return reports.ShowNotResolved
	case "none":
		return reports.ShowNone
	}
	return reports.ShowAll
}

// hashOf is the digest of a predictions file; folders and gold have none, nor has what
// can be read but once, such as a pipe.
func hashOf(path string) string {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
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
