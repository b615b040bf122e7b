package stats

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Stability says how far a ranking would be another on other instances.
type Stability struct {
	Splits       int
	Seed         uint64
	Spearman     float64  // mean rank correlation of the two halves
	Range        Interval // 5 % and 95 % of it over the splits
	FullLength   float64  // Spearman corrected to the whole set (Spearman-Brown)
	SameFirst    float64  // share of splits in which the two halves have a best system in common
	SwappedPairs float64  // mean share of pairs that the halves put in opposite orders
}

// SplitHalf divides the instances into random halves again and again, ranks the
// systems by their mean score on each, and compares the two rankings. scores has
// one row for each system, all of one length. The error is that of ctx.
func SplitHalf(ctx context.Context, scores [][]float64, splits int, seed uint64) (Stability, error) {
	out := Stability{Splits: splits, Seed: seed, Spearman: math.NaN(), Range: Interval{math.NaN(), math.NaN()},
		FullLength: math.NaN(), SameFirst: math.NaN(), SwappedPairs: math.NaN()}
	if len(scores) < 2 || len(scores[0]) < 2 || splits < 1 {
		return out, ctx.Err()
	}
	random := rand.New(rand.NewPCG(seed, 0))
	order := make([]int, len(scores[0]))
	for i := range order {
		order[i] = i
	}
	var correlations []float64
	same, swapped := 0, 0.0
	for range splits {
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		half := len(order) / 2
		a, b := means(scores, order[:half]), means(scores, order[half:2*half])
		if r := stat.Correlation(ranks(a), ranks(b), nil); !math.IsNaN(r) {
			correlations = append(correlations, r)
		}
		if shareFirst(a, b) {
			same++
		}
		swapped += swappedShare(a, b)
	}
	out.SameFirst = float64(same) / float64(splits)
	out.SwappedPairs = swapped / float64(splits)
	if len(correlations) == 0 {
		return out, nil // all systems alike
	}
	slices.Sort(correlations)
	out.Spearman = stat.Mean(correlations, nil)
	out.Range = Interval{stat.Quantile(0.05, stat.LinInterp, correlations, nil), stat.Quantile(0.95, stat.LinInterp, correlations, nil)}
	out.FullLength = 2 * out.Spearman / (1 + out.Spearman)
	return out, nil
}

func means(scores [][]float64, at []int) []float64 {
	out := make([]float64, len(scores))
	for s, row := range scores {
		for _, i := range at {
			out[s] += row[i]
		}
		out[s] /= float64(len(at))
	}
	return out
}

// ranks gives 1 to the smallest; equal values share the mean of their ranks.
func ranks(values []float64) []float64 {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	out := make([]float64, len(values))
	for from := 0; from < len(order); {
		to := from
		for to < len(order) && values[order[to]] == values[order[from]] {
			to++
		}
		for _, i := range order[from:to] {
			out[i] = float64(from+to+1) / 2
		}
		from = to
	}
	return out
}

func shareFirst(a, b []float64) bool {
	bestA, bestB := slices.Max(a), slices.Max(b)
	for i := range a {
		if a[i] == bestA && b[i] == bestB {
			return true
		}
	}
	return false
}

func swappedShare(a, b []float64) float64 {
	swapped, pairs := 0, 0
	for i := range a {
		for j := range i {
			pairs++
			if (a[i]-a[j])*(b[i]-b[j]) < 0 {
				swapped++
			}
		}
	}
	return float64(swapped) / float64(pairs)
}
