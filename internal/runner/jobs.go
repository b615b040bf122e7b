package runner

import (
	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/internal/schedule"
	"github.com/evalrun/evalrun/reports"
)

// Job is one attempt to be made.
type Job struct {
	Instance   *datasets.Instance
	Recipe     *datasets.Recipe
	Prediction *datasets.Prediction
	// Attempt is which of several at the instance it is, from 1; 0 is the only one.
	Attempt int
	// Repetition tells attempts at one patch apart that are all to be made: none
	// stands for another of a different repetition.
	Repetition int
}

// ID names the attempt within its run.
func (j Job) ID() reports.AttemptID {
	return reports.AttemptID{Model: j.Prediction.Model, InstanceID: j.Instance.ID, Attempt: max(1, j.Attempt)}
}

// Jobs are the attempts of a run, those of an instance in a row. There may be a million:
// a job is asked for when it is reached, and of all of them beforehand only what Instance
// and Empty say. They must be safe for concurrent use.
type Jobs interface {
	Len() int
	Instance(i int) *datasets.Instance
	Empty(i int) bool // it has nothing to apply, and nothing is run
	Job(i int) (Job, error)
}

// List is jobs that are in memory.
type List []Job

// Len implements Jobs.
func (l List) Len() int { return len(l) }

// Instance implements Jobs.
func (l List) Instance(i int) *datasets.Instance { return l[i].Instance }

// Empty implements Jobs.
func (l List) Empty(i int) bool { return l[i].Prediction.Empty() }

// Job implements Jobs.
func (l List) Job(i int) (Job, error) { return l[i], nil }

// group is all jobs of one instance that stand in a row: they share an image, and
// one builder takes them all, so that two never wait for the same.
type group struct {
	first, n int // jobs
	empty    int // of them
	layer    string
	expected schedule.Estimate // of each that is not empty

	place    int     // in the order
	priority float64 // between the stages: earlier in the order is higher
}

// batch is which of the forecast's batches a job is of: each group has one of those that
// run, and one of those with nothing to run.
func (g *group) batch(empty bool) int {
	if empty {
		return 2*g.place + 1
	}
	return 2 * g.place
}
