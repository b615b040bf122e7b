package schedule

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestOrder(t *testing.T) {
	tests := []struct {
		name  string
		tasks []Task
		want  []int
	}{
		{"none", nil, []int{}},
		{"longest first", []Task{{1, "", 0}, {100, "", 0}, {10, "", 0}}, []int{1, 2, 0}},
		{"as given when equal", []Task{{60, "", 0}, {60, "", 0}, {60, "", 0}}, []int{0, 1, 2}},
		{"layers together", []Task{{60, "a", 0}, {59, "b", 0}, {60, "a", 0}, {58, "b", 0}}, []int{0, 2, 1, 3}},
		{"short ones by layer", []Task{{1, "a", 0}, {2, "b", 0}, {3, "a", 0}, {900, "", 0}}, []int{3, 0, 2, 1}},
		{"length before layers", []Task{{60, "a", 0}, {600, "b", 0}, {600, "c", 0}, {600, "b", 0}}, []int{1, 3, 2, 0}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, Order(tt.tasks, 2)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// However many take them, each task goes once, and the first of a layer is done
// before another of it begins.
func TestLayers(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			layers := make([]string, 200)
			for i := range layers {
				if n := random.IntN(5); n > 0 {
					layers[i] = fmt.Sprint(n)
				}
			}
			l := NewLayers(layers)
			var mu sync.Mutex
			first, taken := map[string]string{}, map[int]int{}
			var takers sync.WaitGroup
			for range 4 {
				takers.Go(func() {
					for {
						i, done, ok := l.Next(t.Context())
						if !ok {
							return
						}
						mu.Lock()
						taken[i]++
						layer := layers[i]
						if layer != "" && first[layer] == "fetching" {
							t.Errorf("task %d of layer %s began while that was being fetched", i, layer)
						}
						leads := layer != "" && first[layer] == ""
						if leads {
							first[layer] = "fetching"
						}
						pause := time.Duration(1+random.IntN(100)) * time.Second
						mu.Unlock()
						time.Sleep(pause)
						mu.Lock()
						if leads {
							first[layer] = "fetched"
						}
						mu.Unlock()
						done(true)
					}
				})
			}
			takers.Wait()
			if len(taken) != len(layers) {
				t.Errorf("seed %d: %d of %d tasks were taken", seed, len(taken), len(layers))
			}
			for i, n := range taken {
				if n != 1 {
					t.Errorf("seed %d: task %d was taken %d times", seed, i, n)
				}
			}
		})
	}
}

// A taker that waits for a layer gives up with its context.
func TestLayersInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLayers([]string{"a", "a"})
		_, done, _ := l.Next(t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, _, ok := l.Next(ctx); ok {
			t.Error("the second went while the layer was being fetched")
		}
		done(true)
		if i, _, ok := l.Next(t.Context()); !ok || i != 1 {
			t.Errorf("then came %d, %v", i, ok)
		}
		if _, _, ok := l.Next(t.Context()); ok {
			t.Error("there was a third")
		}
	})
}

// While tasks turn out to need nothing of their layer, one of it goes at a time; once one
// has fetched it, all do.
func TestLayerNotNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLayers([]string{"a", "a", "a", "a", "b", "a"})
		next := func() (task int, done func(bool), ok bool) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			return l.Next(ctx)
		}
		for want := range 2 {
			i, done, ok := next()
			if !ok || i != want {
				t.Fatalf("task %d, %v; want %d", i, ok, want)
			}
			if want == 0 {
				if b, done, ok := next(); !ok || b != 4 {
					t.Errorf("beside the first of a layer goes %d, %v", b, ok)
				} else {
					done(false)
				}
			}
			if i, _, ok := next(); ok {
				t.Errorf("task %d goes beside task %d, which leads", i, want)
			}
			done(false)
		}
		_, done, _ := next()
		done(true)
		for _, want := range []int{3, 5} {
			if i, _, ok := next(); !ok || i != want {
				t.Errorf("then came %d, %v; want %d", i, ok, want)
			}
		}
		if _, _, ok := next(); ok {
			t.Error("there was a seventh")
		}
	})
}

// The capacity holds at every moment, everybody gets in, and nothing is left over.
func TestAdmission(t *testing.T) {
	capacity := Resources{CPUs: 4, MemoryBytes: 100, DiskBytes: 1000}
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			a := NewAdmission(capacity)
			random := rand.New(rand.NewPCG(seed, 2))
			var mu sync.Mutex
			var used Resources
			in := 0
			var all sync.WaitGroup
			for range 300 {
				needs := Resources{random.Float64() * 3, random.Int64N(120), random.Int64N(1200)}
				arrives, stays := random.IntN(1000), 1+random.IntN(60)
				all.Go(func() {
					time.Sleep(time.Duration(arrives) * time.Second)
					leave, err := a.Enter(t.Context(), needs)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					in++
					used.CPUs, used.MemoryBytes, used.DiskBytes = used.CPUs+needs.CPUs, used.MemoryBytes+needs.MemoryBytes, used.DiskBytes+needs.DiskBytes
					if in > 1 && (used.CPUs > capacity.CPUs*1.02 || used.MemoryBytes > capacity.MemoryBytes || used.DiskBytes > capacity.DiskBytes) {
						t.Errorf("%d are in and use %+v", in, used)
					}
					mu.Unlock()
					time.Sleep(time.Duration(stays) * time.Second)
					mu.Lock()
					in--
					used.CPUs, used.MemoryBytes, used.DiskBytes = used.CPUs-needs.CPUs, used.MemoryBytes-needs.MemoryBytes, used.DiskBytes-needs.DiskBytes
					mu.Unlock()
					leave()
					leave() // twice does no harm
				})
			}
			all.Wait()
			if n, left := a.Running(); n != 0 || left != (Resources{}) || a.Waiting() != 0 {
				t.Errorf("left over: %d running with %+v, %d waiting", n, left, a.Waiting())
			}
		})
	}
}

