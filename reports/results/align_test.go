package results

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/grading"
)

func set(name string, open bool, resolved string, others string) *Set {
	s := &Set{Name: name, Open: open, Kind: KindRun}
	for _, id := range strings.Fields(resolved) {
		s.Items = append(s.Items, Item{ID: id, Outcome: grading.Resolved, Submitted: true})
	}
	for _, id := range strings.Fields(others) {
		s.Items = append(s.Items, Item{ID: id, Outcome: grading.Unresolved, Submitted: true})
	}
	s.sort()
	return s
}

func TestAlign(t *testing.T) {
	universe := &Universe{IDs: []string{"a", "b", "c"}}
	for what, c := range map[string]struct {
		sets   []*Set
		u      *Universe
		common bool
		want   string // ids, or the error's parts
		fails  bool
		notes  int
	}{
		"equal":                     {sets: []*Set{set("x", false, "a", "b"), set("y", false, "b", "a")}, want: "a b"},
		"different are refused":     {sets: []*Set{set("x", false, "a", "b"), set("y", false, "b c", "")}, fails: true, want: "only in x: 1 (a)|only in y: 1 (c)|--common"},
		"different, on common":      {sets: []*Set{set("x", false, "a", "b"), set("y", false, "b c", "")}, common: true, want: "b", notes: 2},
		"nothing common":            {sets: []*Set{set("x", false, "a", ""), set("y", false, "b", "")}, common: true, fails: true, want: "no instance that all have"},
		"submissions need a split":  {sets: []*Set{set("x", true, "a", ""), set("y", true, "b", "")}, fails: true, want: "-d"},
		"submissions with one":      {sets: []*Set{set("x", true, "a", ""), set("y", true, "b q", "")}, u: universe, want: "a b c", notes: 1},
		"a submission and a run":    {sets: []*Set{set("x", true, "a b", ""), set("y", false, "b", "c")}, want: "b c", notes: 1},
		"a run of part of a split":  {sets: []*Set{set("x", true, "a", ""), set("y", false, "b", "c")}, u: universe, fails: true, want: "only in the dataset: 1 (a)"},
		"a run of more than a part": {sets: []*Set{set("x", true, "a", ""), set("y", false, "a b", "c d")}, u: universe, want: "a b c", notes: 1},
	} {
		t.Run(what, func(t *testing.T) {
			notes, err := Align(c.sets, c.u, c.common)
			if c.fails {
				wantError(t, err, strings.Split(c.want, "|")...)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range c.sets {
				if diff := cmp.Diff(strings.Fields(c.want), s.IDs()); diff != "" {
					t.Errorf("%s: %s", s.Name, diff)
				}
			}
			if len(notes) != c.notes {
				t.Errorf("notes %q, want %d", notes, c.notes)
			}
		})
	}
	x, y := set("x", false, "a", ""), set("y", false, "a", "")
	x.Rules, y.Rules = "strict", "swebench-5"
	if notes, err := Align([]*Set{x, y}, nil, false); err != nil || len(notes) != 1 || notes[0] != "x and y have different grading rules" {
		t.Errorf("notes %q, %v", notes, err)
	}
}

func TestSelect(t *testing.T) {
	open, closed := set("x", true, "a q", ""), set("y", false, "a", "b")
	if out := open.Select([]string{"a", "c"}); strings.Join(out, " ") != "q" || strings.Join(outcomes(open), ", ") != "a resolved, c unresolved" {
		t.Errorf("open: %v, left out %v", outcomes(open), out)
	}
	if out := closed.Select([]string{"a", "c"}); strings.Join(out, " ") != "b" || strings.Join(outcomes(closed), ", ") != "a resolved" {
		t.Errorf("closed: %v, left out %v", outcomes(closed), out)
	}
}

func TestRepoOf(t *testing.T) {
	for id, want := range map[string]string{"astropy__astropy-1": "astropy/astropy", "o__a-b-12": "o/a-b", "plain-1": "", "o__r": "", "__r-1": ""} {
		if got := RepoOf(&Item{ID: id}, Facts{}); got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
	if got := RepoOf(&Item{ID: "o__r-1", Repo: "x/y"}, Facts{Repo: "a/b"}); got != "a/b" {
		t.Errorf("got %q; the dataset knows best", got)
	}
}

// TestOtherData: results at instances that the dataset does not have are of other
// data, whoever wrote them; a selection of the dataset is none.
func TestOtherData(t *testing.T) {
	universe := func(allow bool) *Universe {
		return &Universe{Name: "verified", IDs: []string{"a"}, All: map[string]bool{"a": true, "b": true}, AllowUnknown: allow}
	}
	for what, s := range map[string]*Set{"a submission": set("x", true, "a", "q"), "a run": set("x", false, "a", "q")} {
		_, err := Align([]*Set{s, set("y", false, "a", "")}, universe(false), false)
		wantError(t, err, "x", "1 of its 2 instances", "verified (q)", "--allow-unknown")
		if _, err := Align([]*Set{s, set("y", false, "a", "")}, universe(true), false); err != nil {
			t.Errorf("%s, allowed: %v", what, err)
		}
	}
	if _, err := Align([]*Set{set("x", true, "b", ""), set("y", false, "a", "")}, universe(false), false); err != nil {
		t.Errorf("not selected, but of the dataset: %v", err)
	}
	if err := (*Universe)(nil).Check(set("x", true, "q", "")); err != nil {
		t.Errorf("no dataset was asked for: %v", err)
	}
}
