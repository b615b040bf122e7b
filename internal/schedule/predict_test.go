package schedule

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestPredict(t *testing.T) {
	tests := []struct {
		name       string
		n          int
		s, spread  float64
		workers    int
		from, to   time.Duration // that have to be in the range
		widest     float64       // High over Low
		narrowFrom float64
	}{
		{name: "none", n: 0},
		{name: "known", n: 100, s: 60, spread: 0.1, workers: 4, from: 25 * time.Minute, to: 25 * time.Minute, widest: 1.6},
		{name: "more workers than tasks", n: 2, s: 60, spread: 0.1, workers: 64, from: time.Minute, to: time.Minute, widest: 1.8},
		{name: "guessed", n: 2, s: 60, spread: 1.2, workers: 1, from: 2 * time.Minute, to: 2 * time.Minute, widest: 20, narrowFrom: 2},
	}
	for _, tt := range tests {
		tasks, order := []Batch{{Estimate{Seconds: tt.s, Spread: tt.spread}, tt.n}}, []int{0}
		got := Predict(tasks, order, tt.workers)
		if got.Low > got.Mid || got.Mid > got.High || got.Low > tt.from || got.High < tt.to {
			t.Errorf("%s: %+v, want %s to %s within", tt.name, got, tt.from, tt.to)
		}
		if tt.n == 0 {
			continue
		}
		if width := float64(got.High) / float64(got.Low); width > tt.widest || width < tt.narrowFrom {
			t.Errorf("%s: %+v is %.1f wide, want %.1f to %.1f", tt.name, got, width, tt.narrowFrom, tt.widest)
		}
		var apart []Batch
		for range tt.n {
			apart = append(apart, Batch{tasks[0].Estimate, 1})
		}
		if again := Predict(apart, inSequence(tt.n), tt.workers); again != got {
			t.Errorf("%s: first %+v, then, of as many batches of one, %+v", tt.name, got, again)
		}
	}
}

func inSequence(n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	return order
}

// What is predicted holds about as often as it says.
func TestPredictHolds(t *testing.T) {
	const runs, n, workers = 200, 60, 3
	within := 0
	for seed := range uint64(runs) {
		random := rand.New(rand.NewPCG(seed, 9))
		tasks := make([]Estimate, n)
		for i := range tasks {
			tasks[i] = Estimate{Seconds: 5 + 60*random.ExpFloat64(), Spread: 0.4}
		}
		order := Order(toTasks(tasks), workers)
		free := make([]float64, workers)
		speed := expNorm(random, machineSpread)
		for _, i := range order {
			w := slices.Index(free, slices.Min(free))
			free[w] += speed * tasks[i].Seconds * expNorm(random, 0.4) / 1.083 // exp(0.4²/2)
		}
		if took, r := seconds(slices.Max(free)), Predict(inOrder(tasks, order), inSequence(n), workers); r.Low <= took && took <= r.High {
			within++
		}
	}
	if within < runs*7/10 || within > runs*9/10 {
		t.Errorf("%d of %d were in a range that is right four times out of five", within, runs)
	}
}
