package logparse

import "strings"

// vitest reads --reporter=verbose.
func vitest(_ Context, out *Result) lineParser {
	return eachLine(func(line string) {
		line = strip(line)
		mark, n := firstRune(line)
		var status Status
		switch mark {
		case '✓':
			status = Passed
		case '×':
			status = Failed
		case '↓':
			status = Skipped
		default:
			return
		}
		name, ok := oneSpace(line[n:])
		if !ok || name == "" {
			return
		}
		out.set(cutVitestTail(name), status)
	})
}

// cutVitestTail removes a final duration ("3ms", "3 s", and a bare "3") or
// "[skipped]", with one white space before it, if something is left.
func cutVitestTail(name string) string {
	head, ok := strings.CutSuffix(name, "[skipped]")
	if !ok {
		rest := strings.TrimSuffix(name, "s")
		rest = stripRight(strings.TrimSuffix(rest, "m"))
		head = rest[:spanRight(rest, isDigit)]
		if len(head) == len(rest) {
			return name
		}
	}
	if r, n := lastRune(head); n > 0 && n < len(head) && isSpace(r) {
		return head[:len(head)-n]
	}
	return name
}
