package logparse

import "strings"

// eslint reads mocha's list of failures: from "  1)" to the line that names an
// error; nothing else.
func eslint(_ Context, text string, out *Result) {
	for pos := 0; ; {
		open := eslintNumber(text, pos)
		if open < 0 {
			return
		}
		end, next, ok := eslintError(text, open)
		if !ok {
			return // no error stands after any later number either
		}
		out.set(collapse(text[open:end]), Failed)
		pos = next
	}
}

// eslintNumber finds two white space characters, digits and ")", and returns the
// position after them, or -1.
func eslintNumber(text string, from int) int {
	for pos := from; ; {
		i := strings.IndexByte(text[pos:], ')')
		if i < 0 {
			return -1
		}
		pos += i + 1
		number := text[from : pos-1]
		digits := spanRight(number, isDigit)
		if digits == len(number) {
			continue
		}
		r, n := lastRune(number[:digits])
		r2, n2 := lastRune(number[:digits-n])
		if n > 0 && n2 > 0 && isSpace(r) && isSpace(r2) {
			return pos
		}
	}
}

// eslintError finds the first white space after which "Error" follows on one line.
// It returns where the white space begins and where the line's last "Error" ends.
func eslintError(text string, from int) (end, next int, ok bool) {
	lineStop := lineEnd(text, from)
	line := text[from:lineStop]
	if word := spanLeft(line, notSpace); word < len(line) {
		if i := strings.LastIndex(line[word:], "Error"); i >= 0 {
			return from + word, from + word + i + len("Error"), true
		}
	}
	i := strings.Index(text[lineStop:], "Error")
	if i < 0 {
		return 0, 0, false
	}
	at := lineStop + i
	end = lineStop + strings.LastIndexByte(text[lineStop:at], '\n')
	stop := lineEnd(text, at)
	next = at + strings.LastIndex(text[at:stop], "Error") + len("Error")
	return end, next, true
}
