package grading

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/evalrun/evalrun/grading/logparse"
)

// Doubt is a disagreement between the evidence of one attempt: a reason not to
// believe a log that says resolved.
type Doubt struct {
	Check  string `json:"check"`
	Detail string `json:"detail"`
}

func (d Doubt) String() string { return d.Check + ": " + d.Detail }

// The checks.
const (
	CheckContradiction = "contradiction" // the log says two things of one test
	CheckUnfinished    = "unfinished"    // the runner's own summary is missing
	CheckSummary       = "summary"       // the summary counts something else than the log shows
	CheckReport        = "report"        // the structured report says something else than the log
	CheckExpected      = "expected"      // a test of the bug fails as it is expected to, which the rules take for a pass
)

// CrossCheck looks in the tests' output for what contradicts a verdict of
// resolved: tests that the log calls failed first and passed later, and, for
// runners that end with a summary, one that is missing or counts something else.
// It is for output that ended with this exit code, whole or not; a verdict other
// than resolved has nothing to be doubted.
func CrossCheck(open Source, parser string, want Expectation, report Report) ([]Doubt, error) {
	if !report.Resolved {
		return nil, nil
	}
	doubts := contradictions(want, report.Statuses)
	kind, known := summaries[family(parser)]
	if !known || want.FailOnly {
		return doubts, nil
	}
	var s summary
	err := open.each(func(piece string) {
		for line := range strings.Lines(piece) {
			if len(line) < 4096 && kind.worth(line) {
				kind.read(&s, escapes.ReplaceAllString(strings.TrimRight(line, "\r\n"), ""))
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return append(doubts, s.doubts(kind, report.Statuses)...), nil
}

// contradictions are tests of the row that the log calls passed after it called
// them failed, and tests of the bug that do not pass. Honest logs have the other
// order: a test passes, and its teardown fails.
func contradictions(want Expectation, statuses logparse.Statuses) []Doubt {
	var doubts []Doubt
	for _, list := range [][]string{want.FailToPass, want.PassToPass} {
		for _, id := range list {
			before, ok := statuses.Before(id)
			if now, _ := statuses.Get(id); ok && now == Passed && (before == Failed || before == Error) {
				doubts = append(doubts, Doubt{CheckContradiction, fmt.Sprintf("the log says %s of %s, and later %s", before, id, now)})
			}
		}
	}
	for _, id := range want.FailToPass {
		if status, _ := statuses.Get(id); status == XFail {
			doubts = append(doubts, Doubt{CheckExpected, id + " does not pass: it fails as somebody expects it to, which the rules count as a pass"})
		}
	}
	return doubts
}

// summary is what a runner says of its whole run: how many passed, all runs of a
// log added up, and how many failed in the last. Tests of a test framework print
// the summaries of runs of their own before it.
type summary struct {
	seen           int
	passed, failed int
}

// runner says how one kind of runner sums up.
type runner struct {
	marks  []string // a summary line has one of them
	counts bool     // each test that passed has a line and a name of its own
	read   func(*summary, string)
}

func (k runner) worth(line string) bool {
	for _, m := range k.marks {
		if strings.Contains(line, m) {
			return true
		}
	}
	return false
}

var (
	escapes   = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")
	pytestEnd = regexp.MustCompile(`^=*\s*((?:\d+ [a-z]+(?:, )?)+|no tests (?:ran|collected)) in \d[\d.]*\s?(?:s|seconds)\b`)
	wordCount = regexp.MustCompile(`(\d+) ([a-z]+)`)
	cargoEnd  = regexp.MustCompile(`^test result: \w+\. (\d+) passed; (\d+) failed;`)
	sympyEnd  = regexp.MustCompile(`tests finished: ((?:\d+ [a-z ]+(?:, )?)+)`)
	ranTests  = regexp.MustCompile(`^Ran (\d+) tests? in `)
)

var summaries = map[string]runner{
	"pytest": {marks: []string{" in "}, counts: true, read: func(s *summary, line string) {
		if m := pytestEnd.FindStringSubmatch(line); m != nil {
			s.add(m[1], "passed xpassed", "failed error errors")
		}
	}},
	"sympy": {marks: []string{"tests finished:"}, read: func(s *summary, line string) {
		if m := sympyEnd.FindStringSubmatch(line); m != nil {
			s.add(m[1], "passed", "failed exceptions")
		}
	}},
	"cargo": {marks: []string{"test result: "}, counts: true, read: func(s *summary, line string) {
		if m := cargoEnd.FindStringSubmatch(line); m != nil {
			s.seen++
			s.passed, s.failed = s.passed+number(m[1]), number(m[2])
		}
	}},
	"unittest": {marks: []string{"Ran "}, read: func(s *summary, line string) {
		if m := ranTests.FindStringSubmatch(line); m != nil {
			s.seen++
			s.passed += number(m[1])
		}
	}},
}

// family is the runner behind a parser, where it ends with a summary we know.
func family(parser string) string {
	switch parser {
	case "parse_log_pytest", "parse_log_astroid", "parse_log_flask", "parse_log_marshmallow", "parse_log_pvlib", "parse_log_pyvista", "parse_log_sqlfluff",
		"parse_log_xarray", "parse_log_pytest_options", "parse_log_pydicom", "parse_log_requests", "parse_log_pylint", "parse_log_pytest_v2",
		"parse_log_astropy", "parse_log_scikit", "parse_log_sphinx", "parse_log_matplotlib", "parse_log_seaborn":
		return "pytest"
	case "parse_log_sympy":
		return "sympy"
	case "parse_log_cargo":
		return "cargo"
	case "parse_log_django":
		return "unittest"
	}
	return ""
}

// add takes in a list such as "1 failed, 3 passed".
func (s *summary) add(list, passed, failed string) {
	s.seen++
	s.failed = 0
	for _, m := range wordCount.FindAllStringSubmatch(list, -1) {
		switch n := number(m[1]); {
		case hasWord(passed, m[2]):
			s.passed += n
		case hasWord(failed, m[2]):
			s.failed += n
		}
	}
}

func (s *summary) doubts(kind runner, statuses logparse.Statuses) []Doubt {
	passed, failed := 0, 0
	for _, status := range statuses.All() {
		switch status {
		case Passed:
			passed++
		case Failed, Error:
			failed++
		}
	}
	var doubts []Doubt
	switch {
	case s.seen == 0:
		doubts = append(doubts, Doubt{CheckUnfinished, "the test runner ends with a summary, and the log has none"})
	case kind.counts && passed > s.passed:
		doubts = append(doubts, Doubt{CheckSummary, fmt.Sprintf("%d tests have passed in the log, %d by the runner's summary", passed, s.passed)})
	}
	if s.failed > 0 && failed == 0 {
		doubts = append(doubts, Doubt{CheckSummary, fmt.Sprintf("no test has failed in the log, %d by the runner's summary", s.failed)})
	}
	return doubts
}

func hasWord(list, word string) bool {
	for w := range strings.FieldsSeq(list) {
		if w == word {
			return true
		}
	}
	return false
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n > 1<<30 {
		return 1 << 30
	}
	return n
}
