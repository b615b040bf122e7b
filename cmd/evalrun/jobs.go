package main

import (
	"fmt"
	"os"
	"runtime/debug"

	"github.com/evalrun/evalrun/datasets"
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
	read := 0
	for _, path := range c.Predictions {
		got, problems, err := datasets.LoadPredictions(path, ds, datasets.PredictionOptions{
			Model: c.Model, AllowUnknown: c.AllowUnknown, LastWins: c.LastWins, AcceptAliases: c.AcceptAliases, Attempts: c.Attempts,
			Selected: func(id string) bool { return wanted[id] }, Spool: spool,
		})
		if err != nil {
			return nil, nil, fmt.Errorf("predictions %s:\n%w", path, err)
		}
		showWarnings(e.stderr, problems.Warnings())
		for _, s := range got {
			read += s.Predictions.Len() + s.Unknown.Len()
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
		keepRoom(read)
		records = append(records, reports.PredictionRecord{Path: path, SHA256: hashOf(path)})
	}
	return sets, records, nil
}

// keepRoom raises the soft limit of memory by what is kept of so many attempts, which is
// no garbage that collecting more would free.
func keepRoom(attempts int) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit + int64(attempts)*keptOfAttempt)
	}
}

// join adds the predictions of a further file as further attempts.
func join(to *datasets.PredictionSet, more datasets.PredictionSet, most int) error {
	given := map[string]int{}
	for p, err := range to.Predictions.All() {
		if err != nil {
			return err
		}
		given[p.InstanceID]++
	}
	for p, err := range more.Predictions.All() {
		if err != nil {
			return err
		}
		if given[p.InstanceID]++; given[p.InstanceID] > most {
			return fmt.Errorf("%s: instance %s: a prediction of model %s more than there are attempts (%d); give --attempts a higher number", p.Source, p.InstanceID, p.Model, most)
		}
	}
	to.Predictions.Append(more.Predictions)
	to.Unknown.Append(more.Unknown)
	return nil
}
