package logparse

import "strings"

// rubyUnit reads test-unit's verbose output: "test: name: .".
func rubyUnit(_ Context, out *Result) lineParser {
	return eachLine(func(line string) {
		line = strip(line)
		body, prefixed := strings.CutPrefix(line, "test: ")
		name, status := rubyUnitResult(body)
		if status == "" && prefixed {
			name, status = rubyUnitResult(line)
		}
		if status != "" {
			out.set(name, status)
		}
	})
}

func rubyUnitResult(line string) (name string, status Status) {
	for end := len(line); ; {
		i := strings.LastIndexByte(line[:end], ':')
		if i < 1 {
			return "", ""
		}
		end = i
		rest, ok := someSpace(line[i+1:])
		if !ok || rest == "" {
			continue
		}
		if rest[0] == '.' {
			return line[:i], Passed
		}
		if r, n := firstRune(rest[1:]); n > 0 && isWord(r) {
			continue
		}
		switch rest[0] {
		case 'E', 'F':
			return line[:i], Failed
		case 'O':
			return line[:i], Skipped
		}
	}
}
