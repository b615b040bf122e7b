package reports

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/olekukonko/tablewriter/pkg/twwidth"
)

// SafeText makes a name or a message from outside fit to be shown on a
// terminal, on one line: white space becomes a space, and everything else that
// cannot be seen (control and escape characters, marks that reorder text,
// bytes that are no UTF-8) is spelt out, as in \x1b.
func SafeText(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsSpace(r):
			b.WriteByte(' ')
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += size
	}
	return b.String()
}

// SafeLines is SafeText for a text of several lines, which stay lines.
func SafeLines(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i, line := range lines {
		lines[i] = SafeText(line)
	}
	return strings.Join(lines, "\n")
}

// Clip cuts a text that needs more than width columns and ends it with "…".
func Clip(s string, width int) string {
	if displayWidth(s) <= width {
		return s
	}
	return twwidth.Truncate(s, width, "…")
}

// ClipMiddle is Clip, in the middle.
func ClipMiddle(s string, width int) string { return clipMiddle(s, width) }

// clipMiddle cuts in the middle: the end of an instance id tells it from others.
func clipMiddle(s string, width int) string {
	if displayWidth(s) <= width {
		return s
	}
	runes := []rune(s)
	from, tail := len(runes), 0
	for from > 0 {
		w := displayWidth(string(runes[from-1]))
		if tail+w > max(width*2/3, 1) {
			break
		}
		tail += w
		from--
	}
	return twwidth.Truncate(s, width-tail, "…") + string(runes[from:])
}

// DisplayWidth is the number of columns a text takes on a terminal.
func DisplayWidth(s string) int { return displayWidth(s) }

func displayWidth(s string) int { return twwidth.Width(s) }

func firstLine(s string) string {
	s = strings.TrimSpace(s)
	if i := strings.IndexAny(s, "\r\n"); i >= 0 {
		return strings.TrimSpace(s[:i])
	}
	return s
}
