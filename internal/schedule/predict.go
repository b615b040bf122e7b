package schedule

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Range is a time that is not known exactly: four times out of five it is between
// Low and High.
type Range struct{ Low, Mid, High time.Duration }

// machineSpread is by how much one run as a whole differs from another: other load,
// another machine.
const machineSpread = 0.15

// Predict says how long tasks take on so many workers, batches in this order, by drawing
// their times again and again. The same tasks give the same answer.
func Predict(batches []Batch, order []int, workers int) Range {
	n := 0
	for _, b := range batches {
		n += b.Tasks
	}
	if n == 0 {
		return Range{}
	}
	random := rand.New(rand.NewPCG(uint64(n), uint64(workers)))
	draws := max(20, min(500, 2_000_000/n))
	ends := make([]float64, draws)
	free := make(floatHeap, max(1, min(workers, n)))
	for d := range ends {
		clear(free)
		speed := math.Exp(machineSpread * random.NormFloat64())
		for _, i := range order {
			e := batches[i]
			for range e.Tasks {
				// The mean is given, and the median is below it.
				free[0] += speed * e.Seconds * math.Exp(e.Spread*random.NormFloat64()-e.Spread*e.Spread/2)
				heap.Fix(&free, 0)
			}
		}
		ends[d] = slices.Max(free)
	}
	slices.Sort(ends)
	at := func(q float64) time.Duration { return seconds(ends[int(q*float64(draws-1))]) }
	return Range{at(0.1), at(0.5), at(0.9)}
}

// floatHeap is when each worker is free.
type floatHeap []float64

func (h floatHeap) Len() int           { return len(h) }
func (h floatHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h floatHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *floatHeap) Push(x any)        { *h = append(*h, x.(float64)) }
func (h *floatHeap) Pop() any          { panic("the heap of workers does not shrink") }
