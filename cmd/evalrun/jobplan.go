package main

import (
	"iter"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/internal/runner"
	"github.com/evalrun/evalrun/reports"
)

// plan is the jobs of a run, in the order they are made. It implements runner.Jobs: what
// is in memory of a job says where the rest of it is, as there may be a million.
type plan struct {
	selected []datasets.Instance
	recipes  map[string]*datasets.Recipe
	sets     []plannedSet
	attempts int // at each instance
	jobs     []plannedJob
	ids      []string              // of the selected instances
	missing  []map[string][]string // by attempt: model -> ids of the selected instances it gave nothing for
}

// plannedSet is the predictions of a model.
type plannedSet struct {
	*datasets.PredictionSet
	repeated bool // there is one for each instance, and every attempt is at that one

	names     []string   // of instances, selected or not
	predicted [][]uint32 // by attempt: whose predictions there are, by names
}

// plannedJob is a job in as little memory as that takes.
type plannedJob struct {
	instance   uint32 // among the selected
	set        uint32
	prediction uint32 // in the set
	attempt    uint16 // from 1, at most maxAttempts
	empty      bool
}

// given is a prediction for an instance.
type given struct {
	place uint32 // in its set
	empty bool
}

// newPlan lists the jobs instance by instance, so that all models use an image
// while it is there. Of a model with one prediction for each instance every attempt
// is at that one, and is made.
func newPlan(selected []datasets.Instance, sets []datasets.PredictionSet, recipes map[string]*datasets.Recipe, attempts int) (*plan, error) {
	p := &plan{selected: selected, recipes: recipes, attempts: max(1, attempts), sets: make([]plannedSet, len(sets))}
	p.missing = make([]map[string][]string, p.attempts)
	for n := range p.missing {
		p.missing[n] = map[string][]string{}
	}
	all, count := make([]map[string][]given, len(sets)), 0
	for s := range sets {
		var err error
		p.sets[s].PredictionSet = &sets[s]
		if all[s], err = p.sets[s].read(p.attempts); err != nil {
			return nil, err
		}
		for i := range selected {
			count += p.sets[s].jobs(all[s][selected[i].ID], p.attempts)
		}
	}
	p.jobs = make([]plannedJob, 0, count)
	for i := range selected {
		id := selected[i].ID
		p.ids = append(p.ids, id)
		for s := range p.sets {
			list := all[s][id]
			made := p.sets[s].jobs(list, p.attempts)
			for n := range made {
				g := list[min(n, len(list)-1)]
				p.jobs = append(p.jobs, plannedJob{uint32(i), uint32(s), g.place, uint16(n + 1), g.empty})
			}
			for n := made; n < p.attempts; n++ {
				p.missing[n][sets[s].Model] = append(p.missing[n][sets[s].Model], id)
			}
		}
	}
	return p, nil
}

// read finds out which predictions there are for each instance.
func (s *plannedSet) read(attempts int) (map[string][]given, error) {
	byID, numbers := map[string][]given{}, map[string]uint32{}
	place := uint32(0)
	s.repeated = attempts > 1
	for p, err := range s.Predictions.All() {
		if err != nil {
			return nil, err
		}
		number, known := numbers[p.InstanceID]
		if !known {
			number = uint32(len(s.names))
			numbers[p.InstanceID], s.names = number, append(s.names, p.InstanceID)
		}
		n := len(byID[p.InstanceID])
		byID[p.InstanceID] = append(byID[p.InstanceID], given{place, p.Empty()})
		if n == len(s.predicted) {
			s.predicted = append(s.predicted, nil)
		}
		s.predicted[n] = append(s.predicted[n], number)
		s.repeated = s.repeated && n == 0
		place++
	}
	return byID, nil
}

// jobs is how many attempts are made at an instance.
func (s *plannedSet) jobs(list []given, attempts int) int {
	if s.repeated && len(list) > 0 {
		return attempts
	}
	return min(len(list), attempts)
}

// Len implements runner.Jobs.
func (p *plan) Len() int { return len(p.jobs) }

// Instance implements runner.Jobs.
func (p *plan) Instance(i int) *datasets.Instance { return &p.selected[p.jobs[i].instance] }

// Empty implements runner.Jobs.
func (p *plan) Empty(i int) bool { return p.jobs[i].empty }

// Job implements runner.Jobs.
func (p *plan) Job(i int) (runner.Job, error) {
	j := p.jobs[i]
	inst, set := p.Instance(i), &p.sets[j.set]
	prediction, err := set.Predictions.At(int(j.prediction))
	job := runner.Job{Instance: inst, Recipe: p.recipes[inst.ID], Prediction: prediction, Attempt: int(j.attempt)}
	if set.repeated {
		job.Repetition = job.Attempt - 1
	}
	return job, err
}

// id names the attempt of a job.
func (p *plan) id(i int) reports.AttemptID {
	j := p.jobs[i]
	return reports.AttemptID{Model: p.sets[j.set].Model, InstanceID: p.Instance(i).ID, Attempt: int(j.attempt)}
}

// needs gives the instance of each job.
func (p *plan) needs() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range p.jobs {
			if !yield(p.Instance(i).ID) {
				return
			}
		}
	}
}

// predicted are the instances that a model has a prediction for at the n-th attempt,
// selected or not.
func (p *plan) predicted(n int, model string) []string {
	var ids []string
	for i := range p.sets {
		s := &p.sets[i]
		at := n - 1
		if s.repeated {
			at = 0
		}
		if s.Model != model || at >= len(s.predicted) {
			continue
		}
		for _, number := range s.predicted[at] {
			ids = append(ids, s.names[number])
		}
	}
	return ids
}

// numbers are those of the attempts at each instance, the last first: what is written of
// the run as a whole is about all of them.
func (p *plan) numbers() iter.Seq[int] {
	return func(yield func(int) bool) {
		for n := p.attempts; n > 0; n-- {
			if !yield(n) {
				return
			}
		}
	}
}

// record is run.json of one of several attempts.
func (p *plan) record(r reports.RunRecord, n int) reports.RunRecord {
	r.NoPrediction = nil
	if len(p.missing[n-1]) > 0 {
		r.NoPrediction = p.missing[n-1]
	}
	return r
}

// event is what the journal is told of the run.
func (p *plan) event(r reports.RunRecord) reports.RunEvent {
	about := reports.RunEvent{Run: p.record(r, 1), Predictions: map[string][]string{}}
	for i := range p.sets {
		if ids := p.predicted(1, p.sets[i].Model); len(ids) > 0 {
			about.Predictions[p.sets[i].Model] = ids
		}
	}
	if len(p.missing) > 1 {
		about.NoPrediction = p.missing
	}
	return about
}
