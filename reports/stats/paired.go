package stats

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// McNemar is the exact two-sided test (McNemar 1947; as a binomial test on the
// discordant pairs) that wins and losses are equally likely. Pairs that agree do
// not count.
func McNemar(wins, losses int) float64 {
	m := wins + losses
	if m == 0 || wins == losses {
		return 1
	}
	return min(1, 2*binomialTail(min(wins, losses), m, 0.5))
}

// McNemarWorse is the exact one-sided test: how likely at least this many losses
// are, were wins and losses equally likely.
func McNemarWorse(wins, losses int) float64 {
	if wins+losses == 0 {
		return 1
	}
	return binomialTail(wins, wins+losses, 0.5)
}

// binomialTail is P(X <= k) of n trials with success p.
func binomialTail(k, n int, p float64) float64 {
	return distuv.Binomial{N: float64(n), P: p}.CDF(float64(k))
}

// Bootstrap is an interval from resampling.
type Bootstrap struct {
	Mean      float64
	StdErr    float64
	Interval  Interval // percentiles
	Resamples int
	Seed      uint64
}

// BootstrapMean resamples values with replacement (Efron 1979) and gives the
// percentile interval of their mean. For paired data the values are the
// differences of the pairs. The same seed gives the same interval everywhere. The
// error is that of ctx.
func BootstrapMean(ctx context.Context, values []float64, resamples int, confidence float64, seed uint64) (Bootstrap, error) {
	out := Bootstrap{Mean: math.NaN(), StdErr: math.NaN(), Interval: Interval{math.NaN(), math.NaN()}, Resamples: resamples, Seed: seed}
	if len(values) == 0 || resamples < 2 {
		return out, ctx.Err()
	}
	random := rand.New(rand.NewPCG(seed, 0))
	n := uint64(len(values))
	means := make([]float64, resamples)
	for r := range means {
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		sum := 0.0
		for i := uint64(0); i < n; i += 2 {
			// Two draws of 32 bits from each word; the bias is below n/2^32.
			word := random.Uint64()
			sum += values[(word>>32)*n>>32]
			if i+1 < n {
				sum += values[(word&math.MaxUint32)*n>>32]
			}
		}
		means[r] = sum / float64(n)
	}
	slices.Sort(means)
	out.Mean = stat.Mean(values, nil)
	out.StdErr = stat.StdDev(means, nil)
	tail := (1 - confidence) / 2
	out.Interval = Interval{stat.Quantile(tail, stat.LinInterp, means, nil), stat.Quantile(1-tail, stat.LinInterp, means, nil)}
	return out, nil
}
