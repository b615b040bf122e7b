package logparse

import "strings"

// A few parsers search the text as a whole, with white space in their patterns
// that can be a newline. scanner walks such a pattern from a position in the text;
// after a step that fails all further steps do nothing.
type scanner struct {
	text string
	pos  int
	bad  bool
}

func (s *scanner) rest() string { return s.text[s.pos:] }

func (s *scanner) lit(word string) *scanner {
	if !s.bad && strings.HasPrefix(s.rest(), word) {
		s.pos += len(word)
	} else {
		s.bad = true
	}
	return s
}

// space passes exactly one white space character, which can be a newline.
func (s *scanner) space() *scanner {
	rest, ok := oneSpace(s.rest())
	s.bad = s.bad || !ok
	if !s.bad {
		s.pos = len(s.text) - len(rest)
	}
	return s
}

// run passes one or more characters that satisfy is.
func (s *scanner) run(is func(rune) bool) *scanner {
	if s.bad {
		return s
	}
	n := spanLeft(s.rest(), is)
	s.bad = n == 0
	s.pos += n
	return s
}

// lineEnd returns the end of the line that pos is in, without the newline.
func lineEnd(text string, pos int) int {
	if i := strings.IndexByte(text[pos:], '\n'); i >= 0 {
		return pos + i
	}
	return len(text)
}

// eol finds line ends for positions that only grow, without reading a long line
// again for each of them.
type eol struct {
	text  string
	end   int
	known bool
}

func (e *eol) of(pos int) int {
	if !e.known || pos > e.end {
		e.end, e.known = lineEnd(e.text, pos), true
	}
	return e.end
}

// failedLine reads `(.*)FAILED\n` from pos: the text before FAILED at the end of a
// complete line, and the position after the newline.
func failedLine(e *eol, pos int) (name string, next int, ok bool) {
	end := e.of(pos)
	if end == len(e.text) {
		return "", 0, false
	}
	name, ok = strings.CutSuffix(e.text[pos:end], "FAILED")
	return name, end + 1, ok
}

// findEach calls match for every occurrence of word, left to right, overlapping ones
// too; match returns where to go on if it has taken something.
func findEach(text, word string, match func(at int) (next int)) {
	for pos := 0; pos <= len(text); {
		i := strings.Index(text[pos:], word)
		if i < 0 {
			return
		}
		i += pos
		pos = max(match(i), i+1)
	}
}