// One that needs all of the machine is not overtaken for ever by small ones.
func TestAdmissionDoesNotStarve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewAdmission(Resources{MemoryBytes: 10})
		ctx, cancel := context.WithCancel(t.Context())
		var small sync.WaitGroup
		for i := range 20 {
			small.Go(func() {
				time.Sleep(time.Duration(i) * 100 * time.Millisecond) // so that they never leave all at once
				for ctx.Err() == nil {
					leave, err := a.Enter(ctx, Resources{MemoryBytes: 1})
					if err != nil {
						return
					}
					time.Sleep(time.Second)
					leave()
				}
			})
		}
		time.Sleep(time.Minute)
		began := time.Now()
		leave, err := a.Enter(t.Context(), Resources{MemoryBytes: 10})
		if err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited > 20*time.Second {
			t.Errorf("it waited %s", waited)
		}
		leave()
		cancel()
		small.Wait()
	})
}

// Who gives up waiting does not hold up those behind.
func TestAdmissionInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewAdmission(Resources{CPUs: 2})
		leave, err := a.Enter(t.Context(), Resources{CPUs: 1})
		if err != nil {
			t.Fatal(err)
		}
		a.waiting = append(a.waiting, &waiter{needs: Resources{CPUs: 2}, admitted: make(chan struct{}), passed: overtakes})
		first := a.waiting[0]
		stop := errors.New("stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		got := make(chan error, 1)
		go func() {
			_, err := a.Enter(ctx, Resources{CPUs: 1})
			got <- err
		}()
		synctest.Wait()
		cancel(stop)
		if err := <-got; !errors.Is(err, stop) {
			t.Errorf("the error is %v", err)
		}
		leave()
		select {
		case <-first.admitted:
		default:
			t.Error("the first in line is not let in")
		}
	})
}

// Forecasts hold about as often as they say, and end at nothing.
func TestForecast(t *testing.T) {
	const runs, n, workers = 200, 100, 4
	within, before := 0, 0
	for seed := range uint64(runs) {
		random := rand.New(rand.NewPCG(seed, 3))
		var tasks []Estimate
		var real []float64
		slow := 0.7 + random.Float64() // this machine against those of the history
		for range n {
			median := 5 + random.ExpFloat64()*60
			tasks = append(tasks, Estimate{Seconds: median * 1.02, Spread: 0.2, Level: ByInstance})
			real = append(real, slow*median*expNorm(random, 0.2))
		}
		order := Order(toTasks(tasks), workers)
		f := NewForecast(inOrder(tasks, order), workers)
		start := time.Unix(0, 0)
		free := make([]float64, workers)
		type span struct {
			id         int
			begin, end float64
		}
		var spans []span
		for at, j := range order {
			w := slices.Index(free, slices.Min(free))
			spans = append(spans, span{at, free[w], free[w] + real[j]})
			free[w] += real[j]
		}
		makespan := slices.Max(free)
		at := makespan * 0.4
		var events []func()
		var times []float64
		for _, s := range spans {
			s := s
			if s.begin < at {
				times = append(times, s.begin)
				events = append(events, func() { f.Begin(s.id, s.id, start.Add(seconds(s.begin))) })
			}
			if s.end < at {
				times = append(times, s.end)
				events = append(events, func() { f.End(s.id, s.id, start.Add(seconds(s.end)), true) })
			}
		}
		byTime := make([]int, len(times))
		for i := range byTime {
			byTime[i] = i
		}
		slices.SortStableFunc(byTime, func(a, b int) int {
			if times[a] < times[b] {
				return -1
			}
			if times[a] > times[b] {
				return 1
			}
			return 0
		})
		for _, i := range byTime {
			events[i]()
		}
		low, high, ok := f.Left(start.Add(seconds(at)))
		if !ok {
			t.Fatal("nothing is said, with a history")
		}
		left := seconds(makespan - at)
		if low <= left && left <= high {
			within++
		} else if left < low {
			before++
		}
		if high > 2*left+time.Minute {
			t.Errorf("seed %d: a range of %s to %s for %s says nothing", seed, low, high, left)
		}
	}
	if within < runs*7/10 {
		t.Errorf("%d of %d were in the range, %d of the others were done before", within, runs, before)
	}
}

