package grading

import (
	"fmt"
	"slices"
	"strings"

	"github.com/evalrun/evalrun/grading/logparse"
)

// Expectation is what a row asks of its tests.
type Expectation struct {
	FailToPass []string
	PassToPass []string
	// FailOnly is eval_type fail_only: the log shows failures only, and a test
	// that it does not show has passed.
	FailOnly bool
}

// Grade turns statuses into a verdict. Each list of the report keeps the order of
// the row. Found is true: whether a log could be graded at all is the business of
// FromLog and FromRegion.
func Grade(rules Rules, want Expectation, statuses logparse.Statuses) Report {
	g := grader{book: rules.book(), failOnly: want.FailOnly, statuses: statuses}
	tests := &TestsStatus{
		FailToFail: Split{Success: []string{}, Failure: []string{}},
		PassToFail: Split{Success: []string{}, Failure: []string{}},
	}
	var f2p, p2p string
	tests.FailToPass, f2p = g.split("FAIL_TO_PASS", want.FailToPass, false)
	tests.PassToPass, p2p = g.split("PASS_TO_PASS", want.PassToPass, true)
	report := Report{Found: true, Rules: g.book.name, Tests: tests, Statuses: statuses}
	switch {
	case f2p != "":
		report.Reason = f2p
	case p2p != "":
		report.Reason = p2p
	case g.book.needsTests && len(want.FailToPass) == 0:
		report.Reason = "the row has no FAIL_TO_PASS tests, so nothing can show that the patch works"
	default:
		report.Resolved = true
	}
	return report
}

type grader struct {
	book     rulebook
	failOnly bool
	statuses logparse.Statuses
	sorted   []int // indices of statuses by name, made when first needed
}

type result int

const (
	neither result = iota
	success
	failure
)

// split divides one list; reason names the first failure, "" if there is none.
func (g *grader) split(list string, tests []string, maintain bool) (s Split, reason string) {
	s = Split{Success: []string{}, Failure: []string{}}
	for _, test := range tests {
		switch status, found := g.status(test); g.judge(status, found, maintain) {
		case success:
			s.Success = append(s.Success, test)
		case failure:
			s.Failure = append(s.Failure, test)
			if reason == "" {
				said := "is " + string(status)
				if !found {
					said = "is not in the log"
				}
				reason = fmt.Sprintf("%s test %q %s", list, test, said)
			}
		}
	}
	if n := len(s.Failure); n > 1 {
		reason += fmt.Sprintf(" (the first of %d that fail)", n)
	}
	return s, reason
}

func (g *grader) judge(status Status, found, maintain bool) result {
	if g.failOnly && g.book.absentPasses {
		if status == Failed {
			return failure
		}
		return success
	}
	switch {
	case !found, status == Failed, status == Error:
		return failure
	case status == Passed, status == XFail:
		return success
	case status == Skipped && maintain && g.book.skippedKept:
		return success
	case status == Skipped && g.book.skippedFails, status != Skipped && g.book.oddFails:
		return failure
	}
	return neither
}

// StatusOf returns the status that counts for a test of a row under the rules: its
// own, or that of the tests its cut id may stand for.
func StatusOf(rules Rules, statuses logparse.Statuses, test string) (Status, bool) {
	g := grader{book: rules.book(), statuses: statuses}
	return g.status(test)
}

// status looks a test up: exactly, or by prefix if the rules allow and the id was
// cut inside a parameter (more "[" than "]") and everything it could mean agrees.
func (g *grader) status(test string) (Status, bool) {
	status, ok := g.statuses.Get(test)
	if ok || g.failOnly || !g.book.cutIDs || strings.Count(test, "[") <= strings.Count(test, "]") {
		return status, ok
	}
	if g.sorted == nil {
		g.sorted = make([]int, g.statuses.Len())
		for i := range g.sorted {
			g.sorted[i] = i
		}
		slices.SortFunc(g.sorted, func(a, b int) int { return strings.Compare(g.name(a), g.name(b)) })
	}
	from, _ := slices.BinarySearchFunc(g.sorted, test, func(i int, test string) int { return strings.Compare(g.name(i), test) })
	first, passing := -1, false
	for _, i := range g.sorted[from:] {
		name, status := g.statuses.At(i)
		if !strings.HasPrefix(name, test) {
			break
		}
		ok := status == Passed || status == XFail
		if first >= 0 && ok != passing {
			return "", false
		}
		passing = ok
		if first < 0 || i < first {
			first = i
		}
	}
	if first < 0 {
		return "", false
	}
	_, status = g.statuses.At(first)
	return status, true
}

func (g *grader) name(i int) string {
	name, _ := g.statuses.At(i)
	return name
}
