package logparse

import "strings"

// containsMilliseconds looks for "(<digits>ms)" anywhere.
func containsMilliseconds(s string) bool {
	return strings.Contains(s, "ms)") && removeMilliseconds(s) != s
}

// cutMilliseconds removes "(<digits>ms)", which must be at the very end if it is
// anywhere.
func cutMilliseconds(title string, anywhere bool) (string, bool) {
	if !anywhere {
		return title, true
	}
	head, ok := strings.CutSuffix(title, "ms)")
	if !ok {
		return "", false
	}
	open := spanRight(head, isDigit)
	if open == len(head) || open == 0 || head[open-1] != '(' {
		return "", false
	}
	return head[:open-1], true
}

// removeMilliseconds removes every "(<digits>ms)".
func removeMilliseconds(s string) string {
	var b strings.Builder
	rest := s
	for {
		i := strings.Index(rest, "ms)")
		if i < 0 {
			break
		}
		open := spanRight(rest[:i], isDigit)
		if open < i && open > 0 && rest[open-1] == '(' {
			b.WriteString(rest[:open-1])
		} else {
			b.WriteString(rest[:i+3])
		}
		rest = rest[i+3:]
	}
	if b.Len() == 0 && len(rest) == len(s) {
		return s
	}
	b.WriteString(rest)
	return b.String()
}
