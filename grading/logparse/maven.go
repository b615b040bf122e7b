package logparse

import "strings"

// maven reads runs of one test each: the command (shown by the shell) names the
// test, Maven's last line says how it went. Commands and results can come out of
// step, so tests wait in a queue; release 4.1 knew the last name only.
type maven struct {
	out     *Result
	in      Context
	waiting []string // tests without result
	early   []Status // results without test
}

// mavenNoName is the key that release 4.1 gives to a result before any name.
const mavenNoName = "---NO TEST NAME FOUND YET---"

func newMaven(in Context, out *Result) lineParser {
	p := &maven{out: out, in: in}
	if in.Edition == V41 {
		p.waiting = []string{mavenNoName}
	}
	return p
}

func (p *maven) line(line string) {
	line = strip(line)
	if name := mavenTest(line); name != "" {
		name = strings.Clone(name)
		if p.in.Edition == V41 {
			p.waiting[0] = name
		} else {
			p.waiting = append(p.waiting, name)
		}
	}
	var status Status
	switch {
	case strings.HasSuffix(line, "BUILD SUCCESS"):
		status = Passed
	case strings.HasSuffix(line, "BUILD FAILURE"):
		status = Failed
	default:
		return
	}
	switch {
	case p.in.Edition == V41:
		p.out.set(p.waiting[0], status)
	case len(p.waiting) > 0:
		p.out.set(p.waiting[0], status)
		p.waiting = p.waiting[1:]
	default:
		p.early = append(p.early, status)
	}
}

func (p *maven) end() {
	if p.in.Edition == V41 {
		return
	}
	for i := 0; i < len(p.waiting) && i < len(p.early); i++ {
		p.out.set(p.waiting[i], p.early[i])
	}
}

// mavenTest returns the value of the last -Dtest= that has one.
func mavenTest(line string) string {
	const option = "-Dtest="
	for end := len(line); ; {
		i := strings.LastIndex(line[:end], option)
		if i < 0 {
			return ""
		}
		value := line[i+len(option):]
		if n := spanLeft(value, notSpace); n > 0 {
			return value[:n]
		}
		end = i
	}
}
