package schedule

import (
	"math"
	"sync"
	"time"
)

// Forecast says when a run will be done. Its methods are safe for concurrent use.
type Forecast struct {
	workers float64

	mu       sync.Mutex
	tasks    []Estimate
	gone     []bool // begun or ended
	order    []int  // in which they are begun, more or less
	pending  totals
	running  map[int]time.Time // since when
	expected float64           // of those that have ended
	took     float64
	ended    int
}

// totals are sums over tasks.
type totals struct {
	n        int
	seconds  float64
	variance float64
	guessed  int
}

func (t *totals) add(e Estimate, sign float64) {
	t.n += int(sign)
	t.seconds += sign * e.Seconds
	t.variance += sign * e.variance()
	if e.Level == Guessed {
		t.guessed += int(sign)
	}
}

// NewForecast is for these tasks, begun in the given order of their indices.
func NewForecast(tasks []Estimate, order []int, workers int) *Forecast {
	f := &Forecast{workers: float64(max(1, workers)), tasks: tasks, gone: make([]bool, len(tasks)), order: order, running: map[int]time.Time{}}
	for _, e := range tasks {
		f.pending.add(e, 1)
	}
	return f
}

// Begin says that a task has begun, or has begun again.
func (f *Forecast) Begin(task int, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leave(task)
	f.running[task] = now
}

// leave takes a task from those that have not begun.
func (f *Forecast) leave(task int) {
	if f.gone[task] {
		return
	}
	f.gone[task] = true
	f.pending.add(f.tasks[task], -1)
	for len(f.order) > 0 && f.gone[f.order[0]] {
		f.order = f.order[1:]
	}
}

// End says that it has ended. What was no run (a record taken over, a patch that
// does not apply) says nothing about the others: ran is false.
func (f *Forecast) End(task int, now time.Time, ran bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leave(task)
	since, ok := f.running[task]
	delete(f.running, task)
	if ok && ran {
		f.expected += f.tasks[task].Seconds
		f.took += now.Sub(since).Seconds()
		f.ended++
	}
}

// Left is how long the rest will take: four times out of five it is in the range.
// ok is false while too little is known to say.
func (f *Forecast) Left(now time.Time) (low, high time.Duration, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pending.n == 0 && len(f.running) == 0 {
		return 0, 0, true
	}
	if f.ended == 0 && 2*f.pending.guessed >= f.pending.n {
		return 0, 0, false
	}
	bias, unsure := f.bias()
	work, variance, longest := bias*f.pending.seconds, bias*bias*f.pending.variance, 0.0
	if len(f.order) > 0 {
		longest = bias * f.tasks[f.order[0]].Seconds
	}
	for task, since := range f.running {
		b, gone := f.tasks[task], now.Sub(since).Seconds()
		// One that takes longer than expected is likely to go on for a while.
		rest := max(bias*b.Seconds-gone, 0.2*gone*b.Spread)
		work, variance, longest = work+rest, variance+bias*bias*b.variance(), max(longest, rest)
	}
	parallel := min(f.workers, float64(f.pending.n+len(f.running)))
	mid := max(longest, work/parallel)
	sd := math.Hypot(math.Sqrt(variance)/parallel, unsure*mid)
	const fourOfFive = 1.28
	return seconds(max(0, mid-fourOfFive*sd, 0.2*mid)), seconds(mid + fourOfFive*sd), true
}

// bias is by how much this run takes longer than expected, and how unsure that
// still is. The expectation counts as much as two tasks.
func (f *Forecast) bias() (factor, unsure float64) {
	const trust = 2
	if f.ended == 0 {
		return 1, 0.3
	}
	mean := f.expected / float64(f.ended)
	known := f.expected + trust*mean
	return (f.took + trust*mean) / known, 0.3 / math.Sqrt(float64(f.ended+1))
}
