package html

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/evalrun/evalrun/grading/logparse"
	"github.com/evalrun/evalrun/reports"
	"github.com/evalrun/evalrun/reports/results"
)

// How much of a log is shown: all of one that is short; else its beginning, its
// end, and what is around the lines that decide.
const (
	wholeLog  = 24 << 10
	headLines = 40
	tailLines = 120
	around    = 8
	mostMarks = 60
	mostLine  = 2000 // bytes of a line
	mostPatch = 192 << 10
	mostNames = 40      // tests looked for
	scanned   = 4 << 20 // bytes looked at from each end of a huge log
)

// excerpt is the part of a log that is shown, and which of its lines decide.
type excerpt struct {
	Name  string `json:"name"`
	Lines int    `json:"lines"`
	Parts []part `json:"parts"`
	Marks []int  `json:"marks,omitempty"`
}

// part is a run of lines, the first of them by number.
type part struct {
	From int    `json:"from"`
	Text string `json:"text"`
}

// deciders are the tests to look for in a log: those that kept the attempt from
// being resolved, or those that made it so.
func deciders(it *results.Item) []string {
	var names []string
	add := func(t *results.Tests, failed bool) {
		if t == nil {
			return
		}
		if failed {
			names = append(names, t.Failed...)
		} else {
			names = append(names, t.Passed...)
		}
	}
	if it.Resolved() {
		add(it.FailToPass, false)
	} else {
		add(it.FailToPass, true)
		add(it.PassToPass, true)
	}
	return names[:min(len(names), mostNames)]
}

// complaints decide whatever the tests are.
var complaints = []string{logparse.PatchApplyFailed, logparse.ResetFailed, logparse.TestsErrored, logparse.TestsTimedOut}

// scratch is memory for one log after the other: there are tens of thousands.
type scratch struct {
	data    []byte
	lines   [][]byte
	offsets []int
	keep    []bool
	text    []byte
}

// readLog makes an excerpt of a log; nil if there is none. Only regular files are
// read: a folder somebody sent could have links to files that are none of the
// report's business.
func (s *scratch) readLog(path, name string, it *results.Item) (*excerpt, error) {
	data, skippedLines, skippedAt, err := s.readEnds(path)
	if err != nil || data == nil {
		return nil, err
	}
	lines := s.split(data)
	number := func(i int) int { // of line i in the file
		if skippedAt >= 0 && i >= skippedAt {
			return i + 1 + skippedLines
		}
		return i + 1
	}
	decide := s.deciding(data, lines, it)
	e := &excerpt{Name: name, Lines: len(lines) + skippedLines}
	keep := s.kept(len(lines), len(data), decide)
	if skippedAt >= 0 && skippedAt < len(keep) && skippedAt > 0 {
		keep[skippedAt-1] = false // it is cut off
	}
	for i := 0; i < len(lines); i++ {
		if !keep[i] {
			continue
		}
		p := part{From: number(i)}
		s.text = s.text[:0]
		for n := 0; i < len(lines) && keep[i] && number(i) == p.From+n; i, n = i+1, n+1 {
			if n > 0 {
				s.text = append(s.text, '\n')
			}
			s.text = appendClean(s.text, lines[i])
		}
		i--
		p.Text = string(s.text)
		e.Parts = append(e.Parts, p)
	}
	for _, i := range decide {
		e.Marks = append(e.Marks, number(i))
	}
	return e, nil
}

// kept says which lines are shown.
func (s *scratch) kept(lines, size int, decide []int) []bool {
	keep := slices.Grow(s.keep[:0], lines)[:lines]
	clear(keep)
	s.keep = keep
	set := func(from, to int) {
		for i := max(from, 0); i < min(to, lines); i++ {
			keep[i] = true
		}
	}
	if size <= wholeLog {
		set(0, lines)
		return keep
	}
	set(0, headLines)
	set(lines-tailLines, lines)
	for _, i := range decide {
		set(i-around, i+around+1)
	}
	return keep
}

