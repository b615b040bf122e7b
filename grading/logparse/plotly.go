package logparse

import (
	"strings"
	"unicode/utf8"
)

// plotly reads a tree of "- suite :" and "* test : ok" lines; classic releases
// only. A line that is not deeper than the last suite leaves all suites.
func plotly(_ Context, out *Result) lineParser {
	var suites []string
	level := 0
	return eachLine(func(line string) {
		body := stripLeft(line)
		mark, n := firstRune(body)
		if len(body) == len(line) || mark != '-' && mark != '*' {
			return
		}
		name, rest, ok := plotlyName(body[n:])
		if !ok {
			return
		}
		indent := utf8.RuneCountInString(line[:len(line)-len(body)])
		if indent <= level {
			suites = nil
		}
		if mark == '-' {
			suites = append(suites, strings.Clone(name))
			level = indent
			return
		}
		status := Failed
		if low := strings.ToLower(rest); strings.Contains(low, "ok") && !strings.Contains(low, "failed") {
			status = Passed
		}
		out.setIn(suites, ".", name, status)
	})
}

// plotlyName reads `\s+(.*?)\s+:` and returns the name and what follows.
func plotlyName(s string) (name, rest string, ok bool) {
	body, ok := someSpace(s)
	if !ok {
		return "", "", false
	}
	for from := 0; ; {
		i := strings.IndexByte(body[from:], ':')
		if i < 0 {
			break
		}
		i += from
		from = i + 1
		if end := spanRight(body[:i], isSpace); end < i {
			return body[:end], body[i+1:], true
		}
	}
	// Nothing but white space before the colon: two of them are needed.
	if rest, colon := strings.CutPrefix(body, ":"); colon && utf8.RuneCountInString(s[:len(s)-len(body)]) >= 2 {
		return "", rest, true
	}
	return "", "", false
}
