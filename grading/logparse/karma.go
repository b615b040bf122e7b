package logparse

import (
	"strings"
	"unicode/utf8"
)

// karma reads the mocha reporter. Suites are followed by comparing each one's
// indentation with the last's only, so a sibling suite keeps the old name.
type karma struct {
	out     *Result
	level   int
	suites  []string
	started bool
	done    bool
}

func newKarma(_ Context, out *Result) lineParser { return &karma{out: out, level: -1} }

func (p *karma) end() {}

func (p *karma) line(line string) {
	switch {
	case p.done:
		return
	case strings.HasPrefix(line, "SUMMARY:"):
		p.done = true
		return
	case strings.Contains(line, "Starting browser"):
		p.started = true
		return
	case !p.started:
		return
	}
	space := spanLeft(line, isSpace)
	if status, title := karmaResult(line[space:]); status != "" {
		p.out.setIn(p.suites, " > ", title, status)
		return
	}
	// The last white space before the text separates; what is before it indents.
	switch indent := utf8.RuneCountInString(line[:space]) - 1; {
	case indent < 1:
	case indent > p.level:
		p.level = indent
		p.suites = append(p.suites, strings.Clone(line[space:]))
	case indent < p.level:
		p.level = indent
		if len(p.suites) == 0 {
			p.out.complain("a line is indented less than the one before, outside any suite: %q", line)
			return
		}
		p.suites = p.suites[:len(p.suites)-1]
	}
}

func karmaResult(text string) (status Status, title string) {
	mark, n := firstRune(text)
	switch mark {
	case '✔':
		status = Passed
	case '✖':
		status = Failed
	default:
		return "", ""
	}
	title, ok := oneSpace(text[n:])
	if !ok {
		return "", ""
	}
	return status, title
}
