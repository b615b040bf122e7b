package logparse

import "strings"

// googletest reads "[       OK ] Suite.Test (0 ms)", anywhere in a line. The
// summary lines "[  FAILED  ] Suite.Test" have no time and are not read.
func googletest(_ Context, out *Result) lineParser {
	return eachLine(func(line string) {
		line = strip(line)
		if !strings.HasSuffix(line, ")") || strings.IndexByte(line, '[') < 0 {
			return
		}
		paren := lastSpacedParen(line)
		if paren < 0 {
			return
		}
		for end := len(line); ; {
			open := strings.LastIndexByte(line[:end], '[')
			if open < 0 {
				return
			}
			if status, name, ok := googleResult(line, open, paren); ok {
				out.set(name, status)
				return
			}
			end = open
		}
	})
}

// lastSpacedParen returns where the last white space before a "(" stands, or -1.
func lastSpacedParen(line string) int {
	for end := len(line); ; {
		open := strings.LastIndexByte(line[:end], '(')
		if open < 0 {
			return -1
		}
		if r, n := lastRune(line[:open]); n > 0 && isSpace(r) {
			return open - n
		}
		end = open
	}
}

func googleResult(line string, open, paren int) (status Status, name string, ok bool) {
	rest := stripLeft(line[open+1:])
	word, rest, ok := cutWord(rest, "OK", "FAILED")
	if !ok {
		return "", "", false
	}
	if rest, ok = strings.CutPrefix(stripLeft(rest), "]"); !ok {
		return "", "", false
	}
	if rest, ok = oneSpace(rest); !ok {
		return "", "", false
	}
	start := len(line) - len(rest)
	if paren < start {
		return "", "", false
	}
	status = Passed
	if word == "FAILED" {
		status = Failed
	}
	return status, line[start:paren], true
}
