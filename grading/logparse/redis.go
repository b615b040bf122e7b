package logparse

import "strings"

// redis reads the Tcl test suite of Redis and Valkey.
func redis(_ Context, out *Result) lineParser {
	return eachLine(func(line string) {
		word, rest, ok := cutWord(strip(line), "[ok]:", "[err]:", "[skip]:", "[ignore]:")
		if !ok {
			return
		}
		name, ok := oneSpace(rest)
		if !ok || name == "" {
			return
		}
		name = cutDuration(name)
		switch word {
		case "[ok]:":
			out.set(name, Passed)
		case "[err]:":
			out.set(cutFileOf(name), Failed)
		default:
			out.set(name, Skipped)
		}
	})
}

// cutFileOf removes a final " in path/of/file.tcl".
func cutFileOf(name string) string {
	file := spanRight(name, notSpace)
	if file == len(name) {
		return name
	}
	head := stripRight(name[:file])
	in, ok := strings.CutSuffix(head, "in")
	if !ok || file == len(head) {
		return name
	}
	if r, n := lastRune(in); n == 0 || !isSpace(r) {
		return name
	}
	return stripRight(in)
}
