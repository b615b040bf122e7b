package analysis

import (
	"slices"

	"github.com/evalrun/evalrun/reports/results"
	"github.com/evalrun/evalrun/reports/stats"
)

// Slices are the rates of parts of the data. Looking at many parts finds some that
// stand out by chance: Parts says how many there are, and every part has an
// interval that holds for all of them together.
type Slices struct {
	Parts          int     `json:"parts"`
	ExpectedMisses float64 `json:"expected_misses"` // of the 95 % intervals, by chance alone
	By             []Slice `json:"by"`
}

// Slice divides the instances by one property.
type Slice struct {
	Property string `json:"property"` // repository, language, difficulty, patch_size, date
	Unknown  int    `json:"unknown"`  // instances of which the property is not known
	Parts    []Part `json:"parts"`
}

// Part is one value of a property.
type Part struct {
	Value        string   `json:"value"`
	Resolved     int      `json:"resolved"`
	Of           int      `json:"of"`
	Rate         float64  `json:"rate"`
	Wilson       Interval `json:"wilson_95"`
	Simultaneous Interval `json:"simultaneous_95"` // Wilson at 1 - 0.05/parts (Bonferroni)
}

// sizes are upper bounds of added and removed lines in the gold patch.
var sizes = []struct {
	most int
	name string
}{{5, "1-5 lines"}, {15, "6-15 lines"}, {40, "16-40 lines"}, {100, "41-100 lines"}, {1 << 30, "over 100 lines"}}

// properties, in the order in which they are shown; order sorts values, nil is by
// name.
var properties = []struct {
	name  string
	value func(*results.Item, results.Facts) string
	order []string
}{
	{"repository", results.RepoOf, nil},
	{"language", func(_ *results.Item, f results.Facts) string { return f.Language }, nil},
	{"difficulty", func(_ *results.Item, f results.Facts) string { return f.Difficulty },
		[]string{"<15 min fix", "15 min - 1 hour", "1-4 hours", ">4 hours"}},
	{"patch_size", sizeOf, []string{sizes[0].name, sizes[1].name, sizes[2].name, sizes[3].name, sizes[4].name}},
	{"date", yearOf, nil},
}

func sizeOf(_ *results.Item, f results.Facts) string {
	for _, s := range sizes {
		if f.PatchLines > 0 && f.PatchLines <= s.most {
			return s.name
		}
	}
	return ""
}

func yearOf(_ *results.Item, f results.Facts) string {
	if len(f.Created) < 4 {
		return ""
	}
	year := f.Created[:4]
	for _, c := range year {
		if c < '0' || c > '9' {
			return ""
		}
	}
	return year
}

// newSlices leaves out properties of which fewer than two values are known.
func newSlices(s *results.Set, o Options) *Slices {
	out := &Slices{By: []Slice{}}
	for _, p := range properties {
		slice := Slice{Property: p.name}
		parts := map[string]*Part{}
		for i := range s.Items {
			it := &s.Items[i]
			value := p.value(it, o.Facts[it.ID])
			if value == "" {
				slice.Unknown++
				continue
			}
			if parts[value] == nil {
				parts[value] = &Part{Value: value}
			}
			parts[value].Of++
			if it.Resolved() {
				parts[value].Resolved++
			}
		}
		if len(parts) < 2 {
			continue
		}
		for _, value := range orderedKeys(parts, p.order) {
			slice.Parts = append(slice.Parts, *parts[value])
		}
		out.Parts += len(slice.Parts)
		out.By = append(out.By, slice)
	}
	out.ExpectedMisses = float64(out.Parts) * (1 - Confidence)
	for _, slice := range out.By {
		for i := range slice.Parts {
			part := &slice.Parts[i]
			part.Rate = share(part.Resolved, part.Of)
			part.Wilson = pair(stats.Wilson(part.Resolved, part.Of, Confidence))
			part.Simultaneous = pair(stats.Wilson(part.Resolved, part.Of, 1-(1-Confidence)/float64(out.Parts)))
		}
	}
	return out
}

// orderedKeys sorts by a known order first, then by name.
func orderedKeys(parts map[string]*Part, order []string) []string {
	keys := sortedKeys(parts)
	rank := func(key string) int {
		if i := slices.Index(order, key); i >= 0 {
			return i
		}
		return len(order)
	}
	slices.SortStableFunc(keys, func(a, b string) int { return rank(a) - rank(b) })
	return keys
}
