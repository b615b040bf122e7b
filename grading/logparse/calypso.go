package logparse

import "strings"

// calypso reads several runs of Jest in one log. Each begins at its command; the
// suites of one run are still open when the next begins.
type calypso struct {
	out    *Result
	suites suiteStack
	active bool // inside a run, before its summary
}

const calypsoCommand = " ./node_modules/.bin/jest "

func newCalypso(_ Context, out *Result) lineParser { return &calypso{out: out} }

func (p *calypso) end() {}

func (p *calypso) line(line string) {
	for {
		part, rest, more := strings.Cut(line, calypsoCommand)
		if p.active {
			p.piece(part)
		}
		if !more {
			return
		}
		p.active = true
		line = rest
	}
}

func (p *calypso) piece(line string) {
	if strings.HasPrefix(line, "Test Suites") || strings.HasPrefix(line, "  ● ") {
		p.active = false
		return
	}
	body := stripLeft(line)
	mark, n := firstRune(body)
	status := Passed
	switch mark {
	case '✕':
		status = Failed
	case '✓':
	default:
		if indent := indent(line); indent > 0 {
			p.suites.enter(line, indent)
		}
		return
	}
	title, ok := oneSpace(body[n:])
	if ok && len(body) < len(line) {
		title, ok = cutMilliseconds(title, containsMilliseconds(line))
	}
	if !ok || len(body) == len(line) {
		p.out.complain("a result line has an unknown form: %q", line)
		return
	}
	// A test outside suites gets a name that begins with the separator: "- title".
	names := p.suites.names
	if len(names) == 0 {
		names = []string{""}
	}
	if name, ok := p.out.join(names, " - ", title); ok {
		p.out.setJoined(strip(name), status)
	}
}
