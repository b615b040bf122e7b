package stats

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/combin"
)

// PassAtK is the unbiased estimate, from c successes in n attempts, of the chance
// that at least one of k attempts succeeds (Chen et al. 2021). NaN for k > n.
func PassAtK(n, c, k int) float64 {
	switch {
	case k < 1 || k > n || c < 0 || c > n:
		return math.NaN()
	case n-c < k:
		return 1
	}
	return 1 - chooseRatio(n-c, n, k)
}

// PassHatK is the unbiased estimate of the chance that all of k attempts succeed
// (pass^k, Yao et al. 2024). NaN for k > n.
func PassHatK(n, c, k int) float64 {
	switch {
	case k < 1 || k > n || c < 0 || c > n:
		return math.NaN()
	case c < k:
		return 0
	}
	return chooseRatio(c, n, k)
}

// chooseRatio is C(m, k)/C(n, k) for m <= n.
func chooseRatio(m, n, k int) float64 {
	if n <= 60 { // exact, and far from overflow
		return float64(combin.Binomial(m, k)) / float64(combin.Binomial(n, k))
	}
	return math.Exp(combin.LogGeneralizedBinomial(float64(m), float64(k)) - combin.LogGeneralizedBinomial(float64(n), float64(k)))
}

// Spread says how far repeated runs of the same thing lie apart.
type Spread struct {
	Runs                  int
	Mean, StdDev          float64 // of the runs' rates; StdDev is NaN for one run
	Low, High             float64 // lowest and highest
	WithinVar, BetweenVar float64 // mean variance within an instance; variance between instances
}

// SpreadOf takes the successes of each instance in n runs, and the rate of each
// run. WithinVar is the part of one run's variance that comes from running again,
// BetweenVar the part that comes from which instances were asked, both per
// instance and unbiased.
func SpreadOf(rates []float64, successes []int) Spread {
	s := Spread{Runs: len(rates), Mean: math.NaN(), StdDev: math.NaN(), WithinVar: math.NaN(), BetweenVar: math.NaN(), Low: math.NaN(), High: math.NaN()}
	if len(rates) == 0 {
		return s
	}
	s.Mean = stat.Mean(rates, nil)
	s.Low, s.High = rates[0], rates[0]
	for _, r := range rates {
		s.Low, s.High = min(s.Low, r), max(s.High, r)
	}
	n := float64(len(rates))
	if len(rates) < 2 {
		return s
	}
	s.StdDev = stat.StdDev(rates, nil)
	if len(successes) < 2 {
		return s
	}
	means := make([]float64, len(successes))
	within := 0.0
	for i, c := range successes {
		means[i] = float64(c) / n
		within += means[i] * (1 - means[i]) * n / (n - 1)
	}
	s.WithinVar = within / float64(len(successes))
	s.BetweenVar = max(0, stat.Variance(means, nil)-s.WithinVar/n)
	return s
}
