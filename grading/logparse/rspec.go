package logparse

import "strings"

// rspec reads what the test command's jq filter makes of RSpec's JSON:
// "description - passed".
func rspec(_ Context, out *Result) lineParser {
	return eachLine(func(line string) {
		line = strip(line)
		passed, failed := strings.LastIndex(line, " - passed"), strings.LastIndex(line, " - failed")
		switch {
		case passed < 1 && failed < 1:
		case passed > failed:
			out.set(line[:passed], Passed)
		default:
			out.set(line[:failed], Failed)
		}
	})
}
