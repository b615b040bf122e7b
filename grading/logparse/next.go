package logparse

import "strings"

// next reads two formats, by version: Cypress's spec output and karma's.
func next(in Context, text string, out *Result) {
	if in.Version == "1.27" {
		nextCypress(text, out)
	} else {
		nextKarma(text, out)
	}
}

func nextKarma(text string, out *Result) {
	text = removeAssertions(stripANSI(text))
	var suites suiteStack
	for i, piece := range strings.Split(text, " xvfb-run ") {
		if i == 0 {
			continue
		}
		const browser = "Starting browser Chrome"
		if i := strings.LastIndex(piece, browser); i >= 0 {
			piece = piece[i+len(browser):]
		}
		for line := range strings.SplitSeq(piece, "\n") {
			if strings.HasPrefix(line, "TOTAL") {
				break
			}
			nextKarmaLine(line, &suites, out)
		}
	}
}

func nextKarmaLine(line string, suites *suiteStack, out *Result) {
	if _, _, ok := cutWord(stripLeft(line), "ERROR", "LOG", "WARN", "Check", "in"); ok {
		return
	}
	if _, title, ok := strings.Cut(line, "✗"); ok {
		out.setIn(suites.names, " - ", stripLeft(title), Failed)
	} else if _, title, ok := strings.Cut(line, "✓"); ok {
		out.setIn(suites.names, " - ", stripLeft(title), Passed)
	} else if indent := indent(line); indent > 0 {
		suites.enter(line, indent)
	}
}

// removeAssertions removes "AssertionError: #..." up to and with the next empty
// line.
func removeAssertions(text string) string {
	var b strings.Builder
	kept := 0
	findEach(text, "AssertionError:", func(at int) int {
		rest, ok := someSpace(text[at+len("AssertionError:"):])
		if !ok || !strings.HasPrefix(rest, "#") {
			return 0
		}
		from := len(text) - len(rest) + 1
		i := strings.Index(text[from:], "\n\n")
		if i < 0 {
			return len(text)
		}
		b.WriteString(text[kept:at])
		kept = from + i + 2
		return kept
	})
	if kept == 0 {
		return text
	}
	b.WriteString(text[kept:])
	return b.String()
}

func nextCypress(text string, out *Result) {
	suite, from := "", -1
	findEach(text, "Running:", func(at int) int {
		end := lineEnd(text, at)
		s := &scanner{text: text, pos: end}
		if text[end-1] != ')' || s.lit("\n\n\n").space().space().bad {
			return end // nor does another heading begin on this line
		}
		stop := lineEnd(text, s.pos)
		if stop == len(text) {
			return len(text)
		}
		if from >= 0 {
			nextSuite(suite, text[from:at], out)
		}
		suite, from = text[s.pos:stop], stop+1
		return from
	})
	if from >= 0 {
		nextSuite(suite, text[from:], out)
	}
}

// nextSuite reads `^\s{4}\d+\)\s(.*)` and then `^\s{4}✓\s(.*)\(`.
func nextSuite(suite, text string, out *Result) {
	fourSpaces := func(at int) *scanner {
		s := &scanner{text: text, pos: at}
		return s.space().space().space().space()
	}
	record := func(title string, status Status) {
		out.setIn([]string{suite}, ": ", strip(title), status)
	}
	eachLineStart(text, func(at int) int {
		s := fourSpaces(at)
		if s.run(isDigit).lit(")").space(); s.bad {
			return at
		}
		end := lineEnd(text, s.pos)
		record(text[s.pos:end], Failed)
		return end
	})
	eachLineStart(text, func(at int) int {
		s := fourSpaces(at)
		if s.lit("✓").space(); s.bad {
			return at
		}
		end := lineEnd(text, s.pos)
		i := strings.LastIndexByte(text[s.pos:end], '(')
		if i < 0 {
			return at
		}
		record(text[s.pos:s.pos+i], Passed)
		return s.pos + i + 1
	})
}
