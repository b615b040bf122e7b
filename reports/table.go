package reports

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/evalrun/evalrun/grading"
	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/tw"
)

// Show says which attempts get a row of their own.
type Show int

const (
	ShowAll Show = iota
	ShowNotResolved
	ShowNone
)

// TableOptions say how the table is drawn.
type TableOptions struct {
	Width int  // columns of the terminal; 0 means 100, less than 60 is taken as 60
	Color bool // colour the outcomes
	Show  Show
}

const (
	columnGap    = "  "
	defaultWidth = 100
	minWidth     = 60
)

func tableWidth(width int) int {
	if width <= 0 {
		return defaultWidth
	}
	return max(width, minWidth)
}

// WriteTable draws the attempts of one model, in the order given, and their
// totals, which always count all attempts, shown or not.
func WriteTable(w io.Writer, attempts []Attempt, opts TableOptions) error {
	head := []string{"instance", "outcome", "F2P", "P2P", "time", "reason"}
	var rows [][]string
	var outcomes []grading.Outcome
	for i := range attempts {
		a := &attempts[i]
		if opts.Show == ShowNone || opts.Show == ShowNotResolved && a.Outcome == grading.Resolved {
			continue
		}
		rows = append(rows, tableRow(a))
		outcomes = append(outcomes, a.Outcome)
	}
	if len(rows) == 0 {
		return nil
	}
	foot := totalsRow(attempts, len(rows))
	width := tableWidth(opts.Width)
	fitColumns(head, rows, foot, width)
	if opts.Color {
		for i, row := range rows {
			row[1] = colored(row[1], outcomes[i])
		}
	}
	return DrawTable(w, head, rows, foot, []bool{2: true, 3: true, 4: true, 5: false}, width)
}

func tableRow(a *Attempt) []string {
	var c counts
	c.add(a)
	return []string{
		SafeText(a.InstanceID),
		mark(a.Outcome) + " " + SafeText(string(a.Outcome)),
		fraction(c.f2p, c.f2pAll, c.graded), fraction(c.p2p, c.p2pAll, c.graded),
		shortTime(a.Seconds),
		SafeText(shortReason(a)),
	}
}

func totalsRow(attempts []Attempt, shown int) []string {
	var c counts
	for i := range attempts {
		c.add(&attempts[i])
	}
	label := fmt.Sprintf("total %d", len(attempts))
	if shown < len(attempts) {
		label += fmt.Sprintf(" (%d shown)", shown)
	}
	return []string{label, fmt.Sprintf("%d resolved", c.resolved),
		fraction(c.f2p, c.f2pAll, c.graded), fraction(c.p2p, c.p2pAll, c.graded), shortTime(c.seconds), ""}
}

// counts is what one row says of one attempt or of many.
type counts struct {
	resolved                 int
	f2p, f2pAll, p2p, p2pAll int
	graded                   bool
	seconds                  float64
}

func (c *counts) add(a *Attempt) {
	if a.Seconds > 0 {
		c.seconds += a.Seconds
	}
	if a.Outcome == grading.Resolved {
		c.resolved++
	}
	if a.Verdict == nil || a.Verdict.Tests == nil {
		return
	}
	c.graded = true
	f2p, p2p := a.Verdict.Tests.FailToPass, a.Verdict.Tests.PassToPass
	c.f2p, c.f2pAll = c.f2p+len(f2p.Success), c.f2pAll+f2p.Total()
	c.p2p, c.p2pAll = c.p2p+len(p2p.Success), c.p2pAll+p2p.Total()
}

func fraction(n, all int, graded bool) string {
	if !graded {
		return "-"
	}
	return fmt.Sprintf("%d/%d", n, all)
}

// mark is a sign of one column, so that outcomes can be told apart without
// colours.
func mark(o grading.Outcome) string {
	switch {
	case o == grading.Resolved:
		return "✓"
	case o.Evaluated():
		return "✗"
	case o == grading.NotRun:
		return "-"
	}
	return "!"
}

