package gate

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports/results"
)

// set makes a set of letters: R resolved, u unresolved, b build failed, n no
// prediction. Instances are a, b, c, …
func set(name, letters string) *results.Set {
	s := &results.Set{Name: name}
	for i, c := range letters {
		outcome := map[rune]grading.Outcome{'R': grading.Resolved, 'u': grading.Unresolved, 'b': grading.BuildFailed, 'n': grading.NotRun}[c]
		s.Items = append(s.Items, results.Item{ID: string(rune('a' + i)), Outcome: outcome, Submitted: c != 'n'})
	}
	return s
}

func ids(letters string) map[string]bool {
	out := map[string]bool{}
	for _, c := range letters {
		out[string(c)] = true
	}
	return out
}

func rate(x float64) *float64 { return &x }

func TestRules(t *testing.T) {
	for what, c := range map[string]struct {
		now   string
		rules Rules
		want  Status
		says  string
	}{
		"rate reached":                 {"RRuu", Rules{MinRate: rate(0.5)}, Passed, "min-rate: 2 of 4 resolved, 50.0 %, wanted 50.0 %"},
		"rate missed":                  {"RRuu", Rules{MinRate: rate(0.6)}, Failed, "min-rate: 2 of 4 resolved, 50.0 %, wanted 60.0 %"},
		"rate open":                    {"RRub", Rules{MinRate: rate(0.6)}, Undecided, "1 could not be evaluated"},
		"rate missed whatever is open": {"Ruub", Rules{MinRate: rate(0.6)}, Failed, "1 of 4"},
		"no prediction is no excuse":   {"RRnn", Rules{MinRate: rate(0.6)}, Failed, "2 of 4"},
		"flaky are left aside":         {"RRuu", Rules{MinRate: rate(0.6), Flaky: ids("d")}, Passed, "2 of 3 resolved, 66.7 % (1 flaky left aside)"},

		"all that must":        {"RRu", Rules{MustPass: []string{"a", "b"}}, Passed, "all 2 that must be are resolved"},
		"one that must not":    {"RuR", Rules{MustPass: []string{"a", "b"}}, Failed, "must-pass: 1 must be resolved and is not: b"},
		"one that must, open":  {"RbR", Rules{MustPass: []string{"a", "b"}}, Undecided, "must-pass: 1 could not be evaluated: b"},
		"one that must, flaky": {"RuR", Rules{MustPass: []string{"a", "b"}, Flaky: ids("b")}, Passed, "(1 flaky left aside)"},

		"nothing lost":          {"RRR", Rules{NoNew: true, Baseline: set("old", "RRu")}, Passed, "all 2 that the baseline resolved still are"},
		"one lost, one gained":  {"RuR", Rules{NoNew: true, Baseline: set("old", "RRu")}, Failed, "no-regression: 1 that the baseline resolved is no longer resolved: b"},
		"one lost to the build": {"Rbu", Rules{NoNew: true, Baseline: set("old", "RRu")}, Undecided, "1 could not be evaluated: b"},
		"one lost, flaky":       {"Ruu", Rules{NoNew: true, Baseline: set("old", "RRu"), Flaky: ids("b")}, Passed, "flaky"},

		// One-sided exact: 5 of 5 lost is 1/32, 4 of 4 is 1/16.
		"significantly worse":     {"uuuuuR", Rules{Alpha: 0.05, Baseline: set("old", "RRRRRR")}, Failed, "significantly worse: 0 gained, 5 lost: p 0.0312"},
		"worse within chance":     {"uuuuRR", Rules{Alpha: 0.05, Baseline: set("old", "RRRRRR")}, Passed, "0 gained, 4 lost: p 0.0625"},
		"worse, if what is open":  {"uuuubR", Rules{Alpha: 0.05, Baseline: set("old", "RRRRRR")}, Undecided, "1 could not be evaluated and would decide"},
		"worse, whatever is open": {"uuuuuuuuub", Rules{Alpha: 0.05, Baseline: set("old", "RRRRRRRRRu")}, Failed, "significantly worse"},
		"better":                  {"RRRRRR", Rules{Alpha: 0.05, Baseline: set("old", "uuuuuu")}, Passed, "6 gained, 0 lost: p 1"},

		"failed goes before open": {"ub", Rules{MinRate: rate(0.4), MustPass: []string{"a"}}, Failed, "must-pass: 1 must be"},
		"all rules are told":      {"RR", Rules{MinRate: rate(0.4), MustPass: []string{"a"}}, Passed, "min-rate: 2 of 2 resolved, 100.0 %, wanted 40.0 %; must-pass: all 1 that must be are resolved"},
	} {
		t.Run(what, func(t *testing.T) {
			r, err := Run(set("now", c.now), c.rules)
			if err != nil {
				t.Fatal(err)
			}
			if r.Status != c.want || !strings.Contains(r.Reason, c.says) {
				t.Errorf("%s: %s; want %s: …%s…", r.Status, r.Reason, c.want, c.says)
			}
			if strings.ContainsAny(r.Reason, "\n\r") {
				t.Errorf("the reason is not one line: %q", r.Reason)
			}
		})
	}
}

func TestWhatCannotBeDecided(t *testing.T) {
	other := set("old", "RRRR")
	for what, c := range map[string]struct {
		rules Rules
		says  string
	}{
		"no rule":              {Rules{}, "the gate has no rule"},
		"nothing to compare":   {Rules{NoNew: true}, "--baseline"},
		"an unknown instance":  {Rules{MustPass: []string{"z"}}, "instances that now does not have: z"},
		"other instances":      {Rules{NoNew: true, Baseline: other}, "0 not in the baseline, 1 of the baseline not here (d)"},
		"no such significance": {Rules{Alpha: 0.05, Baseline: other}, "--common"},
		"no number":            {Rules{Alpha: math.NaN(), Baseline: other, CommonOnly: true}, "alpha is NaN"},
		"alpha of 1":           {Rules{Alpha: 1, Baseline: other, CommonOnly: true}, "alpha is 1"},
		"nothing in common":    {Rules{NoNew: true, Baseline: set("old", ""), CommonOnly: true}, "no instance in common"},
	} {
		if _, err := Run(set("now", "RRR"), c.rules); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want …%s…", what, err, c.says)
		}
	}
	if _, err := Run(set("now", ""), Rules{MinRate: rate(0)}); err == nil {
		t.Error("nothing passes a gate")
	}
	now := set("now", "RRR")
	now.Rules, now.Dataset, other.Rules, other.Dataset = "strict", "1", "swebench-5", "2"
	r, err := Run(now, Rules{NoNew: true, Baseline: other, CommonOnly: true})
	if err != nil || r.Status != Passed {
		t.Fatalf("%+v, %v", r, err)
	}
	if diff := cmp.Diff([]string{"graded by strict, the baseline by swebench-5", "the dataset is not the baseline's", "instances: 0 not in the baseline, 1 of the baseline not here"}, r.Notes); diff != "" {
		t.Error(diff)
	}
}

func TestChanges(t *testing.T) {
	gained, lost := Changes(set("now", "RuRbu"), set("old", "uRRRb"))
	if got := fmt.Sprint(gained, lost); got != "[{a unresolved resolved }] [{b resolved unresolved }]" {
		t.Error(got)
	}
}
