package grading

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/evalrun/evalrun/grading/logparse"
)

// Inputs that broke other harnesses, as verdicts. The numbers are those of
// docs/known-inputs.md; what parsers make of them is in logparse.

// pytestNames are the parsers of pytest's short summary.
var pytestNames = []string{
	"parse_log_pytest", "parse_log_astroid", "parse_log_flask", "parse_log_marshmallow", "parse_log_pvlib", "parse_log_pyvista",
	"parse_log_sqlfluff", "parse_log_xarray", "parse_log_pytest_options", "parse_log_pydicom", "parse_log_requests", "parse_log_pylint",
	"parse_log_pytest_v2", "parse_log_astropy", "parse_log_scikit", "parse_log_sphinx", "parse_log_matplotlib",
}

// TestCutIDsMatchTheirTests (23, 25, 46, 47): the datasets cut an id at its first
// space. Whatever a parameter holds, the cut id is found in the log of the test,
// by parsers that cut as well and by those that read whole ids.
func TestCutIDsMatchTheirTests(t *testing.T) {
	rng := rand.New(rand.NewPCG(23, 0))
	words := []string{"1", "+", "Unit", "'deg'", "(angle)", "*1", "TypeError*", "-", "a,", "Liste", "`x`", "=", "ü", "::", "kw-Unit"}
	for range 300 {
		var parameter []string
		for range 2 + rng.IntN(4) {
			parameter = append(parameter, words[rng.IntN(len(words))])
		}
		id := "pkg/tests/test_m.py::TestC::test_x[" + strings.Join(parameter, " ") + "]"
		cut, _, _ := strings.Cut(id, " ")
		for _, parser := range pytestNames {
			for line, want := range map[string]bool{"PASSED " + id: true, "FAILED " + id + " - AssertionError: fail": false} {
				code := 0
				if !want {
					code = 1
				}
				got := FromLog(SWEBench5, official(line, code), parser, logparse.Context{}, Expectation{FailToPass: []string{cut}})
				if got.Resolved != want {
					t.Errorf("%s: %q for the id %q: resolved %v (%s)", parser, line, cut, got.Resolved, got.Reason)
				}
			}
		}
	}
}

// TestSkips (31, 32): a skipped FAIL_TO_PASS test fails, a skipped PASS_TO_PASS
// test is kept, and pytest's count of skips is no test.
func TestSkips(t *testing.T) {
	for _, parser := range pytestNames {
		for _, summary := range []string{"SKIPPED [1] t.py:3: Need 2 or more cores", "SKIPPED [12] t.py:3: why"} {
			log := official("PASSED t.py::a\nSKIPPED t.py::b\n"+summary, 0)
			for want, expect := range map[bool]Expectation{
				true:  {FailToPass: []string{"t.py::a"}, PassToPass: []string{"t.py::b"}},
				false: {FailToPass: []string{"t.py::a", "t.py::b"}},
			} {
				got := FromLog(SWEBench5, log, parser, logparse.Context{}, expect)
				if got.Resolved != want || got.Statuses.Len() != 2 {
					t.Errorf("%s: resolved %v, want %v: %v", parser, got.Resolved, want, got.Statuses.Map())
				}
			}
		}
	}
}

// TestAbsentIDs (26, 37, 59): an id that the log does not have, for whatever
// reason, is not passed, and the reason names it.
func TestAbsentIDs(t *testing.T) {
	for _, c := range []struct{ parser, log, id string }{
		{"parse_log_django", "test_x (m.T.test_x) ... ok", "test_x (m.T)"},                                     // Python 3.12 prints another name
		{"parse_log_astropy", "PASSED u/test_units.py::test_compose_roundtrip[]x", "u/t.py::test_roundtrip[]"}, // no such test
		{"parse_log_pytest", "PASSED [ 50%]", "[100%]"},
		{"parse_log_django", "test_a (m.T) ... ok", `"`},
		{"parse_log_gotest", "--- PASS: TestA (0.00s)", "TestB"},
	} {
		got := FromLog(SWEBench5, official(c.log, 0), c.parser, logparse.Context{}, Expectation{FailToPass: []string{c.id}})
		if got.Resolved || !got.Found || got.Reason != fmt.Sprintf("FAIL_TO_PASS test %q is not in the log", c.id) {
			t.Errorf("%s %q: resolved %v, reason %q", c.parser, c.id, got.Resolved, got.Reason)
		}
	}
}

