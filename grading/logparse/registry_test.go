package logparse

import (
	"strings"
	"testing"
)

func TestEveryRepositoryHasAParser(t *testing.T) {
	if len(repoParsers) != 79 {
		t.Errorf("%d repositories, want 79", len(repoParsers))
	}
	for repo, name := range repoParsers {
		if !Known(name) {
			t.Errorf("%s: parser %s is not registered", repo, name)
		}
		if got, ok := ForRepo(strings.ToUpper(repo)); !ok || got != name {
			t.Errorf("%s in capitals: got %q, want %q", repo, got, name)
		}
	}
	if name, ok := ForRepo("nobody/nothing"); ok {
		t.Errorf("an unknown repository has the parser %q", name)
	}
}

func TestNamesAreTheOfficialOnes(t *testing.T) {
	if n := len(Names()); n != 57+3 {
		t.Errorf("%d names, want the official 57 and 3 of the classic releases", n)
	}
}

// TestReasons says what a parser makes of a log on which the official one raises:
// it keeps what it can read and gives a reason.
func TestReasons(t *testing.T) {
	for _, c := range []struct {
		parser, log string
		in          Context
		want        Statuses
	}{
		{"parse_log_django", "FAIL:\ntest_a (m.T) ... ok", Context{}, StatusesOf("test_a (m.T)", "PASSED")},
		{"parse_log_django", "ERROR:   \n", Context{}, Statuses{}},
		{"parse_log_seaborn", "PASSED\nPASSED a", Context{Edition: V41}, StatusesOf("a", "PASSED")},
		{"parse_log_doctest", `<doctest><TestCase name="a"><SubCase name="b"></SubCase>`, Context{}, StatusesOf("a > b", "PASSED")},
		{"parse_log_doctest", `<doctest><TestCase></Other></doctest>`, Context{}, Statuses{}},
		{"parse_log_jekyll", "a. = 1 = .", Context{InstanceID: "jekyll__jekyll-1"}, Statuses{}},
		{"parse_log_immutable_js", "✓ a", Context{InstanceID: "immutable-js__immutable-js-1"}, Statuses{}},
		{"parse_log_karma", "Starting browser\n  - a\nSUMMARY", Context{}, Statuses{}},
		{"parse_log_calypso", "+ ./node_modules/.bin/jest \n✓ unindented\n  a\n    ✓ b", Context{}, StatusesOf("a - b", "PASSED")},
		{"parse_log_calypso", "+ ./node_modules/.bin/jest \n  a\n    ✓ b (3ms) late", Context{}, Statuses{}},
		{"parse_log_prismjs", "./node_modules/.bin/mocha tests/run.js --reporter json\nnone", Context{}, Statuses{}},
		{"parse_log_prismjs", `./node_modules/.bin/mocha tests/run.js --reporter json {"passes":[],"failures":[{"fullTitle":"a"},{}]}`, Context{}, StatusesOf("a", "FAILED")},
		{"parse_log_lighthouse", "PASS a", Context{Version: "5.0.1"}, Statuses{}},
	} {
		got := Parse(c.parser, c.log, c.in)
		wantReason := c.parser != "parse_log_karma"
		if (got.Reason != "") != wantReason {
			t.Errorf("%s %q: reason %q", c.parser, c.log, got.Reason)
		}
		if g, w := marshal(t, got.Statuses), marshal(t, c.want); g != w {
			t.Errorf("%s %q: got %s, want %s", c.parser, c.log, g, w)
		}
	}
}

