package logparse

import (
	"fmt"
	"slices"
	"strings"
)

// Edition chooses whose behaviour a parser has where releases of the official
// harness differ.
type Edition int

const (
	V5  Edition = iota // swebench 5.0.2
	V41                // swebench 4.1.0
)

// Context is what a few parsers need to know of the instance, and the edition.
type Context struct {
	Repo       string
	Version    string
	InstanceID string
	Edition    Edition
}

// Result is what a parser read.
type Result struct {
	Statuses Statuses
	// Reason says what the parser could not make sense of, where the official
	// parser would have raised an exception. Empty when all went well.
	Reason string

	joined int // total length of the names made by setIn
}

// lineParser reads a log line by line; end comes after the last line.
type lineParser interface {
	line(line string)
	end()
}

// eachLine is a lineParser without state at the end.
type eachLine func(line string)

func (f eachLine) line(line string) { f(line) }
func (f eachLine) end()             {}

// parser is one registry entry: exactly one of the two fields is set. Parsers
// whose rules look at lines are lines; those whose patterns cross lines are text.
type parser struct {
	lines func(in Context, out *Result) lineParser
	text  func(in Context, text string, out *Result)
}

// Parse reads a test region (or a whole log) with the named parser. An unknown
// name gives no statuses and a reason. Text is taken verbatim: newlines are
// normalised by Cut and Pieces, not here.
func Parse(name, region string, in Context) Result {
	if p := registry[name]; p.text != nil {
		var out Result
		p.text(in, region, &out)
		return out
	}
	r := NewReader(name, in)
	r.Feed(region)
	return r.Result()
}

// Known reports whether a parser has this name.
func Known(name string) bool {
	_, ok := registry[name]
	return ok
}

// Names returns the names of all parsers, sorted: the official registry's and
// three that only the classic releases had (emotion, cypress, plotly).
func Names() []string {
	names := make([]string, 0, len(registry))
	for name := range registry {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// ForRepo returns the name of the parser the classic harness uses for a
// repository ("owner/name"), for rows that do not name one themselves.
func ForRepo(repo string) (name string, ok bool) {
	name, ok = repoParsers[repo]
	if !ok {
		// Repository names are case-insensitive where they are hosted.
		for known, n := range repoParsers {
			if strings.EqualFold(known, repo) {
				return n, true
			}
		}
	}
	return name, ok
}

// set records a status.
func (r *Result) set(name string, status Status) { r.Statuses.Set(name, status) }

// complain keeps the first reason; later ones are usually its echo.
func (r *Result) complain(format string, args ...any) {
	if r.Reason == "" {
		r.Reason = fmt.Sprintf(format, args...)
	}
}

// Names made of a suite and a title can be far longer than the log: one long
// suite line before many short titles. No real log comes near these limits.
const (
	maxJoinedName  = 1 << 16
	maxJoinedTotal = 1 << 28
)

// setIn records a status under the names of the suites and the title, joined.
func (r *Result) setIn(suites []string, sep, title string, status Status) {
	if name, ok := r.join(suites, sep, title); ok {
		r.setJoined(name, status)
	}
}

// join makes the full name of a test, unless names have grown out of bounds.
func (r *Result) join(suites []string, sep, title string) (string, bool) {
	if len(suites) == 0 {
		return title, true
	}
	size := len(title)
	for _, s := range suites {
		size += len(s) + len(sep)
	}
	if size > maxJoinedName || r.joined > maxJoinedTotal {
		r.complain("names of suites and tests are too long to be kept: the log is damaged or was made to do harm")
		return "", false
	}
	var b strings.Builder
	b.Grow(size)
	for _, s := range suites {
		b.WriteString(s)
		b.WriteString(sep)
	}
	b.WriteString(title)
	return b.String(), true
}

func (r *Result) setJoined(name string, status Status) {
	before := r.Statuses.Len()
	r.set(name, status)
	if r.Statuses.Len() > before {
		r.joined += len(name)
	}
}
