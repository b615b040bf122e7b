package patch

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// file reads a section's header with go-gitdiff, which knows git's rules for
// names, quoting and modes. It never sees the hunks: it would stop at the first
// miscounted one.
func (s *scanned) file(sec *section) (File, error) {
	f := File{Line: sec.start + 1, Binary: sec.binary}
	header := make([]string, 0, sec.body-sec.start)
	named := ""
	for _, l := range s.lines[sec.start:sec.body] {
		l = strings.TrimSuffix(l, "\r")
		if sec.git && hasAnyPrefix(l, headerPrefixes[:2]) && !strings.Contains(named, l[:1]) {
			named += l[:1]
			if !strings.Contains(l, "/") && len(header) > 0 && !hasAnyPrefix(header[len(header)-1], namingPrefixes) {
				continue // no prefix to strip: git goes by the first line then
			}
		}
		header = append(header, l)
	}
	for _, h := range sec.hunks {
		f.Added += h.added
		f.Deleted += h.deleted
	}
	text := strings.Join(header, "\n") + "\n"
	if !sec.git {
		text += placeholderHunk(header)
	}
	parsed, _, err := gitdiff.Parse(strings.NewReader(text))
	if err != nil {
		return f, errors.New(libraryPrefix.ReplaceAllString(err.Error(), ""))
	}
	if len(parsed) != 1 {
		return f, errors.New("no file name in it")
	}
	g := parsed[0]
	f.Old, f.New = g.OldName, g.NewName
	if !sec.git {
		f.Old, f.New = stripOne(f.Old), stripOne(f.New)
	}
	if f.Old == os.DevNull || g.IsNew {
		f.Old = ""
	}
	if f.New == os.DevNull || g.IsDelete {
		f.New = ""
	}
	if f.Old == "" && f.New == "" {
		return f, errors.New("no file name in it")
	}
	f.OldMode, f.NewMode = octal(g.OldMode), octal(g.NewMode)
	f.Kind = kindOf(f, g, sec)
	s.contradictions(f, sec)
	if f.Kind == Create {
		f.Old = ""
	}
	f.describe(s, sec)
	return f, nil
}

// namingPrefixes are the header lines that fix a name before "---" and "+++" do.
var namingPrefixes = []string{"new file mode ", "deleted file mode ", "rename ", "copy "}

// contradictions notes hunks that cannot be of a file that is made or deleted.
func (s *scanned) contradictions(f File, sec *section) {
	for _, h := range sec.hunks {
		switch {
		case f.Old == "" && h.old > 0:
			s.problem(h.line, f.New, "the file is new, but the hunk has lines of before: git apply refuses it")
		case f.New == "" && h.new > 0:
			s.problem(h.line, f.Old, "the file is deleted, but the hunk has lines of after: git apply refuses it")
		}
	}
}

// libraryPrefix names a line of the header alone, which would mislead.
var libraryPrefix = regexp.MustCompile(`^gitdiff: line \d+: `)

// placeholderHunk is a hunk that fits a header without a "diff --git" line:
// go-gitdiff takes such a header for one only when a hunk follows.
func placeholderHunk(header []string) string {
	switch {
	case isNull(header[0], "--- "):
		return "@@ -0,0 +1 @@\n+\n"
	case isNull(header[1], "+++ "):
		return "@@ -1 +0,0 @@\n-\n"
	}
	// A time stamp of the epoch also means that a side does not exist.
	switch {
	case epoch.MatchString(header[0]):
		return "@@ -0,0 +1 @@\n+\n"
	case epoch.MatchString(header[1]):
		return "@@ -1 +0,0 @@\n-\n"
	}
	return "@@ -1 +1 @@\n-\n+.\n"
}

var epoch = regexp.MustCompile(`\t19(70-01-01|69-12-31) `)

func isNull(l, prefix string) bool {
	name, _, _ := strings.Cut(strings.TrimPrefix(l, prefix), "\t")
	return name == os.DevNull
}

// stripOne drops the first component of a name, as -p1 does. git keeps a name
// that has only one.
func stripOne(name string) string {
	if name == os.DevNull {
		return name
	}
	if _, rest, ok := strings.Cut(name, "/"); ok {
		return rest
	}
	return name
}

func octal(m os.FileMode) string {
	if m == 0 {
		return ""
	}
	return fmt.Sprintf("%06o", uint32(m))
}

func kindOf(f File, g *gitdiff.File, sec *section) Kind {
	switch {
	case g.IsCopy:
		return Copy
	case g.IsRename:
		return Rename
	case f.Old == "":
		return Create
	case f.New == "":
		return Delete
	case !sec.git && len(sec.hunks) == 1 && sec.hunks[0].oldStart == 0 && sec.hunks[0].wantOld == 0 && sec.hunks[0].deleted == 0:
		return Create // without a git header, this is how a new file is told
	case len(sec.hunks) == 0 && !sec.binary && g.NewMode != 0 && g.NewMode != g.OldMode:
		return ModeChange
	}
	return Modify
}

// describe says what kind of file it is, from its modes.
func (f *File) describe(s *scanned, sec *section) {
	mode := f.NewMode
	if mode == "" {
		mode = f.OldMode
	}
	f.Symlink = mode == "120000"
	f.Submodule = mode == "160000"
	if !f.Symlink || f.New == "" {
		return
	}
	var target []string
	for _, h := range sec.hunks {
		for _, l := range s.lines[h.from:h.to] {
			if strings.HasPrefix(l, "+") {
				target = append(target, strings.TrimSuffix(l[1:], "\r"))
			}
		}
	}
	f.Target = strings.Join(target, "\n")
}
