package logparse

import "strings"

// cucumber reads the progress format: "features/a.feature ..F". Only what follows
// the first run of dots is seen.
func cucumber(_ Context, out *Result) lineParser {
	return eachLine(func(line string) {
		line = strip(line)
		for end := len(line); ; {
			i := strings.LastIndex(line[:end], " .")
			if i < 0 {
				return
			}
			rest := strings.TrimLeft(line[i+1:], ".")
			dots := len(line) - i - 1 - len(rest)
			switch {
			case strings.HasPrefix(rest, "F"):
				out.set(line[:i], Failed)
				return
			case dots >= 2:
				out.set(line[:i], Passed)
				return
			}
			end = i + 1
		}
	})
}
