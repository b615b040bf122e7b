package logparse

import "strings"

// chartJS reads karma's failure lines, "Chrome 90.0 (Linux) name FAILED". Browser
// and version can stand on two lines.
func chartJS(_ Context, out *Result) lineParser {
	split := false // the line before ended with the browser's name
	return eachLine(func(line string) {
		line = stripANSI(line)
		wasSplit := split
		split = strings.HasSuffix(line, "Chrome")
		if !strings.HasSuffix(line, "FAILED") {
			return
		}
		if wasSplit {
			if at := chartVersion(line); at >= 0 {
				if name, ok := chartName(line, at); ok {
					out.set(name, Failed)
					return
				}
			}
		}
		for from := 0; ; {
			i := strings.Index(line[from:], "Chrome")
			if i < 0 {
				return
			}
			from += i + len("Chrome")
			rest, ok := oneSpace(line[from:])
			if !ok {
				continue
			}
			at := chartVersion(rest)
			if at < 0 {
				continue
			}
			if name, ok := chartName(line, len(line)-len(rest)+at); ok {
				out.set(name, Failed)
			}
			// Another browser's name further on would look for the same end.
			return
		}
	})
}

// chartVersion reads `[\d.]+`, a blank and "(", and returns where the text in
// parentheses begins, or -1.
func chartVersion(s string) int {
	n := spanLeft(s, isDigitOrDot)
	rest, ok := oneBlank(s[n:])
	if n == 0 || !ok || !strings.HasPrefix(rest, "(") {
		return -1
	}
	return len(s) - len(rest) + 1
}

// chartName reads from inside the parentheses to the line's final FAILED.
func chartName(line string, at int) (string, bool) {
	_, n := firstRune(line[at:])
	for from := at + n; ; {
		i := strings.IndexByte(line[from:], ')')
		if i < 0 {
			return "", false
		}
		from += i + 1
		if rest, ok := oneBlank(line[from:]); ok {
			return strings.CutSuffix(rest, "FAILED")
		}
	}
}

// oneBlank cuts one white space character that does not end a line.
func oneBlank(s string) (rest string, ok bool) {
	if s != "" && (s[0] == '\r' || s[0] == '\n') {
		return s, false
	}
	return oneSpace(s)
}
