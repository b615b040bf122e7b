// Package patch reads, checks, repairs and classifies the patches coding agents
// write, and makes the scripts that apply one to a checkout.
//
// Parse says what a patch touches and everything that is wrong with it. Prepare
// adds what can be mended, each repair in words, and never loses the original.
// ApplyTask, RestoreTask and SnapshotTask return shell text for the POSIX shell
// script of Tasks to run in the checkout; ParseResult reads what a task printed.
//
// The package must not know what a container, a test run or a verdict is: it
// deals in text, and in scripts that somebody else runs somewhere.
package patch

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Kind is what a patch does to one file.
type Kind string

const (
	Modify     Kind = "modify"
	Create     Kind = "create"
	Delete     Kind = "delete"
	Rename     Kind = "rename"
	Copy       Kind = "copy"
	ModeChange Kind = "mode change" // nothing but the mode
)

// File is one file's part of a patch. What kind of file it is (binary, symbolic
// link, submodule) is independent of what is done to it.
type File struct {
	Old, New         string // paths from the root of the tree; "" where there is none
	OldMode, NewMode string // octal, as git writes them; "" when the patch does not say
	Kind             Kind
	Binary           bool   // GIT binary patch, or "Binary files differ"
	Symlink          bool   // the new side, or a deleted old side, is a symbolic link
	Submodule        bool   // likewise, a commit of another repository
	Target           string // what a symbolic link will point to
	Added, Deleted   int    // lines
	Line             int    // of its header
}

// Path is the file's path after the patch, or before it when it is deleted.
func (f File) Path() string {
	if f.New != "" {
		return f.New
	}
	return f.Old
}

// Patch is what a patch text says.
type Patch struct {
	Files          []File
	Paths          []string // every path it changes, once each, in order; the source of a copy is not changed
	Added, Deleted int
	Bytes          int

	watch []string // Paths, and every other path a lenient tool might take from the text
}

// Problem is one thing wrong with a patch.
type Problem struct {
	Line   int    // in the patch, from 1; 0 when it is about the whole
	Path   string // "" when it is about no one file
	Reason string
	Unsafe bool // the patch must not be applied: it reaches out of the tree or into .git
}

func (p Problem) String() string {
	var b strings.Builder
	if p.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", p.Line)
	}
	if p.Path != "" {
		fmt.Fprintf(&b, "%q: ", p.Path)
	}
	b.WriteString(p.Reason)
	return b.String()
}

// maxProblems bounds what is said about a text that is hostile or no diff at all.
const maxProblems = 200

// Parse reads a patch as git apply would, with one leading path component
// stripped, but goes on after a mistake, so that all problems are found at once.
func Parse(text string) (*Patch, []Problem) {
	s := scan(text)
	p, first := s.patch()
	problems := append(first, s.problems...)
	problems = append(problems, encodingProblems(s.lines)...)
	if len(s.sections) == 0 {
		problems = append(problems, Problem{Reason: noDiffReason(text)})
	}
	if s.crlf() {
		problems = append(problems, Problem{Line: s.sections[0].start + 1, Reason: "the patch's own lines end in CRLF"})
	}
	if s.unterminated {
		problems = append(problems, Problem{Line: len(s.lines), Reason: "the last line has no newline"})
	}
	return p, capProblems(problems)
}

func noDiffReason(text string) string {
	if strings.TrimSpace(text) == "" {
		return "the patch is empty"
	}
	return `no diff found: there is neither a "diff --git" header nor "---", "+++" and "@@ -" lines`
}

func encodingProblems(lines []string) []Problem {
	var out []Problem
	add := func(bad func(string) bool, what string) {
		first, n := 0, 0
		for i, l := range lines {
			if bad(l) {
				if n++; n == 1 {
					first = i + 1
				}
			}
		}
		if n > 0 {
			out = append(out, Problem{Line: first, Reason: fmt.Sprintf("%s (%d lines)", what, n)})
		}
	}
	add(func(l string) bool { return strings.IndexByte(l, 0) >= 0 }, "NUL bytes")
	add(func(l string) bool { return !utf8.ValidString(l) }, "not UTF-8")
	return out
}

func capProblems(all []Problem) []Problem {
	if len(all) <= maxProblems {
		return all
	}
	more := len(all) - maxProblems
	return append(all[:maxProblems:maxProblems], Problem{Reason: fmt.Sprintf("and %d more problems", more)})
}

// patch turns the sections into files and says what is unsafe about them.
func (s *scanned) patch() (*Patch, []Problem) {
	p := &Patch{}
	for _, l := range s.lines {
		p.Bytes += len(l) + 1
	}
	if s.unterminated {
		p.Bytes--
	}
	var check safety
	paths, watch := newSet(), newSet()
	for i := range s.sections {
		sec := &s.sections[i]
		f, err := s.file(sec)
		if err != nil {
			s.problem(sec.start, "", "file header: "+err.Error())
		} else {
			check.file(f)
			p.Files = append(p.Files, f)
			p.Added += f.Added
			p.Deleted += f.Deleted
			if f.Kind != Copy {
				paths.add(f.Old)
			}
			paths.add(f.New)
		}
		for j := sec.start; j < sec.body; j++ {
			check.header(j, s.lines[j])
			watch.add(looseNames(s.lines[j])...)
		}
	}
	for _, j := range s.stray {
		check.stray(j, s.lines[j])
		watch.add(looseNames(s.lines[j])...)
	}
	p.Paths = paths.list
	for _, name := range watch.list {
		if pathReason(name) == "" {
			paths.add(name)
		}
	}
	for _, name := range paths.list {
		if pathReason(name) == "" {
			p.watch = append(p.watch, name)
		}
	}
	return p, check.problems
}

// set keeps strings in order, each once, and drops empty ones.
type set struct {
	list []string
	has  map[string]bool
}

func newSet() *set { return &set{has: map[string]bool{}} }

func (s *set) add(names ...string) {
	for _, n := range names {
		if n != "" && !s.has[n] {
			s.has[n] = true
			s.list = append(s.list, n)
		}
	}
}
