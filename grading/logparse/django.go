package logparse

import "strings"

// django reads the verbose output of Django's runner (and of unittest, which it
// is built on). A test's own output can stand between its name and its "ok", so
// a line that begins with "ok" passes the test announced last; the name is never
// forgotten, and so an odd "ok" can even pass a test that has failed. That is
// what the datasets' labels were made with.
type django struct {
	out   *Result
	prev  string // the last announced test
	known bool   // there is one
	split djangoSplit
}

const (
	djangoVersion   = "--version is equivalent to version"
	djangoMigration = "Applying sites.0002_alter_domain_unique...test_no_migrations"
)

func newDjango(_ Context, out *Result) lineParser { return &django{out: out} }

func (p *django) line(raw string) {
	p.split.line(raw)
	line := strip(raw)
	if has(line, '-', djangoVersion) {
		p.out.set(djangoVersion, Passed)
	}
	dots := strings.Index(line, " ... ")
	if dots >= 0 {
		line = p.announced(line, dots)
	}
	if strings.HasPrefix(line, "FAIL:") {
		p.heading(line, Failed)
	}
	if dots >= 0 && strings.HasSuffix(line, " ... ERROR") {
		name, _, _ := strings.Cut(line, " ... ERROR")
		p.out.set(name, Error)
	}
	if strings.HasPrefix(line, "ERROR:") {
		p.heading(line, Error)
	}
	if p.known && strings.HasPrefix(line, "ok") {
		p.out.set(p.prev, Passed)
	}
}

// announced reads a line with "name ... result", whose first dots are at dots, and
// returns the line for the checks that follow, which one known oddity changes.
func (p *django) announced(line string, dots int) string {
	p.prev, p.known = line[:dots], true
	whole := len(line)
	if suffix := djangoPassSuffix(line); suffix != "" {
		if strings.HasPrefix(line, djangoMigration) {
			_, line, _ = strings.Cut(line, "...")
			line = strip(line)
		}
		p.out.set(strings.TrimSuffix(line, suffix), Passed)
	}
	// No " ... " stands before the first one; the oddity above moves it.
	from := min(dots, len(line))
	if len(line) != whole {
		from = 0
	}
	if i := strings.Index(line[from:], " ... skipped"); i >= 0 {
		p.out.set(line[:from+i], Skipped)
	}
	if strings.HasSuffix(line, " ... FAIL") {
		name, _, _ := strings.Cut(line, " ... FAIL")
		p.out.set(name, Failed)
	}
	return line
}

func djangoPassSuffix(line string) string {
	for _, suffix := range [...]string{" ... ok", " ... OK", " ...  OK"} {
		if strings.HasSuffix(line, suffix) {
			return suffix
		}
	}
	return ""
}

// heading reads "FAIL: name (module.Class)" above a traceback; only the name up
// to the first space is kept.
func (p *django) heading(line string, status Status) {
	_, rest := token(line)
	name, _ := token(rest)
	if name == "" {
		p.out.complain("a line has a heading and no test: %q", line)
		return
	}
	p.out.set(name, status)
}

func (p *django) end() {
	for _, pat := range p.split.patterns {
		for _, name := range pat.found {
			p.out.set(name, Passed)
		}
	}
}

// has is strings.Contains for words with a byte that few lines have: to look for
// one byte is much faster.
func has(line string, rare byte, words string) bool {
	return strings.IndexByte(line, rare) >= 0 && strings.Contains(line, words)
}

// djangoSplit finds tests whose result was torn off by one of three messages that
// Django is known to print between the name and "ok".
type djangoSplit struct {
	patterns [3]djangoPattern
	count    int    // lines seen
	before   string // the line before the current one
	before2  string // and the one before that
}

// djangoPattern is the state of one message's search.
type djangoPattern struct {
	found   []string
	name    string // of a match that has begun
	begun   bool
	ready   bool // the match is complete if the next line is "ok"
	barrier int  // a match cannot begin above this line
}

const (
	djangoInstalled = "Testing against Django installed in "
	djangoServer    = "Internal Server Error: /"
	djangoCheck     = "System check identified no issues (0 silenced)"
)

func (s *djangoSplit) line(line string) {
	ok := line == "ok"
	for i := range s.patterns {
		pat := &s.patterns[i]
		if pat.ready && ok {
			pat.found = append(pat.found, strings.Clone(pat.name))
			pat.begun = false
			pat.barrier = s.count + 1
		}
		pat.ready = false
	}

	installed := &s.patterns[0]
	if !installed.begun && has(line, 'D', djangoInstalled) {
		installed.name, installed.begun = s.start(line, djangoInstalled, installed.barrier, func(rest string) bool {
			installed.ready = strings.HasSuffix(rest, " silenced).")
			return true
		})
		installed.ready = installed.ready && installed.begun
	} else if installed.begun {
		installed.ready = strings.HasSuffix(line, " silenced).")
	}
	if server := &s.patterns[1]; strings.HasSuffix(line, "/") && strings.Contains(line, djangoServer) {
		server.name, server.ready = s.start(line, djangoServer, server.barrier, func(rest string) bool { return strings.HasSuffix(rest, "/") })
	}
	if check := &s.patterns[2]; strings.HasSuffix(line, djangoCheck) {
		check.name, check.ready = s.start(line, djangoCheck, check.barrier, func(rest string) bool { return rest == "" })
	}
	s.before2, s.before = s.before, line
	s.count++
}

// start finds the first `name WS ... WS message` whose message stands in line and
// whose rest is accepted. Each WS can be a newline, so the name may stand on one
// of the two lines before.
func (s *djangoSplit) start(line, message string, barrier int, accept func(rest string) bool) (name string, ok bool) {
	for from := 0; ; {
		i := strings.Index(line[from:], message)
		if i < 0 {
			return "", false
		}
		i += from
		from = i + 1
		if !accept(line[i+len(message):]) {
			continue
		}
		if name, ok := s.nameBefore(line[:i], barrier); ok {
			return name, true
		}
	}
}

func (s *djangoSplit) nameBefore(head string, barrier int) (string, bool) {
	above := 0 // how many lines above the current one head is
	if head == "" {
		above, head = 1, s.before
	} else {
		r, n := lastRune(head)
		if !isSpace(r) {
			return "", false
		}
		head = head[:len(head)-n]
	}
	head, ok := strings.CutSuffix(head, "...")
	if !ok {
		return "", false
	}
	if head == "" {
		above++
		head = s.before
		if above == 2 {
			head = s.before2
		}
	} else {
		r, n := lastRune(head)
		if !isSpace(r) {
			return "", false
		}
		head = head[:len(head)-n]
	}
	if at := s.count - above; at < 0 || at < barrier {
		return "", false
	}
	return head, true
}
