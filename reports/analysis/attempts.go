package analysis

import (
	"github.com/evalrun/evalrun/reports/results"
	"github.com/evalrun/evalrun/reports/stats"
)

// Attempts is what several runs of one system say together.
type Attempts struct {
	Model  string    `json:"model_name_or_path"`
	Runs   []RunRate `json:"runs"`
	Spread Spread    `json:"spread"`
	Pass   []Pass    `json:"pass"` // for k from 1 to the number of runs
	// Shared counts results that were taken from another attempt at the same patch
	// instead of being made: they say nothing of what running again comes to.
	Shared int `json:"shared_results,omitempty"`
}

// RunRate is the headline of one run.
type RunRate struct {
	Name     string   `json:"name"`
	Resolved int      `json:"resolved"`
	Of       int      `json:"of"`
	Rate     float64  `json:"rate"`
	Wilson   Interval `json:"wilson_95"`
}

// Spread is the run-to-run variation.
type Spread struct {
	Mean       float64  `json:"mean"`
	StdDev     *float64 `json:"std_dev"`
	Low        float64  `json:"low"`
	High       float64  `json:"high"`
	WithinVar  *float64 `json:"variance_within_instances"`
	BetweenVar *float64 `json:"variance_between_instances"`
}

// Pass is the chance of success with k attempts at each instance.
type Pass struct {
	K         int        `json:"k"`
	Instances int        `json:"instances"` // with k attempts or more that were scored
	AtK       float64    `json:"pass_at_k"` // at least one succeeds
	AtKError  *Clustered `json:"pass_at_k_95"`
	HatK      float64    `json:"pass_hat_k"` // all succeed
	HatKError *Clustered `json:"pass_hat_k_95"`
}

// NewAttempts takes runs of one system on the same instances, two or more.
func NewAttempts(sets []*results.Set, o Options) Attempts {
	out := Attempts{Model: sets[0].Model}
	var rates []float64
	for _, s := range sets {
		rr := RunRate{Name: s.Name, Resolved: s.Resolved(), Of: len(s.Items), Rate: share(s.Resolved(), len(s.Items))}
		rr.Wilson = pair(stats.Wilson(rr.Resolved, rr.Of, Confidence))
		for i := range s.Items {
			if a := s.Items[i].Record; a != nil && a.ReusedFrom != nil {
				out.Shared++
			}
		}
		out.Runs = append(out.Runs, rr)
		rates = append(rates, rr.Rate)
	}
	type tally struct {
		scored, resolved int
		repo             string
	}
	var all []tally
	var complete []int // successes of the instances scored in every run
	for i := range sets[0].Items {
		first := &sets[0].Items[i]
		t := tally{repo: results.RepoOf(first, o.Facts[first.ID])}
		for _, s := range sets {
			if it := s.Find(first.ID); it != nil && it.Scored() {
				t.scored++
				if it.Resolved() {
					t.resolved++
				}
			}
		}
		all = append(all, t)
		if t.scored == len(sets) {
			complete = append(complete, t.resolved)
		}
	}
	s := stats.SpreadOf(rates, complete)
	out.Spread = Spread{Mean: s.Mean, StdDev: number(s.StdDev), Low: s.Low, High: s.High, WithinVar: number(s.WithinVar), BetweenVar: number(s.BetweenVar)}
	for k := 1; k <= len(sets); k++ {
		var at, hat []float64
		var repos []string
		for _, t := range all {
			if t.scored >= k {
				at = append(at, stats.PassAtK(t.scored, t.resolved, k))
				hat = append(hat, stats.PassHatK(t.scored, t.resolved, k))
				repos = append(repos, t.repo)
			}
		}
		if len(at) == 0 {
			break
		}
		out.Pass = append(out.Pass, Pass{
			K: k, Instances: len(at),
			AtK: mean(at), AtKError: clustered(at, repos, 0, 1), HatK: mean(hat), HatKError: clustered(hat, repos, 0, 1),
		})
	}
	return out
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
