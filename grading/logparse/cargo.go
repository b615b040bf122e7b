package logparse

// cargo reads the result lines of `cargo test`. Doc tests and "should panic" have
// more words in their lines and are not read.
func cargo(_ Context, out *Result) lineParser {
	return eachLine(func(line string) {
		word, rest := token(line)
		if word != "test" {
			return
		}
		name, rest := token(rest)
		dots, rest := token(rest)
		if dots != "..." {
			return
		}
		result, rest := token(rest)
		if stripLeft(rest) != "" {
			return
		}
		switch result {
		case "ok":
			out.set(name, Passed)
		case "FAILED":
			out.set(name, Failed)
		}
	})
}
