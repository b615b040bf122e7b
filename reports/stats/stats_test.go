package stats

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/stat/combin"
)

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s: %.10g, want %.10g within %g", what, got, want, tolerance)
	}
}

// The first four rows are table I of Newcombe, "Two-sided confidence intervals for
// the single proportion", Statistics in Medicine 17 (1998), methods 3 and 5.
func TestIntervalsOfRates(t *testing.T) {
	for _, c := range []struct {
		k, n          int
		wilson, exact Interval
	}{
		{81, 263, Interval{0.2553, 0.3662}, Interval{0.2527, 0.3676}},
		{15, 148, Interval{0.0624, 0.1605}, Interval{0.0578, 0.1617}},
		{0, 20, Interval{0, 0.1611}, Interval{0, 0.1684}},
		{1, 29, Interval{0.0061, 0.1718}, Interval{0.0009, 0.1776}},
		{0, 0, Interval{0, 1}, Interval{0, 1}},
		{20, 20, Interval{0.8389, 1}, Interval{0.8316, 1}},
		// statsmodels 0.14, proportion_confint(250, 500, method="wilson" and "beta").
		{250, 500, Interval{0.4563, 0.5437}, Interval{0.4553, 0.5447}},
	} {
		w, e := Wilson(c.k, c.n, 0.95), ClopperPearson(c.k, c.n, 0.95)
		near(t, "Wilson low", w.Low, c.wilson.Low, 5e-5)
		near(t, "Wilson high", w.High, c.wilson.High, 5e-5)
		near(t, "Clopper-Pearson low", e.Low, c.exact.Low, 5e-5)
		near(t, "Clopper-Pearson high", e.High, c.exact.High, 5e-5)
	}
}

// statsmodels 0.14: OLS(y, ones).fit(cov_type="cluster", use_t=True,
// cov_kwds={"groups": g}): bse 0.11048543, conf_int 0.19324326 to 0.80675674; and
// OLS(y, ones).fit().bse 0.12909944.
func TestClusteredAgreesWithStatsmodels(t *testing.T) {
	y := []float64{1, 1, 0, 1, 0, 0, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0}
	g := []int{0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 4, 4}
	c := Clustered(y, g, 0.95)
	near(t, "mean", c.Mean, 0.5, 0)
	near(t, "robust error", c.StdErr, 0.11048543, 1e-8)
	near(t, "naive error", c.Naive, 0.12909944, 1e-8)
	near(t, "low", c.Interval.Low, 0.19324326, 1e-7)
	near(t, "high", c.Interval.High, 0.80675674, 1e-7)
	if c.Clusters != 5 {
		t.Errorf("%d clusters, want 5", c.Clusters)
	}
}

func TestClusteredWithoutGroundsSaysSo(t *testing.T) {
	one := Clustered([]float64{1, 0, 1}, []string{"a", "a", "a"}, 0.95)
	if !math.IsNaN(one.StdErr) || !math.IsInf(one.Interval.High, 1) {
		t.Errorf("one cluster gives %+v, want no error and no bounds", one)
	}
	if none := Clustered[string](nil, nil, 0.95); !math.IsNaN(none.Mean) {
		t.Errorf("no values give mean %v", none.Mean)
	}
	// Each observation its own cluster: nothing is alike, nothing is inflated.
	all := Clustered([]float64{1, 0, 1, 1}, []int{1, 2, 3, 4}, 0.95)
	near(t, "design effect", all.DesignEffect(), 1, 1e-12)
}

func TestMcNemar(t *testing.T) {
	for _, c := range []struct {
		wins, losses int
		want         float64
		source       string
	}{
		{9, 2, 0.06543, "Fay, vignette of the R package exact2x2"},
		{86, 150, 3.716e-05, "Agresti, Categorical Data Analysis, approval ratings; statsmodels mcnemar(exact=True)"},
		{0, 6, 0.03125, "2/2^6"},
		{40, 20, 0.01348929, "statsmodels 0.14 mcnemar(exact=True)"},
		{7, 7, 1, "nothing is more even"}, {0, 0, 1, "no evidence"},
	} {
		got := McNemar(c.wins, c.losses)
		near(t, c.source, got, c.want, 5e-6)
		if other := McNemar(c.losses, c.wins); other != got {
			t.Errorf("%d to %d: %v one way, %v the other", c.wins, c.losses, got, other)
		}
	}
	near(t, "one-sided", McNemarWorse(2, 9), 0.06543/2, 5e-6)
	near(t, "one-sided, the other way", McNemarWorse(9, 2), 1-12./2048, 1e-12)
}

