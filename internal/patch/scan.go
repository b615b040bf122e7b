package patch

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// scanned is a patch text cut into the files and hunks git would see in it.
type scanned struct {
	lines        []string // without their newlines
	unterminated bool     // the last line has none
	sections     []section
	stray        []int // lines that belong to no section and could mean something to a lenient tool
	problems     []Problem
}

// section is one file's part: header lines, then hunks or binary data.
type section struct {
	start, body int // first line; first line after the header
	end         int // line after the last one that belongs to it
	git         bool
	hunks       []hunk
	binary      bool // has data, or says that files differ
	openBinary  bool // the data does not end in the blank line git wants
}

// hunk is one hunk. from and to bound its body.
type hunk struct {
	line, from, to     int
	oldStart, newStart int
	wantOld, wantNew   int // as its header says
	old, new           int // as its body has
	added, deleted     int
	heading            string
	gap                int  // first line of stray text between it and the hunk before; 0 when none
	broken             bool // cannot be mended by counting again
}

func (h *hunk) miscounted() bool { return h.old != h.wantOld || h.new != h.wantNew }

// headerPrefixes are the lines git accepts in an extended header.
var headerPrefixes = []string{
	"--- ", "+++ ", "old mode ", "new mode ", "deleted file mode ", "new file mode ",
	"copy from ", "copy to ", "rename old ", "rename new ", "rename from ", "rename to ",
	"similarity index ", "dissimilarity index ", "index ",
}

func scan(text string) *scanned {
	s := &scanned{}
	if text == "" {
		return s
	}
	s.lines = strings.Split(text, "\n")
	if last := len(s.lines) - 1; s.lines[last] == "" {
		s.lines = s.lines[:last]
	} else {
		s.unterminated = true
	}
	// current is the section a hunk without a header of its own belongs to.
	current := -1
	for i := 0; i < len(s.lines); {
		switch l := s.lines[i]; {
		case strings.HasPrefix(l, "diff --git "):
			body := s.headerEnd(i + 1)
			if body == i+1 {
				s.problem(i, "", `"diff --git" without any header line below it: git ignores it`)
				s.stray = append(s.stray, i)
				current = -1
				i++
				continue
			}
			i = s.section(section{start: i, body: body, git: true})
			current = len(s.sections) - 1
		case s.traditionalHeader(i):
			i = s.section(section{start: i, body: i + 2})
			current = len(s.sections) - 1
		case strings.HasPrefix(l, "@@"):
			i = s.orphan(i, current)
		default:
			s.strayLine(i)
			i++
		}
	}
	return s
}

func (s *scanned) problem(line int, path, reason string) {
	s.problems = append(s.problems, Problem{Line: line + 1, Path: path, Reason: reason})
}

func (s *scanned) line(i int) string {
	if i < len(s.lines) {
		return s.lines[i]
	}
	return ""
}

func (s *scanned) headerEnd(i int) int {
	for i < len(s.lines) && hasAnyPrefix(s.lines[i], headerPrefixes) {
		i++
	}
	return i
}

func hasAnyPrefix(l string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(l, p) {
			return true
		}
	}
	return false
}

func (s *scanned) traditionalHeader(i int) bool {
	return strings.HasPrefix(s.lines[i], "--- ") && strings.HasPrefix(s.line(i+1), "+++ ") &&
		strings.HasPrefix(s.line(i+2), "@@ -")
}

// strayLine notes a line outside every section, and says what it is when it is
// the start of something no tool can apply.
func (s *scanned) strayLine(i int) {
	l := s.lines[i]
	if strings.TrimSpace(l) == "" {
		return
	}
	s.stray = append(s.stray, i)
	switch {
	case strings.HasPrefix(l, "diff --cc ") || strings.HasPrefix(l, "diff --combined "):
		s.problem(i, "", "combined diff of a merge: it cannot be applied; make it against one parent")
	case strings.HasPrefix(l, "*** ") && strings.HasPrefix(s.line(i+1), "--- ") && strings.HasPrefix(s.line(i+2), "******"):
		s.problem(i, "", "context diff: only unified diffs are applied")
	case strings.HasPrefix(l, "--- ") && strings.HasPrefix(s.line(i+1), "+++ ") && strings.HasPrefix(s.line(i+2), "@@"):
		s.problem(i+2, "", "malformed hunk header: "+clip(s.lines[i+2]))
	}
}

