package logparse

import "strings"

// minitest reads "Class#test. = 0.01 s = ." with its greedy reading: the outcome is
// the last of ". F E" in the line. So a skip ("= 0.10 s = S") counts the point of
// its own time as a pass.
func minitest(_ Context, out *Result) lineParser {
	return eachLine(func(line string) {
		line = strip(line)
		mark := strings.LastIndexAny(line, ".FE")
		if mark < 0 {
			return
		}
		equals := strings.LastIndexByte(line[:mark], '=')
		if equals < 0 {
			return
		}
		dot := strings.LastIndex(line[:equals], ". ")
		if dot < 1 {
			return
		}
		if line[mark] == '.' {
			out.set(line[:dot], Passed)
		} else {
			out.set(line[:dot], Failed)
		}
	})
}
