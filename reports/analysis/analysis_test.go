package analysis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports/results"
)

// set makes a set of letters: R resolved, u unresolved, e empty patch, b build
// failed, n no prediction, x error, i interrupted. Instances are i00, i01, …, of
// repository o/a up to half, then of o/b.
func set(name, letters string) *results.Set {
	s := &results.Set{Name: name, Model: name, Kind: results.KindRun}
	outcomes := map[rune]grading.Outcome{'R': grading.Resolved, 'u': grading.Unresolved, 'e': grading.EmptyPatch, 'b': grading.BuildFailed,
		'n': grading.NotRun, 'x': results.Error, 'i': grading.NotRun}
	for i, c := range letters {
		it := results.Item{ID: fmt.Sprintf("i%0*d", max(2, len(fmt.Sprint(len(letters)-1))), i), Outcome: outcomes[c], Submitted: c != 'n', Repo: "o/a"}
		if i >= len(letters)/2 {
			it.Repo = "o/b"
		}
		s.Items = append(s.Items, it)
	}
	return s
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) < 5e-4) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestDenominators(t *testing.T) {
	s := set("m", "RRuuebxnRi")
	r := NewReport(s, Options{Quarantine: map[string]bool{"i00": true, "i02": true}})
	type row struct {
		Denominator  string
		Resolved, Of int
	}
	var got []row
	for _, rate := range r.Rates {
		got = append(got, row{rate.Denominator, rate.Resolved, rate.Of})
		near(t, rate.Denominator, rate.Rate, float64(rate.Resolved)/float64(rate.Of))
	}
	want := []row{{OfTotal, 3, 10}, {OfSubmitted, 3, 9}, {OfEvaluated, 3, 6}, {OfQuarantine, 2, 8}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	head := r.Headline()
	// statsmodels 0.14: proportion_confint(3, 10, method="wilson" and "beta").
	near(t, "Wilson low", head.Wilson[0], 0.1078)
	near(t, "Wilson high", head.Wilson[1], 0.6032)
	near(t, "Clopper-Pearson low", head.ClopperPearson[0], 0.0667)
	near(t, "Clopper-Pearson high", head.ClopperPearson[1], 0.6525)
	if head.Clustered != nil {
		t.Errorf("two repositories say how they differ: %+v", head.Clustered)
	}
	for i := range s.Items {
		s.Items[i].Repo = fmt.Sprint("o/", i/2)
	}
	if c := NewReport(s, Options{}).Rates[0].Clustered; c == nil || c.Clusters != 5 || c.DesignEffect == nil || c.Interval[0] < 0 {
		t.Errorf("five repositories: %+v", c)
	}
	if r.Partial != nil || r.Slices != nil {
		t.Error("there is neither a test nor a wish for slices")
	}
	if none := NewReport(&results.Set{}, Options{}); none.Headline().Wilson != (Interval{0, 1}) || none.Headline().Clustered != nil {
		t.Errorf("nothing gives %+v", none.Headline())
	}
}

func TestPartialCredit(t *testing.T) {
	s := set("m", "Ruue")
	tests := func(passed, failed int) *results.Tests {
		return &results.Tests{Passed: make([]string, passed), Failed: make([]string, failed)}
	}
	s.Items[0].FailToPass, s.Items[0].PassToPass = tests(2, 0), tests(10, 0)
	s.Items[1].FailToPass, s.Items[1].PassToPass = tests(1, 3), tests(10, 0)
	s.Items[2].FailToPass, s.Items[2].PassToPass = tests(0, 1), tests(0, 0)
	p := NewReport(s, Options{}).Partial
	f2p, p2p := p.FailToPass, p.PassToPass
	near(t, "F2P share", f2p.MeanShare, (1+0.25+0)/3)
	near(t, "F2P share of scored", f2p.OfScored, 1.25/4)
	near(t, "P2P share", p2p.MeanShare, 1)
	if p.Graded != 3 || f2p.Instances != 3 || f2p.All != 1 || f2p.Passed != 3 || f2p.Tests != 7 || p2p.Instances != 2 {
		t.Errorf("got %+v, %+v, %+v", p, f2p, p2p)
	}
}

func TestSlices(t *testing.T) {
	s := set("m", "RRuuRu")
	facts := map[string]results.Facts{
		"i00": {Difficulty: "1-4 hours", PatchLines: 5, Created: "2019-01-01", Language: "python"},
		"i01": {Difficulty: "<15 min fix", PatchLines: 6, Created: "2018-05-01T00:00:00Z", Language: "python"},
		"i02": {Difficulty: "odd", PatchLines: 500, Created: "soon", Language: "python"},
	}
	out := NewReport(s, Options{Facts: facts, Slices: true}).Slices
	var got []string
	for _, by := range out.By {
		for _, p := range by.Parts {
			got = append(got, fmt.Sprintf("%s %s %d/%d", by.Property, p.Value, p.Resolved, p.Of))
			if !(p.Simultaneous[0] <= p.Wilson[0] && p.Wilson[1] <= p.Simultaneous[1]) {
				t.Errorf("%s: all together %v is narrower than alone %v", p.Value, p.Simultaneous, p.Wilson)
			}
		}
	}
	want := []string{
		"repository o/a 2/3", "repository o/b 1/3",
		"difficulty <15 min fix 1/1", "difficulty 1-4 hours 1/1", "difficulty odd 0/1",
		"patch_size 1-5 lines 1/1", "patch_size 6-15 lines 1/1", "patch_size over 100 lines 0/1",
		"date 2018 1/1", "date 2019 1/1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if out.Parts != 10 || out.By[3].Unknown != 4 {
		t.Errorf("%d parts, %d dates unknown", out.Parts, out.By[3].Unknown)
	}
	near(t, "misses by chance", out.ExpectedMisses, 0.5)
	// statsmodels 0.14: proportion_confint(2, 3, alpha=0.005, method="wilson").
	near(t, "simultaneous low", out.By[0].Parts[0].Simultaneous[0], 0.1270)
	near(t, "simultaneous high", out.By[0].Parts[0].Simultaneous[1], 0.9649)
}

func TestAttempts(t *testing.T) {
	sets := []*results.Set{set("m 1", "RRuub"), set("m 2", "RuRuR"), set("m 3", "RuuuR")}
	a := NewAttempts(sets, Options{})
	if len(a.Pass) != 3 || a.Pass[0].Instances != 5 || a.Pass[2].Instances != 4 {
		t.Fatalf("pass: %+v", a.Pass)
	}
	near(t, "pass@1", a.Pass[0].AtK, (1+1./3+1./3+0+1)/5)
	near(t, "pass^1", a.Pass[0].HatK, a.Pass[0].AtK)
	near(t, "pass@2", a.Pass[1].AtK, (1+2./3+2./3+0+1)/5)
	near(t, "pass^2", a.Pass[1].HatK, (1+0+0+0+1)/5.)
	near(t, "pass@3", a.Pass[2].AtK, 3./4)
	near(t, "pass^3", a.Pass[2].HatK, 1./4)
	near(t, "mean", a.Spread.Mean, (2+3+2)/15.)
	if a.Spread.StdDev == nil || a.Spread.Low != 0.4 || a.Spread.High != 0.6 {
		t.Errorf("spread %+v", a.Spread)
	}
}

func options() CompareOptions {
	return CompareOptions{Alpha: 0.05, Resamples: 500, Seed: 1, Splits: 50, Flips: true}
}

func compared(t testing.TB, sets []*results.Set, o CompareOptions) Comparison {
	t.Helper()
	c, err := Compare(t.Context(), sets, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestEverythingIsJSON: whatever sets there are, how few and how much alike, what is
// said of them can be written down.
func TestEverythingIsJSON(t *testing.T) {
	letters := []string{"", "R", "u", "b", "n", "x", "i", "Ru", "uR", "RR", "uu", "bn", "RRu", "uRR", "Rbx", strings.Repeat("R", 30), strings.Repeat("u", 30), strings.Repeat("Ru", 15)}
	encodes := func(what string, v any) {
		t.Helper()
		if _, err := json.Marshal(v); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, a := range letters {
		for _, systems := range []int{1, 2, 3, 4} {
			var sets []*results.Set
			for n := range systems {
				s := set(fmt.Sprint(n), a[min(n, len(a)):]+a[:min(n, len(a))])
				for i := range s.Items {
					s.Items[i].Repo = fmt.Sprint("o/", i%7)
				}
				sets = append(sets, s)
			}
			what := fmt.Sprintf("%d of %q", systems, a)
			encodes(what, NewReport(sets[0], Options{Slices: true}))
			encodes(what, NewAttempts(sets, Options{}))
			if systems > 1 {
				o := options()
				o.Resamples, o.Splits = 20, 3
				encodes(what, compared(t, sets, o))
			}
		}
	}
}

// TestIntervalsHaveWidth: at 0 %, at 100 %, and where two systems agree everywhere.
func TestIntervalsHaveWidth(t *testing.T) {
	spread := func(name, letters string) *results.Set {
		s := set(name, letters)
		for i := range s.Items {
			s.Items[i].Repo = fmt.Sprint("o/", i%6)
		}
		return s
	}
	none, all := spread("none", strings.Repeat("u", 60)), spread("all", strings.Repeat("R", 60))
	for _, s := range []*results.Set{none, all} {
		c := NewReport(s, Options{}).Rates[0].Clustered
		if c == nil || c.StdErr != nil || c.DesignEffect != nil {
			t.Fatalf("%s: %+v", s.Name, c)
		}
		// As six instances: wider than Wilson's of sixty.
		near(t, s.Name, c.Interval[1]-c.Interval[0], 3.8415/(6+3.8415))
	}
	for _, pair := range [][2]*results.Set{{none, spread("none too", strings.Repeat("u", 60))}, {all, none}, {none, all}} {
		p := compared(t, []*results.Set{pair[0], pair[1]}, options()).Pairs[0]
		for what, in := range map[string]*Interval{"bootstrap": p.Bootstrap.Interval, "by repository": &p.Clustered.Interval} {
			if in == nil || !(in[1]-in[0] > 0.05) || in[0] > p.Difference || in[1] < p.Difference {
				t.Errorf("%s and %s: %s %v around %v", p.A, p.B, what, in, p.Difference)
			}
		}
		if p.Bootstrap.StdErr != nil || p.Clustered.StdErr != nil {
			t.Errorf("%s and %s: an error of what does not vary", p.A, p.B)
		}
	}
}

func TestCompareEndsWithItsContext(t *testing.T) {
	o := options()
	o.Resamples, o.Splits = 1<<30, 1<<30
	s := []*results.Set{set("a", strings.Repeat("Ru", 50)), set("b", strings.Repeat("uR", 50)), set("c", strings.Repeat("u", 100))}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := Compare(ctx, s, o); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestCompareTwo(t *testing.T) {
	a := set("a", strings.Repeat("R", 12)+"RRuubun")
	b := set("b", strings.Repeat("u", 12)+"RuRuRnu")
	p := compared(t, []*results.Set{a, b}, options()).Pairs[0]
	// i16 was not built for a: nobody's win.
	if p.Pairs != 18 || p.Excluded != 1 || p.Both != 1 || p.Wins != 13 || p.Losses != 1 || p.Neither != 3 {
		t.Errorf("got %+v", p)
	}
	near(t, "p", p.P, 2*15./16384)
	near(t, "difference", p.Difference, 12./18)
	if !p.Significant || p.Holm != p.P || p.SignificantFrom != 10 {
		t.Errorf("Holm %v, significant %v from %d", p.Holm, p.Significant, p.SignificantFrom)
	}
	if in := p.Bootstrap.Interval; in[0] < 0.35 || in[1] > 0.95 || in[0] > p.Difference || in[1] < p.Difference {
		t.Errorf("bootstrap %v around %v", in, p.Difference)
	}
	if len(p.Flips) != 14 || p.Flips[0].Winner != "a" || p.Flips[13].Winner != "b" {
		t.Errorf("flips %+v", p.Flips)
	}
}

func TestWhatDecided(t *testing.T) {
	tests := func(passed, failed string) *results.Tests {
		return &results.Tests{Passed: strings.Fields(passed), Failed: strings.Fields(failed)}
	}
	a, b := set("a", "RRuR"), set("b", "uuRe")
	a.Items[0].FailToPass, a.Items[0].PassToPass = tests("x y", ""), tests("p", "")
	b.Items[0].FailToPass, b.Items[0].PassToPass = tests("x", "y"), tests("", "p")
	a.Items[1].FailToPass, a.Items[1].PassToPass = tests("x", ""), tests("", "")
	b.Items[1].FailToPass, b.Items[1].PassToPass = tests("", "1 2 3 4 5 6 7"), tests("", "")
	b.Items[1].Dir = "logs/b"
	p := compared(t, []*results.Set{a, b}, options()).Pairs[0]
	want := []Flip{
		{InstanceID: "i00", Winner: "a", Loser: "unresolved", Decided: []Decider{{"FAIL_TO_PASS", "y"}, {"PASS_TO_PASS", "p"}}},
		{InstanceID: "i01", Winner: "a", Loser: "unresolved", More: 2, LogsB: "logs/b",
			Decided: []Decider{{"FAIL_TO_PASS", "1"}, {"FAIL_TO_PASS", "2"}, {"FAIL_TO_PASS", "3"}, {"FAIL_TO_PASS", "4"}, {"FAIL_TO_PASS", "5"}}},
		{InstanceID: "i02", Winner: "b", Loser: "unresolved", Reason: "the files have no tests"},
		{InstanceID: "i03", Winner: "a", Loser: "empty_patch", Reason: "empty_patch, without a test"},
	}
	if diff := cmp.Diff(want, p.Flips); diff != "" {
		t.Error(diff)
	}
}

func TestCompareMany(t *testing.T) {
	good, same, bad := set("good", strings.Repeat("R", 30)+strings.Repeat("u", 10)), set("same", "u"+strings.Repeat("R", 29)+strings.Repeat("u", 10)), set("bad", strings.Repeat("u", 40))
	c := compared(t, []*results.Set{bad, good, same}, options())
	var got []string
	for _, s := range c.Systems {
		got = append(got, fmt.Sprint(s.Group, " ", s.Name))
	}
	if diff := cmp.Diff([]string{"1 good", "1 same", "2 bad"}, got); diff != "" {
		t.Error(diff)
	}
	if c.Tests != 3 || c.Stability == nil || c.Stability.Splits != 50 {
		t.Errorf("%d tests, stability %+v", c.Tests, c.Stability)
	}
	for _, p := range c.Pairs {
		if p.Holm < p.P {
			t.Errorf("%s and %s: Holm %v below p %v", p.A, p.B, p.Holm, p.P)
		}
	}
	if again := compared(t, []*results.Set{bad, good, same}, options()); cmp.Diff(c, again) != "" {
		t.Error("the same comparison is another the second time")
	}
}

func TestManySystemsGetOnlyTests(t *testing.T) {
	var sets []*results.Set
	for i := range 15 {
		sets = append(sets, set(fmt.Sprint(i), strings.Repeat("R", i)+strings.Repeat("u", 20-i)))
	}
	for _, p := range compared(t, sets, options()).Pairs {
		if p.Bootstrap != nil || p.SmallestDifference != nil || p.Flips != nil {
			t.Fatalf("one of 105 pairs has %+v", p)
		}
	}
}

func BenchmarkCompare(b *testing.B) {
	var sets []*results.Set
	for s := range 10 {
		var letters strings.Builder
		for i := range 2294 {
			letters.WriteByte("Ru"[(i*(s+3)/7)%2])
		}
		sets = append(sets, set(fmt.Sprint(s), letters.String()))
	}
	o := CompareOptions{Alpha: 0.05, Resamples: 10000, Seed: 1, Splits: 1000, Flips: true}
	for b.Loop() {
		compared(b, sets, o)
	}
}
