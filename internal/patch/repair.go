package patch

import (
	"fmt"
	"regexp"
	"strings"
)

const (
	newlineRepair    = "the missing newline at the end was added"
	bomRepair        = "the byte order mark at the start was removed"
	colourRepair     = "terminal colour codes were removed"
	indentRepair     = "the indentation of the whole diff was removed"
	crlfRepair       = "all lines ended in CRLF, the patch's own included: they were changed to LF"
	crlfHeaderRepair = "all lines ended in CRLF: the patch's own lines were changed to LF, the files' lines kept"
	contextRepair    = "empty context lines that had lost their leading space got it back"
	gapRepair        = "lines between two hunks of a file, which belong to neither, were removed"
	binaryRepair     = "the blank line that ends binary data was added"
)

// mended is a text and the repairs made to it.
type mended struct {
	text    string
	repairs []string
}

func (m *mended) note(repair string) {
	for _, r := range m.repairs {
		if r == repair {
			return
		}
	}
	m.repairs = append(m.repairs, repair)
}

// mend makes every repair that applies, until none does, and says separately
// what was taken away around the diff. A text that does not settle is returned
// with no repair but its final newline.
func mend(text string) (inside mended, around []string) {
	inside = mended{text: text}
	outside := mended{text: text}
	for range maxRounds {
		before := inside.text
		inside.ending()
		inside.bytes()
		inside.structure()
		outside.text = inside.text
		outside.surroundings()
		inside.text = outside.text
		if inside.text == before {
			return inside, outside.repairs
		}
	}
	inside = mended{text: text}
	inside.ending()
	return inside, nil
}

// ending puts back what stripping the text took from its end.
func (m *mended) ending() {
	m.newline()
	s := scan(m.text)
	if n := len(s.sections); n > 0 && s.sections[n-1].openBinary && s.sections[n-1].end == len(s.lines) {
		m.text += "\n"
		m.note(binaryRepair)
	}
}

func (m *mended) newline() {
	if m.text != "" && !strings.HasSuffix(m.text, "\n") {
		m.text += "\n"
		m.note(newlineRepair)
	}
}

var (
	colours  = regexp.MustCompile(`\x1b\[[0-9;]*[mK]`)
	indented = regexp.MustCompile(`(?m)^([ \t]+)(?:diff --git |--- [^\n]*\n[ \t]+\+\+\+ )`)
)

// bytes repairs what some tool did to every line.
func (m *mended) bytes() {
	if rest, ok := strings.CutPrefix(m.text, "\ufeff"); ok {
		m.text = rest
		m.note(bomRepair)
	}
	// Colour codes and indentation are taken away only where they hide the diff
	// altogether: elsewhere they may be the content of a file.
	if !hasDiff(m.text) {
		if plain := colours.ReplaceAllString(m.text, ""); plain != m.text && hasDiff(plain) {
			m.text = plain
			m.note(colourRepair)
		}
	}
	if !hasDiff(m.text) {
		if at := indented.FindStringSubmatch(m.text); at != nil {
			plain := strings.ReplaceAll("\n"+m.text, "\n"+at[1], "\n")[1:]
			if hasDiff(plain) {
				m.text = plain
				m.note(indentRepair)
			}
		}
	}
	if s := scan(m.text); s.crlf() {
		m.text = strings.ReplaceAll(m.text, "\r\n", "\n")
		m.note(crlfRepair)
	}
}

func hasDiff(text string) bool { return len(scan(text).sections) > 0 }

// crlf reports whether a tool wrote the whole patch with CRLF. The lines of a
// file with CRLF end so too, and so do hunk headers, which quote one; what tells
// is how the file headers end.
func (s *scanned) crlf() bool {
	any := false
	for _, sec := range s.sections {
		for _, l := range s.lines[sec.start:sec.body] {
			if !strings.HasSuffix(l, "\r") {
				return false
			}
			any = true
		}
	}
	return any
}

// headersToLF changes the line ends of everything but the bodies of hunks.
func headersToLF(text string) string {
	s := scan(text)
	inBody := make([]bool, len(s.lines))
	for _, sec := range s.sections {
		for _, h := range sec.hunks {
			for i := h.from; i < h.to; i++ {
				inBody[i] = kindOfLine(s.lines[i]) != '\\'
			}
		}
	}
	for i, l := range s.lines {
		if !inBody[i] {
			s.lines[i] = strings.TrimSuffix(l, "\r")
		}
	}
	return s.text()
}

