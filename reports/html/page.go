// Package html writes a report or a comparison as one HTML file that needs no
// network: a summary with plots, a table of the instances to search, filter and
// sort, and for each instance its patch, tests, log, timings and provenance.
//
// Names, patches and logs come from outside: they are escaped, never markup, and a
// content security policy lets the page run its own script and nothing else. gonum
// draws the plots; its colours, fonts and style attributes stay behind: plots follow
// the page's dark and light colours, are read aloud, and obey the policy.
//
// It must not know where results come from, and computes no statistics.
package html

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/evalrun/evalrun/reports"
	"github.com/evalrun/evalrun/reports/analysis"
	"github.com/evalrun/evalrun/reports/provenance"
	"github.com/evalrun/evalrun/reports/render"
	"github.com/evalrun/evalrun/reports/results"
)

// Page is what is shown.
type Page struct {
	Title   string
	Lead    []string          // lines below the title
	Sets    []*results.Set    // a column of the table each
	Reports []analysis.Report // of the sets, for the figures and plots; may be empty
	Body    render.Document   // the numbers in words and tables
	After   render.Document   // below the table of instances
	Board   bool              // the numbers come first: they are what the page is about
	Facts   map[string]results.Facts
	Version string // of evalrun

	Beside []File // written with the page, into its folder

	// Summary leaves out the details of instances: patches, tests, logs.
	Summary bool
	// Budget is how many bytes of details may be in the page itself; above it they
	// go into files beside it. 0 is DefaultBudget.
	Budget int
}

// DefaultBudget keeps a page small enough to be opened at once and sent around.
const DefaultBudget = 32 << 20

// Written says what Write has made.
type Written struct {
	Bytes   int64  // of the page
	Folder  string // of the details beside it; "" if they are in the page
	Details int64  // bytes of the details, wherever they are
}

var (
	//go:embed assets/page.html
	pageHTML string
	//go:embed assets/page.css
	pageCSS string
	//go:embed assets/table.js
	tableJS string
	//go:embed assets/detail.js
	detailJS string

	pageTemplate = template.Must(template.New("page").Parse(pageHTML))
)

// File is one that belongs to a page and lies beside it.
type File struct {
	Name string
	Data []byte
}

// Write makes the file at path, and if the details do not fit into it a folder
// beside it. What fails leaves nothing, and an earlier page as it was.
func Write(ctx context.Context, path string, p Page) (Written, error) {
	dir := filepath.Dir(path)
	_, err := os.Stat(dir)
	made := errors.Is(err, fs.ErrNotExist)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return Written{}, fmt.Errorf("%s: %w", path, err)
	}
	out, err := makePage(ctx, path, &p)
	if err != nil {
		if made {
			os.Remove(dir)
		}
		return Written{}, fmt.Errorf("%s: %w", path, err)
	}
	return out, nil
}

func makePage(ctx context.Context, path string, p *Page) (Written, error) {
	const name = "page.html" // on the stage
	var out Written
	d := newData(p)
	store := newStore(path, cmp.Or(p.Budget, DefaultBudget))
	defer store.discard()
	if !p.Summary {
		if err := d.writeDetails(ctx, p, path, store); err != nil {
			return out, err
		}
	}
	out.Details = store.size
	if store.spilled {
		out.Folder, d.Files = store.folder, filepath.Base(store.folder)
	}
	page, err := d.page(p, path, store)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return out, err
	}
	out.Bytes = int64(len(page))
	for _, f := range append(p.Beside, File{name, page}) {
		if err := store.write(f.Name, f.Data); err != nil {
			return out, err
		}
	}
	return out, store.publish(name, p.Beside)
}

