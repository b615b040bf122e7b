package analysis

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports/results"
	"github.com/evalrun/evalrun/reports/stats"
)

// CompareOptions are what a comparison is made with.
type CompareOptions struct {
	Options
	Alpha     float64
	Resamples int
	Seed      uint64
	Splits    int  // random halves for the stability of the ranking; 0: none
	Flips     bool // say of each pair which instances differ, and why
}

// Power wanted of the smallest difference.
const Power = 0.8

// Comparison says how systems differ on the same instances.
type Comparison struct {
	SchemaVersion int      `json:"schema_version"`
	Instances     int      `json:"instances"`
	Alpha         float64  `json:"alpha"`
	Tests         int      `json:"tests"` // pairs tested, which Holm's method allows for
	Notes         []string `json:"notes"`

	Systems   []System   `json:"systems"` // best first
	Pairs     []Pair     `json:"pairs"`
	Stability *Stability `json:"rank_stability,omitempty"`
}

// System is one of those compared.
type System struct {
	Name     string   `json:"name"`
	Group    int      `json:"tie_group"` // 1 is the best
	Resolved int      `json:"resolved"`
	Of       int      `json:"of"`
	Rate     float64  `json:"rate"`
	Wilson   Interval `json:"wilson_95"`

	Kind    results.Kind `json:"kind"`
	Model   string       `json:"model_name_or_path,omitempty"`
	Run     string       `json:"run_id,omitempty"`
	Dataset string       `json:"dataset_sha256,omitempty"`
	Rules   string       `json:"rules,omitempty"`
}

// Pair compares two systems, A the one given first.
type Pair struct {
	A string `json:"a"`
	B string `json:"b"`

	Pairs    int `json:"pairs"`    // instances scored in both
	Excluded int `json:"excluded"` // not scored in one of them: nobody's win
	Both     int `json:"both"`
	Wins     int `json:"wins"`   // only A resolved it
	Losses   int `json:"losses"` // only B did
	Neither  int `json:"neither"`

	Difference float64 `json:"difference"` // rate of A minus rate of B
	// Of the difference; null among more than 100 pairs, as is smallest_difference.
	Bootstrap *Bootstrap `json:"bootstrap_95"`
	Clustered *Clustered `json:"clustered_95"` // by repository

	P           float64 `json:"mcnemar_p"` // exact, two-sided
	Holm        float64 `json:"holm_p"`
	Significant bool    `json:"significant"` // Holm < alpha

	SmallestDifference *float64 `json:"smallest_difference"` // found with 80 % power at alpha; null: none could be
	SignificantFrom    int      `json:"significant_from"`    // net wins of this many discordant pairs; 0: none would be
	Flips              []Flip   `json:"flips,omitempty"`
}

// Bootstrap is the paired percentile interval of the difference.
type Bootstrap struct {
	Interval  *Interval `json:"interval"`
	StdErr    *float64  `json:"std_err"` // null where all pairs are alike
	Resamples int       `json:"resamples"`
	Seed      uint64    `json:"seed"`
}

// Stability says how far the ranking would hold on other instances.
type Stability struct {
	Splits       int       `json:"splits"`
	Seed         uint64    `json:"seed"`
	Spearman     *float64  `json:"spearman"`
	Range90      *Interval `json:"spearman_5_95"`
	FullLength   *float64  `json:"spearman_brown"`
	SameFirst    *float64  `json:"same_first"`
	SwappedPairs *float64  `json:"swapped_pairs"`
}

// Compare compares sets that results.Align has given the same instances, two or
// more. The error is that of ctx.
func Compare(ctx context.Context, sets []*results.Set, o CompareOptions) (Comparison, error) {
	c := Comparison{SchemaVersion: Schema, Alpha: o.Alpha, Notes: []string{}, Instances: len(sets[0].Items)}
	var err error
	if c.Pairs, err = comparePairs(ctx, sets, o); err != nil {
		return c, err
	}
	c.Tests = len(c.Pairs)
	ps := make([]float64, len(c.Pairs))
	for i := range c.Pairs {
		ps[i] = c.Pairs[i].P
	}
	differs := map[[2]string]bool{}
	for i, adjusted := range stats.Holm(ps) {
		p := &c.Pairs[i]
		p.Holm, p.Significant = adjusted, adjusted < o.Alpha
		differs[[2]string{p.A, p.B}], differs[[2]string{p.B, p.A}] = p.Significant, p.Significant
	}
	c.Systems = ranked(sets, differs)
	if len(sets) > 2 && o.Splits > 0 {
		c.Stability, err = stability(ctx, sets, o)
	}
	return c, err
}

// manyPairs is how many pairs of systems get an interval, a power and flips; of
// more nobody reads them, and they would take minutes.
const manyPairs = 100

// comparePairs compares every system with every later one.
func comparePairs(ctx context.Context, sets []*results.Set, o CompareOptions) ([]Pair, error) {
	pairs := make([]Pair, len(sets)*(len(sets)-1)/2)
	whole := len(pairs) <= manyPairs
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.NumCPU())
	at := 0
	for i := range sets {
		for j := i + 1; j < len(sets); j++ {
			slot := &pairs[at]
			at++
			g.Go(func() (err error) {
				*slot, err = comparePair(ctx, sets[i], sets[j], o, whole)
				return err
			})
		}
	}
	return pairs, g.Wait()
}

