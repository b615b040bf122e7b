package html

import (
	"cmp"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports"
	"github.com/evalrun/evalrun/reports/results"
)

// wordySystems is how many systems the table has room to name and to give outcomes
// in words; of more it is a matrix of signs.
const wordySystems = 4

// data is what the page's script works on. Texts are made safe to be seen.
type data struct {
	Title    string    `json:"title"`
	Systems  []system  `json:"systems"`
	Wordy    int       `json:"wordy"`
	Outcomes []outcome `json:"outcomes"`
	Rows     []row     `json:"rows"`
	Chunk    int       `json:"chunk"` // instances in one piece of details; 0: there are none
	Files    string    `json:"files"` // folder of the pieces, "" when they are in the page

	flagged bool
	items   [][]*results.Item // by row and system; nil where a set has no such instance
}

type system struct {
	Name string `json:"name"`
}

// outcome is a name, the sign for it, and of which kind it is: good, bad (not
// resolved), other (not evaluated), none (not run).
type outcome struct {
	Name string `json:"name"`
	Mark string `json:"mark"`
	Kind string `json:"kind"`
}

type row struct {
	ID    string    `json:"i"`
	Shown string    `json:"d,omitempty"` // where the id has what cannot be seen
	Repo  string    `json:"r,omitempty"`
	Cells []*result `json:"c"`
}

// result is one cell: names are short, as there are tens of thousands.
type result struct {
	Outcome int     `json:"o"`
	F2P     int     `json:"f,omitempty"`
	F2PAll  *int    `json:"F,omitempty"`
	P2P     int     `json:"p,omitempty"`
	P2PAll  *int    `json:"P,omitempty"`
	Seconds float64 `json:"s,omitempty"`
	Flagged int     `json:"g,omitempty"`
	Why     string  `json:"w,omitempty"`
}

func newData(p *Page) *data {
	d := &data{Title: reports.SafeText(p.Title), Wordy: wordySystems, Systems: []system{}, Rows: []row{}}
	ids := map[string]bool{}
	for _, s := range p.Sets {
		d.Systems = append(d.Systems, system{reports.SafeText(s.Name)})
		for i := range s.Items {
			ids[s.Items[i].ID] = true
		}
	}
	index := d.outcomes(p.Sets)
	for _, id := range sortedKeys(ids) {
		r := row{ID: id, Cells: make([]*result, len(p.Sets))}
		if shown := reports.SafeText(id); shown != id {
			r.Shown = shown
		}
		items := make([]*results.Item, len(p.Sets))
		for n, s := range p.Sets {
			it := s.Find(id)
			if it == nil {
				continue
			}
			items[n] = it
			r.Repo = cmp.Or(r.Repo, results.RepoOf(it, p.Facts[id]))
			r.Cells[n] = newResult(it, index[it.Outcome], len(p.Sets) == 1)
			d.flagged = d.flagged || r.Cells[n].Flagged > 0
		}
		r.Repo = reports.SafeText(r.Repo)
		d.Rows, d.items = append(d.Rows, r), append(d.items, items)
	}
	return d
}

// newResult gives a reason only where the table has a column for it.
func newResult(it *results.Item, outcome int, why bool) *result {
	c := &result{Outcome: outcome, Seconds: float64(int(it.Seconds*10+0.5)) / 10}
	if t := it.FailToPass; t != nil {
		all := t.Total()
		c.F2P, c.F2PAll = len(t.Passed), &all
	}
	if t := it.PassToPass; t != nil {
		all := t.Total()
		c.P2P, c.P2PAll = len(t.Passed), &all
	}
	if it.Record != nil {
		c.Flagged = len(it.Record.Trust.Flagged)
	}
	if why {
		const most = 160
		c.Why = reports.Clip(reports.SafeText(cmp.Or(it.Reason, firstFailed(it))), most)
	}
	return c
}

func firstFailed(it *results.Item) string {
	for _, list := range []struct {
		what  string
		tests *results.Tests
	}{{"broke ", it.PassToPass}, {"still fails ", it.FailToPass}} {
		if it.Outcome == grading.Unresolved && list.tests != nil && len(list.tests.Failed) > 0 {
			return list.what + list.tests.Failed[0]
		}
	}
	return ""
}

// outcomes lists those that occur, the known ones first and in their order.
func (d *data) outcomes(sets []*results.Set) map[grading.Outcome]int {
	seen := map[grading.Outcome]bool{}
	for _, s := range sets {
		for i := range s.Items {
			seen[s.Items[i].Outcome] = true
		}
	}
	order := reports.Outcomes()
	all := make([]grading.Outcome, 0, len(seen))
	for o := range seen {
		all = append(all, o)
	}
	rank := func(o grading.Outcome) int {
		if i := slices.Index(order, o); i >= 0 {
			return i
		}
		return len(order)
	}
	slices.SortFunc(all, func(a, b grading.Outcome) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
	})
	index := map[grading.Outcome]int{}
	d.Outcomes = []outcome{}
	for n, o := range all {
		index[o] = n
		d.Outcomes = append(d.Outcomes, newOutcome(o))
	}
	return index
}

func newOutcome(o grading.Outcome) outcome {
	out := outcome{reports.SafeText(string(o)), "!", "other"}
	switch {
	case o == grading.Resolved:
		out.Mark, out.Kind = "✓", "good"
	case o.Evaluated():
		out.Mark, out.Kind = "✗", "bad"
	case o == grading.NotRun:
		out.Mark, out.Kind = "-", "none"
	}
	return out
}

func (d *data) repos() []string {
	seen := map[string]bool{}
	for _, r := range d.Rows {
		if r.Repo != "" {
			seen[r.Repo] = true
		}
	}
	if len(seen) < 2 {
		return nil
	}
	return sortedKeys(seen)
}

// relativeLink leads from the page at path to a file or folder.
func relativeLink(path, target string) string {
	from, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return ""
	}
	to, err := filepath.Abs(target)
	if err != nil {
		return ""
	}
	rel, err := filepath.Rel(from, to)
	if err != nil {
		return ""
	}
	parts := strings.Split(filepath.ToSlash(rel), "/")
	for i := range parts {
		parts[i] = component(parts[i])
	}
	return "./" + strings.Join(parts, "/") // never a scheme or a host
}

// component spells a name for a URL as encodeURIComponent does, or stricter.
func component(name string) string { return strings.ReplaceAll(url.QueryEscape(name), "+", "%20") }
