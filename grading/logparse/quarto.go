package logparse

import (
	"strconv"
	"strings"
)

// quarto reads Deno's test output of quarto-cli. Temporary files get a running
// number, so that names are the same in every run.
type quarto struct {
	out  *Result
	temp map[string]string
	done bool
}

func newQuarto(_ Context, out *Result) lineParser {
	return &quarto{out: out, temp: map[string]string{}}
}

func (p *quarto) end() {}

func (p *quarto) line(line string) {
	if p.done || strings.Contains(line, "ERRORS") || strings.Contains(line, "failures:") {
		p.done = true
		return
	}
	if !strings.Contains(line, "[smoke]") && !strings.Contains(line, "[unit]") {
		return
	}
	line = p.number(line, ".qmd")
	line = p.number(line, "/")
	name, _, _ := strings.Cut(line, "...")
	name = strip(name)
	switch {
	case quartoNoTest(line):
	case strings.Contains(line, "32mok"):
		p.out.set(name, Passed)
	case strings.Contains(line, "31mFAILED"):
		p.out.set(name, Failed)
	default:
		if _, known := p.out.Statuses.Get(name); !known {
			p.out.set(name, Failed)
		}
	}
}

// quartoNoTest recognises summaries.
func quartoNoTest(line string) bool {
	return strings.HasPrefix(line, "test result:") || strings.Contains(line, "34mINFO") ||
		strings.Contains(line, "passed") && strings.Contains(line, "failed") && strings.Contains(line, "steps")
}

// number replaces every /tmp/<word><tail> in the line by the number of the first.
func (p *quarto) number(line, tail string) string {
	const dir = "/tmp/"
	if !strings.Contains(line, dir) {
		return line
	}
	var b strings.Builder
	kept, number := 0, ""
	findEach(line, dir, func(at int) int {
		s := &scanner{text: line, pos: at + len(dir)}
		if s.run(isWord).lit(tail); s.bad {
			return 0
		}
		if number == "" {
			number = p.numberOf(line[at:s.pos])
		}
		b.WriteString(line[kept:at])
		b.WriteString(dir)
		b.WriteString(number)
		kept = s.pos
		return kept
	})
	if number == "" {
		return line
	}
	b.WriteString(line[kept:])
	return b.String()
}

func (p *quarto) numberOf(file string) string {
	number, ok := p.temp[file]
	if !ok {
		number = strconv.Itoa(len(p.temp))
		p.temp[strings.Clone(file)] = number
	}
	return number
}
