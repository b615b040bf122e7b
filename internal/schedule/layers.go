package schedule

import (
	"container/heap"
	"context"
	"sync"
)

// Layers hands out tasks in their order, to any number of takers. The first task
// of a layer goes alone; others of that layer wait until it is done and meanwhile
// those of other layers go, so that no two takers wait for one fetch.
type Layers struct {
	mu      sync.Mutex
	tasks   []string // their layers, in order
	next    int
	ready   intHeap          // passed over before, and free to go now
	waiting map[string][]int // for the first of their layer; nil once that is done
	begun   map[string]bool
	changed chan struct{}
}

// NewLayers hands out tasks with these layers, in this order.
func NewLayers(layers []string) *Layers {
	return &Layers{tasks: layers, waiting: map[string][]int{}, begun: map[string]bool{}, changed: make(chan struct{})}
}

// Next is the task to do now; it waits while all that are left have to. done must
// be called when it is finished, however it ended; fetched is false for one that had no
// need of its layer, and then the next of that layer goes alone. ok is false when none is
// left, or ctx is done.
func (l *Layers) Next(ctx context.Context) (task int, done func(fetched bool), ok bool) {
	for ctx.Err() == nil {
		l.mu.Lock()
		task, found, left := l.pick()
		changed := l.changed
		l.mu.Unlock()
		if found {
			return task, func(fetched bool) { l.finished(task, fetched) }, true
		}
		if !left {
			return 0, nil, false
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return 0, nil, false
}

func (l *Layers) pick() (task int, found, left bool) {
	if len(l.ready) > 0 {
		return heap.Pop(&l.ready).(int), true, true
	}
	for l.next < len(l.tasks) {
		i := l.next
		l.next++
		layer := l.tasks[i]
		if layer == "" || !l.begun[layer] {
			if layer != "" {
				l.begun[layer] = true
				l.waiting[layer] = []int{}
			}
			return i, true, true
		}
		if _, busy := l.waiting[layer]; !busy {
			return i, true, true
		}
		l.waiting[layer] = append(l.waiting[layer], i)
	}
	for _, w := range l.waiting {
		if len(w) > 0 {
			return 0, false, true
		}
	}
	return 0, false, false
}

func (l *Layers) finished(task int, fetched bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	layer := l.tasks[task]
	waiting, leads := l.waiting[layer]
	if !leads {
		return
	}
	switch {
	case fetched:
		delete(l.waiting, layer)
	case len(waiting) == 0:
		delete(l.waiting, layer)
		delete(l.begun, layer)
	default:
		l.waiting[layer], waiting = waiting[1:], waiting[:1]
	}
	for _, i := range waiting {
		heap.Push(&l.ready, i)
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

type intHeap []int

func (h intHeap) Len() int           { return len(h) }
func (h intHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h intHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *intHeap) Push(x any)        { *h = append(*h, x.(int)) }
func (h *intHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
