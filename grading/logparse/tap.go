package logparse

import "strings"

// tap reads TAP result lines. A directive (# SKIP, # TODO) stays in the name and
// does not change the status.
func tap(_ Context, out *Result) lineParser {
	return eachLine(func(line string) {
		line = strip(line)
		status := Passed
		rest, ok := strings.CutPrefix(line, "ok ")
		if !ok {
			status = Failed
			if rest, ok = strings.CutPrefix(line, "not ok "); !ok {
				return
			}
		}
		if rest, ok = someDigits(rest); !ok {
			return
		}
		if name, ok := strings.CutPrefix(rest, " "); ok && name != "" {
			out.set(name, status)
		}
	})
}
