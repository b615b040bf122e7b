package main

import (
	"cmp"
	"slices"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/runner"
	"github.com/evalrun/evalrun/internal/schedule"
	"github.com/evalrun/evalrun/reports"
)

// prediction is what a run is predicted from.
type prediction struct {
	workers   workerCount
	builders  int
	pulls     int
	limits    runner.Limits
	capacity  schedule.Resources
	jobs      runner.Jobs
	earlier   func(reports.AttemptID) grading.Outcome // nil is none
	shared    []sharing                               // by job; nil is none
	durations *schedule.History
	images    *schedule.History
}

// wanted are the instances whose images the run needs, each once.
func (p *prediction) wanted() []*datasets.Instance {
	var list []*datasets.Instance
	seen := map[*datasets.Instance]bool{}
	for i := range p.jobs.Len() {
		if inst := p.jobs.Instance(i); !p.jobs.Empty(i) && !seen[inst] {
			seen[inst] = true
			list = append(list, inst)
		}
	}
	return list
}

// document predicts.
func (p *prediction) document(missing imagesMissing) (planDocument, error) {
	doc := planDocument{
		SchemaVersion: 1, Attempts: p.jobs.Len(), Known: map[string]int{}, Workers: p.workers.most(), Auto: p.workers == autoWorkers, Images: missing,
	}
	batches, err := p.batches(&doc)
	if err != nil {
		return doc, err
	}
	workers := p.atOnce(batches)
	doc.Workers = workers
	doc.Time.Tests = rangeOf(schedule.Predict(batches, orderOf(batches, workers), workers))
	doc.Time.Total = doc.Time.Tests
	doc.Memory, doc.Disk = p.room(batches, workers)
	p.predictImages(&doc, missing)
	return doc, nil
}

// batches are what is expected of the attempts that will be made, by instance; the others
// are counted.
func (p *prediction) batches(doc *planDocument) ([]schedule.Batch, error) {
	r := runner.New(runner.Options{History: p.durations, Limits: p.limits})
	var batches []schedule.Batch
	var inst, of *datasets.Instance // of the last job, and of the last batch
	for i := range p.jobs.Len() {
		if at := p.jobs.Instance(i); at != inst {
			inst = at
			doc.Instances++
		}
		if p.jobs.Empty(i) {
			doc.Empty++
			continue
		}
		switch done, err := p.done(i); {
		case err != nil:
			return nil, err
		case done:
			doc.Reused++
			continue
		case p.shared != nil && p.shared[i] == ofOtherRun:
			doc.OtherRuns++
			continue
		case p.shared != nil && p.shared[i] == ofSamePatch:
			doc.SamePatch++
			continue
		}
		if inst != of {
			of = inst
			j, err := p.jobs.Job(i)
			if err != nil {
				return nil, err
			}
			batches = append(batches, schedule.Batch{Estimate: r.Estimate(j)})
		}
		b := &batches[len(batches)-1]
		b.Tasks++
		doc.Known[b.Level.String()]++
		doc.CPUSeconds += b.Seconds * b.Needs.CPUs
	}
	return batches, nil
}

// done reports whether an earlier call has finished a job.
func (p *prediction) done(i int) (bool, error) {
	if p.earlier == nil {
		return false, nil
	}
	j, err := p.jobs.Job(i)
	if err != nil {
		return false, err
	}
	old := p.earlier(j.ID())
	return old != "" && old.Evaluated(), nil
}

func orderOf(batches []schedule.Batch, workers int) []int {
	tasks := make([]schedule.Task, len(batches))
	for i, b := range batches {
		tasks[i] = schedule.Task{Seconds: b.Seconds, Times: b.Tasks}
	}
	return schedule.Order(tasks, workers)
}

// atOnce is how many run at a time on average, by what they need.
func (p *prediction) atOnce(batches []schedule.Batch) int {
	n := float64(p.workers.most())
	var total, cpu, memory float64
	for _, b := range batches {
		seconds := b.Seconds * float64(b.Tasks)
		total += seconds
		cpu += seconds * b.Needs.CPUs
		memory += seconds * float64(b.Needs.MemoryBytes)
	}
	if c := p.capacity.CPUs; c > 0 && cpu > 0 {
		n = min(n, c/(cpu/total))
	}
	if m := float64(p.capacity.MemoryBytes); m > 0 && memory > 0 {
		n = min(n, m/(memory/total))
	}
	return max(1, int(n))
}

// room is what the neediest that fit at a time need.
func (p *prediction) room(batches []schedule.Batch, workers int) (memory, disk planRoom) {
	most := func(of func(schedule.Estimate) int64) (sum int64) {
		sorted := slices.SortedFunc(slices.Values(batches), func(a, b schedule.Batch) int { return cmp.Compare(of(b.Estimate), of(a.Estimate)) })
		left := workers
		for _, b := range sorted {
			n := min(left, b.Tasks)
			sum, left = sum+int64(n)*of(b.Estimate), left-n
		}
		return sum
	}
	memory = planRoom{most(func(e schedule.Estimate) int64 { return e.Needs.MemoryBytes }), p.capacity.MemoryBytes}
	disk = planRoom{most(func(e schedule.Estimate) int64 { return e.Needs.DiskBytes }), p.capacity.DiskBytes}
	if memory.Capacity > 0 {
		memory.Needed = min(memory.Needed, memory.Capacity) // admission sees to it
	}
	return memory, disk
}

// predictImages adds the time until the images are there. They are made beside the
// tests, so that in the best case they add nothing but the first.
func (p *prediction) predictImages(doc *planDocument, missing imagesMissing) {
	if len(missing.pulled)+len(missing.built) == 0 {
		return
	}
	first, sizes := map[string]int64{}, int64(0)
	known := true
	var made planRange
	for _, stage := range []struct {
		of    []*datasets.Instance
		bound int
	}{{missing.pulled, p.pulls}, {missing.built, p.builders}} {
		var batches []schedule.Batch
		for _, inst := range stage.of {
			e := p.images.Estimate(inst.ID, inst.Repo)
			batches = append(batches, schedule.Batch{Estimate: e, Tasks: 1})
			known = known && e.Needs.DiskBytes > 0
			sizes += e.Needs.DiskBytes
			first[layerOf(inst)] = max(first[layerOf(inst)], e.Needs.DiskBytes)
		}
		r := rangeOf(schedule.Predict(batches, orderOf(batches, stage.bound), stage.bound))
		made = planRange{max(made.Low, r.Low), max(made.Mid, r.Mid), max(made.High, r.High)}
	}
	doc.Time.Images = &made
	t := doc.Time.Tests
	doc.Time.Total = planRange{max(t.Low, made.Low), max(t.Mid, made.Mid) + min(t.Mid, made.Mid)/2, t.High + made.High}
	if known {
		doc.ImageBytes = &planBytes{High: sizes}
		for _, n := range first {
			doc.ImageBytes.Low += n
		}
	}
}
