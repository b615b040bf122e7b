package logparse

import (
	"strings"
	"unicode/utf8"
)

// p5js reads mocha's list of failures ("1) suite", deeper lines, ":"), after taking
// JSON and XML out of the log, whose lines could look the same.
func p5js(_ Context, text string, out *Result) {
	text = removeXML(removeJSON(stripANSI(text)))
	colon := -1 // position of the first ":" at or after the current place
	eachLineStart(text, func(at int) int {
		s := &scanner{text: text, pos: at}
		s.pos += spanLeft(text[at:lineEnd(text, at)], isSpace)
		if s.run(isDigit).lit(")"); s.bad {
			return at
		}
		if colon < s.pos {
			i := strings.IndexByte(s.rest(), ':')
			if i < 0 {
				return len(text) + 1
			}
			colon = s.pos + i
		}
		group := text[s.pos:colon]
		if !withinRunes(group, 1000) {
			return at
		}
		if name, ok := p5jsName(group); ok {
			out.set(name, Failed)
		}
		return colon + 1
	})
}

func withinRunes(s string, limit int) bool {
	if len(s) <= limit {
		return true
	}
	return len(s) <= limit*utf8.UTFMax && utf8.RuneCountInString(s) <= limit
}

// p5jsName joins the lines of a failure, if each is indented more than the last.
func p5jsName(group string) (string, bool) {
	lines := strings.Split(group, "\n")
	last := 0
	for i, line := range lines {
		in := indent(line)
		if in <= last {
			return "", false
		}
		last = in
		lines[i] = strip(line)
	}
	return strings.Join(lines, ":"), true
}

// removeJSON drops lines that look like JSON: from one that ends with an opening
// bracket to one that is a closing bracket, and objects and lists on one line.
func removeJSON(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	object, list, first := false, false, true
	for line := range strings.SplitSeq(text, "\n") {
		s := stripRight(line)
		switch {
		case strings.HasSuffix(s, "{"):
			object = true
		case strings.HasSuffix(s, "["):
			list = true
		case s == "}" && object:
			object = false
		case s == "]" && list:
			list = false
		case object, list:
		case strings.HasPrefix(s, "{") && strings.HasSuffix(s, "}"):
		case strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]"):
		default:
			if !first {
				b.WriteByte('\n')
			}
			first = false
			b.WriteString(line)
		}
	}
	return b.String()
}

// removeXML removes every element, from <tag> to the first </tag> after it, and
// puts in its place one <tag> less than there were inside; that rule is applied
// until it changes nothing. Text that forms a tag only after something between its
// parts has gone is left as it is, where the official code would find it.
func removeXML(text string) string {
	closing := closingTags(text)
	if len(closing) == 0 {
		return text
	}
	var b strings.Builder
	b.Grow(len(text))
	kept := 0
	findEach(text, "<", func(at int) int {
		s := &scanner{text: text, pos: at + 1}
		if s.run(isWord).lit(">"); s.bad {
			return 0
		}
		tag := text[at+1 : s.pos-1]
		ends := closing[tag]
		for len(ends) > 0 && ends[0] < s.pos {
			ends = ends[1:]
		}
		closing[tag] = ends
		if len(ends) == 0 {
			return 0
		}
		b.WriteString(text[kept:at])
		pos, open := s.pos, 1
		for open > 0 && len(ends) > 0 {
			open += strings.Count(text[pos:ends[0]], "<"+tag+">") - 1
			pos = ends[0] + len("</>") + len(tag)
			ends = ends[1:]
		}
		closing[tag] = ends
		for range open {
			b.WriteString("<" + tag + ">")
		}
		kept = pos
		return kept
	})
	b.WriteString(text[kept:])
	return b.String()
}

// closingTags returns the positions of every </tag>, by tag.
func closingTags(text string) map[string][]int {
	closing := map[string][]int{}
	findEach(text, "</", func(at int) int {
		s := &scanner{text: text, pos: at + 2}
		if s.run(isWord).lit(">"); s.bad {
			return 0
		}
		tag := text[at+2 : s.pos-1]
		closing[tag] = append(closing[tag], at)
		return s.pos
	})
	return closing
}
