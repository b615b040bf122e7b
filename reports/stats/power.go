package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// McNemarPower is the chance that the exact two-sided test finds a difference at
// alpha among n pairs, when a pair is won with probability win and lost with
// probability loss. It is unconditional: over all numbers of discordant pairs.
func McNemarPower(n int, win, loss, alpha float64) float64 {
	return mcNemarPower(n, win, loss, alpha, 2)
}

// McNemarPowerOneSided is the same of the one-sided test for more wins.
func McNemarPowerOneSided(n int, win, loss, alpha float64) float64 {
	return mcNemarPower(n, win, loss, alpha, 1)
}

func mcNemarPower(n int, win, loss, alpha float64, sides int) float64 {
	if n <= 0 || win+loss <= 0 || win+loss > 1 {
		return 0
	}
	return newDesign(n, win+loss, alpha/float64(sides)).power(win, loss, sides)
}

// design is what the test is like for each number of discordant pairs there may
// be; it does not depend on who wins them.
type design struct {
	cases []designCase
}

type designCase struct {
	discordant  int
	probability float64
	critical    int // losses up to which the test rejects
}

func newDesign(n int, discordant, tail float64) design {
	count := distuv.Binomial{N: float64(n), P: discordant}
	// Beyond eight standard deviations nothing adds up to anything.
	mean, sd := float64(n)*discordant, math.Sqrt(float64(n)*discordant*(1-discordant))
	var d design
	for m := max(1, int(mean-8*sd)-1); m <= min(n, int(mean+8*sd)+1); m++ {
		if c := criticalLosses(m, tail); c >= 0 {
			d.cases = append(d.cases, designCase{m, count.Prob(float64(m)), c})
		}
	}
	return d
}

func (d design) power(win, loss float64, sides int) float64 {
	sum := 0.0
	for _, c := range d.cases {
		reject := binomialTail(c.critical, c.discordant, loss/(win+loss))
		if sides == 2 {
			reject += binomialTail(c.critical, c.discordant, win/(win+loss))
		}
		sum += c.probability * min(1, reject)
	}
	return min(1, sum)
}

// criticalLosses is the largest c with P(X <= c) <= tail for X of m fair flips;
// -1 if there is none.
func criticalLosses(m int, tail float64) int {
	fair := distuv.Binomial{N: float64(m), P: 0.5}
	low, high := -1, m
	for high-low > 1 {
		if mid := (low + high) / 2; fair.CDF(float64(mid)) <= tail {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// SmallestDifference is the smallest difference of two rates that the exact
// two-sided test would find among n pairs with the wanted power, when a share
// discordant of them is won or lost. It is NaN when even all of the discordant
// pairs going one way would not be found that often.
func SmallestDifference(n int, discordant, alpha, power float64) float64 {
	if n <= 0 || !(discordant > 0) || discordant > 1 {
		return math.NaN()
	}
	test := newDesign(n, discordant, alpha/2)
	finds := func(d float64) bool { return test.power((discordant+d)/2, (discordant-d)/2, 2) >= power }
	if !finds(discordant) {
		return math.NaN()
	}
	low, high := 0.0, discordant
	for high-low > 1e-5 {
		if mid := (low + high) / 2; finds(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// SignificantFrom is the smallest net number of wins among m discordant pairs
// that the exact two-sided test calls significant at alpha; 0 if none is.
func SignificantFrom(m int, alpha float64) int {
	if c := criticalLosses(m, alpha/2); c >= 0 {
		return m - 2*c
	}
	return 0
}