func (s *scanned) text() string {
	text := strings.Join(s.lines, "\n")
	if len(s.lines) > 0 && !s.unterminated {
		text += "\n"
	}
	return text
}

// structure repairs hunks and binary data.
func (m *mended) structure() {
	s := scan(m.text)
	out := make([]string, 0, len(s.lines)+1)
	next, changed := 0, false
	for i := range s.sections {
		sec := &s.sections[i]
		for j := range sec.hunks {
			h := &sec.hunks[j]
			if h.broken {
				continue
			}
			if h.gap > 0 {
				out = append(out, s.lines[next:h.gap]...)
				next = h.line
				m.note(gapRepair)
				changed = true
			}
			out = append(out, s.lines[next:h.line]...)
			out = append(out, m.header(s, h))
			for _, l := range s.lines[h.from:h.to] {
				if l == "\r" {
					l = " \r"
					m.note(contextRepair)
				}
				out = append(out, l)
			}
			changed = true
			next = h.to
		}
		if sec.openBinary {
			out = append(append(out, s.lines[next:sec.end]...), "")
			next = sec.end
			m.note(binaryRepair)
			changed = true
		}
	}
	if changed {
		s.lines = append(out, s.lines[next:]...)
		m.text = s.text()
	}
}

// header returns a hunk's header line with counts that fit its body.
func (m *mended) header(s *scanned, h *hunk) string {
	if !h.miscounted() {
		return s.lines[h.line]
	}
	m.note(fmt.Sprintf("hunk header on line %d counted again: %d old and %d new lines, not %d and %d",
		h.line+1, h.old, h.new, h.wantOld, h.wantNew))
	return fmt.Sprintf("@@ -%s +%s @@%s", span(h.oldStart, h.old), span(h.newStart, h.new), h.heading)
}

func span(start, n int) string {
	if n == 1 {
		return fmt.Sprint(start)
	}
	return fmt.Sprintf("%d,%d", start, n)
}

// isWrapping reports whether a line is of what chat models put around a diff.
func isWrapping(l string) bool {
	l = strings.TrimSpace(l)
	return strings.HasPrefix(l, "```") || strings.HasPrefix(l, "~~~") || tag.MatchString(l)
}

var tag = regexp.MustCompile(`^</?[A-Za-z_]+>$`)

// surroundings takes away what stands before the first header and after the
// last hunk, unless that is blank or the end is in doubt.
func (m *mended) surroundings() {
	s := scan(m.text)
	if len(s.sections) == 0 {
		return
	}
	first, last := s.sections[0].start, s.sections[len(s.sections)-1]
	before, after := s.lines[:first], s.lines[last.end:]
	if n := len(last.hunks); n > 0 && last.hunks[n-1].broken || n == 0 && !last.binary && !last.git {
		after = nil
	}
	cutBefore, cutAfter := m.describe(before, "before"), m.describe(after, "after")
	if !cutBefore && !cutAfter {
		return
	}
	if cutAfter {
		s.lines, s.unterminated = s.lines[:len(s.lines)-len(after)], false
	}
	if cutBefore {
		s.lines = s.lines[first:]
	}
	m.text = s.text()
}

// describe notes what is taken away, and reports whether there is anything.
// Nothing is when a diff that cannot be read is part of it: without it the rest
// might apply, and would pass for the whole.
func (m *mended) describe(lines []string, where string) bool {
	fence, tags, prose := 0, 0, 0
	for _, l := range lines {
		if strings.HasPrefix(l, "@@") || strings.HasPrefix(l, "diff --") {
			return false
		}
	}
	for _, l := range lines {
		switch l = strings.TrimSpace(l); {
		case l == "":
		case tag.MatchString(l):
			tags++
		case isWrapping(l):
			fence++
		default:
			prose++
		}
	}
	if fence > 0 {
		m.note("the Markdown fence around the diff was removed")
	}
	if tags > 0 {
		m.note("the tags around the diff were removed")
	}
	if prose > 0 {
		m.note(fmt.Sprintf("%d lines of text %s the diff were removed", prose, where))
	}
	return fence+tags+prose > 0
}