// deciding finds the lines that name a test that decides, or say outright that
// something failed.
func (s *scratch) deciding(data []byte, lines [][]byte, it *results.Item) []int {
	marked := map[int]bool{}
	offsets := slices.Grow(s.offsets[:0], len(lines))
	at := 0
	for _, line := range lines {
		offsets = append(offsets, at)
		at += len(line) + 1
	}
	s.offsets = offsets
	find := func(name string, most int) {
		needle := []byte(name)
		for from := 0; most > 0 && len(needle) > 0; {
			i := bytes.Index(data[from:], needle)
			if i < 0 {
				return
			}
			start, end := from+i, from+i+len(needle)
			from = end
			if start > 0 && isWord(data[start-1]) && isWord(needle[0]) || end < len(data) && isWord(data[end]) && isWord(needle[len(needle)-1]) {
				continue // a longer name
			}
			marked[lineAt(offsets, start)] = true
			most--
		}
	}
	for _, c := range complaints {
		find(c, 2)
	}
	for _, name := range deciders(it) {
		find(name, 4)
	}
	out := slices.Sorted(maps.Keys(marked))
	return out[:min(len(out), mostMarks)]
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// lineAt is the index of the line that an offset is in.
func lineAt(offsets []int, offset int) int {
	low, high := 0, len(offsets)
	for high-low > 1 {
		if mid := (low + high) / 2; offsets[mid] <= offset {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// split divides a text into its lines.
func (s *scratch) split(data []byte) [][]byte {
	s.lines = s.lines[:0]
	for rest, more := bytes.TrimSuffix(data, []byte("\n")), true; more; {
		var line []byte
		line, rest, more = bytes.Cut(rest, []byte("\n"))
		s.lines = append(s.lines, line)
	}
	return s.lines
}

// readEnds reads a file, of a huge one both ends: then skipped counts the ends of
// lines between them, and at is the first line of the second end.
func (s *scratch) readEnds(path string) (data []byte, skipped, at int, err error) {
	f, size, err := openRegular(path)
	if f == nil {
		return nil, 0, -1, err
	}
	defer f.Close()
	if size <= 2*scanned {
		s.data = slices.Grow(s.data[:0], int(size)+1) // nil is no file
		data = s.data[:size]
		n, err := io.ReadFull(f, data)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = nil // it has become shorter
		}
		return data[:n], 0, -1, err
	}
	head := make([]byte, scanned)
	if _, err := io.ReadFull(f, head); err != nil {
		return nil, 0, -1, err
	}
	at = bytes.Count(head, []byte("\n")) + 1
	buf := make([]byte, 256<<10)
	for left := size - 2*scanned; left > 0; {
		n, err := f.Read(buf[:min(int64(len(buf)), left)])
		skipped += bytes.Count(buf[:n], []byte("\n"))
		left -= int64(n)
		if err != nil {
			return nil, 0, -1, err
		}
	}
	tail, err := io.ReadAll(io.LimitReader(f, scanned))
	if err != nil {
		return nil, 0, -1, err
	}
	// The cut counts as the end of a line; the line it cuts in two is one more.
	data = append(append(head, '\n'), tail...)
	return data, skipped - 1, at, nil
}

// openRegular is nil for what is not there or no regular file.
func openRegular(path string) (*os.File, int64, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	return f, info.Size(), nil
}

var escapes = regexp.MustCompile(`\x1b\[[0-9;?]*[ -/]*[@-~]`)

// appendClean appends a line that can be looked at: no colours, nothing that cannot
// be seen, not endless. Tabs stay.
func appendClean(to, line []byte) []byte {
	cut := len(line) > mostLine
	if cut {
		line = line[:mostLine]
	}
	line = bytes.TrimSuffix(line, []byte("\r"))
	if plainASCII(line) {
		to = append(to, line...)
	} else {
		for i, part := range strings.Split(escapes.ReplaceAllString(string(line), ""), "\t") {
			if i > 0 {
				to = append(to, '\t')
			}
			to = append(to, reports.SafeText(part)...)
		}
	}
	if cut {
		to = append(to, " …"...)
	}
	return to
}

func plainASCII(s []byte) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; (c < ' ' || c > '~') && c != '\t' {
			return false
		}
	}
	return true
}

// diff is a patch as it is shown.
type diff struct {
	Text  string `json:"text"`
	Bytes int64  `json:"bytes"`
	Cut   bool   `json:"cut,omitempty"`
}

func (s *scratch) readPatch(path string) (*diff, error) {
	f, size, err := openRegular(path)
	if f == nil || size == 0 {
		if f != nil {
			f.Close()
		}
		return nil, err
	}
	defer f.Close()
	s.data = slices.Grow(s.data[:0], mostPatch)
	data := s.data[:min(size, mostPatch)]
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, err
	}
	return s.newDiff(data, size), nil
}

// newDiff is the beginning of a patch of so many bytes.
func (s *scratch) newDiff(data []byte, size int64) *diff {
	s.text = s.text[:0]
	for i, line := range s.split(data) {
		if i > 0 {
			s.text = append(s.text, '\n')
		}
		s.text = appendClean(s.text, line)
	}
	return &diff{Text: string(s.text), Bytes: size, Cut: size > mostPatch}
}

// signOf words what the logs of an unresolved attempt show of its surroundings.
func signOf(s reports.FailureSign) string {
	switch {
	case s.Class == "":
		return ""
	case s.Ambiguous:
		return s.Class + " (the patch could have caused it, too)"
	}
	return s.Class
}
