package grading

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/grading/logparse"
)

func tests(f2pOK, f2pBad, p2pOK, p2pBad []string) *TestsStatus {
	list := func(l []string) []string { return append([]string{}, l...) }
	return &TestsStatus{
		FailToPass: Split{Success: list(f2pOK), Failure: list(f2pBad)},
		PassToPass: Split{Success: list(p2pOK), Failure: list(p2pBad)},
		FailToFail: Split{Success: []string{}, Failure: []string{}},
		PassToFail: Split{Success: []string{}, Failure: []string{}},
	}
}

// TestOneStatus says for every status what each rule set makes of a test that has
// it: in FAIL_TO_PASS, in PASS_TO_PASS, and in a fail-only row. "+" is success, "-"
// failure, "0" neither.
func TestOneStatus(t *testing.T) {
	want := map[Rules]map[string]string{
		SWEBench5:  {"": "--+", "PASSED": "+++", "XFAIL": "+++", "FAILED": "---", "ERROR": "--+", "SKIPPED": "-++", "ERROR:": "00+"},
		SWEBench41: {"": "--+", "PASSED": "+++", "XFAIL": "+++", "FAILED": "---", "ERROR": "--+", "SKIPPED": "00+", "ERROR:": "00+"},
		Strict:     {"": "---", "PASSED": "+++", "XFAIL": "+++", "FAILED": "---", "ERROR": "---", "SKIPPED": "-+-", "ERROR:": "---"},
	}
	for _, rules := range AllRules() {
		for status, marks := range want[rules] {
			var statuses logparse.Statuses
			if status != "" {
				statuses.Set("t", Status(status))
			}
			got := oneMark(Grade(rules, Expectation{FailToPass: []string{"t"}}, statuses).Tests.FailToPass) +
				oneMark(Grade(rules, Expectation{PassToPass: []string{"t"}}, statuses).Tests.PassToPass) +
				oneMark(Grade(rules, Expectation{FailToPass: []string{"t"}, FailOnly: true}, statuses).Tests.FailToPass)
			if got != marks {
				t.Errorf("%s, status %q: got %s, want %s", rules, status, got, marks)
			}
		}
	}
}

func oneMark(s Split) string {
	switch {
	case len(s.Success) == 1 && len(s.Failure) == 0:
		return "+"
	case len(s.Success) == 0 && len(s.Failure) == 1:
		return "-"
	case s.Total() == 0:
		return "0"
	}
	return "?"
}

func TestGradeKeepsTheOrderOfTheRow(t *testing.T) {
	statuses := logparse.StatusesOf("a", "PASSED", "b", "FAILED", "c", "PASSED", "d", "FAILED", "e", "ERROR")
	want := tests([]string{"c", "a"}, []string{"e", "b"}, []string{}, []string{"x", "d"})
	got := Grade(SWEBench5, Expectation{FailToPass: []string{"e", "c", "b", "a"}, PassToPass: []string{"x", "d"}}, statuses)
	if diff := cmp.Diff(want, got.Tests); diff != "" {
		t.Error(diff)
	}
	if got.Resolved || !got.Found {
		t.Errorf("resolved %v, found %v", got.Resolved, got.Found)
	}
	if want := `FAIL_TO_PASS test "e" is ERROR (the first of 2 that fail)`; got.Reason != want {
		t.Errorf("reason %q, want %q", got.Reason, want)
	}
}

func TestReasonsOfVerdicts(t *testing.T) {
	for _, c := range []struct {
		want     Expectation
		statuses logparse.Statuses
		resolved bool
		reason   string
	}{
		{Expectation{FailToPass: []string{"a"}, PassToPass: []string{"b"}}, logparse.StatusesOf("a", "PASSED", "b", "PASSED"), true, ""},
		{Expectation{FailToPass: []string{"a"}, PassToPass: []string{"b"}}, logparse.StatusesOf("a", "PASSED", "b", "FAILED"), false, `PASS_TO_PASS test "b" is FAILED`},
		{Expectation{FailToPass: []string{"a"}}, logparse.StatusesOf("b", "PASSED"), false, `FAIL_TO_PASS test "a" is not in the log`},
	} {
		got := Grade(SWEBench5, c.want, c.statuses)
		if got.Resolved != c.resolved || got.Reason != c.reason {
			t.Errorf("%v: resolved %v, reason %q", c.want, got.Resolved, got.Reason)
		}
	}
}

