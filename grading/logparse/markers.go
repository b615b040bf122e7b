package logparse

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The lines by which the harness and its scripts mark up a log.
const (
	StartTestOutput  = ">>>>> Start Test Output"
	EndTestOutput    = ">>>>> End Test Output"
	TestExitCode     = ">>>>> Test Exit Code" // followed by ": <number>"
	PatchApplyFailed = ">>>>> Patch Apply Failed"
	PatchApplied     = ">>>>> Applied Patch"
	ResetFailed      = ">>>>> Reset Failed"
	TestsErrored     = ">>>>> Tests Errored"
	TestsTimedOut    = ">>>>> Tests Timed Out"
)

// badCodes are the marks that make a log not gradeable wherever they stand.
var badCodes = [...]string{PatchApplyFailed, ResetFailed, TestsErrored, TestsTimedOut}

// markBegin is how every mark begins.
const markBegin = ">>>>> "

// Log is a log taken apart at the markers.
type Log struct {
	Text     string   // the whole log, newlines normalised
	Region   string   // what the tests printed
	Found    bool     // both markers are there
	BadCodes []string // marks that say the log is not gradeable
	ExitCode *int     // of the test command, where the log has it
}

// Cut takes a log apart. The region lies between the first start marker and
// whichever comes first after it, an end marker or another start marker.
func Cut(log string) Log {
	var c Cutter
	text := Normalise(log)
	c.Feed(text)
	out := c.Log()
	out.Text = text
	if out.Found {
		from, to := c.Region()
		out.Region = text[from:to]
	}
	return out
}

// Cutter finds the markers of a log that comes in pieces, as Pieces gives them.
type Cutter struct {
	seen         int64 // length of the pieces before the current one
	start, stop  int64 // of the region; 0 is not found yet
	ended        bool
	applied      bool
	bad          [len(badCodes)]bool
	exitCode     *int
	awaitingCode bool // an exit code mark ended the piece before
}

// Feed looks at the next piece.
func (c *Cutter) Feed(piece string) {
	if c.awaitingCode {
		c.code(piece)
	}
	findEach(piece, markBegin, func(at int) int {
		c.mark(piece[at:], c.seen+int64(at))
		return 0
	})
	c.seen += int64(len(piece))
}

func (c *Cutter) mark(text string, at int64) {
	switch {
	case strings.HasPrefix(text, StartTestOutput):
		if c.start == 0 {
			c.start = at + int64(len(StartTestOutput))
		} else if c.stop == 0 {
			c.stop = at
		}
	case strings.HasPrefix(text, EndTestOutput):
		c.ended = true
		if c.start > 0 && c.stop == 0 {
			c.stop = at
		}
	case strings.HasPrefix(text, TestExitCode+":"):
		if c.exitCode == nil {
			c.code(text[len(TestExitCode)+1:])
		}
	case strings.HasPrefix(text, PatchApplied):
		c.applied = true
	default:
		for i, code := range badCodes {
			c.bad[i] = c.bad[i] || strings.HasPrefix(text, code)
		}
	}
}

// code reads the number behind an exit code mark, which can stand lines below it.
func (c *Cutter) code(rest string) {
	c.exitCode = exitCode(rest)
	c.awaitingCode = c.exitCode == nil && stripLeft(rest) == ""
}

// Region returns where the region begins and ends in the normalised log.
func (c *Cutter) Region() (from, to int64) {
	if c.stop == 0 {
		return c.start, c.seen // the only end marker stands before the start
	}
	return c.start, c.stop
}

// Marked reports whether the log has any marker of the tests' output.
func (c *Cutter) Marked() bool { return c.start > 0 || c.ended }

// FirstFormat reports whether the log is of one of the first harnesses: they said
// that the patch was applied, and put no markers around the tests' output.
func (c *Cutter) FirstFormat() bool { return c.applied && !c.Marked() }

// Log returns all that is known of the log, without its text.
func (c *Cutter) Log() Log {
	out := Log{Found: c.start > 0 && c.ended, ExitCode: c.exitCode}
	for i, code := range badCodes {
		if c.bad[i] {
			out.BadCodes = append(out.BadCodes, code)
		}
	}
	return out
}

// exitCode reads the number behind an exit code mark; nil if there is none.
func exitCode(rest string) *int {
	rest = stripLeft(rest)
	digits := strings.TrimPrefix(rest, "-")
	n := spanLeft(digits, isDigit)
	if n == 0 {
		return nil
	}
	code, err := strconv.Atoi(digits[:n])
	if err != nil {
		code = math.MaxInt // all that counts is that it is not zero
	}
	if len(digits) < len(rest) {
		code = -code
	}
	return &code
}

// Normalise reads bytes of a log as the harness does: UTF-8 with U+FFFD for what
// is not, and every \r\n and lone \r a newline.
func Normalise(log string) string {
	log = validUTF8(log)
	if strings.IndexByte(log, '\r') < 0 {
		return log
	}
	var b strings.Builder
	b.Grow(len(log))
	for {
		i := strings.IndexByte(log, '\r')
		if i < 0 {
			b.WriteString(log)
			return b.String()
		}
		b.WriteString(log[:i])
		b.WriteByte('\n')
		log = strings.TrimPrefix(log[i+1:], "\n")
	}
}

func validUTF8(log string) string {
	if utf8.ValidString(log) {
		return log
	}
	return replaceInvalid(log)
}

// replaceInvalid puts one U+FFFD for every maximal part of an ill-formed
// sequence, as Python does (Go would put one for every byte).
func replaceInvalid(s string) string {
	var b strings.Builder
	b.Grow(len(s) + 16)
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r != utf8.RuneError || n > 1 {
			b.WriteString(s[i : i+n])
			i += n
			continue
		}
		b.WriteRune(utf8.RuneError)
		i += illFormed(s[i:])
	}
	return b.String()
}

// illFormed returns how many bytes the ill-formed sequence s begins with has:
// as many as could have begun a well-formed one, and at least one.
func illFormed(s string) int {
	lo, hi, need := byte(0x80), byte(0xbf), 0
	switch c := s[0]; {
	case c >= 0xc2 && c <= 0xdf:
		need = 1
	case c >= 0xe0 && c <= 0xef:
		need = 2
		if c == 0xe0 {
			lo = 0xa0
		} else if c == 0xed {
			hi = 0x9f
		}
	case c >= 0xf0 && c <= 0xf4:
		need = 3
		if c == 0xf0 {
			lo = 0x90
		} else if c == 0xf4 {
			hi = 0x8f
		}
	}
	n := 1
	for n <= need && n < len(s) && s[n] >= lo && s[n] <= hi {
		n++
		lo, hi = 0x80, 0xbf
	}
	return n
}