func ranked(sets []*results.Set, differs map[[2]string]bool) []System {
	systems := make([]System, len(sets))
	for i, s := range sets {
		k, n := s.Resolved(), len(s.Items)
		systems[i] = System{Name: s.Name, Resolved: k, Of: n, Rate: share(k, n), Wilson: pair(stats.Wilson(k, n, Confidence)),
			Kind: s.Kind, Model: s.Model, Run: s.Run, Dataset: s.Dataset, Rules: s.Rules}
	}
	slices.SortStableFunc(systems, func(a, b System) int { return cmp.Compare(b.Rate, a.Rate) })
	groups := stats.TieGroups(len(systems), func(i, j int) bool { return differs[[2]string{systems[i].Name, systems[j].Name}] })
	for i, g := range groups {
		systems[i].Group = g + 1
	}
	return systems
}

func comparePair(ctx context.Context, a, b *results.Set, o CompareOptions, whole bool) (Pair, error) {
	p := Pair{A: a.Name, B: b.Name}
	var differences []float64
	var repos []string
	for i := range a.Items {
		x, y := &a.Items[i], b.Find(a.Items[i].ID)
		if y == nil || !x.Scored() || !y.Scored() {
			p.Excluded++
			continue
		}
		p.Pairs++
		differences = append(differences, indicator(x.Resolved())-indicator(y.Resolved()))
		repos = append(repos, results.RepoOf(x, o.Facts[x.ID]))
		switch {
		case x.Resolved() && y.Resolved():
			p.Both++
		case x.Resolved():
			p.Wins++
		case y.Resolved():
			p.Losses++
		default:
			p.Neither++
		}
		if o.Flips && whole && x.Resolved() != y.Resolved() {
			p.Flips = append(p.Flips, newFlip(x, y))
		}
	}
	p.Difference = share(p.Wins-p.Losses, p.Pairs)
	p.P = stats.McNemar(p.Wins, p.Losses)
	p.SignificantFrom = stats.SignificantFrom(p.Wins+p.Losses, o.Alpha)
	if ctx.Err() != nil || !whole {
		return p, ctx.Err()
	}
	p.SmallestDifference = number(stats.SmallestDifference(p.Pairs, share(p.Wins+p.Losses, p.Pairs), o.Alpha, Power))
	p.Clustered = clustered(differences, repos, -1, 1)
	boot, err := stats.BootstrapMean(ctx, differences, o.Resamples, Confidence, o.Seed)
	if len(differences) > 0 && boot.StdErr < 1e-12 { // all pairs are alike, and so are all resamples
		boot.StdErr, boot.Interval = math.NaN(), stats.Constant(p.Difference, float64(p.Pairs), -1, 1, Confidence)
	}
	p.Bootstrap = &Bootstrap{Interval: interval(boot.Interval), StdErr: number(boot.StdErr), Resamples: o.Resamples, Seed: o.Seed}
	return p, err
}

func interval(in stats.Interval) *Interval {
	if math.IsNaN(in.Low) || math.IsNaN(in.High) {
		return nil
	}
	out := pair(in)
	return &out
}

func stability(ctx context.Context, sets []*results.Set, o CompareOptions) (*Stability, error) {
	scores := make([][]float64, len(sets))
	for s, set := range sets {
		for i := range set.Items {
			scores[s] = append(scores[s], indicator(set.Items[i].Resolved()))
		}
	}
	r, err := stats.SplitHalf(ctx, scores, o.Splits, o.Seed)
	return &Stability{
		Splits: r.Splits, Seed: r.Seed, Spearman: number(r.Spearman), Range90: interval(r.Range), FullLength: number(r.FullLength),
		SameFirst: number(r.SameFirst), SwappedPairs: number(r.SwappedPairs),
	}, err
}

// Flip is an instance that one system resolved and the other did not.
type Flip struct {
	InstanceID string          `json:"instance_id"`
	Winner     string          `json:"winner"` // a or b
	Loser      grading.Outcome `json:"loser_outcome"`
	// Decided are the tests that the loser failed and the winner did not: the first
	// few, FAIL_TO_PASS before PASS_TO_PASS. Reason says it where there are none.
	Decided []Decider `json:"decided,omitempty"`
	More    int       `json:"more,omitempty"` // further such tests
	Reason  string    `json:"reason,omitempty"`
	LogsA   string    `json:"logs_a,omitempty"` // folders
	LogsB   string    `json:"logs_b,omitempty"`
}

// Decider is a test that made the difference.
type Decider struct {
	List string `json:"list"` // FAIL_TO_PASS or PASS_TO_PASS
	Test string `json:"test"`
}

func newFlip(a, b *results.Item) Flip {
	f := Flip{InstanceID: a.ID, Winner: "a", LogsA: a.Dir, LogsB: b.Dir}
	winner, loser := a, b
	if b.Resolved() {
		winner, loser, f.Winner = b, a, "b"
	}
	f.Loser = loser.Outcome
	const most = 5
	for _, list := range []struct {
		name         string
		loser, other *results.Tests
	}{{"FAIL_TO_PASS", loser.FailToPass, winner.FailToPass}, {"PASS_TO_PASS", loser.PassToPass, winner.PassToPass}} {
		if list.loser == nil {
			continue
		}
		var failedToo map[string]bool
		if list.other != nil {
			failedToo = map[string]bool{}
			for _, test := range list.other.Failed {
				failedToo[test] = true
			}
		}
		for _, test := range list.loser.Failed {
			switch {
			case failedToo[test]:
			case len(f.Decided) < most:
				f.Decided = append(f.Decided, Decider{list.name, test})
			default:
				f.More++
			}
		}
	}
	if len(f.Decided) == 0 {
		f.Reason = cmp.Or(loser.Reason, undecided(loser))
	}
	return f
}

func undecided(loser *results.Item) string {
	if loser.FailToPass == nil && loser.Outcome == grading.Unresolved {
		return "the files have no tests"
	}
	return fmt.Sprintf("%s, without a test", loser.Outcome)
}
