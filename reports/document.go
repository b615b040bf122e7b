package reports

import (
	"cmp"
	"io"

	"github.com/evalrun/evalrun/grading"
)

// Document is what --json prints: one object for one model of a run.
//
// The schema is stable: within a schema_version keys are only added, never
// renamed or removed, and no key changes its meaning. Instances come in the
// order of the run and there is exactly one for each, so that their outcomes
// add up to summary.total. Rates are fractions from 0 to 1, times are seconds.
type Document struct {
	SchemaVersion int        `json:"schema_version"` // SummarySchema
	Run           *RunRecord `json:"run,omitempty"`  // as in run.json
	Summary       Summary    `json:"summary"`
	Instances     []Result   `json:"instances"`
}

// Result is one instance in a Document. Everything else about the attempt is
// in its attempt.json.
type Result struct {
	InstanceID string          `json:"instance_id"`
	Outcome    grading.Outcome `json:"outcome"`
	Submitted  *bool           `json:"submitted"` // there was a prediction; null where that is not known
	Fault      string          `json:"fault"`     // patch, dataset, environment, infrastructure, none
	Evaluated  bool            `json:"evaluated"`
	Reason     string          `json:"reason"`
	FailToPass *Tally          `json:"FAIL_TO_PASS"` // null when nothing was graded
	PassToPass *Tally          `json:"PASS_TO_PASS"`
	Seconds    float64         `json:"seconds"`
	Reused     bool            `json:"reused"` // the verdict is of an earlier run
	Warnings   []string        `json:"warnings"`
	Flagged    []string        `json:"flagged"` // what a person should look at
}

// Tally counts the tests of one list.
type Tally struct {
	Success int      `json:"success"`
	Total   int      `json:"total"`
	Failed  []string `json:"failed"` // names of the others
}

// NewDocument puts together what --json prints. run may be nil; ids are as for
// NewSummary.
func NewDocument(run *RunRecord, runID, model string, ids []string, attempts []Attempt) Document {
	if run != nil {
		complete := run.complete()
		run = &complete
	}
	doc := Document{
		SchemaVersion: SummarySchema,
		Run:           run,
		Summary:       NewSummary(runID, model, ids, attempts),
		Instances:     []Result{},
	}
	submitted := submissions(run, model)
	for _, a := range perInstance(runID, model, ids, attempts) {
		r := Result{
			InstanceID: a.InstanceID, Outcome: a.Outcome, Submitted: submitted(&a), Fault: faultName(a.Outcome),
			Evaluated: a.Outcome.Evaluated(), Reason: cmp.Or(a.Reason, shortReason(&a)), Seconds: a.Seconds,
			Reused: a.Reused, Warnings: notNil(a.Warnings), Flagged: notNil(a.Trust.Flagged),
		}
		if a.Verdict != nil && a.Verdict.Tests != nil {
			r.FailToPass = tally(a.Verdict.Tests.FailToPass)
			r.PassToPass = tally(a.Verdict.Tests.PassToPass)
		}
		doc.Instances = append(doc.Instances, r)
	}
	return doc
}

// submissions tells whether there was a prediction for the instance of an attempt:
// there was where something came of it, and the run knows of the others.
func submissions(run *RunRecord, model string) func(*Attempt) *bool {
	nothing := map[string]bool{}
	if run != nil {
		nothing = idSet(run.NoPrediction[model])
	}
	return func(a *Attempt) *bool {
		if run == nil && a.Outcome == grading.NotRun {
			return nil
		}
		there := !nothing[a.InstanceID]
		return &there
	}
}

func tally(s grading.Split) *Tally {
	return &Tally{Success: len(s.Success), Total: len(s.Success) + len(s.Failure), Failed: notNil(s.Failure)}
}

// Write prints the document as indented JSON with a final newline.
func (d Document) Write(w io.Writer) error {
	data, err := encodeJSON(d, "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}