// orphan handles a hunk header that follows neither a file header nor a hunk.
// git gives up there; the hunk is kept with the file above, so that Prepare can
// take away what stands between.
func (s *scanned) orphan(i, current int) int {
	h, ok := parseHunkHeader(s.lines[i])
	if !ok {
		if current >= 0 {
			s.problem(i, "", "malformed hunk header: "+clip(s.lines[i]))
		}
		s.stray = append(s.stray, i)
		return i + 1
	}
	h.line = i
	if current < 0 {
		s.problem(i, "", "hunk without a file header")
		s.body(&h)
		for j := i; j < h.to; j++ {
			s.stray = append(s.stray, j)
		}
		return h.to
	}
	sec := &s.sections[current]
	h.gap = sec.end
	if sec.binary || len(sec.hunks) == 0 || sec.hunks[len(sec.hunks)-1].broken {
		h.broken = true
	}
	for _, l := range s.lines[h.gap:i] { // lost lines of a hunk, not text between
		if k := kindOfLine(l); k == '+' || k == '-' {
			h.broken = true
		}
	}
	s.problem(i, "", "hunk without a file header, other text stands between it and the hunk above: git apply refuses the patch, patch leaves the hunk out")
	s.body(&h)
	sec.hunks = append(sec.hunks, h)
	sec.end = h.to
	return s.hunks(sec, h.to)
}

// section reads what follows a file header, stores it and returns the next line.
func (s *scanned) section(sec section) int {
	i := sec.body
	sec.end = i
	switch l := s.line(i); {
	case strings.TrimRight(l, "\r") == "GIT binary patch":
		i = s.binary(&sec, i)
	case isFilesDiffer(l):
		sec.binary = true
		i++
		sec.end = i
		s.problem(i-1, "", "binary file without its content (\"Binary files differ\"): git apply cannot apply it; make the diff with --binary")
	default:
		i = s.hunks(&sec, i)
	}
	s.sections = append(s.sections, sec)
	return i
}

func isFilesDiffer(l string) bool {
	l = strings.TrimRight(l, "\r")
	return (strings.HasPrefix(l, "Binary files ") || strings.HasPrefix(l, "Files ")) && strings.HasSuffix(l, " differ")
}

// binary reads one or two blocks of base-85 data, each ended by a blank line.
func (s *scanned) binary(sec *section, i int) int {
	sec.binary = true
	start := i
	i++
	blocks := 0
	for blocks < 2 && i < len(s.lines) && hasAnyPrefix(s.lines[i], []string{"literal ", "delta "}) {
		blocks++
		i++
		for i < len(s.lines) && isBase85(s.lines[i]) {
			i++
		}
		sec.end = i
		if i < len(s.lines) && strings.TrimRight(s.lines[i], "\r") == "" {
			i++
			sec.end = i
		} else {
			sec.openBinary = true
			s.problem(i-1, "", "the binary data is not ended by a blank line: git apply leaves out this file and all after it")
			return i
		}
	}
	if blocks == 0 {
		s.problem(start, "", "GIT binary patch without data")
		sec.end = i
	}
	return i
}

// isBase85 reports whether a line could be data: a letter for the length, then
// five characters for every four bytes.
func isBase85(l string) bool {
	l = strings.TrimRight(l, "\r")
	return len(l) >= 6 && len(l)%5 == 1 && (l[0] >= 'A' && l[0] <= 'Z' || l[0] >= 'a' && l[0] <= 'z') && !strings.ContainsRune(l, ' ')
}

// hunks reads hunks that follow each other without a gap.
func (s *scanned) hunks(sec *section, i int) int {
	for i < len(s.lines) && strings.HasPrefix(s.lines[i], "@@ -") {
		h, ok := parseHunkHeader(s.lines[i])
		if !ok {
			break
		}
		h.line = i
		s.body(&h)
		sec.hunks = append(sec.hunks, h)
		i = h.to
		sec.end = i
	}
	return i
}

var hunkHeader = regexp.MustCompile(`^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)`)

func parseHunkHeader(l string) (hunk, bool) {
	m := hunkHeader.FindStringSubmatch(l)
	if m == nil {
		return hunk{}, false
	}
	var n [4]int
	for i, text := range m[1:5] {
		n[i] = 1
		if text == "" {
			continue
		}
		v, err := strconv.Atoi(text)
		if err != nil {
			return hunk{}, false
		}
		n[i] = v
	}
	return hunk{oldStart: n[0], wantOld: n[1], newStart: n[2], wantNew: n[3], heading: m[5]}, true
}

func clip(l string) string {
	l = strings.TrimRight(l, "\r")
	if len(l) > 80 {
		l = l[:80] + "…"
	}
	return strconv.Quote(l)
}