// page puts the file together: what people read without a script, the data, the
// details, the script.
func (d *data) page(p *Page, path string, store *store) ([]byte, error) {
	script := tableJS + detailJS
	drawn, err := plots(p)
	if err != nil {
		return nil, err
	}
	v := view{
		Title: d.Title, Lead: safeAll(p.Lead), Style: template.CSS(pageCSS), Script: template.JS(script),
		Policy: policy(script, store.spilled), Foot: foot(p),
		Heads: heads(p), Plots: drawn, Heat: heat(p), Blocks: d.blocks(p.Body, path), After: d.blocks(p.After, path), Board: p.Board, Runs: origins(p.Sets),
		Count: len(d.Rows), Many: len(p.Sets) > 1, Matrix: len(p.Sets) > wordySystems, Repos: d.repos(), Flagged: d.flagged,
	}
	for _, s := range d.Systems {
		v.Systems = append(v.Systems, s.Name)
	}
	for _, o := range d.Outcomes {
		v.Outcomes = append(v.Outcomes, o.Name)
	}
	var b bytes.Buffer
	if err := pageTemplate.ExecuteTemplate(&b, "top", v); err != nil {
		return nil, err
	}
	rows, err := json.Marshal(d) // escapes <, > and &, so it cannot end its element
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(&b, "<script type=\"application/json\" id=\"data\">%s</script>\n", rows)
	for n, text := range store.held {
		fmt.Fprintf(&b, "<script type=\"text/plain\" id=\"details-%d\">%s</script>\n", n, text) // base64
	}
	if err := pageTemplate.ExecuteTemplate(&b, "bottom", v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// view is what the template shows.
type view struct {
	Title        string
	Lead         []string
	Policy       string
	Style        template.CSS
	Script       template.JS
	Heads        []headline
	Plots        []plot
	Heat         *heatMap
	Blocks       []block
	After        []block
	Board        bool
	Runs         []origin
	Count        int
	Many, Matrix bool
	Flagged      bool
	Systems      []string
	Outcomes     []string
	Repos        []string
	Foot         string
}

// policy lets the page use its own style and script. The files of the details are
// scripts, too: of the same folder, opened from disk or served.
func policy(script string, files bool) string {
	from := ""
	if files {
		from = " 'self' file:"
	}
	return "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; script-src '" + hashOf(script) + "'" + from + "; style-src '" + hashOf(pageCSS) + "'"
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

func foot(p *Page) string {
	text := "Made by evalrun"
	if p.Version != "" {
		text += " " + p.Version
	}
	return text + ". Intervals are Wilson's at 95 % unless said otherwise. This page loads nothing from the network."
}

// headline is the figure of one system.
type headline struct{ Name, Rate, Count, Interval string }

// mostHeads is how many systems have their figure at the top; more are a board.
const mostHeads = 6

func heads(p *Page) []headline {
	if len(p.Reports) > mostHeads {
		return nil
	}
	var out []headline
	for i := range p.Reports {
		h := p.Reports[i].Headline()
		out = append(out, headline{
			Name: reports.SafeText(p.Reports[i].Name), Rate: fmt.Sprintf("%.1f %%", 100*h.Rate), Count: fmt.Sprintf("%d of %d resolved", h.Resolved, h.Of),
			Interval: fmt.Sprintf("95 %% interval %.1f to %.1f", 100*h.Wilson[0], 100*h.Wilson[1]),
		})
	}
	return out
}

// block is one of a render.Document, made safe.
type block struct {
	Heading string
	Lines   []string
	Table   *table
}

type table struct {
	Label string
	Head  []cell
	Rows  [][]cell
}

type cell struct {
	Text, Link string
	Number     bool
}

func (d *data) blocks(doc render.Document, path string) []block {
	known := map[string]bool{}
	for _, r := range d.Rows {
		known[r.ID] = true
	}
	var out []block
	label := ""
	for _, b := range doc {
		label = cmp.Or(b.Heading, label)
		made := block{Heading: reports.SafeText(b.Heading)}
		for _, line := range b.Lines {
			if line != "" {
				made.Lines = append(made.Lines, reports.SafeText(line))
			}
		}
		if b.Table != nil && len(b.Table.Rows) > 0 {
			made.Table = newTable(b.Table, reports.SafeText(cmp.Or(label, "Figures")), path, known)
		}
		out = append(out, made)
	}
	return out
}

// newTable makes instances lead to their details, and paths to files.
func newTable(t *render.Table, label, path string, known map[string]bool) *table {
	number := func(n int) bool { return n < len(t.Right) && t.Right[n] }
	out := &table{Label: label}
	for n, h := range t.Head {
		out.Head = append(out.Head, cell{Text: reports.SafeText(h), Number: number(n)})
	}
	for _, row := range t.Rows {
		cells := make([]cell, len(row))
		for n, c := range row {
			cells[n] = cell{Text: reports.SafeText(c.Text), Number: number(n)}
			switch {
			case c.Link != "":
				cells[n].Link = relativeLink(path, c.Link)
			case t.Head[n] == "instance" && known[c.Text]:
				cells[n].Link = "#instance=" + component(c.Text)
			}
		}
		out.Rows = append(out.Rows, cells)
	}
	return out
}

// origin is what is known of the run behind a set.
type origin struct {
	Name  string
	Pairs []pair
}

type pair struct{ Name, Value string }

func origins(sets []*results.Set) []origin {
	var out []origin
	for _, s := range sets {
		if len(sets) > wordySystems {
			break // a board says it in a column
		}
		p := origin{Name: reports.SafeText(s.Name), Pairs: []pair{{"source", reports.SafeText(string(s.Kind) + " " + s.Source)}}}
		if s.Record != nil {
			p.Pairs = append(p.Pairs, flattened(s.Record, "instance_ids", "image_digests", "no_prediction", "row_hashes")...)
			if sum, err := provenance.HashFile(filepath.Join(s.Source, provenance.File)); err == nil && sum != "" {
				p.Pairs = append(p.Pairs, pair{provenance.File, "sha256 " + sum})
			}
		}
		out = append(out, p)
	}
	return out
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func safeAll(lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = reports.SafeText(line)
	}
	return out
}
