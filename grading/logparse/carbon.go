package logparse

import "strings"

// carbon reads Jest's line for each test file: "PASS path/file.js (1.2 s)". Text
// after the time is dropped.
func carbon(_ Context, out *Result) lineParser {
	return eachLine(func(line string) {
		word, rest, ok := cutWord(line, "PASS", "FAIL")
		if !ok {
			return
		}
		name, ok := oneSpace(rest)
		if !ok {
			return
		}
		status := Passed
		if word == "FAIL" {
			status = Failed
		}
		out.set(cutFileTime(name), status)
	})
}

// cutFileTime cuts at the last time in parentheses: milliseconds if there are any,
// else seconds with a space, else seconds without.
func cutFileTime(name string) string {
	if strings.IndexByte(name, '(') < 0 {
		return name
	}
	if i := lastTime(name, "ms)", false); i >= 0 {
		return name[:i]
	}
	if i := lastTime(name, "s)", true); i >= 0 {
		return name[:i]
	}
	if i := lastTime(name, "s)", false); i >= 0 {
		return name[:i]
	}
	return name
}

// lastTime finds the last `\s\([\d.]+` + (one white space) + unit; it returns the
// position of the white space at its beginning, or -1.
func lastTime(s, unit string, spaced bool) int {
	for end := len(s); ; {
		i := strings.LastIndex(s[:end], unit)
		if i < 0 {
			return -1
		}
		end = i
		head := s[:i]
		if spaced {
			r, n := lastRune(head)
			if n == 0 || !isSpace(r) {
				continue
			}
			head = head[:len(head)-n]
		}
		open := spanRight(head, isDigitOrDot)
		if open == len(head) || open == 0 || head[open-1] != '(' {
			continue
		}
		if r, n := lastRune(head[:open-1]); n > 0 && isSpace(r) {
			return open - 1 - n
		}
	}
}

func isDigitOrDot(r rune) bool { return r == '.' || isDigit(r) }

// fileResults reads "PASS file" and "FAIL file" as the parsers of Grommet and
// Emotion do: failures first, and a pass anywhere wins. A word alone on its line
// takes the whole next line for the file.
type fileResults struct {
	out            *Result
	clean          func(string) string
	failed, passed fileWord
}

type fileWord struct {
	word  string
	next  bool // the name is the next line
	found Statuses
}

func (w *fileWord) line(line string, clean func(string) string, status Status) {
	if w.next {
		w.next = false
		w.found.Set(clean(strip(line)), status)
		return
	}
	rest, ok := strings.CutPrefix(line, w.word)
	if !ok {
		return
	}
	if rest == "" {
		w.next = true
		return
	}
	if name, ok := oneSpace(rest); ok {
		w.found.Set(clean(strip(name)), status)
	}
}

func newFileResults(out *Result, clean func(string) string) lineParser {
	return &fileResults{out: out, clean: clean, failed: fileWord{word: "FAIL"}, passed: fileWord{word: "PASS"}}
}

func grommet(_ Context, out *Result) lineParser { return newFileResults(out, cutEndTime) }

func emotion(_ Context, out *Result) lineParser {
	return newFileResults(out, func(name string) string { return name })
}

func (p *fileResults) line(line string) {
	p.failed.line(line, p.clean, Failed)
	p.passed.line(line, p.clean, Passed)
}

func (p *fileResults) end() {
	p.out.Statuses = p.failed.found
	for name, status := range p.passed.found.All() {
		p.out.set(name, status)
	}
}

// cutEndTime removes a time in parentheses at the end of a name.
func cutEndTime(name string) string {
	head, ok := strings.CutSuffix(name, "s)")
	if !ok {
		return name
	}
	head = strings.TrimSuffix(head, "m")
	if r, n := lastRune(head); n > 0 && isSpace(r) {
		head = head[:len(head)-n]
	}
	open := spanRight(head, isDigitOrDot)
	if open == len(head) || open == 0 || head[open-1] != '(' {
		return name
	}
	if r, n := lastRune(head[:open-1]); n > 0 && isSpace(r) {
		return name[:open-1-n]
	}
	return name
}
