package logparse

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The official parsers run on Python strings. These helpers have Python's idea
// of white space, digits and words, which is not Go's: \x1c-\x1f are white space
// there, and "_" and other numeric letters are word characters.

// isSpace is str.isspace for one character, and \s of a str pattern.
func isSpace(r rune) bool {
	if r < utf8.RuneSelf {
		return r == ' ' || r >= '\t' && r <= '\r' || r >= 0x1c && r <= 0x1f
	}
	switch {
	case r == 0x85, r == 0xa0, r == 0x1680, r >= 0x2000 && r <= 0x200a,
		r == 0x2028, r == 0x2029, r == 0x202f, r == 0x205f, r == 0x3000:
		return true
	}
	return false
}

// isDigit is \d of a str pattern.
func isDigit(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= '0' && r <= '9'
	}
	return unicode.Is(unicode.Nd, r)
}

// isWord is \w of a str pattern: str.isalnum or an underscore.
func isWord(r rune) bool {
	if r < utf8.RuneSelf {
		return r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}
	return unicode.IsLetter(r) || unicode.IsNumber(r)
}

// firstRune and lastRune return 0, 0 for an empty string.
func firstRune(s string) (rune, int) {
	if s == "" {
		return 0, 0
	}
	if s[0] < utf8.RuneSelf {
		return rune(s[0]), 1
	}
	return utf8.DecodeRuneInString(s)
}

func lastRune(s string) (rune, int) {
	if s == "" {
		return 0, 0
	}
	if c := s[len(s)-1]; c < utf8.RuneSelf {
		return rune(c), 1
	}
	return utf8.DecodeLastRuneInString(s)
}

// spanLeft returns the length in bytes of the longest prefix whose runes satisfy is.
func spanLeft(s string, is func(rune) bool) int {
	i := 0
	for i < len(s) {
		r, n := firstRune(s[i:])
		if !is(r) {
			break
		}
		i += n
	}
	return i
}

// spanRight returns where the longest suffix whose runes satisfy is begins.
func spanRight(s string, is func(rune) bool) int {
	for s != "" {
		r, n := lastRune(s)
		if !is(r) {
			break
		}
		s = s[:len(s)-n]
	}
	return len(s)
}

// strip is str.strip(); stripLeft and stripRight are its halves.
func strip(s string) string { return stripRight(stripLeft(s)) }

func stripLeft(s string) string {
	i := 0
	for i < len(s) && s[i] == ' ' { // mostly it is blanks
		i++
	}
	if i == len(s) || s[i] > ' ' && s[i] < utf8.RuneSelf {
		return s[i:]
	}
	// The spaces among the characters that marks of tests come from all begin with
	// these two bytes.
	if s[i] == 0xe2 && i+1 < len(s) && s[i+1] > 0x81 {
		return s[i:]
	}
	return s[i+spanLeft(s[i:], isSpace):]
}

func stripRight(s string) string {
	if s == "" || s[len(s)-1] > ' ' && s[len(s)-1] < utf8.RuneSelf {
		return s
	}
	return s[:spanRight(s, isSpace)]
}

func notSpace(r rune) bool { return !isSpace(r) }

// token cuts the first word of str.split() off s.
func token(s string) (word, rest string) {
	s = stripLeft(s)
	i := 0
	for i < len(s) {
		c := s[i]
		if c > ' ' && c < utf8.RuneSelf {
			i++
			continue
		}
		r, n := firstRune(s[i:])
		if isSpace(r) {
			break
		}
		i += n
	}
	return s[:i], s[i:]
}

// fields is str.split().
func fields(s string) []string {
	var out []string
	for {
		var word string
		word, s = token(s)
		if word == "" {
			return out
		}
		out = append(out, word)
	}
}

// collapse is re.sub(r"\s+", " ", s).strip().
func collapse(s string) string { return strings.Join(fields(s), " ") }

// oneSpace cuts exactly one white space character off the front of s.
func oneSpace(s string) (rest string, ok bool) {
	r, n := firstRune(s)
	if n == 0 || !isSpace(r) {
		return s, false
	}
	return s[n:], true
}

// someSpace cuts one or more white space characters off the front of s.
func someSpace(s string) (rest string, ok bool) {
	n := spanLeft(s, isSpace)
	return s[n:], n > 0
}

// someDigits cuts one or more digits off the front of s.
func someDigits(s string) (rest string, ok bool) {
	n := spanLeft(s, isDigit)
	return s[n:], n > 0
}

// cutWord cuts the first of the given words that s begins with.
func cutWord(s string, words ...string) (word, rest string, ok bool) {
	for _, w := range words {
		if rest, ok := strings.CutPrefix(s, w); ok {
			return w, rest, true
		}
	}
	return "", s, false
}

// indent counts the white space characters that s begins with.
func indent(s string) int {
	n := spanLeft(s, isSpace)
	return utf8.RuneCountInString(s[:n])
}

// cutDuration removes a final `\s\(\d+\s*m?s\)`, if at least one character is
// left before it.
func cutDuration(s string) string {
	rest, ok := strings.CutSuffix(s, "s)")
	if !ok {
		return s
	}
	rest = strings.TrimSuffix(rest, "m")
	rest = stripRight(rest)
	open := len(rest)
	for open > 0 && rest[open-1] >= '0' && rest[open-1] <= '9' {
		open--
	}
	if open > 0 && rest[open-1] >= utf8.RuneSelf {
		open = spanRight(rest, isDigit)
	}
	if open == len(rest) || open == 0 || rest[open-1] != '(' {
		return s
	}
	rest = rest[:open-1]
	if r, n := lastRune(rest); n > 0 && n < len(rest) && isSpace(r) {
		return rest[:len(rest)-n]
	}
	return s
}

// cutParen splits `(.+) \((.+)\)$` greedily: the text before the last " (" of a
// text that ends with ")", both parts not empty.
func cutParen(s string) (before string, ok bool) {
	if !strings.HasSuffix(s, ")") {
		return "", false
	}
	// The last character is the closing one and the inner text has at least one.
	end := len(s) - 1
	if end < 1 {
		return "", false
	}
	i := strings.LastIndex(s[:end], " (")
	if i >= 0 && i+2 == end {
		i = strings.LastIndex(s[:i+1], " (")
	}
	if i < 1 {
		return "", false
	}
	return s[:i], true
}
