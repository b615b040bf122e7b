package logparse

import "strings"

// suiteStack follows suites that are nested by indentation.
type suiteStack struct {
	names   []string
	indents []int
}

// enter closes every suite that is not less indented than line and opens line's.
func (s *suiteStack) enter(line string, indent int) {
	n := len(s.names)
	for n > 0 && s.indents[n-1] >= indent {
		n--
	}
	s.names = append(s.names[:n], strings.Clone(strip(line)))
	s.indents = append(s.indents[:n], indent)
}
