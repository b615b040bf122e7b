package logparse

import (
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// seeds are the golden logs: what each parser takes for a result.
func seeds(tb testing.TB) []string {
	tb.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", "logs", "*.log"))
	if err != nil || len(paths) == 0 {
		tb.Fatalf("no logs in testdata: %v", err)
	}
	var logs []string
	for _, path := range paths {
		log, err := os.ReadFile(path)
		if err != nil {
			tb.Fatal(err)
		}
		logs = append(logs, string(log))
	}
	return logs
}

var fuzzContexts = []Context{
	{},
	{Edition: V41, Version: "2.9", InstanceID: "x__x-2005"},
	{Version: "1.27", InstanceID: "x__x-2006"},
	{Version: "9.5", InstanceID: "x__x-9141"},
	{Version: "3.0", InstanceID: "x__x-8761"},
}

// FuzzParse runs every parser on the input. None may panic; each must give the
// same answer twice; and no status may be without a test that the answer lists.
func FuzzParse(f *testing.F) {
	for _, log := range seeds(f) {
		f.Add(log)
		f.Add(strings.ReplaceAll(log, "\n", "\r\n"))
	}
	f.Add(">>>>> Start Test Output\nPASSED a\n>>>>> End Test Output\n>>>>> Test Exit Code: -1")
	f.Fuzz(func(t *testing.T, log string) {
		for _, name := range Names() {
			for _, in := range fuzzContexts {
				checkResult(t, name, log, in)
			}
		}
		cut := Cut(log)
		if !strings.Contains(cut.Text, cut.Region) {
			t.Errorf("the region is no part of the log")
		}
		if !utf8.ValidString(cut.Text) || strings.Contains(cut.Text, "\r") {
			t.Errorf("the text is not normalised: %q", cut.Text)
		}
		SuiteRan(cut.Text)
	})
}

func checkResult(t *testing.T, name, log string, in Context) {
	t.Helper()
	got := Parse(name, log, in)
	if n := len(got.Statuses.Map()); n != got.Statuses.Len() {
		t.Errorf("%s: %d names, %d distinct", name, got.Statuses.Len(), n)
	}
	again := Parse(name, log, in)
	if got.Statuses.Len() != again.Statuses.Len() || got.Reason != again.Reason {
		t.Fatalf("%s: two readings of one log differ", name)
	}
	for i := range got.Statuses.Len() {
		test, status := got.Statuses.At(i)
		test2, status2 := again.Statuses.At(i)
		if test != test2 || status != status2 || status == "" {
			t.Errorf("%s: test %d is %q %q, then %q %q", name, i, test, status, test2, status2)
		}
		if found, ok := got.Statuses.Get(test); !ok || found != status {
			t.Errorf("%s: test %q is listed as %q and found as %q", name, test, status, found)
		}
	}
}

// TestLongInputs gives every parser big repetitive logs, with and without
// newlines. A parser that takes more than linear time does not finish.
func TestLongInputs(t *testing.T) {
	t.Parallel()
	units := []string{
		" ", "\n", "a", "[", "[1", "(", ")", " (", ") ", ":", ": ", "= . ", " .", ". =", "- ", " - ", " ... ", "ok\n", "<p>", "</p>", "<p></p>", "<b>x", "{", "[\n",
		"PASSED ", "FAILED - ", "FAILED\n", "PASSED a\n", "  1) ", "1)", "\n 1)x", "Error", "Error:", "case ", "case\n", "case a: mismatch\n", "Chrome ", "Chrome Headless ", "(Linux ", " (Linux x86_64) ",
		"Chrome 1.0 (", "HeadlessChrome 1.0 (Linux 1.0) ", "2KPhantomJS 1.0 (Linux x86_64) ", "Chrome Headless 1.0 (Linux x86_64) ",
		"Running:)\n\n\n  ", "Running:", "AssertionError: #", " xvfb-run ", "running 1 test files", "1 passing", "\"fullTitle\": \"", "\"passes\": [", "./node_modules/.bin/mocha --reporter json",
		"./node_modules/.bin/mocha tests/run.js --reporter json", " ./node_modules/.bin/jest ", "-Dtest=", "-Dtest=a ", "BUILD SUCCESS\n", "/tmp/a/", "/tmp/", "[smoke] /tmp/a.qmd", ".py:", " .py: ", "_ ",
		"Testing against Django installed in ", " ... Testing against Django installed in ", "Internal Server Error: /", "\x1b[", "\x1b[1", "(1ms)", "ms)", "s)", " (1 s)", "✓ ", "✔ a\n", "  ✔ a\n", "\u2003", "1", "<doctest>", "<doctest><TestCase>", "<doctest><SubCase><Expression/>", "--- PASS: (", "test: ", ": :", " spec", "Tests:", "Test Suites: 1 a, ", ">>>>> ", ">>>>> Start Test Output",
		"\x00", "\x00PASSED \x00\n", "\x1b[31m✓ a\x1b[0m\n", "\x1b[31;1mPASSED\x1b[0m a\n", "\r", "\r✓ a", "\ufffd",
	}
	size := 1 << 17
	if testing.Short() {
		size = 1 << 16
	}
	for _, unit := range units {
		log := strings.Repeat(unit, size/len(unit))
		for _, name := range Names() {
			for _, in := range []Context{{Version: "1.27", InstanceID: "x__x-2006"}, {Version: "9.5", InstanceID: "x__x-9141"}, {Version: "2.9"}} {
				Parse(name, log, in)
			}
		}
		cut := Cut(log)
		SuiteRan(cut.Text)
	}
}

// TestHugeLogs streams what is too long for TestLongInputs: a line of 100 MB and a
// million short lines, with NULs and colours. A result behind them is read all the same.
func TestHugeLogs(t *testing.T) {
	t.Parallel()
	results := map[string]string{
		"parse_log_pytest": "PASSED last", "parse_log_pytest_v2": "PASSED last", "parse_log_django": "last ... ok", "parse_log_gotest": "--- PASS: last (0.00s)",
		"parse_log_jest": "✓ last", "parse_log_cargo": "test last ... ok", "parse_log_maven": "-Dtest=last\nBUILD SUCCESS", "parse_log_tap": "ok 1 last",
	}
	block := func(unit string) string { return strings.Repeat(unit, 1<<16) }
	for name, noise := range map[string]struct {
		unit    string
		times   int
		parsers []string
	}{
		"one line of 100 MB": {block("x"), 1600, []string{"parse_log_pytest_v2"}},
		"the same of NULs":   {block("\x00"), 1600, []string{"parse_log_django"}},
		"a million lines":    {block("x\n"), 16, slices.Sorted(maps.Keys(results))},
		"colours":            {block("\x1b[31m✓\x1b[0m x \x1b[K\r\n"), 4, []string{"parse_log_jest", "parse_log_pytest_v2"}},
	} {
		for _, parser := range noise.parsers {
			result := results[parser]
			r := NewReader(parser, Context{})
			for piece, err := range Pieces(io.MultiReader(&repeated{noise.unit, noise.times, 0}, strings.NewReader("\n"+result+"\n"))) {
				if err != nil {
					t.Fatal(err)
				}
				r.Feed(piece)
			}
			if status, _ := r.Result().Statuses.Get("last"); status != Passed {
				t.Errorf("%s: %s: the last test is %q", name, parser, status)
			}
		}
	}
}

// repeated reads a text again and again.
type repeated struct {
	unit  string
	times int
	at    int // in the unit
}

func (r *repeated) Read(p []byte) (n int, err error) {
	for n < len(p) && r.times > 0 {
		c := copy(p[n:], r.unit[r.at:])
		n += c
		if r.at += c; r.at == len(r.unit) {
			r.at = 0
			r.times--
		}
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// TestDeepIndentation has suites inside each other without end, whose full names
// would be far longer than the log.
func TestDeepIndentation(t *testing.T) {
	var b strings.Builder
	b.WriteString("Starting browser Chrome\n ./node_modules/.bin/jest  xvfb-run running 1 test files\n")
	for i := range 1500 {
		b.WriteString(strings.Repeat(" ", i+2) + strings.Repeat("suite", 200) + "\n")
		for _, mark := range []string{"✔", "✓", "✗"} {
			b.WriteString(strings.Repeat(" ", i+3) + mark + " title\n")
		}
	}
	for _, name := range Names() {
		got := Parse(name, b.String(), Context{Version: "9.5"})
		total := 0
		for test := range got.Statuses.All() {
			total += len(test)
		}
		if total > maxJoinedTotal+maxJoinedName {
			t.Errorf("%s keeps %d bytes of names", name, total)
		}
		if name == "parse_log_calypso" && got.Reason == "" {
			t.Errorf("%s does not say that it dropped names", name)
		}
	}
}

func TestUnknownParser(t *testing.T) {
	got := Parse("parse_log_nonesuch", "PASSED a", Context{})
	if got.Statuses.Len() != 0 || !strings.Contains(got.Reason, "parse_log_nonesuch") {
		t.Errorf("got %d statuses and reason %q", got.Statuses.Len(), got.Reason)
	}
}
