package patch

import (
	"path"
	"regexp"
	"strconv"
	"strings"
)

// safety collects what would let a patch reach out of the tree. It remembers
// the symbolic links the patch makes, since a later file may be written
// through one. A link that leads out of the tree is a problem to be said, but not
// unsafe by itself: git makes such links, and agents commit them by mistake.
type safety struct {
	problems []Problem
	links    map[string]bool
}

func (s *safety) add(line int, path, reason string) {
	s.addProblem(Problem{Line: line, Path: path, Reason: reason, Unsafe: true})
}

func (s *safety) addProblem(added Problem) {
	for _, p := range s.problems {
		if p.Path == added.Path && p.Reason == added.Reason {
			return
		}
	}
	if len(s.problems) < maxProblems {
		s.problems = append(s.problems, added)
	}
}

func (s *safety) file(f File) {
	for _, name := range []string{f.Old, f.New} {
		if name == "" {
			continue
		}
		if why := pathReason(name); why != "" {
			s.add(f.Line, name, why)
		}
		if link := s.through(name); link != "" {
			s.add(f.Line, name, "goes through the symbolic link "+strconv.Quote(link)+", which this patch makes")
		}
	}
	if f.Kind == Delete {
		delete(s.links, f.Old)
		return
	}
	if s.links[f.New] && !f.Symlink {
		s.add(f.Line, f.New, "changes a symbolic link that this patch makes")
	}
	if !f.Symlink {
		return
	}
	if s.links == nil {
		s.links = map[string]bool{}
	}
	s.links[f.New] = true
	if why := linkReason(f); why != "" {
		s.addProblem(Problem{Line: f.Line, Path: f.New, Reason: why})
	}
}

// through returns the link of this patch that a path passes, if any.
func (s *safety) through(name string) string {
	if len(s.links) == 0 {
		return ""
	}
	for dir := path.Dir(name); dir != "." && dir != "/"; dir = path.Dir(dir) {
		if s.links[dir] {
			return dir
		}
	}
	return ""
}

// header checks a name in a header line as it is written: stripping its first
// component would hide that it is absolute.
func (s *safety) header(line int, l string) {
	for _, prefix := range []string{"--- ", "+++ "} {
		if name, ok := strings.CutPrefix(l, prefix); ok {
			name = rawName(name)
			if strings.HasPrefix(name, "/") && name != "/dev/null" {
				s.add(line+1, name, "the path is absolute")
			}
		}
	}
}

// stray checks a line git does not read but a more lenient tool might take for
// a header: GNU patch accepts indented ones.
func (s *safety) stray(line int, l string) {
	m := looseHeader.FindStringSubmatch(l)
	if m == nil {
		return
	}
	first, _, _ := strings.Cut(m[1], " ")
	for _, name := range []string{rawName(m[1]), rawName(first)} {
		// An absolute name in prose is common, and -p1 makes it relative.
		if why := pathReason(strings.TrimLeft(name, "/")); why != "" && name != "" {
			s.add(line+1, name, why)
		}
	}
}

// pathReason says why a path from the root of the tree must not be written, or "".
func pathReason(name string) string {
	switch {
	case strings.HasPrefix(name, "/"):
		return "the path is absolute"
	case strings.ContainsAny(name, "\n\r\x00"):
		return "the path has a line break or NUL in it"
	}
	for _, part := range strings.FieldsFunc(name, func(r rune) bool { return r == '/' || r == '\\' }) {
		if isDotGit(part) {
			return "the path is inside .git"
		}
	}
	for _, part := range strings.Split(name, "/") {
		if part == ".." {
			return "the path leaves the tree"
		}
	}
	if path.Clean(name) == "." {
		return "the path is the tree itself"
	}
	return ""
}

// ignoredRunes are what HFS+ leaves out when it compares names.
var ignoredRunes = regexp.MustCompile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")

// isDotGit reports whether some file system takes a name for ".git": without
// regard to case, with characters HFS+ ignores, or with the short name, trailing
// dots and streams of NTFS.
func isDotGit(part string) bool {
	part = ignoredRunes.ReplaceAllString(part, "")
	part, _, _ = strings.Cut(part, ":")
	part = strings.ToLower(strings.TrimRight(part, ". "))
	return part == ".git" || part == "git~1"
}

// linkReason says how a symbolic link may lead out of the tree, or "". Its target is
// judged by its text: "a/../b" may leave the tree when a is itself a link, so a
// ".." after another component counts as well.
func linkReason(f File) string {
	switch {
	case f.Binary:
		return "a symbolic link as a binary patch: where it points cannot be checked"
	case f.Target == "":
		return ""
	case strings.HasPrefix(f.Target, "/"):
		return "a symbolic link to an absolute path, " + strconv.Quote(f.Target)
	}
	down := false
	for _, part := range strings.Split(f.Target, "/") {
		switch {
		case part == "..":
			if down {
				return "a symbolic link with \"..\" after a name, " + strconv.Quote(f.Target)
			}
		case part != "" && part != ".":
			down = true
		}
	}
	dest := path.Join(path.Dir(f.New), f.Target)
	if why := pathReason(dest); why != "" && dest != "." {
		return "a symbolic link out of the tree, to " + strconv.Quote(f.Target) + ": " + why
	}
	return ""
}

var looseHeader = regexp.MustCompile(`^[ \tX>-]{0,40}?(?:--- |\+\+\+ |\*\*\* |Index: |diff --git |(?:rename|copy) (?:from|to) )(.+)`)

// looseNames returns every path some tool might read from a header-like line:
// whole or up to a tab or a space, with and without its first component.
func looseNames(l string) []string {
	m := looseHeader.FindStringSubmatch(strings.TrimRight(l, "\r"))
	if m == nil {
		return nil
	}
	var out []string
	for _, name := range append(strings.Fields(m[1]), rawName(m[1])) {
		name = rawName(name)
		if name == "/dev/null" || !strings.Contains(name, "/") && !strings.Contains(name, ".") {
			continue
		}
		out = append(out, path.Clean(name))
		if _, rest, ok := strings.Cut(name, "/"); ok && rest != "" {
			out = append(out, path.Clean(rest))
		}
	}
	return out
}

// rawName returns the name at the start of a header value, unquoted.
func rawName(value string) string {
	value = strings.TrimRight(value, "\r")
	if strings.HasPrefix(value, `"`) {
		if q, err := strconv.QuotedPrefix(value); err == nil {
			if name, err := strconv.Unquote(q); err == nil {
				return name
			}
		}
	}
	name, _, _ := strings.Cut(value, "\t")
	return name
}
