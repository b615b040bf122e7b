package screen

import (
	"iter"
	"path"
	"strconv"
	"strings"

	"github.com/evalrun/evalrun/internal/patch"
)

// line is one line a patch adds.
type line struct {
	path      string
	reader    *automaton // of the rules about the file's language
	rules     ruleSet    // about such files
	ofTests   bool       // the file is of the tests, or of what runs them
	before    string     // the line before, where the patch adds it too
	text      string
	number    int // in the file after the patch
	patchLine int
}

// addedLines goes through the lines the mended patch adds; each is good until the
// next. Counts of hunks are right there, so that a line of a file that looks like a
// header is not taken for one.
func addedLines(x expressions, p patch.Prepared) iter.Seq[*line] {
	return func(yield func(*line) bool) {
		next, old, added, number := 0, 0, 0, 0
		cur := line{}
		for text := range strings.Lines(p.Text) {
			cur.patchLine++
			for n := len(text) - 1; n >= 0 && (text[n] == '\n' || text[n] == '\r'); n-- {
				text = text[:n]
			}
			if old <= 0 && added <= 0 {
				if next < len(p.Files) && cur.patchLine >= p.Files[next].Line {
					cur, next = line{patchLine: cur.patchLine}, next+1
				}
				cur.text = ""
				if o, a, n, ok := hunkHeader(text); ok {
					old, added, number = o, a, n
					if cur.reader == nil && next > 0 {
						cur.enter(x, p.Files[next-1])
					}
				}
				continue
			}
			switch {
			case strings.HasPrefix(text, "+"):
				added--
				cur.before, cur.text, cur.number = cur.text, text[1:], number
				number++
				if !yield(&cur) {
					return
				}
			case strings.HasPrefix(text, "-"):
				old--
			case strings.HasPrefix(text, `\`):
			default:
				cur.text = "" // it may be the line before, and is not the patch's
				old--
				added--
				number++
			}
		}
	}
}

// enter tells of a file's lines what they have in common.
func (l *line) enter(x expressions, f patch.File) {
	language, classes := language(f.Path()), classify(x, f)
	l.path, l.reader = f.Path(), x.of(language)
	l.rules, l.ofTests = concerned(x, l.path, language, classes), ofTests(classes)
}

// hunkHeader reads "@@ -3,2 +4,5 @@": how many lines of the old file follow, how many
// of the new, and the number of the first of these.
func hunkHeader(text string) (old, added, number int, ok bool) {
	text, ok = strings.CutPrefix(text, "@@ -")
	if !ok {
		return 0, 0, 0, false
	}
	if _, old, text, ok = span(text); !ok {
		return 0, 0, 0, false
	}
	if text, ok = strings.CutPrefix(text, " +"); !ok {
		return 0, 0, 0, false
	}
	number, added, text, ok = span(text)
	return old, added, number, ok && strings.HasPrefix(text, " @@")
}

// span reads a line's number and how many lines there are, which left out is 1.
func span(text string) (first, lines int, rest string, ok bool) {
	first, rest, ok = digits(text)
	if counted, found := strings.CutPrefix(rest, ","); ok && found {
		lines, rest, ok = digits(counted)
		return first, lines, rest, ok
	}
	return first, 1, rest, ok
}

// digits reads a number at the beginning of a text; one that is too large is 1.
func digits(text string) (n int, rest string, ok bool) {
	rest = strings.TrimLeft(text, "0123456789")
	n, err := strconv.Atoi(text[:len(text)-len(rest)])
	if err != nil {
		n = 1
	}
	return n, rest, len(rest) < len(text)
}

// languages by the ending of a file's name.
var languages = map[string]string{
	".py": "python", ".pyi": "python", ".pyx": "python", ".cfg": "ini", ".ini": "ini", ".toml": "toml", ".pth": "python",
	".go": "go", ".mod": "gomod",
	".js": "js", ".jsx": "js", ".mjs": "js", ".cjs": "js", ".ts": "js", ".tsx": "js", ".mts": "js", ".cts": "js", ".vue": "js", ".json": "json",
	".rs": "rust", ".java": "java", ".kt": "java", ".groovy": "java", ".gradle": "java", ".xml": "xml",
	".rb": "ruby", ".rake": "ruby", ".php": "php", ".c": "c", ".h": "c", ".cc": "c", ".cpp": "c", ".hpp": "c",
	".sh": "shell", ".bash": "shell", ".mk": "make", ".yml": "yaml", ".yaml": "yaml",
}

func language(name string) string {
	switch base := path.Base(name); {
	case base == "Makefile" || base == "GNUmakefile" || base == "makefile":
		return "make"
	case base == "Gemfile" || base == "Rakefile" || base == ".rspec":
		return "ruby"
	}
	return languages[strings.ToLower(path.Ext(name))]
}
