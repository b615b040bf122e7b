package schedule

import (
	"cmp"
	"math"
	"slices"
)

// Task is something to be ordered.
type Task struct {
	Seconds float64 // expected
	Layer   string  // what it shares with others and is fetched once; "" is nothing
	Times   int     // it is done in a row; 0 is once
}

// short is the part of the lower bound of the makespan below which a task is short:
// however the short ones are ordered, the end is not later by more than that.
const short = 1.0 / 50

// Order gives the tasks longest first, as indices. Short ones come last, those that
// share a layer one after another: in the order of their lengths they would at the
// end be asked for faster than images can be had. Of longer ones, those within a
// factor of 1.2 count as equally long and are grouped likewise. Where nothing tells
// two apart, the given order stays.
func Order(tasks []Task, workers int) []int {
	first := map[string]int{} // where a layer comes up first
	order := make([]int, len(tasks))
	longest, total := 0.0, 0.0
	for i, t := range tasks {
		order[i] = i
		if _, ok := first[t.Layer]; !ok {
			first[t.Layer] = i
		}
		longest, total = max(longest, t.Seconds), total+t.Seconds*float64(max(1, t.Times))
	}
	limit := short * max(longest, total/float64(max(1, workers)))
	rank := func(i int) int {
		if t := tasks[i]; t.Layer != "" {
			return first[t.Layer]
		}
		return i
	}
	bucket := func(i int) int {
		if s := tasks[i].Seconds; s > limit {
			return 1 + int(math.Round(math.Log(s/limit)/math.Log(1.2)))
		}
		return 0
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(bucket(b), bucket(a)), cmp.Compare(rank(a), rank(b)))
	})
	return order
}

// ByTests is how many seconds an instance counts for in the order. One that has not run
// before has the estimate of all its kind, and then its number of tests tells more than
// nothing: of 30 instances of SymPy those with more of them took longer (rank correlation
// 0.54). typical is the number that the estimate stands for.
func (e Estimate) ByTests(tests, typical int) float64 {
	if e.Level == ByInstance || tests == 0 || typical == 0 {
		return e.Seconds
	}
	// The part of a test file that is listed says little of what else an attempt does.
	return e.Seconds * min(math.Sqrt(float64(tests)/float64(typical)), 4)
}

// Typical is the median of numbers of tests; 0 where there are none.
func Typical(tests []int) int {
	if len(tests) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(tests))
	return sorted[len(sorted)/2]
}
