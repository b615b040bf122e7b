package grading

import (
	"fmt"
	"strings"

	"github.com/evalrun/evalrun/grading/logparse"
)

// FromLog grades a whole log in the official format: the tests' output between
// markers, the exit code behind them. It believes what the log says of itself, as
// the official harness does; a run of our own has better evidence and uses
// FromRegion.
func FromLog(rules Rules, log, parser string, in logparse.Context, want Expectation) Report {
	cut := logparse.Cut(log)
	e := evidence{book: rules.book(), parser: parser, in: in, want: want, text: cut.Text, exitCode: cut.ExitCode}
	report := e.grade(cut)
	report.BadCodes = cut.BadCodes
	return report
}

// FromRegion grades what the tests printed, where the caller knows by itself where
// their output began and ended and how the test command exited. Markers that the
// output contains mean nothing here: whoever wrote them, it was not the harness.
func FromRegion(rules Rules, region string, exitCode int, parser string, in logparse.Context, want Expectation) Report {
	text := logparse.Normalise(region)
	e := evidence{book: rules.book(), parser: parser, in: in, want: want, text: text, exitCode: &exitCode}
	return e.grade(logparse.Log{Text: text, Region: text, Found: true})
}

// evidence is all that a verdict on one log can rest on.
type evidence struct {
	book     rulebook
	parser   string
	in       logparse.Context
	want     Expectation
	text     string // the whole log
	exitCode *int
}

func (e evidence) grade(cut logparse.Log) Report {
	if !logparse.Known(e.parser) {
		return e.notFound(fmt.Sprintf("no log parser is called %q; name one in the row's log_parser", e.parser), logparse.Result{})
	}
	if len(cut.BadCodes) > 0 {
		return e.notFound("the log says it cannot be graded: "+strings.Join(cut.BadCodes, ", "), logparse.Result{})
	}
	if !cut.Found {
		return e.notFound("the log lacks "+missingMarkers(cut.Text)+": the test command did not run to its end", logparse.Result{})
	}
	e.in.Edition = e.book.edition
	read := logparse.Parse(e.parser, cut.Region, e.in)
	if read.Statuses.Len() == 0 && e.book.wholeLog && len(cut.Region) != len(cut.Text) {
		// Where streams were merged in another order, results end outside the markers.
		read = logparse.Parse(e.parser, cut.Text, e.in)
	}
	if read.Statuses.Len() == 0 && e.book.evidence && !logparse.SuiteRan(cut.Text) {
		return e.notFound("no test has a status in the log, and nothing shows that a test suite ran", read)
	}
	if e.book.crossCheck && e.exitCode != nil && *e.exitCode != 0 && read.Statuses.Len() > 0 && !anyFailed(read.Statuses) {
		return e.notFound(fmt.Sprintf("the test command exited with %d, yet no test in the log failed: the log does not describe that run", *e.exitCode), read)
	}
	report := Grade(e.book.name, e.want, read.Statuses)
	report.ParserReason = read.Reason
	report.ExitCode = e.exitCode
	return report
}

func (e evidence) notFound(reason string, read logparse.Result) Report {
	report := Report{Rules: e.book.name, Reason: reason, ParserReason: read.Reason, ExitCode: e.exitCode, Statuses: read.Statuses}
	report.InfraClass, _, report.InfraAmbiguous = InfraFailure(e.text)
	return report
}

func missingMarkers(text string) string {
	var missing []string
	for _, m := range []string{logparse.StartTestOutput, logparse.EndTestOutput} {
		if !strings.Contains(text, m) {
			missing = append(missing, fmt.Sprintf("%q", m))
		}
	}
	return strings.Join(missing, " and ")
}

func anyFailed(statuses logparse.Statuses) bool {
	for _, status := range statuses.All() {
		if status == Failed || status == Error {
			return true
		}
	}
	return false
}
