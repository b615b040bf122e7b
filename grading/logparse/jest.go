package logparse

import "strings"

// jest reads --verbose. A title counts without its describe blocks, so the same
// title in two blocks is one test.
func jest(in Context, out *Result) lineParser {
	return eachLine(func(line string) {
		line = strip(line)
		var status Status
		var rest string
		switch {
		case len(line) < len("✓") || line[0] != "✓"[0]: // all marks begin with this byte
			return
		case strings.HasPrefix(line, "✓"):
			status, rest = Passed, line[len("✓"):]
		case strings.HasPrefix(line, "✕"):
			status, rest = Failed, line[len("✕"):]
		case strings.HasPrefix(line, "○"):
			status, rest = Skipped, line[len("○"):]
		default:
			return
		}
		name, ok := oneSpace(rest)
		if !ok || name == "" {
			return
		}
		name = cutDuration(name)
		if in.Edition != V41 {
			name = strip(name)
		}
		out.set(name, status)
	})
}

// jestJSON reads what the test command's jq filter makes of Jest's JSON:
// "[PASSED] describe > title".
func jestJSON(_ Context, out *Result) lineParser {
	return eachLine(func(line string) {
		word, rest, ok := cutWord(strip(line), "[PASSED]", "[FAILED]")
		if !ok {
			return
		}
		name, ok := oneSpace(rest)
		if !ok || name == "" {
			return
		}
		if word == "[PASSED]" {
			out.set(name, Passed)
		} else {
			out.set(name, Failed)
		}
	})
}

// immutable picks the format by pull request: Immutable's tests use two.
func immutable(in Context, out *Result) lineParser {
	pull := in.InstanceID[strings.LastIndexByte(in.InstanceID, '-')+1:]
	switch pull {
	case "2006":
		return jest(in, out)
	case "2005":
		return jestJSON(in, out)
	}
	out.complain("instance %q: no test format is known for this Immutable instance", in.InstanceID)
	return eachLine(func(string) {})
}
