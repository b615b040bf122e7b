package screen

import (
	"iter"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/evalrun/evalrun/internal/patch"
)

// line is one line a patch adds.
type line struct {
	file      patch.File
	rules     ruleSet // about such files
	ofTests   bool    // the file is of the tests, or of what runs them
	before    string  // the line before, where the patch adds it too
	text      string
	number    int // in the file after the patch
	patchLine int
}

var hunkHeader = regexp.MustCompile(`^@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@`)

// addedLines goes through the lines the mended patch adds. Counts of hunks are
// right there, so that a line of a file that looks like a header is not taken for
// one.
func addedLines(x expressions, p patch.Prepared) iter.Seq[line] {
	return func(yield func(line) bool) {
		next, old, added, number := 0, 0, 0, 0
		cur := line{}
		at := 0
		for text := range strings.Lines(p.Text) {
			at++
			text = strings.TrimRight(text, "\r\n")
			if old == 0 && added == 0 {
				if next < len(p.Files) && at >= p.Files[next].Line {
					f := p.Files[next]
					cs := classify(x, f)
					cur = line{file: f, ofTests: ofTests(cs), rules: concerned(x, f.Path(), language(f.Path()), cs)}
					next++
				}
				cur.text = ""
				if m := hunkHeader.FindStringSubmatch(text); m != nil {
					old, added, number = count(m[1]), count(m[3]), count(m[2])
				}
				continue
			}
			switch {
			case strings.HasPrefix(text, "+"):
				added--
				cur.before, cur.text, cur.number, cur.patchLine = cur.text, text[1:], number, at
				number++
				if !yield(cur) {
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
			old, added = max(old, 0), max(added, 0)
		}
	}
}

// count reads a number of a hunk header; left out it is 1.
func count(s string) int {
	if s == "" {
		return 1
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		return 1
	}
	return n
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
