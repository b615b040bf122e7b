package logparse

import (
	"strings"
	"unicode/utf8"
)

// gradle reads "org.Class > test PASSED". Where other output came between, the
// name and the result stand alone on lines of their own; release 4.1 missed those.
func gradle(in Context, out *Result) lineParser {
	pending := ""
	return eachLine(func(line string) {
		line = strip(line)
		head, status := gradleStatus(line)
		if status != "" && !strings.HasPrefix(line, ">") {
			if r, n := lastRune(head); n > 0 && isSpace(r) && utf8.RuneCountInString(head[:len(head)-n]) >= 2 {
				out.set(head[:len(head)-n], status)
				pending = ""
				return
			}
		}
		if in.Edition == V41 {
			return
		}
		if gradleName(line) {
			pending = strings.Clone(line)
		} else if pending != "" && status != "" && head == "" {
			out.set(pending, status)
			pending = ""
		}
	})
}

func gradleStatus(line string) (head string, status Status) {
	if head, ok := strings.CutSuffix(line, "PASSED"); ok {
		return head, Passed
	}
	if head, ok := strings.CutSuffix(line, "FAILED"); ok {
		return head, Failed
	}
	return line, ""
}

// gradleName recognises "org.Class > test" and nothing more.
func gradleName(line string) bool {
	first, rest := token(line)
	mark, rest := token(rest)
	if mark != ">" || strings.HasPrefix(first, ">") {
		return false
	}
	test, rest := token(rest)
	return test != "" && strip(rest) == ""
}
