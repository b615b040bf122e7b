package grading

import (
	"strings"
	"testing"

	"github.com/evalrun/evalrun/grading/logparse"
)

// TestOutcomeOfOwn: whose doing it was, from the log and what is known besides.
func TestOutcomeOfOwn(t *testing.T) {
	const parser = "parse_log_pytest"
	exit := 2
	log := func(text string) Report {
		code := exit
		if strings.HasPrefix(text, "PASSED") {
			code = 0
		}
		return FromRegion(SWEBench5, text, code, parser, logparse.Context{}, Expectation{FailToPass: []string{"t.py::a"}})
	}
	for what, c := range map[string]struct {
		report Report
		known  Circumstances
		want   Outcome
		reason string
	}{
		"the tests pass":                     {log("PASSED t.py::a\n"), Circumstances{Parser: parser}, Resolved, ""},
		"they pass, killed for memory":       {log("PASSED t.py::a\n"), Circumstances{Parser: parser, OutOfMemory: "much"}, Resolved, ""},
		"they fail":                          {log("FAILED t.py::a\n"), Circumstances{Parser: parser, Exit: &exit}, Unresolved, "t.py::a"},
		"they fail, killed for memory":       {log("FAILED t.py::a\n"), Circumstances{Parser: parser, OutOfMemory: "much"}, OutOfMemory, "much"},
		"they fail, and something is missed": {log("FAILED t.py::a\n"), Circumstances{Parser: parser, Missing: "x"}, Unresolved, "t.py::a"},
		"nothing ran":                        {log("boom\n"), Circumstances{Parser: parser, Exit: &exit}, Unresolved, "exited with 2"},
		"nothing ran, exit unknown":          {log("boom\n"), Circumstances{Parser: parser}, Unresolved, ""},
		"nothing ran, killed for memory":     {log("boom\n"), Circumstances{Parser: parser, OutOfMemory: "much", Missing: "x"}, OutOfMemory, "much"},
		"nothing ran, something is missed":   {log("boom\n"), Circumstances{Parser: parser, Missing: "left-pad"}, Ungradeable, "left-pad"},
		"the log blames the surroundings":    {log("could not connect: Network is unreachable\n"), Circumstances{Parser: parser, Exit: &exit}, Unresolved, "exited with 2"},
		"no such parser":                     {FromRegion(SWEBench5, "x", 0, "none", logparse.Context{}, Expectation{}), Circumstances{Parser: "none", Missing: "x"}, Ungradeable, `"none"`},
		"no markers":                         {FromLog(SWEBench5, "x", parser, logparse.Context{}, Expectation{}), Circumstances{Parser: parser}, Unresolved, ""},
	} {
		got, reason := c.report.Outcome(c.known)
		if got != c.want || !strings.Contains(reason, c.reason) {
			t.Errorf("%s: %s (%s), want %s (…%s…)", what, got, reason, c.want, c.reason)
		}
	}
}