func marshal(t *testing.T, s Statuses) string {
	t.Helper()
	raw, err := s.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestKnownInputs has inputs from public bug reports about readers of test logs,
// each with others of its kind. The numbers are those of the project's list.
func TestKnownInputs(t *testing.T) {
	for _, c := range []struct {
		number      int
		parser, log string
		want        Statuses
	}{
		// 23, 46, 47: ids with spaces. The datasets were made by cutting, so the cut
		// name is what must come out, except where 5.x reads whole ids.
		{23, "parse_log_pytest", "PASSED a.py::t[kw-Unit 'deg' (angle) ]", StatusesOf("a.py::t[kw-Unit", "PASSED")},
		{23, "parse_log_astropy", "PASSED a.py::t[kw-Unit 'deg' (angle) ]", StatusesOf("a.py::t[kw-Unit 'deg' (angle) ]", "PASSED")},
		{46, "parse_log_astropy", "a.py::t[1 + 1] PASSED\nFAILED a.py::u[1 + 1] - AssertionError: fail", StatusesOf("a.py::t[1 + 1]", "PASSED", "a.py::u[1 + 1]", "FAILED")},
		{47, "parse_log_pylint", "PASSED t.py::t[TypeMismatch, List var]", StatusesOf("t.py::t[TypeMismatch,", "PASSED")},
		{25, "parse_log_pytest", "PASSED t.py::test_xfail_raises[(AttributeError, IndexError)-TypeError-*1 TypeError*]", StatusesOf("t.py::test_xfail_raises[(AttributeError,", "PASSED")},
		// 26: junk that rows demand.
		{26, "parse_log_pytest", "PASSED [100%]\nPASSED [ 50%]\nPASSED [100%]------------------------------", StatusesOf("[100%]", "PASSED", "[", "PASSED", "[100%]------------------------------", "PASSED")},
		// 28: older pytest prints the status behind the name.
		{28, "parse_log_astropy", "p/test_a.py::test_b PASSED\np/test_a.py::test_c FAILED\np/t.py::d XFAIL", StatusesOf("p/test_a.py::test_b", "PASSED", "p/test_a.py::test_c", "FAILED", "p/t.py::d", "XFAIL")},
		// 29: a line that is a status word and nothing else.
		{29, "parse_log_pytest", "PASSED\nFAILED \nERROR\t\nSKIPPED\nXFAIL", Statuses{}},
		{29, "parse_log_astropy", "PASSED\n PASSED\nERROR", Statuses{}},
		{29, "parse_log_seaborn", "PASSED\nFAILED\n PASSED ", Statuses{}},
		// 31: a skip with an id, and pytest's count of skips.
		{31, "parse_log_pytest", "SKIPPED a.py::t (why)\nSKIPPED [1] a.py:3: why\nSKIPPED [12] b.py:4: why", StatusesOf("a.py::t", "SKIPPED")},
		{31, "parse_log_sphinx", "SKIPPED a.py::t (why)\nSKIPPED [1] a.py:3: why", StatusesOf("a.py::t (why)", "SKIPPED")},
		// 34: only dots are printed.
		{34, "parse_log_sphinx", "tests/test_build.py ..F.s [100%]\n1 failed, 3 passed", Statuses{}},
		// 35: a test's output between its name and its result.
		{35, "parse_log_django", "test_a (m.T) ... noise\nmore\nok", StatusesOf("test_a (m.T)", "PASSED")},
		{35, "parse_log_django", "test_a (m.T) ... Testing against Django installed in '/x' with 2 processes\nFound\nSystem check (0 silenced).\nok", StatusesOf("test_a (m.T)", "PASSED")},
		{35, "parse_log_django", "test_a (m.T) ...   Applying auth.0001_initial... OK\nok", StatusesOf("test_a (m.T)", "PASSED")},
		// 37: names of Python 3.12 are other names.
		{37, "parse_log_django", "test_x (m.T.test_x) ... ok", StatusesOf("test_x (m.T.test_x)", "PASSED")},
		// 38: the first line of a docstring is the name.
		{38, "parse_log_django", "test_a (m.T)\nIf form data is provided, a key is. ... ok", StatusesOf("If form data is provided, a key is.", "PASSED")},
		// 41: a name, other output, the result alone; several names wait.
		{41, "parse_log_gradle_custom", "a.B > c\nnoise\nPASSED", StatusesOf("a.B > c", "PASSED")},
		{41, "parse_log_maven", "-Dtest=a\n-Dtest=b\nBUILD SUCCESS\nBUILD FAILURE", StatusesOf("a", "PASSED", "b", "FAILED")},
		// Temporary names inside each other's path: the second begins in the first.
		{0, "parse_log_quarto_cli", "[unit] read /tmp/tmp/a1.qmd ... 32mok", StatusesOf("[unit] read /tmp/10", "PASSED")},
		// 43: Go skips count; package lines are no tests.
		{43, "parse_log_gotest", "--- SKIP: TestA (0.00s)\nFAIL\texample.org/a\t0.01s\nok  \texample.org/b\t0.01s", StatusesOf("TestA", "SKIPPED")},
	} {
		if g, w := marshal(t, Parse(c.parser, c.log, Context{}).Statuses), marshal(t, c.want); g != w {
			t.Errorf("number %d, %s %q:\ngot  %s\nwant %s", c.number, c.parser, c.log, g, w)
		}
	}
}