func colored(text string, o grading.Outcome) string {
	code := "33" // yellow: nobody's result yet
	switch {
	case o == grading.Resolved:
		code = "32"
	case o.Evaluated():
		code = "31"
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// shortReason is the recorded reason, or, for an unresolved attempt without
// one, the first test that did not do what it should.
func shortReason(a *Attempt) string {
	if a.Reason != "" {
		return firstLine(a.Reason)
	}
	if a.Outcome == grading.Resolved && len(a.Trust.Flagged) > 0 {
		return "flagged: " + firstLine(a.Trust.Flagged[0])
	}
	if a.Outcome != grading.Unresolved || a.Verdict == nil || a.Verdict.Tests == nil {
		return ""
	}
	if broken := a.Verdict.Tests.PassToPass.Failure; len(broken) > 0 {
		return "broke " + broken[0] + andMore(len(broken)-1)
	}
	if failing := a.Verdict.Tests.FailToPass.Failure; len(failing) > 0 {
		return "still fails " + failing[0] + andMore(len(failing)-1)
	}
	return ""
}

func andMore(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}

func shortTime(seconds float64) string {
	if !(seconds > 0 && seconds < 1e9) { // nothing ran, or nonsense
		return "-"
	}
	if seconds < 99.95 {
		return fmt.Sprintf("%.1fs", seconds)
	}
	d := time.Duration(seconds * float64(time.Second)).Round(time.Second)
	if d < time.Hour {
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

// fitColumns cuts instances and reasons so that a line fits into width. The
// other columns are short and stay whole.
func fitColumns(head []string, rows [][]string, foot []string, width int) {
	const instance, reason = 0, 5
	all := append([][]string{head, foot}, rows...)
	need := make([]int, len(head))
	for _, row := range all {
		for col, cell := range row {
			need[col] = max(need[col], displayWidth(cell))
		}
	}
	free := width - len(columnGap)*(len(head)-1)
	for col := instance + 1; col < reason; col++ {
		if col == 1 {
			need[col] = min(need[col], 20) // a foreign outcome may be long
		}
		free -= need[col]
	}
	const leastID = 12
	leastReason := 16 + max(width-80, 0)/2
	wide := min(need[instance], max(free-min(need[reason], leastReason), leastID))
	for _, row := range all {
		row[instance] = clipMiddle(row[instance], wide)
		row[1] = Clip(row[1], need[1])
		row[reason] = Clip(row[reason], max(free-wide, len("reason")))
	}
}

// DrawTable draws cells as the tables of this program look. right says which
// columns are set to the right; foot may be nil. The cells must fit and be safe
// to show; rules are cut to width.
func DrawTable(w io.Writer, head []string, rows [][]string, foot []string, right []bool, width int) error {
	align := make([]tw.Align, len(head))
	for i := range align {
		align[i] = tw.AlignLeft
		if i < len(right) && right[i] {
			align[i] = tw.AlignRight
		}
	}
	cells := tw.CellConfig{
		Formatting: tw.CellFormatting{AutoFormat: tw.Off, AutoWrap: tw.WrapNone},
		Padding:    tw.CellPadding{Global: tw.Padding{Right: columnGap, Overwrite: true}},
		Alignment:  tw.CellAlignment{PerColumn: align},
	}
	var b strings.Builder
	table := tablewriter.NewTable(&b,
		tablewriter.WithHeaderConfig(cells), tablewriter.WithRowConfig(cells), tablewriter.WithFooterConfig(cells),
		tablewriter.WithHeaderAutoFormat(tw.Off), tablewriter.WithFooterAutoFormat(tw.Off),
		tablewriter.WithRendition(tw.Rendition{
			Borders:  tw.BorderNone,
			Settings: tw.Settings{Separators: tw.Separators{BetweenColumns: tw.Off}},
		}),
	)
	table.Header(head)
	for _, row := range rows {
		if err := table.Append(row); err != nil {
			return fmt.Errorf("add a row to the table: %w", err)
		}
	}
	if foot != nil {
		table.Footer(foot)
	}
	if err := table.Render(); err != nil {
		return fmt.Errorf("draw the table: %w", err)
	}
	_, err := io.WriteString(w, trimLines(b.String(), width))
	return err
}

// trimLines takes away the padding at the ends of lines, and what rules are
// longer than the text area.
func trimLines(text string, width int) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		line = strings.TrimRight(line, " ")
		if strings.Trim(line, "─") == "" {
			line = Clip(line, width)
			line = strings.Replace(line, "…", "─", 1)
		}
		lines[i] = line
	}
	return strings.Join(lines, "\n")
}
