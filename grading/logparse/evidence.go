package logparse

import "strings"

// SuiteRan reports whether a log shows that a test suite ran: the summary line of
// karma, mocha, jest, TAP or jasmine with a count that is not zero, or a rendering
// case that ended well. It tells "ran and nothing failed" from "never ran" where a
// parser records failures only.
func SuiteRan(text string) bool {
	return after(text, "Executed ", func(rest string) bool {
		rest, ok := countAbove0(rest)
		if !ok {
			return false
		}
		rest, ok = strings.CutPrefix(rest, " of ")
		_, digits := someDigits(rest)
		return ok && digits
	}) || after(text, "TOTAL: ", func(rest string) bool {
		rest, ok := countAbove0(rest)
		return ok && (strings.HasPrefix(rest, " SUCCESS") || strings.HasPrefix(rest, " FAILED"))
	}) || before(text, " passing", func(string) bool { return true }) ||
		after(text, "Tests:", func(rest string) bool {
			rest, ok := someSpace(rest)
			_, count := countAbove0(rest)
			return ok && count
		}) || after(text, "Test Suites:", jestSuites) ||
		lineStart(text, "# tests ", func(rest string) bool { _, ok := countAbove0(rest); return ok }) ||
		before(text, " spec", func(rest string) bool {
			rest, ok := strings.CutPrefix(strings.TrimPrefix(rest, "s"), ", ")
			rest, digits := someDigits(rest)
			return ok && digits && strings.HasPrefix(rest, " failure")
		}) ||
		after(text, "': ok", func(rest string) bool { return rest == "" || rest[0] == '\n' })
}

// countAbove0 cuts a number that begins with 1 to 9.
func countAbove0(s string) (rest string, ok bool) {
	if s == "" || s[0] < '1' || s[0] > '9' {
		return s, false
	}
	return someDigits(s)
}

// jestSuites reads `\s+(\d+ \w+, )*[1-9]\d* total`.
func jestSuites(rest string) bool {
	rest, ok := someSpace(rest)
	for ok {
		if after, count := countAbove0(rest); count && strings.HasPrefix(after, " total") {
			return true
		}
		rest, ok = someDigits(rest)
		if !ok {
			break
		}
		rest, ok = strings.CutPrefix(rest, " ")
		n := spanLeft(rest, isWord)
		if !ok || n == 0 {
			break
		}
		rest, ok = strings.CutPrefix(rest[n:], ", ")
	}
	return false
}

// after reports whether accept holds for what follows some occurrence of word.
func after(text, word string, accept func(rest string) bool) bool {
	for {
		_, rest, ok := strings.Cut(text, word)
		if !ok {
			return false
		}
		if accept(rest) {
			return true
		}
		text = rest
	}
}

// lineStart is after for words at the beginning of a line.
func lineStart(text, word string, accept func(rest string) bool) bool {
	if rest, ok := strings.CutPrefix(text, word); ok && accept(rest) {
		return true
	}
	return after(text, "\n"+word, accept)
}

// before reports whether some occurrence of word has a number that is not zero
// right before it and is followed by what accept holds for.
func before(text, word string, accept func(rest string) bool) bool {
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return false
		}
		i += from
		from = i + len(word)
		digits := text[spanRight(text[:i], isDigit):i]
		if strings.ContainsAny(digits, "123456789") && accept(text[from:]) {
			return true
		}
	}
}
