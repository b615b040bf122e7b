package schedule

import (
	"context"
	"slices"
	"sync"
)

// overtakes bounds how often one that waits may be overtaken by smaller ones.
const overtakes = 64

// Admission keeps the sum of what runs below a capacity. One that alone is above
// it runs alone.
type Admission struct {
	capacity Resources

	mu      sync.Mutex
	used    Resources
	running int
	waiting []*waiter
}

type waiter struct {
	needs    Resources
	admitted chan struct{}
	passed   int // how often others went first
}

// NewAdmission bounds by capacity; what is zero there is not bounded.
func NewAdmission(capacity Resources) *Admission { return &Admission{capacity: capacity} }

// Enter waits for room and takes it. leave gives it back, and must be called if err
// is nil.
func (a *Admission) Enter(ctx context.Context, needs Resources) (leave func(), err error) {
	a.mu.Lock()
	w := &waiter{needs: needs, admitted: make(chan struct{})}
	a.waiting = append(a.waiting, w)
	a.admit()
	a.mu.Unlock()
	select {
	case <-w.admitted:
		return sync.OnceFunc(func() { a.leave(needs) }), nil
	case <-ctx.Done():
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if i := slices.Index(a.waiting, w); i >= 0 {
		a.waiting = slices.Delete(a.waiting, i, i+1)
		a.admit() // it may have held up others
		return nil, context.Cause(ctx)
	}
	a.release(needs) // it was admitted in the same moment
	return nil, context.Cause(ctx)
}

func (a *Admission) leave(needs Resources) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.release(needs)
}

func (a *Admission) release(needs Resources) {
	a.running--
	a.used.CPUs -= needs.CPUs
	a.used.MemoryBytes -= needs.MemoryBytes
	a.used.DiskBytes -= needs.DiskBytes
	if a.running == 0 {
		a.used = Resources{} // floats do not add up to 0
	}
	a.admit()
}

// admit lets in, in the order they came, those for whom there is room. Smaller
// ones may overtake, but not for ever.
func (a *Admission) admit() {
	kept, held := a.waiting[:0], false
	for _, w := range a.waiting {
		if held || !a.fits(w.needs) {
			held = held || w.passed >= overtakes
			kept = append(kept, w)
			continue
		}
		a.running++
		a.used.CPUs += w.needs.CPUs
		a.used.MemoryBytes += w.needs.MemoryBytes
		a.used.DiskBytes += w.needs.DiskBytes
		for _, before := range kept {
			before.passed++
		}
		close(w.admitted)
	}
	clear(a.waiting[len(kept):])
	a.waiting = kept
}

func (a *Admission) fits(n Resources) bool {
	// What a CPU is kept busy with is measured, so a hundredth over is none.
	return a.running == 0 ||
		(a.capacity.CPUs == 0 || a.used.CPUs+n.CPUs <= a.capacity.CPUs*1.01) &&
			(a.capacity.MemoryBytes == 0 || a.used.MemoryBytes+n.MemoryBytes <= a.capacity.MemoryBytes) &&
			(a.capacity.DiskBytes == 0 || a.used.DiskBytes+n.DiskBytes <= a.capacity.DiskBytes)
}

// Waiting counts those that wait for room.
func (a *Admission) Waiting() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.waiting)
}

// Running counts those that are in, and what they were expected to need.
func (a *Admission) Running() (n int, used Resources) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.running, a.used
}
