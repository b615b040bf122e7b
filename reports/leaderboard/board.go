// Package leaderboard makes a board of many systems on the same instances: who
// resolved how many, who cannot be told apart, what nobody and what everybody
// resolves; as data and as a site that can be served or opened from disk.
//
// It must not know where results come from.
package leaderboard

import (
	"cmp"
	"slices"

	"github.com/evalrun/evalrun/reports/analysis"
	"github.com/evalrun/evalrun/reports/results"
)

// Schema is the schema_version of a Board.
const Schema = 1

// Board is what board.json holds. Within a schema_version keys are only added.
type Board struct {
	SchemaVersion int      `json:"schema_version"`
	Title         string   `json:"title"`
	Evalrun       string   `json:"evalrun"` // version that made it
	Dataset       string   `json:"dataset_sha256,omitempty"`
	Alpha         float64  `json:"alpha"`
	Tests         int      `json:"tests"` // pairs tested, which Holm's method allows for
	Notes         []string `json:"notes"`

	Systems      []System            `json:"systems"` // best first
	Repositories []Repository        `json:"repositories"`
	Instances    []Instance          `json:"instances"`
	Nobody       []string            `json:"solved_by_nobody"`
	All          []string            `json:"solved_by_all"`
	Stability    *analysis.Stability `json:"rank_stability,omitempty"`
}

// System is a row of the board. What is not known is left out.
type System struct {
	Rank      int                 `json:"rank"`      // 1 for the best; equal rates share one
	Group     int                 `json:"tie_group"` // 1 is the best
	Name      string              `json:"name"`
	Title     string              `json:"title,omitempty"`
	Org       string              `json:"org,omitempty"`
	Site      string              `json:"site,omitempty"`
	Models    []string            `json:"models,omitempty"`
	Date      string              `json:"date,omitempty"` // 2025-08-07
	Cost      float64             `json:"cost_per_instance,omitempty"`
	Attempts  string              `json:"attempts,omitempty"` // as the submission says: 1, 2+
	Checked   bool                `json:"checked,omitempty"`
	Kind      results.Kind        `json:"kind"`
	Resolved  int                 `json:"resolved"`
	Of        int                 `json:"of"`
	Rate      float64             `json:"rate"`
	Wilson    analysis.Interval   `json:"wilson_95"`
	Clustered *analysis.Clustered `json:"clustered_95"` // by repository
	Unscored  int                 `json:"not_scored"`   // instances the environment kept from a result
	ByRepo    map[string]int      `json:"resolved_by_repository"`
}

// Repository is a column of the heat map.
type Repository struct {
	Name      string `json:"name"` // "" where it is not known
	Instances int    `json:"instances"`
}

// Instance is a row of the matrix. Outcomes has a sign for each system, in the
// order of systems: + resolved, - not resolved, ? not evaluated.
type Instance struct {
	ID         string `json:"instance_id"`
	Repo       string `json:"repo,omitempty"`
	ResolvedBy int    `json:"resolved_by"`
	Outcomes   string `json:"outcomes"`
}

// Options are what a board is made with.
type Options struct {
	Title   string
	Version string // of evalrun
	Facts   map[string]results.Facts
	Dataset string // hash
}

// New makes the board of sets that results.Align has given the same instances, and
// of their comparison. It puts the sets into the order of the board.
func New(sets []*results.Set, c *analysis.Comparison, o Options) Board {
	b := Board{SchemaVersion: Schema, Title: o.Title, Evalrun: o.Version, Dataset: o.Dataset, Alpha: c.Alpha, Tests: c.Tests, Notes: c.Notes,
		Stability: c.Stability, Nobody: []string{}, All: []string{}}
	place := map[string]int{}
	for i, s := range c.Systems {
		place[s.Name] = i
	}
	slices.SortStableFunc(sets, func(a, b *results.Set) int { return cmp.Compare(place[a.Name], place[b.Name]) })
	for i, s := range sets {
		b.Systems = append(b.Systems, newSystem(s, c.Systems[i], o))
		b.Systems[i].Rank = i + 1
		if i > 0 && b.Systems[i].Resolved == b.Systems[i-1].Resolved {
			b.Systems[i].Rank = b.Systems[i-1].Rank
		}
	}
	b.instances(sets, o)
	return b
}

func newSystem(s *results.Set, c analysis.System, o Options) System {
	r := analysis.NewReport(s, analysis.Options{Facts: o.Facts})
	out := System{
		Group: c.Group, Name: s.Name, Title: s.Info.Title, Org: s.Info.Org, Site: s.Info.Site, Models: s.Info.Models, Date: s.Info.Date, Cost: s.Info.Cost,
		Attempts: s.Info.Attempts, Checked: s.Info.Checked, Kind: s.Kind, Resolved: c.Resolved, Of: c.Of, Rate: c.Rate, Wilson: c.Wilson,
		Clustered: r.Headline().Clustered, ByRepo: map[string]int{},
	}
	if s.Record != nil {
		out.Date = s.Record.CreatedAt.UTC().Format("2006-01-02")
	}
	for i := range s.Items {
		it := &s.Items[i]
		if it.Resolved() {
			out.ByRepo[results.RepoOf(it, o.Facts[it.ID])]++
		}
		if !it.Scored() {
			out.Unscored++
		}
	}
	return out
}

// instances fills in the matrix and what follows from it.
func (b *Board) instances(sets []*results.Set, o Options) {
	repos := map[string]int{}
	for i := range sets[0].Items {
		first := &sets[0].Items[i]
		row := Instance{ID: first.ID, Repo: results.RepoOf(first, o.Facts[first.ID])}
		signs := make([]byte, len(sets))
		for n, s := range sets {
			switch it := s.Find(first.ID); {
			case it == nil || !it.Scored():
				signs[n] = '?'
			case it.Resolved():
				signs[n] = '+'
				row.ResolvedBy++
			default:
				signs[n] = '-'
			}
		}
		row.Outcomes = string(signs)
		repos[row.Repo]++
		b.Instances = append(b.Instances, row)
		switch row.ResolvedBy {
		case 0:
			b.Nobody = append(b.Nobody, row.ID)
		case len(sets):
			b.All = append(b.All, row.ID)
		}
	}
	for name, n := range repos {
		b.Repositories = append(b.Repositories, Repository{name, n})
	}
	slices.SortFunc(b.Repositories, func(x, y Repository) int {
		return cmp.Or(cmp.Compare(y.Instances, x.Instances), cmp.Compare(x.Name, y.Name))
	})
}
