package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	units "github.com/docker/go-units"

	"github.com/evalrun/evalrun/reports"
	"github.com/evalrun/evalrun/reports/analysis"
	"github.com/evalrun/evalrun/reports/html"
	"github.com/evalrun/evalrun/reports/render"
	"github.com/evalrun/evalrun/reports/results"
)

// pageMemory is the soft limit while pages are made: they hold all attempts of
// many runs.
const pageMemory = 400 << 20

// roomForPages raises the soft limit of memory.
func roomForPages() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(pageMemory)
	}
}

// writeReport writes report's sets as one page.
func writeReport(e *env, path string, sets []*results.Set, o analysis.Options) error {
	o.Slices = true
	page := html.Page{Title: "Report: " + titleOf(sets), Lead: leadOf(sets), Sets: sets, Facts: o.Facts, Version: version}
	for _, s := range sets {
		r := analysis.NewReport(s, o)
		page.Reports = append(page.Reports, r)
		page.Body = append(page.Body, render.Report(&r)...)
	}
	for _, group := range repeated(sets) {
		a := analysis.NewAttempts(group, o)
		page.Body = append(page.Body, render.Attempts(&a)...)
	}
	return writePage(e, path, page)
}

// writeComparison writes compare's sets as one page, best first.
func writeComparison(e *env, path string, sets []*results.Set, c *analysis.Comparison, facts map[string]results.Facts) error {
	const flips = 100
	page := html.Page{Title: "Comparison: " + titleOf(sets), Lead: leadOf(sets), Sets: sets, Facts: facts, Version: version}
	for _, s := range sets {
		page.Reports = append(page.Reports, analysis.NewReport(s, analysis.Options{Facts: facts, Slices: true}))
	}
	o := render.ComparisonOptions{}
	if len(c.Pairs) <= 3 {
		o.Flips = flips
	}
	page.Body = render.Comparison(c, o)
	return writePage(e, path, page)
}

func writePage(e *env, path string, page html.Page) error {
	out, err := html.Write(e.ctx, path, page)
	if err != nil {
		return err
	}
	told(e, path, out)
	return nil
}

// told says what was written.
func told(e *env, path string, out html.Written) {
	fmt.Fprintf(e.stderr, "wrote %s, %s\n", path, units.BytesSize(float64(out.Bytes)))
	if out.Folder != "" {
		fmt.Fprintf(e.stderr, "patches, tests and logs (%s) are too large for it: they lie in %s, which belongs beside it\n", units.BytesSize(float64(out.Details)), out.Folder)
	}
}

func titleOf(sets []*results.Set) string {
	const most = 4
	var names []string
	for _, s := range sets {
		names = append(names, s.Name)
	}
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// leadOf says on what the sets were run.
func leadOf(sets []*results.Set) []string {
	var lines []string
	seen := map[string]bool{}
	for _, s := range sets {
		if s.Record == nil {
			continue
		}
		r := s.Record
		line := fmt.Sprintf("run %s of %s", r.RunID, r.CreatedAt.UTC().Format("2006-01-02"))
		if r.Dataset.Name != "" {
			line += fmt.Sprintf(" on %s (%d instances)", r.Dataset.Name, r.Instances)
		}
		line = reports.SafeText(line + ", grading rules " + r.Rules + ", evalrun " + r.Evalrun)
		if !seen[line] {
			seen[line] = true
			lines = append(lines, line)
		}
	}
	return lines
}
