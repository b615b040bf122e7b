package main

import (
	"fmt"
	"iter"
	"os"
	"runtime/debug"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/internal/runner"
	"github.com/evalrun/evalrun/reports"
)

// maxAttempts keeps a slip of the finger from filling the disk.
const maxAttempts = 10000

// predictions reads all files of predictions. Patches stay on disk until they are run;
// those of instances that are not selected are not kept.
func (c *runCmd) predictions(e *env, ds *datasets.Dataset, selected []datasets.Instance, spool *datasets.Spool) ([]datasets.PredictionSet, []reports.PredictionRecord, error) {
	wanted := make(map[string]bool, len(selected))
	for i := range selected {
		wanted[selected[i].ID] = true
	}
	var sets []datasets.PredictionSet
	var records []reports.PredictionRecord
	from := map[string]string{}
	place := map[string]int{}
	before := 0 // predictions of the files before
	for _, path := range c.Predictions {
		got, problems, err := datasets.LoadPredictions(path, ds, datasets.PredictionOptions{
			Model: c.Model, AllowUnknown: c.AllowUnknown, LastWins: c.LastWins, AcceptAliases: c.AcceptAliases, Attempts: c.Attempts,
			Selected: func(id string) bool { return wanted[id] }, Read: func(n int) { keepRoom(before + n) }, Spool: spool,
		})
		if err != nil {
			return nil, nil, fmt.Errorf("predictions %s:\n%w", path, err)
		}
		showWarnings(e.stderr, problems.Warnings())
		for _, s := range got {
			before += len(s.Predictions) + len(s.Unknown)
			other, again := from[s.Model]
			switch {
			case !again:
				from[s.Model], place[s.Model] = path, len(sets)
				sets = append(sets, s)
			case c.Attempts == 0:
				return nil, nil, fmt.Errorf("model %q has predictions in %s and in %s: one run grades one patch per instance; use two run ids, or --attempts for several", s.Model, other, path)
			default:
				if err := join(&sets[place[s.Model]], s, c.Attempts); err != nil {
					return nil, nil, fmt.Errorf("predictions %s: %w", path, err)
				}
			}
		}
		records = append(records, reports.PredictionRecord{Path: path, SHA256: hashOf(path)})
	}
	return sets, records, nil
}

// keepRoom raises the soft limit of memory by what is kept of so many attempts, which is
// no garbage that collecting more would free. It looks now and then.
func keepRoom(attempts int) {
	const seldom = 1 << 12
	if attempts%seldom == 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit + int64(attempts+seldom)*keptOfAttempt)
	}
}

// join adds the predictions of a further file as further attempts.
func join(to *datasets.PredictionSet, more datasets.PredictionSet, most int) error {
	last := map[string]int{}
	for i := range to.Predictions {
		p := &to.Predictions[i]
		last[p.InstanceID] = max(last[p.InstanceID], p.Attempt)
	}
	for _, p := range more.Predictions {
		last[p.InstanceID]++
		if p.Attempt = last[p.InstanceID]; p.Attempt > most {
			return fmt.Errorf("%s: instance %s: a prediction of model %s more than there are attempts (%d); give --attempts a higher number", p.Source, p.InstanceID, p.Model, most)
		}
		to.Predictions = append(to.Predictions, p)
	}
	to.Unknown = append(to.Unknown, more.Unknown...)
	return nil
}

// plan is the jobs of a run, in the order they are made.
type plan struct {
	jobs      []runner.Job
	ids       []string              // of the selected instances
	predicted []map[string][]string // by attempt: model -> ids of all its predictions, selected or not
	missing   []map[string][]string // by attempt: model -> ids of the selected instances it gave nothing for
}

// newPlan lists the jobs instance by instance, so that all models use an image
// while it is there. Of a model with one prediction for each instance every attempt
// is at that one, and is made.
func newPlan(selected []datasets.Instance, sets []datasets.PredictionSet, recipes map[string]*datasets.Recipe, attempts int) plan {
	attempts = max(1, attempts)
	p := plan{predicted: make([]map[string][]string, attempts), missing: make([]map[string][]string, attempts)}
	for n := range attempts {
		p.predicted[n], p.missing[n] = map[string][]string{}, map[string][]string{}
	}
	byModel := make([]map[string][]*datasets.Prediction, len(sets))
	repeated := make([]bool, len(sets))
	for s := range sets {
		byModel[s] = map[string][]*datasets.Prediction{}
		repeated[s] = attempts > 1
		for i := range sets[s].Predictions {
			pred := &sets[s].Predictions[i]
			byModel[s][pred.InstanceID] = append(byModel[s][pred.InstanceID], pred)
			repeated[s] = repeated[s] && len(byModel[s][pred.InstanceID]) == 1
		}
		for i := range sets[s].Predictions {
			pred := &sets[s].Predictions[i]
			for n := range attempts {
				if repeated[s] || n == max(1, pred.Attempt)-1 {
					p.predicted[n][sets[s].Model] = append(p.predicted[n][sets[s].Model], pred.InstanceID)
				}
			}
		}
	}
	for i := range selected {
		inst := &selected[i]
		p.ids = append(p.ids, inst.ID)
		for s := range sets {
			given := byModel[s][inst.ID]
			for n := range attempts {
				job := runner.Job{Instance: inst, Recipe: recipes[inst.ID], Attempt: n + 1}
				switch {
				case n < len(given):
					job.Prediction = given[n]
				case len(given) > 0 && repeated[s]:
					job.Prediction, job.Repetition = given[0], n
				default:
					p.missing[n][sets[s].Model] = append(p.missing[n][sets[s].Model], inst.ID)
					continue
				}
				p.jobs = append(p.jobs, job)
			}
		}
	}
	return p
}

// attempts are the numbers of the attempts at each instance, the last first: what
// is written of the run as a whole is about all of them.
func (p plan) attempts() iter.Seq[int] {
	return func(yield func(int) bool) {
		for n := len(p.predicted); n > 0; n-- {
			if !yield(n) {
				return
			}
		}
	}
}

// record is run.json of one of several attempts.
func (p plan) record(r reports.RunRecord, n int) reports.RunRecord {
	r.NoPrediction = nil
	if len(p.missing[n-1]) > 0 {
		r.NoPrediction = p.missing[n-1]
	}
	return r
}

// event is what the journal is told of the run.
func (p plan) event(r reports.RunRecord) reports.RunEvent {
	about := reports.RunEvent{Run: p.record(r, 1), Predictions: p.predicted[0]}
	if len(p.missing) > 1 {
		about.NoPrediction = p.missing
	}
	return about
}
