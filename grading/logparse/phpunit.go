package logparse

import (
	"strings"
	"unicode/utf8"
)

// phpunit reads PHPUnit's --testdox. Any line like "word (something)" starts a
// suite, the line with the run time too.
func phpunit(_ Context, out *Result) lineParser {
	suite := "None"
	return eachLine(func(line string) {
		if r, n := firstRune(line); n > 0 && isWord(r) {
			if name, ok := cutParen(line); ok && utf8.RuneCountInString(name) >= 2 {
				suite = strings.Clone(name)
				return
			}
			return
		}
		mark, rest := firstRune(stripLeft(line))
		var status Status
		switch mark {
		case '✔':
			status = Passed
		case '✘':
			status = Failed
		case '↩':
			status = Skipped
		default:
			return
		}
		out.setIn([]string{suite}, " > ", stripLeft(stripLeft(line)[rest:]), status)
	})
}
