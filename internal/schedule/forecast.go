package schedule

import (
	"math"
	"slices"
	"sync"
	"time"
)

// Forecast says when a run will be done. Its methods are safe for concurrent use.
type Forecast struct {
	workers float64

	mu       sync.Mutex
	batches  []Batch // in the order in which they are begun, more or less; Tasks have not begun
	first    int     // of them with such tasks
	pending  totals
	running  map[int]started
	expected float64 // of those that have ended
	took     float64
	ended    int
}

// started is a task at work.
type started struct {
	batch int
	since time.Time
}

// totals are sums over tasks.
type totals struct {
	n        int
	seconds  float64
	variance float64
	guessed  int
}

func (t *totals) add(e Estimate, n int) {
	t.n += n
	t.seconds += float64(n) * e.Seconds
	t.variance += float64(n) * e.variance()
	if e.Level == Guessed {
		t.guessed += n
	}
}

// NewForecast is for these tasks, in the order in which they are begun, more or less.
func NewForecast(batches []Batch, workers int) *Forecast {
	f := &Forecast{workers: float64(max(1, workers)), batches: slices.Clone(batches), running: map[int]started{}}
	for _, b := range batches {
		f.pending.add(b.Estimate, b.Tasks)
	}
	return f
}

// Begin says that a task of a batch has begun, or has begun again. Tasks are told apart
// by whatever number the caller gives them.
func (f *Forecast) Begin(task, batch int, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, again := f.running[task]; !again {
		f.leave(batch)
	}
	f.running[task] = started{batch, now}
}

// leave takes a task of a batch from those that have not begun.
func (f *Forecast) leave(batch int) {
	f.batches[batch].Tasks--
	f.pending.add(f.batches[batch].Estimate, -1)
	for f.first < len(f.batches) && f.batches[f.first].Tasks == 0 {
		f.first++
	}
}

// End says that it has ended, once for each task. What was no run (a record taken over,
// a patch that does not apply) says nothing about the others: ran is false.
func (f *Forecast) End(task, batch int, now time.Time, ran bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	begun, ok := f.running[task]
	if !ok {
		f.leave(batch)
		return
	}
	delete(f.running, task)
	if ran {
		f.expected += f.batches[batch].Seconds
		f.took += now.Sub(begun.since).Seconds()
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
	if f.first < len(f.batches) {
		longest = bias * f.batches[f.first].Seconds
	}
	for _, begun := range f.running {
		b, gone := f.batches[begun.batch], now.Sub(begun.since).Seconds()
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
