package reports

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/evalrun/evalrun/internal/journal"
)

// Kinds of events of a run's journal, and what their data are.
const (
	EventRunStarted      = "run_started"      // RunEvent; of a call of the run
	EventRunEnded        = "run_ended"        // RunEvent
	EventAttemptStarted  = "attempt_started"  // AttemptEvent
	EventAttemptFinished = "attempt_finished" // Attempt
)

// RunEvent is what a call of a run is about.
type RunEvent struct {
	Run RunRecord `json:"run"`
	// Predictions are the instances each model has a prediction for, selected or not.
	Predictions map[string][]string `json:"predictions,omitempty"`
	// NoPrediction is run.json's, for each of several attempts.
	NoPrediction []map[string][]string `json:"no_prediction,omitempty"`
	// NoCache says of a call that it takes no result but those of calls of the same
	// run that it goes on from.
	NoCache bool `json:"no_cache,omitempty"`
	// Left is how many attempts have not come to an end when a call ends. Whatever came
	// of the others, they have.
	Left int `json:"left,omitempty"`
}

// AttemptEvent names an attempt, and what it is an attempt at.
type AttemptEvent struct {
	Model      string `json:"model_name_or_path"`
	InstanceID string `json:"instance_id"`
	Attempt    int    `json:"attempt,omitempty"`
	Key        string `json:"key"`
}

// AttemptID names an attempt within its run.
type AttemptID struct {
	Model      string
	InstanceID string
	Attempt    int // from 1
}

// ID names the attempt within its run.
func (a *Attempt) ID() AttemptID { return AttemptID{a.Model, a.InstanceID, max(1, a.Attempt)} }

// ID names the attempt within its run.
func (e AttemptEvent) ID() AttemptID { return AttemptID{e.Model, e.InstanceID, max(1, e.Attempt)} }

// Journalled is what the journal of a run says, and nothing else does.
type Journalled struct {
	Run         RunRecord             // of the last call
	Predictions map[string][]string   // of the last call
	Missing     []map[string][]string // of the last call, by attempt: what there was no prediction for
	Attempts    []Attempt             // finished, by model, instance and number
	InFlight    []AttemptID           // started and not finished
	Damage      []journal.Damage
}

// LoadJournal rebuilds a run from its journal alone. The error wraps
// fs.ErrNotExist when there is none.
func LoadJournal(path string) (*Journalled, error) {
	f, err := journal.OpenFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := &Journalled{}
	finished := map[AttemptID]*Attempt{}
	scan, err := journal.Read(f, func(ev journal.Event) error { return out.take(ev, finished) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if out.Run.RunID == "" {
		return nil, fmt.Errorf("%s: is no journal of a run, or of one that never began", path)
	}
	out.Damage = scan.Damage
	for id, a := range finished {
		if a == nil {
			out.InFlight = append(out.InFlight, id)
			continue
		}
		out.Attempts = append(out.Attempts, *a)
	}
	slices.SortFunc(out.Attempts, func(a, b Attempt) int { return a.ID().compare(b.ID()) })
	slices.SortFunc(out.InFlight, AttemptID.compare)
	return out, nil
}

func (id AttemptID) compare(other AttemptID) int {
	return cmp.Or(cmp.Compare(id.Model, other.Model), cmp.Compare(id.InstanceID, other.InstanceID), cmp.Compare(id.Attempt, other.Attempt))
}

func (j *Journalled) take(ev journal.Event, finished map[AttemptID]*Attempt) error {
	switch ev.Kind {
	case EventRunStarted, EventRunEnded:
		var run RunEvent
		if err := json.Unmarshal(ev.Data, &run); err != nil {
			return fmt.Errorf("event %d: %w", ev.Seq, err)
		}
		j.Run = run.Run
		if ev.Kind == EventRunStarted {
			j.Predictions, j.Missing = run.Predictions, run.NoPrediction
		}
	case EventAttemptStarted:
		var started AttemptEvent
		if err := json.Unmarshal(ev.Data, &started); err != nil {
			return fmt.Errorf("event %d: %w", ev.Seq, err)
		}
		finished[started.ID()] = nil
	case EventAttemptFinished:
		a, err := AttemptOf(ev)
		if err != nil {
			return err
		}
		finished[a.ID()] = a
	}
	return nil // those of a later version change nothing of this
}

// Record is run.json of the n-th of several attempts.
func (j *Journalled) Record(n int) *RunRecord {
	r := j.Run
	if n <= len(j.Missing) {
		r.NoPrediction = j.Missing[n-1]
	}
	return &r
}

// AttemptOf is the record in an attempt_finished event.
func AttemptOf(ev journal.Event) (*Attempt, error) {
	var a Attempt
	err := errors.New("is no end of an attempt, but " + ev.Kind)
	if ev.Kind == EventAttemptFinished {
		err = json.Unmarshal(ev.Data, &a)
	}
	if err == nil {
		err = a.usable()
	}
	if err != nil {
		return nil, fmt.Errorf("event %d: %w", ev.Seq, err)
	}
	return &a, nil
}
