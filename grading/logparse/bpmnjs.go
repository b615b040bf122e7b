package logparse

import "strings"

// bpmnJS reads karma's failure lines of four browsers, each with its own pattern
// over the whole text. Names keep the blank before FAILED.
func bpmnJS(_ Context, text string, out *Result) {
	fixed := func(browser string, system func(*scanner)) {
		lines := eol{text: text}
		findEach(text, browser, func(at int) int {
			s := &scanner{text: text, pos: at + len(browser)}
			s.space().run(isDigitOrDot).space().lit("(Linux").space()
			system(s)
			if s.lit(")").space(); s.bad {
				return 0
			}
			name, next, ok := failedLine(&lines, s.pos)
			if !ok {
				return 0
			}
			out.set(name, Failed)
			return next
		})
	}
	version := func(s *scanner) { s.run(isDigitOrDot) }
	fixed("2KPhantomJS", version)
	fixed("2KPhantomJS", func(s *scanner) { s.lit("x86_64") })
	chromeHeadless(text, out)
	fixed("HeadlessChrome", version)
}

// chromeHeadless reads `Chrome\sHeadless\s(.*)\s\(Linux\sx86_64\)\s(.*)FAILED\n`;
// what stands between is as long as it can be.
func chromeHeadless(text string, out *Result) {
	lines := eol{text: text}
	findEach(text, "Chrome", func(at int) int {
		s := &scanner{text: text, pos: at + len("Chrome")}
		if s.space().lit("Headless").space(); s.bad {
			return 0
		}
		end := lines.of(s.pos)
		// "(Linux" can begin the next line: the white space before it is the newline.
		reach := end
		if strings.HasPrefix(text[end:], "\n(Linux") {
			reach = end + len("\n(Linux")
		}
		for reach > s.pos {
			i := strings.LastIndex(text[s.pos:reach], "(Linux")
			if i < 1 {
				break
			}
			reach = s.pos + i
			if r, _ := lastRune(text[s.pos:reach]); !isSpace(r) {
				continue
			}
			tail := &scanner{text: text, pos: reach + len("(Linux")}
			if tail.space().lit("x86_64)").space(); tail.bad {
				continue
			}
			if name, next, ok := failedLine(&eol{text: text}, tail.pos); ok {
				out.set(name, Failed)
				return next
			}
			if tail.pos <= end {
				break // candidates further left are followed by the same end
			}
		}
		return end // no other beginning on this line can do better
	})
}