// TestAllSkipped is how release 4.1 resolves a patch that makes tests skip.
func TestAllSkipped(t *testing.T) {
	want := Expectation{FailToPass: []string{"a"}, PassToPass: []string{"b"}}
	statuses := logparse.StatusesOf("a", "SKIPPED", "b", "SKIPPED")
	for rules, resolved := range map[Rules]bool{SWEBench5: false, SWEBench41: true, Strict: false} {
		if got := Grade(rules, want, statuses).Resolved; got != resolved {
			t.Errorf("%s: resolved %v, want %v", rules, got, resolved)
		}
	}
}

func TestRowWithoutFailToPass(t *testing.T) {
	for rules, resolved := range map[Rules]bool{SWEBench5: true, SWEBench41: true, Strict: false} {
		got := Grade(rules, Expectation{PassToPass: []string{"b"}}, logparse.StatusesOf("b", "PASSED"))
		if got.Resolved != resolved || got.Resolved == (got.Reason != "") {
			t.Errorf("%s: resolved %v, want %v (reason %q)", rules, got.Resolved, resolved, got.Reason)
		}
	}
}

// TestCutIDs covers ids that a dataset cut inside a parameter.
func TestCutIDs(t *testing.T) {
	for _, c := range []struct {
		name     string
		statuses logparse.Statuses
		five     string // mark in FAIL_TO_PASS and PASS_TO_PASS under swebench-5
	}{
		{"exact id wins", logparse.StatusesOf("t[a b]", "FAILED", "t[a", "PASSED"), "++"},
		{"one candidate", logparse.StatusesOf("t[a b]", "PASSED"), "++"},
		{"candidates agree", logparse.StatusesOf("t[a b]", "PASSED", "t[a c]", "XFAIL", "t[b]", "FAILED"), "++"},
		{"candidates disagree", logparse.StatusesOf("t[a b]", "PASSED", "t[a c]", "FAILED"), "--"},
		{"no candidate", logparse.StatusesOf("t[b]", "PASSED", "t", "PASSED"), "--"},
		{"first in the log decides: skipped", logparse.StatusesOf("t[a z]", "SKIPPED", "t[a c]", "FAILED"), "-+"},
		{"first in the log decides: failed", logparse.StatusesOf("t[a z]", "FAILED", "t[a c]", "SKIPPED"), "--"},
		{"no status at all", logparse.Statuses{}, "--"},
	} {
		marks := func(rules Rules) string {
			return oneMark(Grade(rules, Expectation{FailToPass: []string{"t[a"}}, c.statuses).Tests.FailToPass) +
				oneMark(Grade(rules, Expectation{PassToPass: []string{"t[a"}}, c.statuses).Tests.PassToPass)
		}
		if got := marks(SWEBench5); got != c.five {
			t.Errorf("%s: got %s, want %s", c.name, got, c.five)
		}
		exact := "--"
		if status, ok := c.statuses.Get("t[a"); ok && status == Passed {
			exact = "++"
		}
		for _, rules := range []Rules{SWEBench41, Strict} {
			if got := marks(rules); got != exact {
				t.Errorf("%s under %s: got %s, want %s", c.name, rules, got, exact)
			}
		}
	}
	// As many closing as opening brackets: the id is whole and matches exactly.
	if Grade(SWEBench5, Expectation{FailToPass: []string{"t[a]"}}, logparse.StatusesOf("t[a]b", "PASSED")).Resolved {
		t.Error("a whole id matches by prefix")
	}
}

func TestParseRules(t *testing.T) {
	for name, want := range map[string]Rules{"": SWEBench5, "swebench-5": SWEBench5, "swebench-4.1": SWEBench41, "strict": Strict} {
		if got, err := ParseRules(name); err != nil || got != want {
			t.Errorf("%q: got %q, %v", name, got, err)
		}
	}
	if _, err := ParseRules("swebench-6"); err == nil || !strings.Contains(err.Error(), "swebench-4.1") {
		t.Errorf("an unknown rule set gives %v; the error must name those there are", err)
	}
}

func TestFailOnlyRepo(t *testing.T) {
	for _, c := range []struct {
		rules Rules
		repo  string
		want  bool
	}{
		{SWEBench5, "chartjs/Chart.js", true},
		{SWEBench41, "chartjs/Chart.js", true},
		{SWEBench5, "eslint/eslint", true},
		{SWEBench41, "eslint/eslint", false},
		{SWEBench5, "django/django", false},
	} {
		if got := FailOnlyRepo(c.rules, c.repo); got != c.want {
			t.Errorf("%s %s: got %v", c.rules, c.repo, got)
		}
	}
}
