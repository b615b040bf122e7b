package logparse

// micropython reads MicroPython's run-tests.py.
func micropython(_ Context, out *Result) lineParser {
	return eachLine(func(line string) {
		word, rest, ok := cutWord(strip(line), "pass", "FAIL", "skip")
		if !ok {
			return
		}
		name, ok := someSpace(rest)
		if !ok {
			return
		}
		switch word {
		case "pass":
			out.set(name, Passed)
		case "FAIL":
			out.set(name, Failed)
		default:
			out.set(name, Skipped)
		}
	})
}
