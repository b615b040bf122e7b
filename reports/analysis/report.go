// Package analysis says what results mean: how many, how sure, over what, in
// which part of the data, and how two or more systems differ.
//
// It turns Sets of package results into documents with the numbers of package
// stats. It must not know files, datasets, or how a document is shown.
package analysis

import (
	"cmp"
	"math"
	"slices"

	"github.com/evalrun/evalrun/reports/results"
	"github.com/evalrun/evalrun/reports/stats"
)

// Schema is the schema_version of Report and Comparison.
const Schema = 1

// Confidence is that of every interval.
const Confidence = 0.95

// Options are what a report is made with.
type Options struct {
	Facts      map[string]results.Facts // by instance; may be nil
	Quarantine map[string]bool          // instances known to be flaky or broken
	Slices     bool
}

// Report is what one set says.
type Report struct {
	SchemaVersion int          `json:"schema_version"`
	Name          string       `json:"name"`
	Model         string       `json:"model_name_or_path"`
	Run           string       `json:"run_id,omitempty"`
	Kind          results.Kind `json:"kind"`
	Rates         []Rate       `json:"rates"` // the headline first
	Partial       *Partial     `json:"partial_credit,omitempty"`
	Slices        *Slices      `json:"slices,omitempty"`
}

// Denominators, the headline's first.
const (
	OfTotal      = "total"
	OfSubmitted  = "submitted"
	OfEvaluated  = "evaluated"
	OfQuarantine = "without_quarantined"
)

// Rate is resolved over a stated denominator.
type Rate struct {
	Denominator    string     `json:"denominator"`
	Resolved       int        `json:"resolved"`
	Of             int        `json:"of"`
	Rate           float64    `json:"rate"`
	Wilson         Interval   `json:"wilson_95"`
	ClopperPearson Interval   `json:"clopper_pearson_95"`
	Clustered      *Clustered `json:"clustered_95"` // by repository; null with fewer than five
}

// Interval is [low, high].
type Interval [2]float64

// Clustered is a mean with errors that allow for instances of a repository being
// alike.
type Clustered struct {
	Clusters     int      `json:"repositories"`
	StdErr       *float64 `json:"std_err"`       // null where all repositories are alike: nothing shows how they vary
	DesignEffect *float64 `json:"design_effect"` // null there, too
	Interval     Interval `json:"interval"`
}

// Headline is the rate over the total.
func (r *Report) Headline() Rate { return r.Rates[0] }

// NewReport counts a set. Its instances are the total.
func NewReport(s *results.Set, o Options) Report {
	r := Report{SchemaVersion: Schema, Name: s.Name, Model: s.Model, Run: s.Run, Kind: s.Kind}
	add := func(name string, in func(*results.Item) bool) {
		r.Rates = append(r.Rates, newRate(name, s, o, in))
	}
	add(OfTotal, func(*results.Item) bool { return true })
	add(OfSubmitted, func(it *results.Item) bool { return it.Submitted })
	add(OfEvaluated, func(it *results.Item) bool { return it.Outcome.Evaluated() })
	if len(o.Quarantine) > 0 {
		add(OfQuarantine, func(it *results.Item) bool { return !o.Quarantine[it.ID] })
	}
	r.Partial = newPartial(s, o)
	if o.Slices {
		r.Slices = newSlices(s, o)
	}
	return r
}

func newRate(name string, s *results.Set, o Options, in func(*results.Item) bool) Rate {
	r := Rate{Denominator: name}
	var values []float64
	var repos []string
	for i := range s.Items {
		it := &s.Items[i]
		if !in(it) {
			continue
		}
		r.Of++
		if it.Resolved() {
			r.Resolved++
		}
		values = append(values, indicator(it.Resolved()))
		repos = append(repos, results.RepoOf(it, o.Facts[it.ID]))
	}
	r.Rate = share(r.Resolved, r.Of)
	r.Wilson = pair(stats.Wilson(r.Resolved, r.Of, Confidence))
	r.ClopperPearson = pair(stats.ClopperPearson(r.Resolved, r.Of, Confidence))
	r.Clustered = clustered(values, repos, 0, 1)
	return r
}

// leastClusters are needed for an error that can be believed: it is estimated from
// the differences between them.
const leastClusters = 5

// clustered is nil with too few clusters. The values are from low to high.
func clustered(values []float64, clusters []string, low, high float64) *Clustered {
	c := stats.Clustered(values, clusters, Confidence)
	if c.Clusters < leastClusters {
		return nil
	}
	out := &Clustered{Clusters: c.Clusters, Interval: pair(c.Within(low, high, Confidence))}
	if !c.Alike() {
		out.StdErr, out.DesignEffect = number(c.StdErr), number(c.DesignEffect())
	}
	return out
}

// Partial is credit for tests: how far patches got that did not resolve.
type Partial struct {
	Graded     int      `json:"graded"`       // instances whose tests are known
	FailToPass *Credits `json:"FAIL_TO_PASS"` // null where no instance has such tests
	PassToPass *Credits `json:"PASS_TO_PASS"`
}

// Credits are the shares of tests passed.
type Credits struct {
	Instances int        `json:"instances"`  // graded, with tests of this list
	MeanShare float64    `json:"mean_share"` // each instance weighs the same
	Clustered *Clustered `json:"clustered_95"`
	All       int        `json:"all"` // instances with every test passed
	Passed    int        `json:"passed"`
	Tests     int        `json:"tests"`
	// OfScored counts instances that were scored and never graded (no patch, does
	// not apply) as 0.
	OfScored float64 `json:"mean_share_of_scored"`
}

func newPartial(s *results.Set, o Options) *Partial {
	p := &Partial{}
	for i := range s.Items {
		if s.Items[i].FailToPass != nil || s.Items[i].PassToPass != nil {
			p.Graded++
		}
	}
	if p.Graded == 0 {
		return nil
	}
	p.FailToPass = credits(s, o, func(it *results.Item) *results.Tests { return it.FailToPass })
	p.PassToPass = credits(s, o, func(it *results.Item) *results.Tests { return it.PassToPass })
	return p
}

func credits(s *results.Set, o Options, list func(*results.Item) *results.Tests) *Credits {
	c := &Credits{}
	var values []float64
	var repos []string
	sum, ungraded := 0.0, 0
	for i := range s.Items {
		it := &s.Items[i]
		tests := list(it)
		if tests == nil {
			if it.Scored() {
				ungraded++
			}
			continue
		}
		if tests.Total() == 0 {
			continue
		}
		c.Instances++
		c.Passed += len(tests.Passed)
		c.Tests += tests.Total()
		if len(tests.Failed) == 0 {
			c.All++
		}
		value := share(len(tests.Passed), tests.Total())
		sum += value
		values = append(values, value)
		repos = append(repos, results.RepoOf(it, o.Facts[it.ID]))
	}
	if c.Instances == 0 {
		return nil
	}
	c.MeanShare = sum / float64(c.Instances)
	c.OfScored = sum / float64(c.Instances+ungraded)
	c.Clustered = clustered(values, repos, 0, 1)
	return c
}

func indicator(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func share(k, n int) float64 {
	if n == 0 {
		return 0
	}
	return float64(k) / float64(n)
}

func pair(in stats.Interval) Interval { return Interval{in.Low, in.High} }

// number is nil for what is no number, which JSON cannot write.
func number(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, cmp.Compare)
	return keys
}
