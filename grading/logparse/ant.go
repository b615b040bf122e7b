package logparse

import "strings"

// ant reads Ant's junit task with the harness's formatter.
func ant(_ Context, out *Result) lineParser {
	return eachLine(func(line string) {
		rest, ok := strings.CutPrefix(strip(line), "[junit]")
		if !ok {
			return
		}
		if rest, ok = someSpace(rest); !ok {
			return
		}
		word, rest, ok := cutWord(rest, "[PASS]", "[FAIL]", "[ERR]")
		if !ok {
			return
		}
		name, ok := someSpace(rest)
		if !ok {
			return
		}
		if word == "[PASS]" {
			out.set(name, Passed)
		} else {
			out.set(name, Failed)
		}
	})
}
