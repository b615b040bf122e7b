package logparse

import (
	"strconv"
	"strings"
)

// lighthouse reads three formats, by version: mocha's spec reporter, Jest's file
// lines, and mocha's JSON reporter.
func lighthouse(in Context, text string, out *Result) {
	switch in.Version {
	case "9.5", "10.0", "10.2":
		lighthouseMocha(text, out)
		return
	}
	version, err := strconv.ParseFloat(strip(in.Version), 64)
	if err != nil {
		out.complain("version %q is not a number, so the log's format is not known", in.Version)
		return
	}
	if version >= 3 {
		each := carbon(in, out)
		for line := range strings.SplitSeq(text, "\n") {
			each.line(line)
		}
		return
	}
	for i, piece := range strings.Split(text, "./node_modules/.bin/mocha --reporter json") {
		if i > 0 {
			fullTitles(between(piece, `"passes": [`, "]"), Passed, out)
			fullTitles(between(piece, `"failures": [`, "],"), Failed, out)
		}
	}
}

// cypress reads mocha's JSON reporter in another layout; classic releases only.
func cypress(_ Context, text string, out *Result) {
	pieces := strings.Split(text, "../..")
	for _, piece := range pieces[:len(pieces)-1] {
		fullTitles(between(piece, `  "passes": [`, "  }"), Passed, out)
		fullTitles(between(piece, `  "failures": [`, "  ],"), Failed, out)
	}
}

// between returns what follows the last open, up to the last close in that; where
// a word is missing, there is no such limit.
func between(s, open, close string) string {
	if i := strings.LastIndex(s, open); i >= 0 {
		s = s[i+len(open):]
	}
	if i := strings.LastIndex(s, close); i >= 0 {
		s = s[:i]
	}
	return s
}

// fullTitles reads lines with `"fullTitle": "...",` at their end.
func fullTitles(text string, status Status, out *Result) {
	lines := eol{text: text}
	findEach(text, `"fullTitle":`, func(at int) int {
		s := &scanner{text: text, pos: at + len(`"fullTitle":`)}
		if s.space().lit(`"`); s.bad {
			return 0
		}
		end := lines.of(s.pos)
		if end == len(text) {
			return 0
		}
		title, ok := strings.CutSuffix(text[s.pos:end], `",`)
		if !ok {
			return 0
		}
		out.set(title, status)
		return end + 1
	})
}

// lighthouseMocha reads the runs that begin with `running\s\d+\stest\sfiles`.
func lighthouseMocha(text string, out *Result) {
	start := -1
	findEach(text, "running", func(at int) int {
		s := &scanner{text: text, pos: at + len("running")}
		if s.space().run(isDigit).space().lit("test").space().lit("files"); s.bad {
			return 0
		}
		if start >= 0 {
			lighthouseSuites(text[start:at], out)
		}
		start = s.pos
		return start
	})
	if start >= 0 {
		lighthouseSuites(text[start:], out)
	}
}

// cutAtPassing cuts at the first `\d+\spassing`.
func cutAtPassing(text string) string {
	cut := len(text)
	findEach(text, "passing", func(at int) int {
		r, n := lastRune(text[:at])
		if n == 0 || !isSpace(r) {
			return 0
		}
		if digits := spanRight(text[:at-n], isDigit); digits < at-n {
			cut = digits
			return len(text)
		}
		return 0
	})
	return text[:cut]
}

// lighthouseSuites reads one run up to its summary. Without the white space at its
// beginning, its first suite is not indented and so is none.
func lighthouseSuites(run string, out *Result) {
	var suites suiteStack
	for line := range strings.SplitSeq(strip(cutAtPassing(run)), "\n") {
		if title, status := lighthouseResult(strip(line)); status != "" {
			out.setIn(suites.names, " - ", title, status)
		} else if indent := indent(line); indent > 0 {
			suites.enter(line, indent)
		}
	}
}

// lighthouseResult reads "✔ title (12ms)" and "3) title (12ms)".
func lighthouseResult(line string) (title string, status Status) {
	rest, ok := strings.CutPrefix(line, "✔")
	status = Passed
	if !ok {
		status = Failed
		if rest, ok = someDigits(line); !ok {
			return "", ""
		}
		if rest, ok = strings.CutPrefix(rest, ")"); !ok {
			return "", ""
		}
	}
	title, ok = oneSpace(rest)
	if !ok {
		return "", ""
	}
	return cutLastMilliseconds(title), status
}

// cutLastMilliseconds cuts at the last `\s\(\d+m+s\)`.
func cutLastMilliseconds(title string) string {
	for end := len(title); ; {
		i := strings.LastIndex(title[:end], "ms)")
		if i < 0 {
			return title
		}
		end = i
		head := strings.TrimRight(title[:i], "m")
		open := spanRight(head, isDigit)
		if open == len(head) || open == 0 || head[open-1] != '(' {
			continue
		}
		if r, n := lastRune(head[:open-1]); n > 0 && isSpace(r) {
			return title[:open-1-n]
		}
	}
}