func bootstrapped(t testing.TB, values []float64, resamples int, confidence float64, seed uint64) Bootstrap {
	t.Helper()
	b, err := BootstrapMean(t.Context(), values, resamples, confidence, seed)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func halved(t testing.TB, scores [][]float64, splits int, seed uint64) Stability {
	t.Helper()
	s, err := SplitHalf(t.Context(), scores, splits, seed)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestWhoIsInterruptedStops: what would run for hours ends with its context.
func TestWhoIsInterruptedStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	values := make([]float64, 1000)
	if _, err := BootstrapMean(ctx, values, 1<<30, 0.95, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("bootstrap: %v", err)
	}
	if _, err := SplitHalf(ctx, [][]float64{values, values}, 1<<30, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("halves: %v", err)
	}
}

// TestNothingVaries: where all observations are equal an interval is as wide as it
// is for never having seen another, and at a bound that is Wilson's.
func TestNothingVaries(t *testing.T) {
	for _, n := range []int{1, 5, 12, 500} {
		wilson := Wilson(0, n, 0.95)
		for _, c := range []struct{ value, low, high, wantLow, wantHigh float64 }{
			{0, 0, 1, 0, wilson.High}, {1, 0, 1, 1 - wilson.High, 1}, {0, -1, 1, -wilson.High, wilson.High}, {-1, -1, 1, -1, -1 + 2*wilson.High},
			{0.5, 0, 1, 0.5 - wilson.High/2, 0.5 + wilson.High/2},
		} {
			got := Constant(c.value, float64(n), c.low, c.high, 0.95)
			near(t, "low", got.Low, c.wantLow, 1e-12)
			near(t, "high", got.High, c.wantHigh, 1e-12)
			if !(got.High > got.Low) {
				t.Errorf("%v of %d in [%v, %v]: no width: %+v", c.value, n, c.low, c.high, got)
			}
		}
	}
	// About 3/n at one side (Hanley and Lippman-Hand 1983); two-sided at 95 % 3.84/n.
	near(t, "rule of three", Constant(0, 1000, 0, 1, 0.90).High, 2.7/1000, 1e-4)

	// Ten clusters of five, all 0, all 1, each one half: as ten observations.
	for value, values := range map[float64][]float64{0: {0, 0}, 1: {1, 1}, 0.5: {0, 1}} {
		var all []float64
		var clusters []int
		for i := range 50 {
			all, clusters = append(all, values[i%2]), append(clusters, i/2%10)
		}
		c := Clustered(all[:40], clusters[:40], 0.95)
		near(t, "effective", c.Effective, 10, 1e-12)
		if got, want := c.Within(0, 1, 0.95), Constant(value, 10, 0, 1, 0.95); !c.Alike() || math.Abs(got.Low-want.Low)+math.Abs(got.High-want.High) > 1e-12 {
			t.Errorf("all %v: %+v, want %+v", value, got, want)
		}
	}
	// One large cluster and four small ones tell little more than one.
	uneven := Clustered(make([]float64, 100), append([]int{1, 2, 3, 4}, make([]int, 96)...), 0.95)
	near(t, "effective of uneven", uneven.Effective, 100*100/(96.*96+4), 1e-12)
	// What varies keeps its interval.
	varied := Clustered([]float64{1, 0, 1, 1, 0}, []int{1, 2, 3, 4, 5}, 0.95)
	if varied.Alike() || varied.Within(0, 1, 0.95) != varied.Interval.Clip(0, 1) {
		t.Errorf("what varies: %+v", varied)
	}
}

// TestManyAttempts: chances stay chances where the binomials are beyond any number.
func TestManyAttempts(t *testing.T) {
	for _, n := range []int{60, 61, 1100, 5000} {
		// One success in n, k of n drawn: k/n.
		near(t, "pass@k", PassAtK(n, 1, n/2), float64(n/2)/float64(n), 1e-9)
		near(t, "pass^k", PassHatK(n, n-1, n/2), 1-float64(n/2)/float64(n), 1e-9)
	}
}

func TestBootstrap(t *testing.T) {
	const n, wins, losses = 500, 65, 45
	values := make([]float64, n)
	for i := range values {
		switch {
		case i < wins:
			values[i] = 1
		case i < wins+losses:
			values[i] = -1
		}
	}
	b := bootstrapped(t, values, 4000, 0.95, 7)
	// What the resampling approaches is known: the plug-in error of a mean.
	mean := float64(wins-losses) / n
	se := math.Sqrt((float64(wins+losses)/n - mean*mean) / n)
	near(t, "mean", b.Mean, mean, 1e-12)
	near(t, "error", b.StdErr, se, 0.04*se)
	near(t, "low", b.Interval.Low, mean-1.96*se, 0.12*se)
	near(t, "high", b.Interval.High, mean+1.96*se, 0.12*se)
	if again := bootstrapped(t, values, 4000, 0.95, 7); again != b {
		t.Errorf("the same seed gives %+v and %+v", b, again)
	}
	if other := bootstrapped(t, values, 4000, 0.95, 8); other.StdErr == b.StdErr {
		t.Error("another seed draws the same")
	}
	if none := bootstrapped(t, nil, 100, 0.95, 1); !math.IsNaN(none.Interval.Low) {
		t.Errorf("nothing to draw from gives %+v", none)
	}
	if odd := bootstrapped(t, []float64{3, 3, 3}, 50, 0.95, 1); odd.Interval != (Interval{3, 3}) || odd.StdErr != 0 {
		t.Errorf("constant values give %+v", odd)
	}
}

// TestBootstrapCovers: an interval for 95 % has the truth in it about so often.
func TestBootstrapCovers(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	covered := 0
	const sets = 250
	for s := range uint64(sets) {
		values := make([]float64, 100)
		for i := range values {
			if u := random.Float64(); u < 0.15 {
				values[i] = 1
			} else if u < 0.25 {
				values[i] = -1
			}
		}
		if in := bootstrapped(t, values, 300, 0.95, s).Interval; in.Low <= 0.05 && 0.05 <= in.High {
			covered++
		}
	}
	near(t, "coverage", float64(covered)/sets, 0.95, 0.04)
}

func TestPower(t *testing.T) {
	// G*Power 3.1 manual, "difference between two dependent proportions", after
	// O'Brien: 50 pairs, 0.32 against 0.08, one-sided 0.05: power 0.8393.
	near(t, "one-sided", McNemarPowerOneSided(50, 0.32, 0.08, 0.05), 0.8393, 1e-4)
	// The sum over scipy 1.17's binom.
	near(t, "two-sided", McNemarPower(50, 0.32, 0.08, 0.05), 0.7401529, 1e-6)
	near(t, "500 pairs", McNemarPower(500, 0.12, 0.08, 0.05), 0.4788844, 1e-6)
	// Nothing to find is found at most as often as alpha allows.
	if p := McNemarPower(500, 0.1, 0.1, 0.05); p > 0.05 || p < 0.03 {
		t.Errorf("size %v, want a little below 0.05", p)
	}
	d := SmallestDifference(500, 0.2, 0.05, 0.8)
	if at, below := McNemarPower(500, (0.2+d)/2, (0.2-d)/2, 0.05), McNemarPower(500, (0.2+d)/2-0.002, (0.2-d)/2+0.002, 0.05); at < 0.8 || below >= 0.8 {
		t.Errorf("smallest difference %v has power %v, one a little smaller %v", d, at, below)
	}
	for _, d := range []float64{SmallestDifference(5, 0.2, 0.05, 0.8), SmallestDifference(500, 0, 0.05, 0.8), SmallestDifference(0, 0.5, 0.05, 0.8)} {
		if !math.IsNaN(d) {
			t.Errorf("a difference of %v cannot be shown by so little", d)
		}
	}
}

func TestSignificantFrom(t *testing.T) {
	for m := range 60 {
		net := SignificantFrom(m, 0.05)
		if net == 0 {
			if m >= 6 {
				t.Errorf("%d discordant pairs: all one way would be significant", m)
			}
			continue
		}
		if p := McNemar((m+net)/2, (m-net)/2); p > 0.05 {
			t.Errorf("%d of %d: p %v", net, m, p)
		}
		if p := McNemar((m+net)/2-1, (m-net)/2+1); net >= 2 && p <= 0.05 {
			t.Errorf("%d of %d is significant, too: p %v", net-2, m, p)
		}
	}
}

func TestHolm(t *testing.T) {
	// R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm").
	for i, got := range Holm([]float64{0.01, 0.04, 0.03, 0.005}) {
		near(t, "adjusted", got, []float64{0.03, 0.06, 0.06, 0.02}[i], 1e-12)
	}
	if got := Holm([]float64{0.9, 0.8}); got[0] != 1 || got[1] != 1 {
		t.Errorf("adjusted above 1: %v", got)
	}
	if len(Holm(nil)) != 0 {
		t.Error("something from nothing")
	}
}

func TestTieGroups(t *testing.T) {
	rates := []float64{0.9, 0.88, 0.8, 0.79, 0.5}
	got := TieGroups(len(rates), func(i, j int) bool { return rates[i]-rates[j] > 0.05 })
	if diff := cmp.Diff([]int{0, 0, 1, 1, 2}, got); diff != "" {
		t.Error(diff)
	}
	if got := TieGroups(3, func(int, int) bool { return false }); got[2] != 0 {
		t.Errorf("nobody differs: %v", got)
	}
}

// TestPassAtK counts all ways to draw k of n attempts, c of which succeeded.
func TestPassAtK(t *testing.T) {
	for n := 1; n <= 6; n++ {
		for c := 0; c <= n; c++ {
			for k := 1; k <= n; k++ {
				some, all, draws := 0, 0, 0
				for _, draw := range combin.Combinations(n, k) {
					draws++
					hits := 0
					for _, i := range draw {
						if i < c {
							hits++
						}
					}
					if hits > 0 {
						some++
					}
					if hits == k {
						all++
					}
				}
				near(t, "pass@k", PassAtK(n, c, k), float64(some)/float64(draws), 1e-12)
				near(t, "pass^k", PassHatK(n, c, k), float64(all)/float64(draws), 1e-12)
			}
		}
	}
	// Many attempts: the product form of Chen et al. (2021), figure 3.
	want := 1.0
	for i := 200 - 13 + 1; i <= 200; i++ {
		want *= 1 - 10/float64(i)
	}
	near(t, "200 attempts", PassAtK(200, 13, 10), 1-want, 1e-9)
	for _, bad := range []float64{PassAtK(3, 1, 4), PassAtK(3, 4, 1), PassHatK(3, 1, 0)} {
		if !math.IsNaN(bad) {
			t.Errorf("nonsense gives %v", bad)
		}
	}
}

// TestSpread: three runs of one configuration, 42.9, 39.0 and 44.8 % of 105.
func TestSpread(t *testing.T) {
	s := SpreadOf([]float64{45. / 105, 41. / 105, 47. / 105}, nil)
	near(t, "mean", s.Mean, 0.42222, 1e-5)
	near(t, "deviation", s.StdDev, 0.02909, 1e-5)
	near(t, "low", s.Low, 0.39048, 1e-5)
	near(t, "high", s.High, 0.44762, 1e-5)
	// Instances that are always or never solved: all variance is between them.
	s = SpreadOf([]float64{0.5, 0.5, 0.5}, []int{3, 0, 3, 0})
	near(t, "within", s.WithinVar, 0, 0)
	near(t, "between", s.BetweenVar, 1./3, 1e-12)
	// One in two, everywhere: hardly any is.
	s = SpreadOf([]float64{0.5, 0.5}, []int{1, 1, 1, 1})
	near(t, "within", s.WithinVar, 0.5, 1e-12)
	near(t, "between", s.BetweenVar, 0, 0)
	if one := SpreadOf([]float64{0.4}, []int{1}); !math.IsNaN(one.StdDev) {
		t.Errorf("one run has a spread of %v", one.StdDev)
	}
}

func TestSplitHalf(t *testing.T) {
	clear := [][]float64{make([]float64, 200), make([]float64, 200), make([]float64, 200)}
	for i := range 200 {
		clear[0][i] = 1
		if i%2 == 0 {
			clear[1][i] = 1
		}
	}
	s := halved(t, clear, 200, 3)
	if s.Spearman != 1 || s.SameFirst != 1 || s.SwappedPairs != 0 || s.FullLength != 1 {
		t.Errorf("a clear order is unstable: %+v", s)
	}
	random := rand.New(rand.NewPCG(5, 5))
	noise := make([][]float64, 8)
	for s := range noise {
		for range 300 {
			noise[s] = append(noise[s], float64(random.IntN(2)))
		}
	}
	s = halved(t, noise, 300, 3)
	if math.Abs(s.Spearman) > 0.5 || s.SameFirst > 0.6 {
		t.Errorf("noise has a stable order: %+v", s)
	}
	if again := halved(t, noise, 300, 3); again != s {
		t.Error("the same seed splits differently")
	}
	if s := halved(t, [][]float64{{1, 0}, {1, 0}}, 10, 1); !math.IsNaN(s.Spearman) || s.SameFirst != 1 {
		t.Errorf("systems that are alike: %+v", s)
	}
	// scipy 1.17: spearmanr([1,2,3,4,5], [2,1,4,3,5]) is 0.8; ties share ranks.
	if diff := cmp.Diff([]float64{1.5, 3, 1.5, 4}, ranks([]float64{0, 1, 0, 2})); diff != "" {
		t.Error(diff)
	}
}

func BenchmarkBootstrap(b *testing.B) {
	values := make([]float64, 2294)
	for i := range values {
		values[i] = float64(i%5/3) - float64(i%7/6)
	}
	for b.Loop() {
		bootstrapped(b, values, 10000, 0.95, 1)
	}
}

func BenchmarkSmallestDifference(b *testing.B) {
	for b.Loop() {
		SmallestDifference(2294, 0.25, 0.05, 0.8)
	}
}

func BenchmarkSplitHalf(b *testing.B) {
	scores := make([][]float64, 60)
	for s := range scores {
		scores[s] = make([]float64, 500)
		for i := range scores[s] {
			scores[s][i] = float64((i*7 + s) % 3 / 2)
		}
	}
	for b.Loop() {
		halved(b, scores, 200, 1)
	}
}
