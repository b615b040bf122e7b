// Package schedule decides what runs when: how long an attempt will take and
// what it will need, judged by earlier ones; which comes first; whether there is
// room for it; and when all of it will be done.
//
// It is arithmetic and queues. It must not know what an attempt is, which engine
// runs it, or how anything is shown.
package schedule

import (
	"math"
	"time"
)

// Resources are what attempts take of a machine. Zero is nothing, and as a
// capacity it is no bound.
type Resources struct {
	CPUs        float64
	MemoryBytes int64
	DiskBytes   int64
}

// Level says how much is known of an attempt beforehand.
type Level int

const (
	Guessed    Level = iota // nothing like it has run
	ByDefault               // other repositories' instances have run
	ByRepo                  // others of its repository have run
	ByInstance              // it has run
)

func (l Level) String() string {
	return [...]string{"guessed", "default", "repository", "instance"}[l]
}

// Estimate is what is expected of an attempt.
type Estimate struct {
	Seconds float64 // mean
	Spread  float64 // standard deviation of the logarithm of the seconds
	Needs   Resources
	Level   Level
}

// Batch is tasks that stand in a row and of each of which the same is expected: there
// may be a million, of a few hundred instances.
type Batch struct {
	Estimate
	Tasks int
}

// variance is that of the seconds, which are taken to be log-normal.
func (e Estimate) variance() float64 {
	return e.Seconds * e.Seconds * math.Expm1(e.Spread*e.Spread)
}

func seconds(s float64) time.Duration {
	if s >= math.MaxInt64/1e9 {
		return math.MaxInt64
	}
	return time.Duration(s * float64(time.Second))
}