// TestNothingReadable (34, 44): output in which the parser sees no test is no
// success, not even of a row that only failures speak against.
func TestNothingReadable(t *testing.T) {
	for _, c := range []struct{ parser, log string }{
		{"parse_log_sphinx", "tests/test_build.py ..F.s [100%]\n1 failed, 3 passed"},
		{"parse_log_jest", "@senecacdot/x:test:   ✓ name (5 ms)"},
		{"parse_log_jest", "bash: jest: command not found"},
		{"parse_log_chart_js", "Cannot start Chrome"},
	} {
		for _, rules := range AllRules() {
			for _, failOnly := range []bool{false, true} {
				if rules == SWEBench41 && failOnly {
					continue // that release resolves it: the reason for asking for evidence
				}
				got := FromLog(rules, official(c.log, 1), c.parser, logparse.Context{}, Expectation{FailToPass: []string{"name"}, FailOnly: failOnly})
				if got.Resolved || got.Reason == "" {
					t.Errorf("%s %q under %s, fail-only %v: resolved %v", c.parser, c.log, rules, failOnly, got.Resolved)
				}
			}
		}
	}
}

// TestCharacterAcrossChunks (49): where a read happens to end means nothing.
func TestCharacterAcrossChunks(t *testing.T) {
	log := official("test_ünïcødé (m.T) ... ok\r\n✓ \U0001f600 \xff\xe2\x82", 0)
	want := Expectation{FailToPass: []string{"test_ünïcødé (m.T)"}}
	whole := FromLog(SWEBench5, log, "parse_log_django", logparse.Context{}, want)
	for name, chunks := range map[string]func(io.Reader) io.Reader{"bytes": iotest.OneByteReader, "halves": iotest.HalfReader, "data with the end": iotest.DataErrReader} {
		open := func() (io.ReadCloser, error) { return io.NopCloser(chunks(strings.NewReader(log))), nil }
		got, err := FromLogSource(SWEBench5, open, "parse_log_django", logparse.Context{}, want)
		if err != nil || !got.Resolved || !whole.Resolved {
			t.Errorf("%s: resolved %v and %v, %v", name, got.Resolved, whole.Resolved, err)
		}
	}
}

// TestStreamsOutOfOrder (50): the markers come on one stream and the results on
// the other. Wherever the results stand, they count.
func TestStreamsOutOfOrder(t *testing.T) {
	markers := []string{"+ : '" + logparse.StartTestOutput + "'\n", "+ : '" + logparse.EndTestOutput + "'\n"}
	results := "PASSED a::t\nFAILED b::u\n"
	for _, log := range []string{
		results + markers[0] + markers[1], markers[0] + results + markers[1], markers[0] + markers[1] + results,
		markers[0] + markers[1] + "\n" + logparse.TestExitCode + ": 1\n" + results,
	} {
		if got := FromLog(SWEBench5, log, "parse_log_pytest", logparse.Context{}, oneTest); !got.Resolved || got.Statuses.Len() != 2 {
			t.Errorf("%q: resolved %v, %d statuses (%s)", log, got.Resolved, got.Statuses.Len(), got.Reason)
		}
	}
}

// TestVerdictsNameTheirRules (64): the same log can have another verdict in another
// release, so that every report says whose rules it is by.
func TestVerdictsNameTheirRules(t *testing.T) {
	for _, log := range []string{official("SKIPPED a::t", 0), official("PASSED a::t", 0), "nothing"} {
		for _, rules := range AllRules() {
			if got := FromLog(rules, log, "parse_log_pytest", logparse.Context{}, oneTest); got.Rules != rules {
				t.Errorf("the report under %s names %q", rules, got.Rules)
			}
		}
	}
}
