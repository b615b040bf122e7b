package screen

import (
	"strings"

	"github.com/evalrun/evalrun/internal/patch"
)

// Sources returns of a patch only what changes the program itself: without files
// of tests and of what runs them. left are the paths it leaves out. It is what a
// second opinion applies: if a verdict hangs on anything else, the two differ.
func Sources(p patch.Prepared) (text string, left []string) {
	x := expressions{}
	keep := func(f patch.File) bool { return !ofTests(classify(x, f)) }
	lines := strings.SplitAfter(p.Text, "\n")
	var b strings.Builder
	for i, f := range p.Files {
		end := len(lines)
		if i+1 < len(p.Files) {
			end = p.Files[i+1].Line - 1
		}
		if !keep(f) {
			left = append(left, f.Path())
			continue
		}
		for _, l := range lines[max(f.Line-1, 0):end] {
			b.WriteString(l)
		}
	}
	return b.String(), left
}
