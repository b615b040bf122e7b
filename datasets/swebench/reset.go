package swebench

import (
	"regexp"
	"strings"
)

var commitID = regexp.MustCompile(`^[0-9a-f]{7,64}$`)

// resetLine is a statement that restores test files.
type resetLine struct {
	commit string   // of git checkout; "" if there is none
	paths  []string // restored or removed
}

// reset reads a statement as a reset: "git checkout <commit> paths", "rm -f
// paths", both joined by &&, or the echo that stands in for them.
func (s statement) reset() (resetLine, bool) {
	var line resetLine
	if len(s.heredocs) > 0 || len(s.parts) == 0 {
		return line, false
	}
	for _, part := range s.parts {
		words, ok := literalWords(part)
		if !ok {
			return line, false
		}
		switch {
		case len(words) >= 3 && words[0] == "git" && words[1] == "checkout" && commitID.MatchString(words[2]):
			line.commit = words[2]
			line.paths = append(line.paths, dropDashes(words[3:])...)
		case len(words) >= 3 && words[0] == "rm" && words[1] == "-f":
			line.paths = append(line.paths, dropDashes(words[2:])...)
		case len(words) == 2 && words[0] == "echo" && words[1] == "No test files to reset":
		default:
			return line, false
		}
	}
	return line, true
}

func dropDashes(words []string) []string {
	if len(words) > 0 && words[0] == "--" {
		return words[1:]
	}
	return words
}

// literalWords returns the words of a simple command, if all of them are plain.
func literalWords(part []token) ([]string, bool) {
	var words []string
	for _, t := range part {
		if t.op || !t.literal {
			return nil, false
		}
		words = append(words, t.value)
	}
	return words, true
}

// resets says where a script restores its test files.
type resets struct {
	at    map[int]bool
	first int // index of the first; the number of statements if there is none
	paths []string
}

// findResets looks for resets among the statements before the test patch, or
// before the tests if no patch is applied. "git checkout <commit>" always is
// one. Removing files or an echo counts only where it belongs to the reset: next
// to a checkout, right before the test patch, or said again after the tests.
func findResets(before, after []statement, patched bool) (resets, bool) {
	r := resets{at: map[int]bool{}, first: len(before)}
	repeated := map[string]bool{}
	for _, s := range after {
		repeated[s.text] = true
	}
	commit := ""
	lines := make([]*resetLine, len(before))
	for i, s := range before {
		line, ok := s.reset()
		if !ok {
			continue
		}
		lines[i] = &line
		if line.commit != "" {
			if commit != "" && commit != line.commit {
				return r, false
			}
			commit = line.commit
			r.at[i] = true
		} else if repeated[s.text] {
			r.at[i] = true
		}
	}
	for i := len(before) - 1; i >= 0; i-- {
		next := i+1 < len(before) && r.at[i+1] || i+1 == len(before) && patched
		if lines[i] != nil && next {
			r.at[i] = true
		}
	}
	for i := range before {
		if lines[i] != nil && i > 0 && r.at[i-1] {
			r.at[i] = true
		}
		if r.at[i] {
			r.first = min(r.first, i)
			r.paths = append(r.paths, lines[i].paths...)
		}
	}
	return r, true
}

// mergeSplitNames puts together names with spaces that the official scripts
// write without quotes, so that the shell sees several words. known are the
// names as the test patch has them.
func mergeSplitNames(words, known []string) []string {
	merged := words
	for _, name := range known {
		pieces := strings.Fields(name)
		if len(pieces) < 2 {
			continue
		}
		for i := 0; i+len(pieces) <= len(merged); i++ {
			if strings.Join(merged[i:i+len(pieces)], " ") == name {
				merged = append(append(append([]string{}, merged[:i]...), name), merged[i+len(pieces):]...)
				break
			}
		}
	}
	return merged
}
