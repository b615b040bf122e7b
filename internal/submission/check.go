package submission

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/regrade"
	"github.com/evalrun/evalrun/reports"
	"github.com/evalrun/evalrun/reports/results"
)

// Check names what was looked at.
type Check string

const (
	CheckMetadata    Check = "metadata"    // metadata.yaml says who and how
	CheckPredictions Check = "predictions" // all_preds.jsonl can be used
	CheckSplit       Check = "split"       // the instances are the dataset's
	CheckAttempts    Check = "attempts"    // one attempt at each instance
	CheckResults     Check = "results"     // results.json can be read, and fits the predictions
	CheckLogs        Check = "logs"        // each patch has the files of its attempt
	CheckVerdict     Check = "verdict"     // what is claimed follows from the logs
	CheckTrajs       Check = "trajs"       // each prediction has its trajectory
)

// Finding is one thing that is wrong, or, as a warning, to be looked at.
type Finding struct {
	Check      Check  `json:"check"`
	Warning    bool   `json:"warning"`
	InstanceID string `json:"instance_id,omitempty"`
	Detail     string `json:"detail"`
}

// Result is what came of a check.
type Result struct {
	Findings    []Finding `json:"findings"`
	Instances   int       `json:"instances"` // of the dataset
	Predictions int       `json:"predictions"`
	Graded      int       `json:"graded"`   // logs graded again
	Claimed     int       `json:"claimed"`  // resolved, says results.json
	Resolved    int       `json:"resolved"` // say the logs
}

// Errors counts the findings that are no warnings.
func (r *Result) Errors() int {
	n := 0
	for _, f := range r.Findings {
		if !f.Warning {
			n++
		}
	}
	return n
}

type checker struct {
	Result
	dir         string
	ds          *datasets.Dataset
	rules       grading.Rules
	predictions map[string]*datasets.Prediction
	claimed     map[string]bool
	noLogs      map[string]bool
}

func (c *checker) fault(check Check, id, format string, args ...any) {
	c.Findings = append(c.Findings, Finding{check, false, id, fmt.Sprintf(format, args...)})
}

func (c *checker) warn(check Check, id, format string, args ...any) {
	c.Findings = append(c.Findings, Finding{check, true, id, fmt.Sprintf(format, args...)})
}

// Look checks the submission in dir against its dataset. The error is for what
// kept it from looking; what is wrong with the submission are findings.
func Look(ctx context.Context, dir string, ds *datasets.Dataset, rules grading.Rules) (Result, error) {
	if info, err := os.Stat(dir); err != nil {
		return Result{}, err
	} else if !info.IsDir() {
		return Result{}, fmt.Errorf("%s: is no folder; give that of a submission", dir)
	}
	c := &checker{dir: dir, ds: ds, rules: rules, predictions: map[string]*datasets.Prediction{}, claimed: map[string]bool{}, noLogs: map[string]bool{}}
	c.Findings, c.Instances = []Finding{}, len(ds.Instances)
	c.metadata()
	c.readPredictions()
	c.readClaims()
	err := c.logs(ctx)
	c.trajs()
	slices.SortStableFunc(c.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(order(a.Check), order(b.Check)), cmp.Compare(a.InstanceID, b.InstanceID))
	})
	return c.Result, err
}

func order(c Check) int {
	return slices.Index([]Check{CheckMetadata, CheckSplit, CheckAttempts, CheckPredictions, CheckResults, CheckLogs, CheckVerdict, CheckTrajs}, c)
}

func (c *checker) metadata() {
	if !isFile(c.dir, "metadata.yaml") {
		c.fault(CheckMetadata, "", "metadata.yaml is missing")
		return
	}
	info, err := results.ReadMetadata(c.dir)
	if err != nil {
		c.fault(CheckMetadata, "", "%v", err)
		return
	}
	for what, value := range map[string]string{"info: name": info.Title, "tags: org": info.Org} {
		if value == "" {
			c.warn(CheckMetadata, "", "metadata.yaml: %s is missing", what)
		}
	}
	if len(info.Models) == 0 {
		c.fault(CheckMetadata, "", "metadata.yaml: tags: model is missing: which models did it use?")
	}
	switch info.Attempts {
	case "1":
	case "":
		c.fault(CheckAttempts, "", "metadata.yaml does not say tags: system: attempts")
	default:
		c.fault(CheckAttempts, "", "metadata.yaml says that the system made %s attempts at each instance; a board of pass@1 wants 1", info.Attempts)
	}
}

