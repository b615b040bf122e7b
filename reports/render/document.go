// Package render turns reports, comparisons and gates into what people and other
// tools read: tables on a terminal, Markdown, CSV, JUnit XML, annotations of CI
// systems. Names and reasons come from outside and are made harmless for each.
//
// It must not know files or where numbers come from, and computes none.
package render

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/evalrun/evalrun/reports"
)

// Document is a text of headings, lines and tables, for a terminal or as Markdown.
type Document []Block

// Block is a heading, then lines, then a table; each may be missing.
type Block struct {
	Heading string
	Lines   []string
	Table   *Table
}

// Table has rows of cells. Right says which columns are numbers.
type Table struct {
	Head  []string
	Right []bool
	Rows  [][]Cell
}

// Cell is a text, which may lead somewhere.
type Cell struct {
	Text string
	Link string // path, for formats that have links
}

// cells makes a row of plain texts.
func cells(texts ...string) []Cell {
	row := make([]Cell, len(texts))
	for i, t := range texts {
		row[i] = Cell{Text: t}
	}
	return row
}

// numbersAfter sets all columns from the first on to the right.
func numbersAfter(first, columns int) []bool {
	right := make([]bool, columns)
	for i := first; i < columns; i++ {
		right[i] = true
	}
	return right
}

// WriteText shows the document on a terminal of so many columns.
func (d Document) WriteText(w io.Writer, width int) error {
	var b strings.Builder
	for _, block := range d {
		if block.Heading != "" {
			fmt.Fprintf(&b, "\n%s\n", reports.SafeText(block.Heading))
		}
		for _, line := range block.Lines {
			for _, part := range wrap(reports.SafeText(line), width) {
				fmt.Fprintln(&b, part)
			}
		}
		if block.Table == nil || len(block.Table.Rows) == 0 {
			continue
		}
		head, rows := fit(block.Table, width)
		if err := reports.DrawTable(&b, head, rows, nil, block.Table.Right, width); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// wrap breaks a line between words.
func wrap(line string, width int) []string {
	var out []string
	current := ""
	for _, word := range strings.Split(line, " ") {
		switch {
		case current == "":
			current = word
		case reports.DisplayWidth(current)+1+reports.DisplayWidth(word) <= width:
			current += " " + word
		default:
			out = append(out, current)
			current = "  " + word
		}
	}
	return append(out, current)
}

// fit cuts the widest columns of text until a row fits. Numbers stay whole.
func fit(t *Table, width int) (head []string, rows [][]string) {
	head = slices.Clone(t.Head)
	need := make([]int, len(head))
	for i, h := range head {
		need[i] = reports.DisplayWidth(h)
	}
	for _, r := range t.Rows {
		row := make([]string, len(head))
		for i, c := range r {
			row[i] = reports.SafeText(c.Text)
			need[i] = max(need[i], reports.DisplayWidth(row[i]))
		}
		rows = append(rows, row)
	}
	const gap, least = 2, 10
	for {
		total, widest := gap*(len(head)-1), -1
		for i, n := range need {
			total += n
			if (i >= len(t.Right) || !t.Right[i]) && n > least && (widest < 0 || n > need[widest]) {
				widest = i
			}
		}
		if total <= width || widest < 0 {
			break
		}
		need[widest] = max(least, need[widest]-max(1, min(total-width, need[widest]/8)))
	}
	for _, row := range rows {
		for i := range row {
			row[i] = reports.ClipMiddle(row[i], need[i])
		}
	}
	return head, rows
}

// WriteMarkdown writes the document as GitHub's and GitLab's Markdown.
func (d Document) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	for _, block := range d {
		if block.Heading != "" {
			fmt.Fprintf(&b, "### %s\n\n", Markdown(block.Heading))
		}
		for _, line := range block.Lines {
			if line != "" { // a gap on terminals
				fmt.Fprintf(&b, "%s\n\n", Markdown(line))
			}
		}
		if block.Table != nil && len(block.Table.Rows) > 0 {
			block.Table.markdown(&b)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t *Table) markdown(b *strings.Builder) {
	line := func(texts []string) { fmt.Fprintf(b, "| %s |\n", strings.Join(texts, " | ")) }
	head, rule := make([]string, len(t.Head)), make([]string, len(t.Head))
	for i, h := range t.Head {
		head[i], rule[i] = Markdown(h), "---"
		if i < len(t.Right) && t.Right[i] {
			rule[i] = "---:"
		}
	}
	line(head)
	line(rule)
	for _, r := range t.Rows {
		row := make([]string, len(t.Head))
		for i, c := range r {
			row[i] = Markdown(c.Text)
			if c.Link != "" {
				row[i] = "[" + row[i] + "](" + markdownLink(c.Link) + ")"
			}
		}
		line(row)
	}
	b.WriteString("\n")
}

// Markdown makes a text from outside plain text of one line in Markdown: no
// markup, no HTML, no mention of anybody, no end of a table's cell.
func Markdown(s string) string {
	var b strings.Builder
	text := reports.SafeText(s)
	for i, r := range text {
		switch {
		case r == '.' && strings.HasSuffix(strings.ToLower(text[:i]), "www"):
			b.WriteString("&#46;") // www.… would become a link
		case r == '&':
			b.WriteString("&amp;")
		case r == '<':
			b.WriteString("&lt;")
		case r == '>':
			b.WriteString("&gt;")
		case r == '@':
			b.WriteString("&#64;") // @name would call somebody
		case r == '|':
			b.WriteString("&#124;")
		case r == ':' && strings.HasPrefix(text[i:], "://"):
			b.WriteString("&#58;") // https://… would become a link
		case strings.ContainsRune("\\`*_{}[]#~!$^", r):
			b.WriteRune('\\')
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// markdownLink spells a path so that it is one, and cannot end the link.
func markdownLink(path string) string {
	var b strings.Builder
	for _, c := range []byte(path) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-._~/+,", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	if text := b.String(); !strings.HasPrefix(text, "//") {
		return text
	}
	return "." + b.String() // not another host
}
