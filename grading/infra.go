package grading

import (
	"strings"
)

// infraSign is a text that shows broken surroundings. The first in the list wins,
// wherever the texts stand in the log.
type infraSign struct {
	class     string
	ambiguous bool // a patch can cause it, too
	texts     []string
	find      func(log string) (at, length int) // for what is not a plain text
}

var infraSigns = []infraSign{
	{class: "browser_launch_failed", texts: []string{"Failed to launch", "Failed to connect to the bus"}},
	{class: "display_unavailable", texts: []string{"cannot open display", "Missing X server", "unable to open X display"}},
	{class: "out_of_memory", texts: []string{"Cannot allocate memory", "OutOfMemoryError"}, find: findKilled},
	{class: "container_unavailable", texts: []string{"Error response from daemon", "Cannot connect to the Docker daemon"}},
	{class: "network_unreachable", texts: []string{"Could not resolve host", "Temporary failure in name resolution"}},
	{class: "missing_module", ambiguous: true, texts: []string{"Cannot find module", "MODULE_NOT_FOUND", "ModuleNotFoundError"}},
	{class: "no_tests_collected", ambiguous: true, texts: []string{"no tests ran", "collected 0 items"}},
	{class: "tests_timed_out", ambiguous: true, find: findTimeout},
}

// InfraFailure looks for a known sign of broken surroundings in a log. The class
// is the official name; the reason quotes the line. It is advice: a log can show
// a sign and be fine, so it never changes a verdict.
func InfraFailure(log string) (class, reason string, ambiguous bool) {
	var search infraSearch
	search.feed(log)
	return search.result()
}

// infraSearch is InfraFailure for a log that comes in pieces of whole lines.
type infraSearch struct {
	rank   int // 1 + index of the first sign found so far; 0 is none
	reason string
}

func (s *infraSearch) feed(piece string) {
	signs := infraSigns
	if s.rank > 0 {
		signs = signs[:s.rank-1]
	}
	for i, sign := range signs {
		if at, n := sign.in(piece); at >= 0 {
			s.rank, s.reason = i+1, lineAround(piece, at, n)
			return
		}
	}
}

func (s *infraSearch) result() (class, reason string, ambiguous bool) {
	if s.rank == 0 {
		return "", "", false
	}
	sign := infraSigns[s.rank-1]
	return sign.class, s.reason, sign.ambiguous
}

// in returns where the sign stands, or -1.
func (sign infraSign) in(log string) (at, length int) {
	for _, text := range sign.texts {
		if i := strings.Index(log, text); i >= 0 {
			return i, len(text)
		}
	}
	if sign.find != nil {
		return sign.find(log)
	}
	return -1, 0
}

// findKilled finds "Killed" alone on a line, the shell's word for SIGKILL.
func findKilled(log string) (at, length int) {
	const word = "Killed"
	for from := 0; ; {
		i := strings.Index(log[from:], word)
		if i < 0 {
			return -1, 0
		}
		i += from
		end := i + len(word)
		if (i == 0 || log[i-1] == '\n') && (end == len(log) || log[end] == '\n') {
			return i, len(word)
		}
		from = end
	}
}

// findTimeout finds "Timeout error: <digits> seconds exceeded".
func findTimeout(log string) (at, length int) {
	const head, tail = "Timeout error: ", " seconds exceeded"
	for from := 0; ; {
		i := strings.Index(log[from:], head)
		if i < 0 {
			return -1, 0
		}
		i += from
		rest := log[i+len(head):]
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		if digits > 0 && strings.HasPrefix(rest[digits:], tail) {
			return i, len(head) + digits + len(tail)
		}
		from = i + len(head)
	}
}

// lineAround returns the line that holds the match, cut to a readable length.
func lineAround(log string, at, length int) string {
	const side = 80
	start, end := max(0, at-side), min(len(log), at+length+side)
	if i := strings.LastIndexByte(log[start:at], '\n'); i >= 0 {
		start += i + 1
	}
	if i := strings.IndexByte(log[at+length:end], '\n'); i >= 0 {
		end = at + length + i
	}
	line := strings.ToValidUTF8(log[start:end], "")
	return strings.Clone(strings.TrimSpace(line))
}
