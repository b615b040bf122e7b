package leaderboard

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evalrun/evalrun/reports"
	"github.com/evalrun/evalrun/reports/analysis"
	"github.com/evalrun/evalrun/reports/html"
	"github.com/evalrun/evalrun/reports/render"
	"github.com/evalrun/evalrun/reports/results"
)

// Files of a site.
const (
	indexFile = "index.html"
	dataFile  = "board.json"
)

// MayReplace says whether a site may be made in dir: only files of an earlier one are
// replaced, or with force any files of their names.
func MayReplace(dir string, force bool) error {
	const mark = `"evalrun": ` // a key of a Board
	return cmp.Or(html.MayReplace(filepath.Join(dir, indexFile), force), reports.MayReplace(filepath.Join(dir, dataFile), mark, force))
}

// WriteSite makes index.html and board.json in dir, or nothing. The sets are those the
// board was made of; details says whether patches, tests and logs are part of the site.
func (b *Board) WriteSite(ctx context.Context, dir string, sets []*results.Set, facts map[string]results.Facts, details bool) (html.Written, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(b); err != nil {
		return html.Written{}, err
	}
	page := html.Page{Title: b.Title, Sets: sets, Facts: facts, Version: b.Evalrun, Summary: !details, Board: true,
		Lead: []string{fmt.Sprintf("%d systems on %d instances. The same as data: board.json, beside this page.", len(b.Systems), len(b.Instances))},
		Body: b.Document(true), After: b.lists(), Beside: []html.File{{Name: dataFile, Data: out.Bytes()}},
	}
	for _, s := range sets {
		page.Reports = append(page.Reports, analysis.NewReport(s, analysis.Options{Facts: facts, Slices: true}))
	}
	return html.Write(ctx, filepath.Join(dir, indexFile), page)
}

// Document is the board in a table, with what its groups mean; wide has columns that
// a terminal has no room for.
func (b *Board) Document(wide bool) render.Document {
	has := func(what func(*System) string) bool {
		return slices.ContainsFunc(b.Systems, func(s System) bool { return what(&s) != "" })
	}
	type column struct {
		name   string
		number bool
		value  func(*System) string
	}
	columns := []column{
		{"rank", true, func(s *System) string { return fmt.Sprint(s.Rank) }},
		{"group", true, func(s *System) string { return fmt.Sprint(s.Group) }},
		{"system", false, func(s *System) string { return s.Name }},
		{"resolved", true, func(s *System) string { return fmt.Sprintf("%d/%d", s.Resolved, s.Of) }},
		{"rate", true, func(s *System) string { return fmt.Sprintf("%.1f %%", 100*s.Rate) }},
		{"Wilson 95 %", true, func(s *System) string { return span(s.Wilson) }},
	}
	for _, c := range []column{
		{"date", true, func(s *System) string { return s.Date }},
		{"by repository", true, func(s *System) string {
			if s.Clustered == nil {
				return ""
			}
			return span(s.Clustered.Interval)
		}},
		{"cost", true, func(s *System) string {
			if s.Cost == 0 {
				return ""
			}
			return fmt.Sprintf("%.2f", s.Cost)
		}},
		{"attempts", true, func(s *System) string { return s.Attempts }},
		{"checked", false, func(s *System) string {
			if s.Checked {
				return "yes"
			}
			return ""
		}},
		{"of", false, func(s *System) string { return s.Org }},
	} {
		if has(c.value) && (wide || c.name == "date") {
			columns = append(columns, c)
		}
	}
	t := &render.Table{}
	for _, c := range columns {
		t.Head, t.Right = append(t.Head, c.name), append(t.Right, c.number)
	}
	for i := range b.Systems {
		var row []render.Cell
		for _, c := range columns {
			row = append(row, render.Cell{Text: c.value(&b.Systems[i])})
		}
		t.Rows = append(t.Rows, row)
	}
	lines := append([]string{}, b.Notes...)
	lines = append(lines, fmt.Sprintf("A group is a tie with its first: none of it is significantly worse (exact McNemar, Holm over %d pairs, alpha %g).", b.Tests, b.Alpha))
	if s := b.Stability; s != nil && s.Spearman != nil && s.SameFirst != nil && s.SwappedPairs != nil {
		lines = append(lines, fmt.Sprintf("On random halves of the instances the rankings correlate by %.2f (%d splits, seed %d); the first is the same in %.0f %% of them, and %.1f %% of pairs change order.",
			*s.Spearman, s.Splits, s.Seed, 100**s.SameFirst, 100**s.SwappedPairs))
	}
	return render.Document{{Heading: "Board", Lines: lines, Table: t}}
}

// lists are the instances that tell nobody apart.
func (b *Board) lists() render.Document {
	return render.Document{
		list("Solved by nobody", b.Nobody, len(b.Instances)), list("Solved by all", b.All, len(b.Instances)),
	}
}

func list(heading string, ids []string, of int) render.Block {
	lines := []string{fmt.Sprintf("%d of %d instances.", len(ids), of)}
	if len(ids) > 0 {
		lines = append(lines, strings.Join(ids, ", "))
	}
	return render.Block{Heading: heading, Lines: lines}
}

func span(in analysis.Interval) string { return fmt.Sprintf("%.1f to %.1f", 100*in[0], 100*in[1]) }
