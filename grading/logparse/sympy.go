package logparse

import "strings"

// sympy reads bin/test --verbose. Its traceback headings ("___ file.py:test ___")
// are searched for first and give FAILED for much that is no heading; the rows'
// ids do not look like that, so it does no harm, but it must be reproduced. Result
// lines win over headings wherever they stand in the log.
type sympy struct {
	out      *Result
	results  Statuses
	headings Statuses
}

func newSympy(_ Context, out *Result) lineParser { return &sympy{out: out} }

func (p *sympy) line(line string) {
	if name, ok := sympyHeading(line); ok {
		p.headings.Set(name, Failed)
	}
	line = strip(line)
	if !strings.HasPrefix(line, "test_") {
		return
	}
	var status Status
	switch {
	case strings.HasSuffix(line, " E"):
		status = Error
	case strings.HasSuffix(line, " F"):
		status = Failed
	case strings.HasSuffix(line, " ok"):
		status = Passed
	default:
		return
	}
	name, _ := token(line)
	p.results.Set(name, status)
}

func (p *sympy) end() {
	p.out.Statuses = p.headings
	for name, status := range p.results.All() {
		p.out.set(name, status)
	}
}

// sympyHeading finds "<space>name.py:name<space>" with the widest names: from the
// first space of the line to the last, cut at the last ".py:" between.
func sympyHeading(line string) (string, bool) {
	last := strings.LastIndexByte(line, ' ')
	if last < 0 {
		return "", false
	}
	mid := strings.LastIndex(line[:last], ".py:")
	if mid < 0 {
		return "", false
	}
	first := strings.IndexByte(line[:mid], ' ')
	if first < 0 {
		return "", false
	}
	return line[first+1 : last], true
}
