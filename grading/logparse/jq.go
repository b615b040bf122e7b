package logparse

// jq reads the test drivers of automake ("PASS: tests/jqtest").
func jq(_ Context, out *Result) lineParser {
	return eachLine(func(line string) {
		word, rest, ok := cutWord(strip(line), "PASS:", "FAIL:")
		if !ok {
			return
		}
		name, ok := oneSpace(rest)
		if !ok || name == "" {
			return
		}
		if word == "PASS:" {
			out.set(name, Passed)
		} else {
			out.set(name, Failed)
		}
	})
}
