package schedule

import (
	"math"
	"math/rand/v2"
)

// expNorm is a log-normal factor around 1.
func expNorm(random *rand.Rand, sd float64) float64 { return math.Exp(sd * random.NormFloat64()) }
