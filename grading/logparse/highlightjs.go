package logparse

import "strings"

// highlightJS reads mocha's spec reporter up to its summary. Only the suite whose
// line came last counts.
func highlightJS(_ Context, out *Result) lineParser {
	suites := []string(nil)
	first, done := true, false
	return eachLine(func(line string) {
		if !first && !done {
			rest, digits := someDigits(strings.TrimLeft(line, " \t"))
			done = digits && strings.HasPrefix(rest, " passing")
		}
		first = false
		if done {
			return
		}
		body := stripLeft(line)
		switch mark, n := firstRune(body); mark {
		case '✓', '✔':
			out.setIn(suites, ".", highlightTitle(body[n:]), Passed)
			return
		}
		if rest, ok := someDigits(body); ok && strings.HasPrefix(rest, ")") {
			out.setIn(suites, ".", highlightTitle(rest[1:]), Failed)
		} else if strings.HasPrefix(line, "  ") {
			suites = []string{strings.Clone(strip(line))}
		}
	})
}

func highlightTitle(title string) string { return strip(removeMilliseconds(title)) }