// inOrder makes a batch of each task.
func inOrder(tasks []Estimate, order []int) []Batch {
	var batches []Batch
	for _, i := range order {
		batches = append(batches, Batch{tasks[i], 1})
	}
	return batches
}

func toTasks(estimates []Estimate) []Task {
	tasks := make([]Task, len(estimates))
	for i, e := range estimates {
		tasks[i].Seconds = e.Seconds
	}
	return tasks
}

// Without a history nothing is said before something has run, and with the last
// task it is over.
func TestForecastFromNothing(t *testing.T) {
	guess := NewHistory().Estimate("a", "b")
	f := NewForecast([]Batch{{guess, 2}, {guess, 1}}, 2)
	now := time.Unix(0, 0)
	if _, _, ok := f.Left(now); ok {
		t.Error("out of nothing something is said")
	}
	f.Begin(1, 0, now)
	f.End(1, 0, now.Add(10*time.Second), true)
	if low, high, ok := f.Left(now.Add(10 * time.Second)); !ok || low <= 0 || high < low {
		t.Errorf("after one of two: %s to %s, %v", low, high, ok)
	}
	f.Begin(2, 0, now.Add(10*time.Second))
	f.Begin(2, 0, now.Add(15*time.Second)) // a second try
	f.End(2, 0, now.Add(20*time.Second), true)
	f.End(0, 1, now.Add(20*time.Second), false) // one that never began
	if low, high, ok := f.Left(now); !ok || low != 0 || high != 0 {
		t.Errorf("when all is done: %s to %s, %v", low, high, ok)
	}

}

// Nothing is lost, no more than fit are in, and the most urgent of what is in goes first.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue[int](3)
		for i, s := range []float64{10, 30, 20} {
			if !q.Put(t.Context(), s, i) {
				t.Fatal("there was room")
			}
		}
		full, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if q.Put(full, 100, 3) {
			t.Error("a fourth fits")
		}
		var got []int
		for range 3 {
			v, _ := q.Take(t.Context())
			got = append(got, v)
		}
		if diff := cmp.Diff([]int{1, 2, 0}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if _, ok := q.Take(full); ok {
			t.Error("something came of nothing")
		}
		var takers, putters sync.WaitGroup
		var mu sync.Mutex
		seen := map[int]int{}
		for range 5 {
			takers.Go(func() {
				for {
					v, ok := q.Take(t.Context())
					if !ok {
						return
					}
					mu.Lock()
					seen[v]++
					mu.Unlock()
				}
			})
		}
		for i := range 100 {
			putters.Go(func() { q.Put(t.Context(), float64(i%7), i) })
		}
		putters.Wait()
		q.Close()
		takers.Wait()
		for i := range 100 {
			if seen[i] != 1 {
				t.Errorf("%d was taken %d times", i, seen[i])
			}
		}
	})
}

// BenchmarkAttempt is what deciding costs for one attempt: its place in the order,
// its layer, the queue, admission, the forecast and the history on disk, with 1,000
// workers at it.
func BenchmarkAttempt(b *testing.B) {
	const workers = 1000
	h, err := OpenHistory(b.TempDir() + "/history.jsonl")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	n := b.N
	tasks, estimates, layers := make([]Task, n), make([]Estimate, n), make([]string, n)
	for i := range n {
		estimates[i] = h.Estimate(fmt.Sprint("i-", i), fmt.Sprint("r-", i%12))
		tasks[i] = Task{Seconds: float64(i * 7919 % 1500), Layer: fmt.Sprint(i % 84)}
	}
	order := Order(tasks, workers)
	for i, j := range order {
		layers[i] = tasks[j].Layer
	}
	place := make([]int, n) // in the order
	for at, i := range order {
		place[i] = at
	}
	f, l, q := NewForecast(inOrder(estimates, order), workers), NewLayers(layers), NewQueue[int](workers)
	a := NewAdmission(Resources{CPUs: workers, MemoryBytes: workers << 30})
	var builders, all sync.WaitGroup
	for range 200 {
		builders.Go(func() {
			for {
				i, done, ok := l.Next(b.Context())
				if !ok {
					return
				}
				done(true)
				q.Put(b.Context(), tasks[order[i]].Seconds, order[i])
			}
		})
	}
	all.Go(func() { builders.Wait(); q.Close() })
	for range workers {
		all.Go(func() {
			for {
				i, ok := q.Take(b.Context())
				if !ok {
					return
				}
				leave, err := a.Enter(b.Context(), estimates[i].Needs)
				if err != nil {
					b.Error(err)
					return
				}
				f.Begin(i, place[i], time.Now())
				leave()
				f.End(i, place[i], time.Now(), true)
				h.Observe(Observation{Instance: fmt.Sprint("i-", i), Repo: fmt.Sprint("r-", i%12), Seconds: 10, CPUSeconds: 9, MemoryBytes: 1 << 28})
			}
		})
	}
	all.Wait()
}
