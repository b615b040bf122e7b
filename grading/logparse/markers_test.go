package logparse

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func code(n int) *int { return &n }

func TestCut(t *testing.T) {
	const start, end = StartTestOutput, EndTestOutput
	for _, c := range []struct {
		name, log string
		want      Log
	}{
		{"empty", "", Log{}},
		{"plain", "a\n" + start + "\nb\n" + end + "\nc", Log{Region: "\nb\n", Found: true}},
		{"shell trace", "+ : '" + start + "'\nb\n+ : '" + end + "'\n", Log{Region: "'\nb\n+ : '", Found: true}},
		{"no end", start + "\nb", Log{}},
		{"no start", "b\n" + end, Log{}},
		{"end before start only", end + "\n" + start + "b", Log{Region: "b", Found: true}},
		{"end before and after", end + start + "b" + end, Log{Region: "b", Found: true}},
		{"second start cuts", start + "a" + start + "b" + end, Log{Region: "a", Found: true}},
		{"first end cuts", start + "a" + end + "b" + end, Log{Region: "a", Found: true}},
		{"carriage returns", start + "a\r\nb\rc\r\r\n" + end, Log{Region: "a\nb\nc\n\n", Found: true}},
		{"bytes that are not UTF-8", start + "a\xff\xe2\x82b\xf0\x9f\x98" + end, Log{Region: "a\ufffd\ufffdb\ufffd", Found: true}},
		{"exit code", start + end + TestExitCode + ": 3", Log{Found: true, ExitCode: code(3)}},
		{"negative exit code", TestExitCode + ":-9", Log{ExitCode: code(-9)}},
		{"exit code on the next line", TestExitCode + ":\n 7x", Log{ExitCode: code(7)}},
		{"first exit code counts", TestExitCode + ": 0\n" + TestExitCode + ": 1", Log{ExitCode: code(0)}},
		{"exit code without number is passed over", TestExitCode + ": ?\n" + TestExitCode + ": 1", Log{ExitCode: code(1)}},
		{"bad codes in fixed order", TestsTimedOut + PatchApplyFailed + TestsTimedOut, Log{BadCodes: []string{PatchApplyFailed, TestsTimedOut}}},
		{"reset and error", "x" + ResetFailed + "y" + TestsErrored, Log{BadCodes: []string{ResetFailed, TestsErrored}}},
		{"one > too many", ">" + start + "a>" + end, Log{Region: "a>", Found: true}},
		{"one > too few", start[1:] + "a" + end[1:], Log{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.want.Text = Normalise(c.log)
			if diff := cmp.Diff(c.want, Cut(c.log)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestNormaliseLikePython has the answers of bytes.decode(errors="replace").
func TestNormaliseLikePython(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                "plain",
		"a\r\nb\rc\n\r":        "a\nb\nc\n\n",
		"\x80":                 "\ufffd",
		"\xc0\xaf":             "\ufffd\ufffd",
		"\xe2\x82":             "\ufffd",
		"\xe2\x28\xa1":         "\ufffd(\ufffd",
		"\xf0\x9f\x98x":        "\ufffdx",
		"\xf0\x80\x80\x80":     "\ufffd\ufffd\ufffd\ufffd",
		"\xed\xa0\x80":         "\ufffd\ufffd\ufffd",
		"\xf4\x90\x80\x80":     "\ufffd\ufffd\ufffd\ufffd",
		"\xf5":                 "\ufffd",
		"ok \xef\xbf\xbd here": "ok \ufffd here",
	} {
		if got := Normalise(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestSuiteRan(t *testing.T) {
	for _, c := range []struct {
		log  string
		want bool
	}{
		{"", false},
		{"Executed 5 of 6 (1 FAILED)", true},
		{"Executed 0 of 0 ERROR", false},
		{"Executed 0 of 6 Executed 12 of x Executed 1 of 9", true},
		{"TOTAL: 5 SUCCESS", true},
		{"TOTAL: 0 SUCCESS", false},
		{"TOTAL: 5 of them", false},
		{"  12 passing (3s)", true},
		{"  0 passing (3s)", false},
		{"x010 passing", true},
		{"Tests:       1 failed, 4 total", true},
		{"Tests:\n\n 3", true},
		{"Tests: 0 total", false},
		{"Tests:5", false},
		{"Test Suites: 1 failed, 2 passed, 3 total", true},
		{"Test Suites: 0 failed, 0 passed, 0 total", false},
		{"Test Suites: 3 total", true},
		{"Test Suites: 3 failed", false},
		{"a\n# tests 4", true},
		{"# tests 4", true},
		{" # tests 4", false},
		{"# tests 0", false},
		{"120 specs, 0 failures", true},
		{"1 spec, 1 failure", true},
		{"0 specs, 0 failures", false},
		{"5 specs, none", false},
		{"layer 'x': ok\n", true},
		{"layer 'x': ok", true},
		{"layer 'x': okay", false},
	} {
		if got := SuiteRan(c.log); got != c.want {
			t.Errorf("%q: got %v, want %v", c.log, got, c.want)
		}
	}
}
