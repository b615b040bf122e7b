package datasets

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// Problem is one fault of the input.
type Problem struct {
	Position
	InstanceID string // "" when the fault is not one instance's, or its id is unknown
	Reason     string // what is wrong
	Fix        string // what to do about it; may be ""
	Fatal      bool   // false: a warning, the input is used all the same
}

// String is one line: file:line: instance: reason (what to do).
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(oneLine(p.Position.String()) + ": ")
	}
	if p.InstanceID != "" {
		b.WriteString(oneLine(p.InstanceID) + ": ")
	}
	if !p.Fatal {
		b.WriteString("warning: ")
	}
	b.WriteString(oneLine(p.Reason))
	if p.Fix != "" {
		b.WriteString(" (" + oneLine(p.Fix) + ")")
	}
	return b.String()
}

// oneLine keeps control characters of hostile ids and file names from breaking
// the one-problem-per-line form or the terminal.
func oneLine(s string) string {
	if strings.IndexFunc(s, unicode.IsControl) < 0 {
		return s
	}
	q := fmt.Sprintf("%q", s)
	return q[1 : len(q)-1]
}

// Problems are all faults found in one input, in the order they were met. As an
// error it prints one line for each.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Fatal returns the problems that keep the input from being used.
func (ps Problems) Fatal() Problems { return ps.filter(true) }

// Warnings returns the problems that do not.
func (ps Problems) Warnings() Problems { return ps.filter(false) }

func (ps Problems) filter(fatal bool) Problems {
	var out Problems
	for _, p := range ps {
		if p.Fatal == fatal {
			out = append(out, p)
		}
	}
	return out
}

// Err returns nil when nothing is fatal, else the problems, warnings included.
func (ps Problems) Err() error {
	for _, p := range ps {
		if p.Fatal {
			return ps
		}
	}
	return nil
}

// maxProblems is how many are collected of one input before reading stops.
const maxProblems = 50_000

var errFull = errors.New("too many problems")

func (ps *Problems) full() bool { return len(*ps) >= maxProblems }

// stopped says that what follows was not read.
func (ps *Problems) stopped(pos Position) {
	ps.fatal(pos, "", fmt.Sprintf("%d problems: what follows was not read", maxProblems), "correct these first")
}

// maxWords bounds the text of one problem: it can quote what the input holds.
const maxWords = 1000

func clip(s string) string {
	if len(s) <= maxWords {
		return s
	}
	return strings.ToValidUTF8(s[:maxWords], "") + "…"
}

func (ps *Problems) add(p Problem) {
	p.InstanceID, p.Reason, p.Fix = clip(p.InstanceID), clip(p.Reason), clip(p.Fix)
	*ps = append(*ps, p)
}

func (ps *Problems) fatal(pos Position, id, reason, fix string) {
	ps.add(Problem{Position: pos, InstanceID: id, Reason: reason, Fix: fix, Fatal: true})
}

func (ps *Problems) warn(pos Position, id, reason, fix string) {
	ps.add(Problem{Position: pos, InstanceID: id, Reason: reason, Fix: fix})
}

// fault is an error that knows what to do about it; it becomes a Problem where
// file, line and instance are known.
type fault struct{ reason, fix string }

func (f *fault) Error() string {
	if f.fix == "" {
		return f.reason
	}
	return f.reason + " (" + f.fix + ")"
}

// prefixed makes err a fault about a named thing. fix is for errors that know none.
func prefixed(prefix string, err error, fix string) *fault {
	if f, ok := errors.AsType[*fault](err); ok {
		return &fault{prefix + f.reason, f.fix}
	}
	return &fault{prefix + err.Error(), fix}
}

// fatalErr adds err, split into reason and fix where it can be.
func (ps *Problems) fatalErr(pos Position, id string, err error) {
	if f, ok := errors.AsType[*fault](err); ok {
		ps.fatal(pos, id, f.reason, f.fix)
		return
	}
	ps.fatal(pos, id, err.Error(), "")
}