// readPredictions reads all_preds.jsonl as a run would.
func (c *checker) readPredictions() {
	path := filepath.Join(c.dir, "all_preds.jsonl")
	if !isFile(path) {
		c.fault(CheckPredictions, "", "all_preds.jsonl is missing")
		return
	}
	sets, problems, err := datasets.LoadPredictions(path, c.ds, datasets.PredictionOptions{AllowUnknown: true})
	var known datasets.Problems
	if err != nil && !errors.As(err, &known) {
		c.fault(CheckPredictions, "", "%v", err)
	}
	var models, unknown []string
	for i := range sets {
		models = append(models, sets[i].Model)
		for p, err := range sets[i].Unknown.All() {
			if err != nil {
				c.fault(CheckPredictions, "", "%v", err)
				break
			}
			unknown = append(unknown, p.InstanceID)
		}
		for p, err := range sets[i].Predictions.All() {
			if err != nil {
				c.fault(CheckPredictions, "", "%v", err)
				break
			}
			if c.predictions[p.InstanceID] != nil {
				c.fault(CheckAttempts, p.InstanceID, "has a prediction of model %s and one of model %s", c.predictions[p.InstanceID].Model, p.Model)
			}
			c.predictions[p.InstanceID] = p
		}
	}
	for _, p := range problems {
		made := c.predictions[p.InstanceID]
		if c.isUnknown(p.InstanceID) || !p.Fatal && made != nil && made.Empty() {
			continue // told below; a system may have no answer
		}
		c.Findings = append(c.Findings, Finding{CheckPredictions, !p.Fatal, p.InstanceID, p.String()})
	}
	c.Predictions = len(c.predictions)
	if len(models) > 1 {
		c.fault(CheckAttempts, "", "all_preds.jsonl has predictions of %d models: %s", len(models), strings.Join(models, ", "))
	}
	c.wrongSplit(unknown, "predictions")
	if missing := len(c.ds.Instances) - c.Predictions; missing > 0 {
		c.warn(CheckPredictions, "", "%d of %d instances have no prediction; they count as not resolved", missing, len(c.ds.Instances))
	}
}

func (c *checker) isUnknown(id string) bool {
	_, known := c.ds.Lookup(id)
	return id != "" && !known
}

func (c *checker) wrongSplit(unknown []string, what string) {
	const most = 3
	if len(unknown) == 0 {
		return
	}
	slices.Sort(unknown)
	text := strings.Join(unknown[:min(most, len(unknown))], ", ")
	if len(unknown) > most {
		text += ", …"
	}
	c.fault(CheckSplit, "", "%d %s are of instances that %s (%s) does not have: %s", len(unknown), what, c.ds.Name, c.ds.Split, text)
}

// readClaims reads results/results.json.
func (c *checker) readClaims() {
	path := filepath.Join(c.dir, "results", "results.json")
	data, err := reports.ReadRegular(path)
	if err != nil {
		c.fault(CheckResults, "", "results/results.json cannot be read: %v", cmp.Or(errors.Unwrap(err), err))
		return
	}
	var said claims
	if err := json.Unmarshal(data, &said); err != nil {
		c.fault(CheckResults, "", "results/results.json: %v", err)
		return
	}
	var unknown []string
	for _, id := range said.Resolved {
		switch p := c.predictions[id]; {
		case c.isUnknown(id):
			unknown = append(unknown, id)
		case c.claimed[id]:
			c.fault(CheckResults, id, "is twice in resolved")
		case p == nil && c.Predictions > 0:
			c.fault(CheckResults, id, "is said to be resolved and has no prediction")
		case p != nil && p.Empty():
			c.fault(CheckResults, id, "is said to be resolved and has an empty patch")
		}
		c.claimed[id] = true
	}
	for _, id := range said.NoLogs {
		c.noLogs[id] = true
	}
	c.Claimed = len(c.claimed)
	c.wrongSplit(unknown, "claims in results.json")
}

