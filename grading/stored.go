package grading

import (
	"fmt"
	"math"
	"strings"

	"github.com/evalrun/evalrun/grading/logparse"
)

// FromStoredLogSource is FromLogSource for a log that is all that is left of an
// evaluation, maybe an old one. The first releases of the official harness put no
// markers around the tests' output: of such a log, which says that the patch was
// applied, the whole is read, unless the rules want results inside markers.
func FromStoredLogSource(rules Rules, open Source, parser string, in logparse.Context, want Expectation) (Report, error) {
	return fromLog(rules, open, parser, in, want, true)
}

// FromVerbatim reads text that is no log of a harness, but what a test runner
// printed, and grades it. The text goes to the parser as it is.
func FromVerbatim(rules Rules, open Source, parser string, in logparse.Context, want Expectation) (Report, error) {
	e := evidence{book: rules.book(), parser: parser, in: in, want: want, open: open, verbatim: true}
	if !logparse.Known(parser) {
		return e.unread("%s", noParser(parser))
	}
	read, err := e.parse(0, math.MaxInt64)
	if err != nil {
		return Report{}, err
	}
	report := Grade(e.book.name, want, read.Statuses)
	report.ParserReason = read.Reason
	return report, nil
}

// LogOutcome says how an attempt ended of which only the log is left, and why.
// offline is what the log says could not be fetched (see OfflineSign).
//
// Where nothing could be graded it goes by what the log says of the surroundings:
// there is no better evidence, and a fault of theirs is not the model's.
func (r *Report) LogOutcome(offline string) (Outcome, string) {
	has := func(code string) bool {
		for _, c := range r.BadCodes {
			if c == code {
				return true
			}
		}
		return false
	}
	switch {
	case r.Resolved:
		return Resolved, ""
	case r.Found:
		return Unresolved, r.Reason
	case has(logparse.PatchApplyFailed):
		return ApplyFailed, r.Reason
	case has(logparse.TestsTimedOut), r.InfraClass == "tests_timed_out":
		return TimedOut, r.Reason
	case len(r.BadCodes) > 0:
		return InfraFailed, r.Reason
	case r.InfraFailure():
		return InfraFailed, fmt.Sprintf("the log shows a fault of the surroundings (%s): %s", r.InfraClass, r.Reason)
	case offline != "":
		return Ungradeable, "no test ran, and the surroundings lack what the tests wanted to fetch: " + offline
	case r.Unread:
		return Ungradeable, r.Reason
	}
	return Unresolved, r.Reason
}

// FindOfflineSign is OfflineSign for a log that is too long to be held in memory.
func FindOfflineSign(open Source) (string, error) {
	sign := ""
	err := open.each(func(piece string) {
		if sign == "" {
			sign = strings.Clone(OfflineSign(piece))
		}
	})
	return sign, err
}
