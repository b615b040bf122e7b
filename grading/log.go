package grading

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/evalrun/evalrun/grading/logparse"
)

// Source opens a log for reading, as often as it is asked to.
type Source func() (io.ReadCloser, error)

// FromLog grades a whole log in the official format: the tests' output between
// markers, the exit code behind them. It believes what the log says of itself, as
// the official harness does; a run of our own has better evidence and uses
// FromRegion.
func FromLog(rules Rules, log, parser string, in logparse.Context, want Expectation) Report {
	report, _ := FromLogSource(rules, OfString(log), parser, in, want) // reading a string cannot fail
	return report
}

// FromRegion grades what the tests printed, where the caller knows by itself where
// their output began and ended and how the test command exited. Markers that the
// output contains mean nothing here: whoever wrote them, it was not the harness.
func FromRegion(rules Rules, region string, exitCode int, parser string, in logparse.Context, want Expectation) Report {
	report, _ := FromRegionSource(rules, OfString(region), exitCode, parser, in, want)
	return report
}

// FromLogSource is FromLog for a log that is too long to be held in memory: it is
// read two to four times, in pieces. Parsers whose patterns cross lines (some of
// JavaScript, and doctest) hold the tests' output all the same.
func FromLogSource(rules Rules, open Source, parser string, in logparse.Context, want Expectation) (Report, error) {
	return fromLog(rules, open, parser, in, want, false)
}

func fromLog(rules Rules, open Source, parser string, in logparse.Context, want Expectation, old bool) (Report, error) {
	var cutter logparse.Cutter
	if err := open.each(cutter.Feed); err != nil {
		return Report{}, err
	}
	e := evidence{book: rules.book(), parser: parser, in: in, want: want, open: open, log: cutter.Log()}
	e.from, e.to = cutter.Region()
	if old && e.book.wholeLog && cutter.FirstFormat() {
		e.log.Found, e.from, e.to = true, 0, math.MaxInt64
		e.book.evidence = want.FailOnly // those harnesses asked for none
	}
	report, err := e.grade()
	report.BadCodes = e.log.BadCodes
	return report, err
}

// FromRegionSource is FromRegion for output that is too long to be held in memory.
func FromRegionSource(rules Rules, open Source, exitCode int, parser string, in logparse.Context, want Expectation) (Report, error) {
	e := evidence{book: rules.book(), parser: parser, in: in, want: want, open: open,
		log: logparse.Log{Found: true, ExitCode: &exitCode}, to: math.MaxInt64}
	return e.grade()
}

// OfString is a log that is at hand.
func OfString(text string) Source {
	return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
}

// each opens the log and passes it on in pieces.
func (open Source) each(feed func(piece string)) error { return open.pieces(false, feed) }

func (open Source) pieces(verbatim bool, feed func(piece string)) error {
	r, err := open()
	if err != nil {
		return err
	}
	defer r.Close()
	split := logparse.Pieces
	if verbatim {
		split = logparse.VerbatimPieces
	}
	for piece, err := range split(r) {
		if err != nil {
			return err
		}
		feed(piece)
	}
	return nil
}

// evidence is all that a verdict on one log can rest on.
type evidence struct {
	book     rulebook
	parser   string
	in       logparse.Context
	want     Expectation
	open     Source
	log      logparse.Log // without its text
	from, to int64        // the region
	verbatim bool         // carriage returns stay
}

func (e *evidence) grade() (Report, error) {
	switch {
	case !logparse.Known(e.parser):
		return e.unread("%s", noParser(e.parser))
	case len(e.log.BadCodes) > 0:
		return e.notFound(logparse.Result{}, "the log says it cannot be graded: %s", strings.Join(e.log.BadCodes, ", "))
	case !e.log.Found:
		return e.unread("the log lacks the marker %q or %q: the test command did not run to its end", logparse.StartTestOutput, logparse.EndTestOutput)
	}
	read, err := e.parse(e.from, e.to)
	if err != nil {
		return Report{}, err
	}
	if read.Statuses.Len() == 0 && e.book.wholeLog && e.to != math.MaxInt64 {
		// Where streams were merged in another order, results end outside the markers.
		if read, err = e.parse(0, math.MaxInt64); err != nil {
			return Report{}, err
		}
	}
	if read.Statuses.Len() == 0 && e.book.evidence {
		var signs logparse.SuiteSigns
		if err := e.open.each(signs.Feed); err != nil {
			return Report{}, err
		}
		if !signs.Ran {
			return e.notFound(read, "no test has a status in the log, and nothing shows that a test suite ran")
		}
	}
	if code := e.log.ExitCode; e.book.crossCheck && code != nil && *code != 0 && read.Statuses.Len() > 0 && !anyFailed(read.Statuses) {
		return e.notFound(read, "the test command exited with %d, yet no test in the log failed: the log does not describe that run", *code)
	}
	report := Grade(e.book.name, e.want, read.Statuses)
	report.ParserReason = read.Reason
	report.ExitCode = e.log.ExitCode
	return report, nil
}

// parse reads the part of the log between two positions.
func (e *evidence) parse(from, to int64) (logparse.Result, error) {
	e.in.Edition = e.book.edition
	reader := logparse.NewReader(e.parser, e.in)
	pos := int64(0)
	err := e.open.pieces(e.verbatim, func(piece string) {
		first, last := max(from-pos, 0), min(to-pos, int64(len(piece)))
		if first < last {
			reader.Feed(piece[first:last])
		}
		pos += int64(len(piece))
	})
	if err != nil {
		return logparse.Result{}, err
	}
	return reader.Result(), nil
}

func noParser(name string) string {
	return fmt.Sprintf("no log parser is called %q; name one in the row's log_parser", name)
}

// unread is the report on a log whose tests' output cannot be read at all.
func (e *evidence) unread(format string, args ...any) (Report, error) {
	report, err := e.notFound(logparse.Result{}, format, args...)
	report.Unread = true
	return report, err
}

func (e *evidence) notFound(read logparse.Result, format string, args ...any) (Report, error) {
	var search infraSearch
	if err := e.open.each(search.feed); err != nil {
		return Report{}, err
	}
	report := Report{
		Rules: e.book.name, Reason: fmt.Sprintf(format, args...),
		ParserReason: read.Reason, ExitCode: e.log.ExitCode, Statuses: read.Statuses,
	}
	report.InfraClass, _, report.InfraAmbiguous = search.result()
	return report, nil
}

func anyFailed(statuses logparse.Statuses) bool {
	for _, status := range statuses.All() {
		if status == Failed || status == Error {
			return true
		}
	}
	return false
}