// body finds the end of a hunk's body: by the counts in its header, as git does,
// and where they are wrong, by what the lines look like.
func (s *scanned) body(h *hunk) {
	h.from = h.line + 1
	if !s.countedBody(h) {
		s.gatheredBody(h)
	}
	if h.added == 0 && h.deleted == 0 && !h.broken {
		s.problem(h.line, "", "hunk that changes nothing: git calls it corrupt")
	}
	for i := h.from; i < h.to; i++ {
		if s.lines[i] == "\r" {
			s.problem(i, "", "empty context line without its leading space: with CRLF git calls it corrupt")
			break
		}
	}
}

func (s *scanned) countedBody(h *hunk) bool {
	old, new := h.wantOld, h.wantNew
	i := h.from
	for ; i < len(s.lines) && (old > 0 || new > 0); i++ {
		l := s.lines[i]
		switch kindOfLine(l) {
		case ' ':
			old--
			new--
		case '-':
			old--
			h.deleted++
		case '+':
			new--
			h.added++
		case '\\':
		default:
			old = -1
		}
		if old < 0 || new < 0 {
			break
		}
	}
	if old != 0 || new != 0 {
		return false
	}
	if kindOfLine(s.line(i)) == '\\' {
		i++
	}
	if j := s.skipBlank(i); j < len(s.lines) && kindOfLine(s.lines[j]) != 0 && !s.endsBody(j) {
		return false
	}
	h.to, h.old, h.new = i, h.wantOld, h.wantNew
	return true
}

// gatheredBody takes every line that looks like one of a hunk.
func (s *scanned) gatheredBody(h *hunk) {
	h.old, h.new, h.added, h.deleted = 0, 0, 0, 0
	i := h.from
	for i < len(s.lines) && kindOfLine(s.lines[i]) != 0 && !s.endsBody(i) {
		i++
	}
	end := i
	for end > h.from && s.lines[end-1] == "" { // blank lines after a hunk are not context
		end--
	}
	h.to = end
	for _, l := range s.lines[h.from:end] {
		switch kindOfLine(l) {
		case ' ':
			h.old++
			h.new++
		case '-':
			h.old++
			h.deleted++
		case '+':
			h.new++
			h.added++
		}
	}
	if j := s.moreBody(i); j >= 0 {
		h.broken = true
		s.problem(i, "", fmt.Sprintf("%s inside a hunk is neither context, added nor removed, and line %d goes on", clip(s.lines[i]), j+1))
		return
	}
	s.problem(h.line, "", fmt.Sprintf("hunk header says %d old and %d new lines, the body has %d and %d%s",
		h.wantOld, h.wantNew, h.old, h.new, s.miscountEffect(h)))
}

// miscountEffect says what the tools make of a wrong count, since git is silent
// about one of the two ways.
func (s *scanned) miscountEffect(h *hunk) string {
	switch {
	case !h.miscounted():
		return ", and blank lines that are neither"
	case h.old >= h.wantOld && h.new >= h.wantNew:
		return ": git apply and patch leave out what is beyond the count"
	case h.to == len(s.lines):
		return ": the patch is cut off, or miscounted"
	}
	return ""
}

// moreBody returns a line after i, in the same file, that adds or removes
// something, or -1: then i is not the end of the hunk but a damaged line of it.
func (s *scanned) moreBody(i int) int {
	if i >= len(s.lines) || s.endsBody(i) || isWrapping(s.lines[i]) {
		return -1
	}
	for ; i < len(s.lines) && !s.endsBody(i) && !isWrapping(s.lines[i]); i++ {
		if k := kindOfLine(s.lines[i]); k == '+' || k == '-' {
			return i
		}
	}
	return -1
}

func (s *scanned) skipBlank(i int) int {
	for i < len(s.lines) && s.lines[i] == "" {
		i++
	}
	return i
}

// kindOfLine returns ' ', '-', '+' or '\\' for a line of a hunk and 0 for any
// other. An empty line is context, as for git and newer GNU diff.
func kindOfLine(l string) byte {
	if l == "" || l == "\r" {
		return ' '
	}
	switch l[0] {
	case ' ', '-', '+':
		return l[0]
	case '\\':
		if strings.HasPrefix(l, `\ `) {
			return '\\'
		}
	}
	return 0
}

var mailVersion = regexp.MustCompile(`^\d+\.\d+`)

// endsBody reports whether a line starts something new after a hunk, even if it
// looks like a line of the hunk.
func (s *scanned) endsBody(i int) bool {
	l := s.lines[i]
	return strings.HasPrefix(l, "diff --") || strings.HasPrefix(l, "@@") || s.traditionalHeader(i) ||
		(l == "-- " || l == "--") && mailVersion.MatchString(s.line(i+1))
}
