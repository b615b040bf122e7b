package logparse

import "strings"

// stripANSI removes terminal escape sequences: ESC and one character of @ to _,
// or ESC [ with parameters and a final character. None contains a newline.
func stripANSI(s string) string {
	i := strings.IndexByte(s, 0x1b)
	if i < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i >= 0 {
		b.WriteString(s[:i])
		n := escapeLen(s[i:])
		if n == 0 {
			b.WriteByte(0x1b)
			n = 1
		}
		s = s[i+n:]
		i = strings.IndexByte(s, 0x1b)
	}
	b.WriteString(s)
	return b.String()
}

// escapeLen returns the length of the sequence that s begins with, 0 if none.
func escapeLen(s string) int {
	if len(s) < 2 {
		return 0
	}
	if c := s[1]; c != '[' {
		if c >= '@' && c <= '_' {
			return 2
		}
		return 0
	}
	i := 2
	for i < len(s) && s[i] >= '0' && s[i] <= '?' {
		i++
	}
	for i < len(s) && s[i] >= ' ' && s[i] <= '/' {
		i++
	}
	if i < len(s) && s[i] >= '@' && s[i] <= '~' {
		return i + 1
	}
	return 0
}
