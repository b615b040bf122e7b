package logparse

import "strings"

// openLayers reads failures only: karma's lines of two browsers, mocha's list and
// the rendering tests' mismatches.
func openLayers(_ Context, text string, out *Result) {
	openLayersHeadless(text, out)
	lines := eol{text: text}
	findEach(text, "Chrome", func(at int) int {
		s := &scanner{text: text, pos: at + len("Chrome")}
		if s.space(); !openLayersSystem(s) {
			return 0
		}
		name, next, ok := failedLine(&lines, s.pos)
		if !ok {
			return 0
		}
		out.set(collapse(name), Failed)
		return next
	})
	openLayersMocha(text, out)
	openLayersRendering(text, out)
}

// openLayersSystem passes "90.0 (Linux anything) ".
func openLayersSystem(s *scanner) bool {
	s.run(isDigitOrDot).space().lit("(Linux").space()
	if s.bad {
		return false
	}
	// The closing parenthesis is the last character before the white space.
	n := spanLeft(s.rest(), notSpace)
	if n < 2 || s.rest()[n-1] != ')' {
		return false
	}
	s.pos += n
	return !s.space().bad
}

// openLayersHeadless wants white space before FAILED, which can be a newline.
func openLayersHeadless(text string, out *Result) {
	lines := eol{text: text}
	findEach(text, "Chrome", func(at int) int {
		s := &scanner{text: text, pos: at + len("Chrome")}
		if s.space().lit("Headless").space(); s.bad || !openLayersSystem(s) {
			return 0
		}
		end := lines.of(s.pos)
		if strings.HasPrefix(text[end:], "\nFAILED\n") {
			out.set(collapse(text[s.pos:end]), Failed)
			return end + len("\nFAILED\n")
		}
		name, next, ok := failedLine(&lines, s.pos)
		if r, n := lastRune(name); !ok || n == 0 || !isSpace(r) {
			return 0
		}
		out.set(collapse(name), Failed)
		return next
	})
}

// openLayersMocha reads `^\s{2}\d+\)` and everything up to "Error:".
func openLayersMocha(text string, out *Result) {
	eachLineStart(text, func(at int) int {
		s := &scanner{text: text, pos: at}
		if s.space().space().run(isDigit).lit(")"); s.bad {
			return at
		}
		i := strings.Index(s.rest(), "Error:")
		if i < 0 {
			return len(text) + 1 // nor will anything after it find one
		}
		out.set(collapse(s.rest()[:i]), Failed)
		return s.pos + i + len("Error:")
	})
}

// openLayersRendering reads `^case\s(.*):\smismatch`.
func openLayersRendering(text string, out *Result) {
	eachLineStart(text, func(at int) int {
		s := &scanner{text: text, pos: at}
		if s.lit("case").space(); s.bad {
			return at
		}
		end := lineEnd(text, s.pos)
		line := text[s.pos:end]
		if strings.HasSuffix(line, ":") && strings.HasPrefix(text[end:], "\nmismatch") {
			out.set(collapse(line[:len(line)-1]), Failed)
			return end + len("\nmismatch")
		}
		for stop := len(line); ; {
			i := strings.LastIndexByte(line[:stop], ':')
			if i < 0 {
				return at
			}
			stop = i
			if rest, ok := oneSpace(line[i+1:]); ok && strings.HasPrefix(rest, "mismatch") {
				out.set(collapse(line[:i]), Failed)
				return s.pos + len(line) - len(rest) + len("mismatch")
			}
		}
	})
}

// eachLineStart calls match at the beginning of every line; match returns from
// where on the next line must begin, at if it has taken nothing.
func eachLineStart(text string, match func(at int) (next int)) {
	for at := 0; at <= len(text); {
		next := match(at)
		if next > at && next <= len(text) && text[next-1] == '\n' {
			at = next // what was taken ended with its line
			continue
		}
		if next > len(text) {
			return
		}
		i := strings.IndexByte(text[next:], '\n')
		if i < 0 {
			return
		}
		at = next + i + 1
	}
}
