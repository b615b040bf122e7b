package stats

import (
	"cmp"
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Interval is a confidence interval.
type Interval struct{ Low, High float64 }

// anything is the interval of no evidence.
var anything = Interval{0, 1}

// Wilson is the score interval of k successes in n trials (Wilson 1927). With no
// trials anything is possible: 0 to 1.
func Wilson(k, n int, confidence float64) Interval {
	if n <= 0 {
		return anything
	}
	z := twoSided(confidence)
	p, m := float64(k)/float64(n), float64(n)
	centre := p + z*z/(2*m)
	half := z * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	scale := 1 + z*z/m
	in := Interval{(centre - half) / scale, (centre + half) / scale}
	if k == 0 {
		in.Low = 0 // exactly, which rounding may miss
	}
	if k == n {
		in.High = 1
	}
	return in
}

// ClopperPearson is the exact interval of k successes in n trials (Clopper and
// Pearson 1934). It covers at least as often as it says, and is wider for it.
func ClopperPearson(k, n int, confidence float64) Interval {
	if n <= 0 {
		return anything
	}
	tail := (1 - confidence) / 2
	in := anything
	if k > 0 {
		in.Low = distuv.Beta{Alpha: float64(k), Beta: float64(n - k + 1)}.Quantile(tail)
	}
	if k < n {
		in.High = distuv.Beta{Alpha: float64(k + 1), Beta: float64(n - k)}.Quantile(1 - tail)
	}
	return in
}

// ClusterRobust is a mean whose observations come in clusters that are alike
// inside, such as instances of one repository.
type ClusterRobust struct {
	Mean      float64
	Clusters  int
	Effective float64  // clusters of equal size that tell as much: (sum of sizes)^2 / sum of squared sizes (Kish 1965)
	StdErr    float64  // robust; NaN with fewer than two clusters
	Naive     float64  // what it would be were all observations independent
	Interval  Interval // Student's t with Clusters-1 degrees of freedom; not clipped
}

// Alike reports whether the means of all clusters are the same: then nothing shows
// how far they vary, and an error of 0 is no evidence that they do not.
func (c ClusterRobust) Alike() bool { return c.StdErr < 1e-12 }

// Within is the interval of a mean of values from low to high. Where the clusters
// are all alike it is that of as many equal observations.
func (c ClusterRobust) Within(low, high, confidence float64) Interval {
	if c.Alike() {
		return Constant(c.Mean, c.Effective, low, high, confidence)
	}
	return c.Interval.Clip(low, high)
}

// Constant is the interval of the mean of n observations that are all equal, of a
// quantity from low to high. Resampling and standard errors have no width there.
// What was never seen in n observations has a share of at most z²/(n+z²) by the
// score interval (Wilson 1927; the "rule of three", 3/n, is its like at one side),
// and could lie at either end. At low and at high it is Wilson's interval.
func Constant(value, n, low, high, confidence float64) Interval {
	z := twoSided(confidence)
	unseen := z * z / (n + z*z)
	return Interval{value - unseen*(value-low), value + unseen*(high-value)}
}

// DesignEffect says how many times larger the variance is for the clusters; NaN
// where it cannot be told.
func (c ClusterRobust) DesignEffect() float64 {
	if !(c.Naive > 0) {
		return math.NaN()
	}
	return (c.StdErr / c.Naive) * (c.StdErr / c.Naive)
}

// Clustered is the mean of values with its cluster-robust standard error: the
// sandwich estimator (Liang and Zeger 1986) for a mean, with the correction
// G/(G-1) for G clusters (Cameron and Miller 2015, CR1). values and
// clusters have equal lengths. Sums run in the order of the values, so that
// equal input has equal output to the last bit.
func Clustered[K cmp.Ordered](values []float64, clusters []K, confidence float64) ClusterRobust {
	n := float64(len(values))
	out := ClusterRobust{StdErr: math.NaN(), Naive: math.NaN(), Interval: Interval{math.Inf(-1), math.Inf(1)}}
	if len(values) == 0 {
		out.Mean = math.NaN()
		return out
	}
	for _, v := range values {
		out.Mean += v
	}
	out.Mean /= n
	index := map[K]int{}
	var sums, sizes []float64 // deviations and observations of each cluster
	squares := 0.0
	for i, v := range values {
		at, ok := index[clusters[i]]
		if !ok {
			at = len(sums)
			index[clusters[i]] = at
			sums, sizes = append(sums, 0), append(sizes, 0)
		}
		sizes[at]++
		sums[at] += v - out.Mean
		squares += (v - out.Mean) * (v - out.Mean)
	}
	out.Clusters = len(sums)
	squared := 0.0
	for _, size := range sizes {
		squared += size * size
	}
	out.Effective = n * n / squared
	if n > 1 {
		out.Naive = math.Sqrt(squares / (n - 1) / n)
	}
	if len(sums) < 2 {
		return out
	}
	meat := 0.0
	for _, s := range sums {
		meat += s * s
	}
	g := float64(len(sums))
	out.StdErr = math.Sqrt(g/(g-1)*meat) / n
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: g - 1}.Quantile(0.5 + confidence/2)
	out.Interval = Interval{out.Mean - t*out.StdErr, out.Mean + t*out.StdErr}
	return out
}

// Clip keeps an interval within bounds.
func (in Interval) Clip(low, high float64) Interval {
	return Interval{min(max(in.Low, low), high), min(max(in.High, low), high)}
}

// twoSided is the normal quantile of a two-sided confidence.
func twoSided(confidence float64) float64 {
	return distuv.UnitNormal.Quantile(0.5 + confidence/2)
}
