package logparse

import "strings"

// gotest reads the result lines of `go test -v`, subtests included. The same name
// in two packages is one test here, and the last result counts.
func gotest(_ Context, out *Result) lineParser {
	return eachLine(func(line string) {
		line = stripLeft(line)
		rest, ok := strings.CutPrefix(line, "--- ")
		if !ok {
			return
		}
		word, rest, ok := cutWord(stripRight(rest), "PASS: ", "FAIL: ", "SKIP: ")
		if !ok {
			return
		}
		name, ok := cutParen(rest)
		if !ok {
			return
		}
		switch word[0] {
		case 'P':
			out.set(name, Passed)
		case 'F':
			out.set(name, Failed)
		default:
			out.set(name, Skipped)
		}
	})
}
