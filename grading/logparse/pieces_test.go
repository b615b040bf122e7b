package logparse

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
)

func readAll(t *testing.T, r io.Reader) (pieces []string) {
	t.Helper()
	for piece, err := range Pieces(r) {
		if err != nil {
			t.Fatal(err)
		}
		pieces = append(pieces, piece)
	}
	return pieces
}

// TestPiecesAreTheNormalisedLog cuts random logs of several pieces: joined they are
// the whole, and each but the last ends with a line.
func TestPiecesAreTheNormalisedLog(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	parts := []string{"\n", "\r\n", "\r", "a line of a log\n", "é", "€", "\xe2\x82", "\xff", "😀", strings.Repeat("x", 1000), strings.Repeat("progress\r", 300), strings.Repeat("y", pieceSize)}
	for range 60 {
		var b strings.Builder
		for size := rnd.IntN(4 * pieceSize); b.Len() < size; {
			b.WriteString(parts[rnd.IntN(len(parts))])
		}
		log := b.String()
		pieces := readAll(t, iotest.HalfReader(strings.NewReader(log)))
		if strings.Join(pieces, "") != Normalise(log) {
			t.Fatalf("the pieces of a log of %d bytes are not the log", len(log))
		}
		for i, piece := range pieces {
			if i < len(pieces)-1 && !strings.HasSuffix(piece, "\n") {
				t.Errorf("piece %d of %d does not end with a line", i, len(pieces))
			}
		}
	}
}

func TestPiecesCutEndlessLines(t *testing.T) {
	for _, c := range []struct{ head, unit, tail string }{
		{"first\n", "x", "\nPASSED a\n"},
		{"", "€", "\nPASSED a\n"},
		{"", "😀", ""},
	} {
		long := strings.Repeat(c.unit, 40<<20/len(c.unit))
		pieces := readAll(t, strings.NewReader(c.head+long+c.tail))
		lines := strings.Split(strings.Join(pieces, ""), "\n")
		want := strings.Split(c.head+"\n"+c.tail, "\n")
		kept := lines[len(strings.Split(c.head, "\n"))-1]
		if len(kept) > 2*maxLine || !strings.HasPrefix(long, kept) || len(kept) < maxLine/2 {
			t.Errorf("%q: kept %d bytes of %d", c.unit, len(kept), len(long))
		}
		if strings.HasSuffix(c.tail, "PASSED a\n") && lines[len(lines)-2] != want[len(want)-2] {
			t.Errorf("%q: the line after is %q", c.unit, lines[len(lines)-2])
		}
	}
}

func TestPiecesReportReadingErrors(t *testing.T) {
	broken := errors.New("disk is gone")
	var got error
	text := ""
	for piece, err := range Pieces(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken))) {
		text += piece
		got = err
	}
	if !errors.Is(got, broken) || text != "a\nb" {
		t.Errorf("got %q, %v", text, got)
	}
}

// TestReaderLikeParse feeds every parser its golden log in pieces of lines.
func TestReaderLikeParse(t *testing.T) {
	for _, log := range seeds(t) {
		for _, text := range []string{log, strings.TrimRight(log, "\n"), log + "\n\n"} {
			for _, name := range Names() {
				for _, in := range fuzzContexts {
					r := NewReader(name, in)
					for line := range strings.SplitAfterSeq(text, "\n") {
						r.Feed(line)
					}
					want, got := Parse(name, text, in), r.Result()
					if marshal(t, got.Statuses) != marshal(t, want.Statuses) || got.Reason != want.Reason {
						t.Errorf("%s: in pieces %s %q, at once %s %q", name, marshal(t, got.Statuses), got.Reason, marshal(t, want.Statuses), want.Reason)
					}
				}
			}
		}
	}
}

// TestCutterLikeCut feeds logs line by line.
func TestCutterLikeCut(t *testing.T) {
	for _, log := range []string{
		"a\n" + StartTestOutput + "\nb\n" + EndTestOutput + "\n" + TestExitCode + ": 4\n",
		TestExitCode + ":\n\n\n -3\n" + StartTestOutput + "\n" + TestsErrored + "\n" + EndTestOutput,
		TestExitCode + ":\nno\n" + TestExitCode + ": 1\n" + EndTestOutput + "\n" + StartTestOutput + "\nx",
	} {
		var c Cutter
		for line := range strings.SplitAfterSeq(log, "\n") {
			c.Feed(line)
		}
		got, want := c.Log(), Cut(log)
		if fmt.Sprint(got.Found, got.BadCodes, deref(got.ExitCode)) != fmt.Sprint(want.Found, want.BadCodes, deref(want.ExitCode)) {
			t.Errorf("%q: in pieces %+v, at once %+v", log, got, want)
		}
		if from, to := c.Region(); want.Found && log[from:to] != want.Region {
			t.Errorf("%q: region %q, want %q", log, log[from:to], want.Region)
		}
	}
}

func deref(code *int) string {
	if code == nil {
		return "none"
	}
	return fmt.Sprint(*code)
}

func TestSuiteSignsOverPieces(t *testing.T) {
	for _, log := range []string{"x\nTests:\n\n 4 total\n", "noise\n# tests 3\n", "a 'b': ok\nrest\n"} {
		var s SuiteSigns
		for line := range strings.SplitAfterSeq(log, "\n") {
			s.Feed(line)
		}
		if !s.Ran || !SuiteRan(log) {
			t.Errorf("%q: no sign found", log)
		}
	}
}
