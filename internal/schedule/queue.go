package schedule

import (
	"container/heap"
	"context"
	"sync"
)

// Queue hands on what is ready between two stages: a bounded number, the most urgent
// first, and those equally urgent in the order they came.
type Queue[T any] struct {
	room  chan struct{} // one for each that is in
	ready chan struct{} // likewise

	mu    sync.Mutex
	items itemHeap[T]
	came  int
}

// NewQueue holds so many.
func NewQueue[T any](size int) *Queue[T] {
	return &Queue[T]{room: make(chan struct{}, size), ready: make(chan struct{}, size)}
}

// Put waits for room; false means that ctx is done.
func (q *Queue[T]) Put(ctx context.Context, urgency float64, v T) bool {
	select {
	case q.room <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	q.mu.Lock()
	q.came++
	heap.Push(&q.items, item[T]{v, urgency, q.came})
	q.mu.Unlock()
	q.ready <- struct{}{}
	return true
}

// Take waits for one; false means that ctx is done, or that it is closed and empty.
func (q *Queue[T]) Take(ctx context.Context) (v T, ok bool) {
	select {
	case _, ok := <-q.ready:
		if !ok {
			return v, false
		}
	case <-ctx.Done():
		return v, false
	}
	q.mu.Lock()
	v = heap.Pop(&q.items).(item[T]).v
	q.mu.Unlock()
	<-q.room
	return v, true
}

// Close says that no more come.
func (q *Queue[T]) Close() { close(q.ready) }

type item[T any] struct {
	v       T
	urgency float64
	came    int
}

type itemHeap[T any] []item[T]

func (h itemHeap[T]) Len() int { return len(h) }
func (h itemHeap[T]) Less(i, j int) bool {
	if h[i].urgency != h[j].urgency {
		return h[i].urgency > h[j].urgency
	}
	return h[i].came < h[j].came
}
func (h itemHeap[T]) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *itemHeap[T]) Push(x any)   { *h = append(*h, x.(item[T])) }
func (h *itemHeap[T]) Pop() any {
	old := *h
	x := old[len(old)-1]
	old[len(old)-1] = item[T]{} // nothing is held by it any more
	*h = old[:len(old)-1]
	return x
}
