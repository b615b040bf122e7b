package logparse

import "strings"

// marked reads jasmine's list of failures ("1) suite should x"); nothing else.
func marked(_ Context, out *Result) lineParser {
	return eachLine(func(line string) {
		rest, ok := someDigits(line)
		if !ok {
			return
		}
		if rest, ok = strings.CutPrefix(rest, ")"); !ok {
			return
		}
		if name, ok := oneSpace(rest); ok {
			out.set(strip(name), Failed)
		}
	})
}
