package regrade

import (
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/grading/logparse"
)

// Parsed is what one log says, without a row to grade it by.
type Parsed struct {
	Parser    string            `json:"parser"`
	Found     bool              `json:"found"` // the rules take the log as that of a run of the tests
	BadCodes  []string          `json:"bad_codes"`
	StatusMap logparse.Statuses `json:"status_map"` // in the order of the log; empty if not found
	ExitCode  *int              `json:"exit_code"`  // of the test command; null where the log has none

	Reason string `json:"-"` // why not found, or what the parser could not read
}

// Parse reads one log. What has no markers at all is taken for the tests' output
// alone, and goes to the parser as it is, carriage returns and all.
func Parse(rules grading.Rules, open grading.Source, parser string, in logparse.Context) (Parsed, error) {
	report, err := grading.FromLogSource(rules, open, parser, in, grading.Expectation{})
	if err != nil {
		return Parsed{}, err
	}
	if report.Unread && len(report.BadCodes) == 0 {
		marked, err := hasMarkers(open)
		if err != nil {
			return Parsed{}, err
		}
		if !marked {
			if report, err = grading.FromVerbatim(rules, open, parser, in, grading.Expectation{}); err != nil {
				return Parsed{}, err
			}
		}
	}
	p := Parsed{Parser: parser, Found: report.Found, BadCodes: append([]string{}, report.BadCodes...), ExitCode: report.ExitCode, Reason: report.ParserReason}
	if p.Found {
		p.StatusMap = report.Statuses
	} else {
		p.Reason = report.Reason
	}
	return p, nil
}

func hasMarkers(open grading.Source) (bool, error) {
	r, err := open()
	if err != nil {
		return false, err
	}
	defer r.Close()
	var cutter logparse.Cutter
	for piece, err := range logparse.Pieces(r) {
		if err != nil {
			return false, err
		}
		cutter.Feed(piece)
	}
	return cutter.Marked(), nil
}
