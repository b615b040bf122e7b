package logparse

import "strings"

// statusWord returns the pytest status word that s begins with.
func statusWord(s string) string {
	if len(s) < 5 {
		return ""
	}
	switch s[0] {
	case 'F', 'P', 'S', 'E', 'X':
		w, _, _ := cutWord(s, "FAILED", "PASSED", "SKIPPED", "ERROR", "XFAIL")
		return w
	}
	return ""
}

// endsWithStatus reports whether s ends with a pytest status word.
func endsWithStatus(s string) bool {
	if len(s) < 5 {
		return false
	}
	switch s[len(s)-1] {
	case 'D':
		return strings.HasSuffix(s, "PASSED") || strings.HasSuffix(s, "FAILED") || strings.HasSuffix(s, "SKIPPED")
	case 'R':
		return strings.HasSuffix(s, "ERROR")
	case 'L':
		return strings.HasSuffix(s, "XFAIL")
	}
	return false
}

// skipSummary reports pytest's "SKIPPED [3] path:line: reason", which counts
// skips and names no test. Release 4.1 took "[3]" for a test.
func skipSummary(in Context, status, name string) bool {
	if in.Edition == V41 || status != "SKIPPED" || len(name) < 3 {
		return false
	}
	if name[0] != '[' || name[len(name)-1] != ']' {
		return false
	}
	digits := name[1 : len(name)-1]
	return spanLeft(digits, isDigit) == len(digits)
}

// pytestSummary reads a line of pytest's short summary ("PASSED path::test"):
// the first word is the status, the second the name, whatever follows is dropped.
func pytestSummary(in Context, line string) (name, status string, ok bool) {
	word := statusWord(line)
	if word == "" {
		return "", "", false
	}
	status, rest := token(line)
	name, _ = token(rest)
	if name == "-" && word == "FAILED" {
		// Of a failed line every " - " counts as one space, which shows only here.
		_, rest = token(strings.ReplaceAll(line, " - ", " "))
		name, _ = token(rest)
	}
	if name == "" || skipSummary(in, status, name) {
		return "", "", false
	}
	return name, status, true
}

func pytest(in Context, out *Result) lineParser {
	return eachLine(func(line string) {
		if name, status, ok := pytestSummary(in, line); ok {
			out.set(name, Status(status))
		}
	})
}

// pytestOptions drops the directory of an absolute path used as parameter.
func pytestOptions(in Context, out *Result) lineParser {
	return eachLine(func(line string) {
		if name, status, ok := pytestSummary(in, line); ok {
			out.set(shortenOption(name), Status(status))
		}
	})
}

func shortenOption(name string) string {
	open := strings.IndexByte(name, '[')
	end := strings.LastIndexByte(name, ']')
	if open < 0 || end < open {
		return name
	}
	option := name[open+1 : end]
	if strings.HasPrefix(option, "/") && !strings.HasPrefix(option, "//") && !strings.Contains(option, "*") {
		option = option[strings.LastIndexByte(option, '/'):]
	}
	if end+1 == len(name) && len(option) == end-open-1 {
		return name
	}
	return name[:open] + "[" + option + "]"
}

func matplotlib(in Context, out *Result) lineParser {
	return eachLine(func(line string) {
		if strings.Contains(line, "MouseButton.") {
			line = strings.ReplaceAll(line, "MouseButton.LEFT", "1")
			line = strings.ReplaceAll(line, "MouseButton.RIGHT", "3")
		}
		if name, status, ok := pytestSummary(in, line); ok {
			out.set(name, Status(status))
		}
	})
}

// pytestV2 reads both the short summary and the verbose progress lines of older
// pytest ("path::test PASSED"), with the whole id even if it has spaces.
func pytestV2(in Context, out *Result) lineParser {
	return eachLine(func(line string) {
		line = cleanTerminal(line)
		if statusWord(line) != "" {
			if name, status, ok := summaryV2(in, line); ok {
				out.set(name, Status(status))
			}
			return
		}
		if !endsWithStatus(line) {
			return
		}
		words := fields(line)
		switch last := len(words) - 1; {
		case last < 1:
		case in.Edition == V41:
			out.set(words[0], Status(words[1]))
		default:
			out.set(strings.Join(words[:last], " "), Status(words[last]))
		}
	})
}

func summaryV2(in Context, line string) (name, status string, ok bool) {
	if in.Edition == V41 {
		return pytestSummary(in, line)
	}
	if strings.HasPrefix(line, "FAILED") {
		line, _, _ = strings.Cut(line, " - ")
	}
	status, rest := token(line)
	words := fields(rest)
	if len(words) == 0 || skipSummary(in, status, words[0]) {
		return "", "", false
	}
	if len(words) == 1 {
		return words[0], status, true
	}
	return strings.Join(words, " "), status, true
}

// cleanTerminal deletes "[<digits>m" and then the characters 1 to 31.
func cleanTerminal(line string) string {
	at := nextUnclean(line, 0)
	if at == len(line) {
		return line
	}
	var b strings.Builder
	kept := 0
	for at < len(line) {
		b.WriteString(line[kept:at])
		kept = at + 1
		if line[at] == '[' {
			rest, _ := someDigits(line[at+1:])
			kept = len(line) - len(rest) + len("m")
		}
		at = nextUnclean(line, kept)
	}
	b.WriteString(line[kept:])
	return b.String()
}

// nextUnclean returns where the next thing to delete begins, or the line's length.
func nextUnclean(line string, from int) int {
	for i := from; i < len(line); i++ {
		switch c := line[i]; {
		case c == '[':
			if rest, ok := someDigits(line[i+1:]); ok && strings.HasPrefix(rest, "m") {
				return i
			}
		case c < ' ' && c > 0:
			return i
		}
	}
	return len(line)
}

func seaborn(in Context, out *Result) lineParser {
	return eachLine(func(line string) {
		first, rest := token(line)
		second, _ := token(rest)
		failed, passed := strings.HasPrefix(line, "FAILED"), strings.HasPrefix(line, "PASSED")
		between := strings.Contains(line, " PASSED ")
		switch {
		case second == "":
			if in.Edition == V41 && (failed || passed || between) {
				out.complain("a line has a status and no test: %q", line)
			}
		case failed:
			out.set(second, Failed)
		case between:
			if second == "PASSED" {
				out.set(first, Passed)
			}
		case passed:
			out.set(second, Passed)
		}
	})
}
