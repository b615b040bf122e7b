package swebench

import (
	"fmt"
	"slices"

	"github.com/evalrun/evalrun/datasets"
)

// RefusedResets says which lines of a row's evaluation script do not restore the
// test files: git refuses a checkout as a whole when it does not know one of the
// paths, and takes one without paths as meant for the whole tree. Evaluations taken
// apart by Split are not affected; scripts that run whole are.
func RefusedResets(inst *datasets.Instance) []string {
	lines, ok := logicalLines(inst.EvalScript)
	if !ok {
		return nil
	}
	_, created := splitReset(patchedFiles(inst.TestPatch))
	var found []string
	for _, l := range lines {
		one, ok := statements([]logicalLine{l})
		if !ok {
			continue
		}
		for _, s := range one {
			for _, part := range s.parts {
				words, ok := literalWords(part)
				if !ok || len(words) < 3 || words[0] != "git" || words[1] != "checkout" || !commitID.MatchString(words[2]) {
					continue
				}
				paths := dropDashes(words[3:])
				if len(paths) == 0 {
					found = appendNew(found, "git checkout without paths resets the whole tree")
				}
				for _, p := range paths {
					if slices.Contains(created, p) {
						found = appendNew(found, fmt.Sprintf("git checkout restores nothing, since %s is not there at base_commit", p))
						break
					}
				}
			}
		}
	}
	return found
}