// logs looks for the files of each attempt, and grades what the tests printed.
// A record of evalrun's own beside them is not read: it could say anything.
func (c *checker) logs(ctx context.Context) error {
	if !c.foreignLogs() {
		return nil // said once, not for each instance
	}
	var jobs []regrade.Job
	for i := range c.ds.Instances {
		inst := &c.ds.Instances[i]
		p := c.predictions[inst.ID]
		if p == nil && !c.claimed[inst.ID] || p != nil && p.Empty() {
			continue
		}
		dir := filepath.Join(c.dir, "logs", inst.ID)
		var missing []string
		for _, name := range []string{"test_output.txt", "report.json", "patch.diff"} {
			if !isFile(dir, name) {
				missing = append(missing, name)
			}
		}
		hasLog := isFile(dir, "test_output.txt")
		switch {
		case len(missing) > 0 && c.claimed[inst.ID]:
			c.fault(CheckLogs, inst.ID, "is said to be resolved, and logs/%s lacks %s", inst.ID, strings.Join(missing, ", "))
		case !hasLog && !c.noLogs[inst.ID]:
			c.fault(CheckLogs, inst.ID, "logs/%s lacks %s, and results.json does not list it in no_logs", inst.ID, strings.Join(missing, ", "))
		}
		if hasLog {
			log := regrade.Log{RunID: filepath.Base(c.dir), Model: "submission", InstanceID: inst.ID, Dir: dir, Path: filepath.Join(dir, "test_output.txt")}
			jobs = append(jobs, regrade.Job{Log: log, Instance: inst, Prediction: p})
		}
	}
	graded, err := regrade.Grade(ctx, regrade.Options{Rules: c.rules}, jobs)
	if ctx.Err() != nil {
		return err
	}
	for i := range graded {
		c.verdict(&graded[i])
	}
	return nil
}

func (c *checker) verdict(r *regrade.Result) {
	a := &r.Attempt
	id := a.InstanceID
	if a.Outcome == grading.NotRun {
		c.fault(CheckVerdict, id, "%s", a.Reason)
		return
	}
	c.Graded++
	resolved := a.Outcome == grading.Resolved
	if resolved {
		c.Resolved++
	}
	switch {
	case c.claimed[id] && !resolved:
		c.fault(CheckVerdict, id, "is said to be resolved, and its log says %s: %s", a.Outcome, a.Reason)
	case resolved && !c.claimed[id]:
		c.fault(CheckVerdict, id, "its log says resolved, and results.json does not")
	}
	for _, w := range a.Warnings {
		c.fault(CheckVerdict, id, "%s", w)
	}
	for _, f := range a.Trust.Flagged {
		c.warn(CheckVerdict, id, "%s", f)
	}
}

// foreignLogs finds folders of instances that are not the dataset's. It is false
// where there are no logs at all.
func (c *checker) foreignLogs() bool {
	entries, err := os.ReadDir(filepath.Join(c.dir, "logs"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.fault(CheckLogs, "", "the folder logs is missing: nothing shows that the %d claims are so", c.Claimed)
		return false
	case err != nil:
		c.fault(CheckLogs, "", "logs cannot be read: %v", err)
		return false
	}
	var unknown []string
	for _, e := range entries {
		if e.IsDir() && c.isUnknown(e.Name()) {
			unknown = append(unknown, e.Name())
		}
	}
	c.wrongSplit(unknown, "folders in logs")
	return true
}

// trajs looks for a file or folder named after each prediction's instance.
func (c *checker) trajs() {
	entries, err := os.ReadDir(filepath.Join(c.dir, "trajs"))
	if err != nil || len(entries) == 0 {
		c.warn(CheckTrajs, "", "there are no trajectories in trajs/")
		return
	}
	have := map[string]bool{}
	for _, e := range entries {
		for name := e.Name(); ; {
			have[name] = true
			at := strings.LastIndexByte(name, '.')
			if at <= 0 {
				break
			}
			name = name[:at]
		}
	}
	missing := 0
	first := ""
	for i := range c.ds.Instances {
		id := c.ds.Instances[i].ID
		if p := c.predictions[id]; p != nil && !p.Empty() && !have[id] {
			missing++
			first = cmp.Or(first, id)
		}
	}
	if missing > 0 {
		c.warn(CheckTrajs, first, "%d predictions have no trajectory in trajs/, this one first", missing)
	}
}
