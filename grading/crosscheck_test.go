package grading_test

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/grading/logparse"
)

// doubts are what the checks say of output in which every test that has a status
// is asked for.
func doubts(t *testing.T, parser, output string) []grading.Doubt {
	t.Helper()
	reader := logparse.NewReader(parser, logparse.Context{})
	reader.Feed(output)
	statuses := reader.Result().Statuses
	var want grading.Expectation
	for id := range statuses.All() {
		want.PassToPass = append(want.PassToPass, id)
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(output)), nil }
	list, err := grading.CrossCheck(open, parser, want, grading.Report{Resolved: true, Statuses: statuses})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestCrossCheck(t *testing.T) {
	for _, tt := range []struct {
		name, parser, output string
		want                 string // check, or "" for none
	}{
		{"pytest", "parse_log_pytest", "PASSED a.py::t\nPASSED a.py::u\n==== 2 passed in 0.12s ====\n", ""},
		{"pytest, old words and colours", "parse_log_pytest", "PASSED a.py::t\n\x1b[32m=== \x1b[1m1 passed\x1b[0m, 2 warnings in 0.12 seconds ===\n", ""},
		{"pytest, long run", "parse_log_pytest", "PASSED a.py::t\n=== 1 passed in 61.12s (0:01:01) ===\n", ""},
		{"pytest, two runs", "parse_log_pytest", "PASSED a.py::t\n== 1 passed in 1s ==\nPASSED b.py::t\n== 1 passed in 1s ==\n", ""},
		{"a framework's own tests print summaries", "parse_log_pytest", "--- Captured ---\n== 3 failed in 0.01s ==\nPASSED a.py::t\n== 1 passed in 1s ==\n", ""},
		{"parametrised ids that are cut", "parse_log_pytest", "PASSED a.py::t[x y]\nPASSED a.py::t[x z]\n== 2 passed in 1s ==\n", ""},
		{"passes, then its teardown fails", "parse_log_pytest", "PASSED a.py::t\nERROR a.py::t\n== 1 passed, 1 error in 1s ==\n", ""},
		{"the process ended itself", "parse_log_pytest", "PASSED a.py::t\nPASSED a.py::u\n", "unfinished"},
		{"more lines than tests", "parse_log_pytest", "PASSED a.py::t\nPASSED a.py::u\n=== 1 passed in 0.12s ===\n", "summary"},
		{"printed after the real result", "parse_log_pytest", "FAILED a.py::t\n=== 1 failed in 0.12s ===\nPASSED a.py::t\n", "contradiction"},
		{"printed after the real result, as others", "parse_log_pytest", "PASSED a.py::t\n=== 1 failed in 0.12s ===\n", "summary"},
		{"django", "parse_log_django", "test_a (x.Y) ... ok\n\nRan 1 test in 0.1s\n\nOK\n", ""},
		{"django, ended itself", "parse_log_django", "test_a (x.Y) ... ok\n", "unfinished"},
		{"cargo", "parse_log_cargo", "test a ... ok\ntest result: ok. 1 passed; 0 failed; 0 ignored\n", ""},
		{"cargo, printed", "parse_log_cargo", "test a ... ok\ntest b ... ok\ntest result: FAILED. 0 passed; 1 failed; 0 ignored\n", "summary"},
		{"sympy", "parse_log_sympy", "test_a ok\n= tests finished: 1 passed, in 0.02 seconds =\n", ""},
		{"a runner without a summary we know", "parse_log_redis", "[ok]: a (1 ms)\n", ""},
	} {
		list := doubts(t, tt.parser, tt.output)
		got := ""
		if len(list) > 0 {
			got = list[0].Check
		}
		if got != tt.want {
			t.Errorf("%s: %v, want %q", tt.name, list, tt.want)
		}
	}
}

// A test of the bug that is expected to fail counts as a pass by the rules, and a
// person is told; other tests of a row may be.
func TestExpectedToFail(t *testing.T) {
	statuses := logparse.StatusesOf("a", "XFAIL", "b", "XFAIL", "c", "PASSED")
	want := grading.Expectation{FailToPass: []string{"a", "c"}, PassToPass: []string{"b"}}
	list, err := grading.CrossCheck(nil, "parse_log_redis", want, grading.Report{Resolved: true, Statuses: statuses})
	if err != nil || len(list) != 1 || list[0].Check != grading.CheckExpected || !strings.HasPrefix(list[0].Detail, "a does not pass") {
		t.Errorf("%v, %v", list, err)
	}
}

// Nothing else than resolved is doubted.
func TestCrossCheckLeavesFailuresAlone(t *testing.T) {
	list, err := grading.CrossCheck(nil, "parse_log_pytest", grading.Expectation{}, grading.Report{})
	if list != nil || err != nil {
		t.Errorf("%v, %v", list, err)
	}
}

// Real logs of real agents: those of suites that came to their end are believed.
func TestCrossCheckOnRealLogs(t *testing.T) {
	for name, most := range map[string]int{"parity/real-logs.jsonl.gz": 0, "parity/real-logs-2024.jsonl.gz": 7} { // the seven were cut short by a crash
		checked, doubted := 0, 0
		sharedLines(t, name, func(line []byte) {
			var row officialLog
			if err := json.Unmarshal(line, &row); err != nil {
				t.Fatal(err)
			}
			parser, ok := logparse.ForRepo(repoOf(row.InstanceID))
			if !ok || !row.Expected.Found || len(row.Expected.StatusMap) == 0 {
				return
			}
			checked++
			if list := doubts(t, parser, logparse.Normalise(decodeLog(t, row.Log, row.Encoding))); len(list) > 0 {
				if doubted++; doubted > most {
					t.Errorf("%s of %s: %v", row.InstanceID, row.Source, list)
				}
			}
		})
		t.Logf("%s: %d logs, %d doubted", name, checked, doubted)
	}
}
