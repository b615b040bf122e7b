package logparse

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// Kinds of inputs that broke other parsers. The numbers are those of
// docs/known-inputs.md; TestKnownInputs has the single inputs.

// nameless are the parsers whose official rules take a mark alone for a test whose
// name is empty. No row can ask for it.
var nameless = map[string]bool{
	"parse_log_carbon": true, "parse_log_react_pdf": true, "parse_log_emotion": true, "parse_log_grommet": true,
	"parse_log_highlightjs": true, "parse_log_karma": true, "parse_log_marked": true,
}

// TestBareStatusWords (29): a line that is a status word and nothing else, in any
// framework's words, is no test.
func TestBareStatusWords(t *testing.T) {
	words := []string{
		"PASSED", "FAILED", "SKIPPED", "ERROR", "XFAIL", "FAIL:", "ERROR:", "ok", "not ok", "PASS:", "FAIL", "PASS", "pass", "skip", "✓", "✕", "○", "✔", "✘", "↩", "×", "↓",
		"[ok]:", "[err]:", "[PASSED]", "[FAILED]", "[       OK ]", "--- PASS:", "--- FAIL:", "test", "test ... ok", "[junit] [PASS]", "BUILD SUCCESS", "1)", "passed", " - passed", ". = 0 s = .",
	}
	for _, name := range Names() {
		for _, before := range []string{"", " ", "\t", "    "} {
			for _, after := range []string{"", " ", "\t", "\r", "  \t"} {
				for _, word := range words {
					got := Parse(name, "Starting browser\n"+before+word+after+"\n", Context{Version: "9.5", InstanceID: "x__x-9141"})
					for test := range got.Statuses.All() {
						if strings.TrimSpace(test) == "" && !nameless[name] {
							t.Errorf("%s makes a test without a name of %q", name, before+word+after)
						}
					}
				}
			}
		}
	}
}

// TestProgressLines (46): pytest's progress lines, whose results the summary
// repeats, are read by no parser of the summary. Whole ids come from the summary.
func TestProgressLines(t *testing.T) {
	for _, id := range []string{"t.py::a", "t.py::a[1 + 1]", "t.py::a[a - b]", "t.py::a[[x]]", "t.py::C::a[é ü]"} {
		for _, status := range []string{"PASSED", "FAILED", "SKIPPED", "ERROR", "XFAIL", "XPASS"} {
			for _, tail := range []string{" [ 50%]", " [100%]", "     [  1%]"} {
				for _, name := range []string{"parse_log_pytest", "parse_log_pytest_options", "parse_log_pytest_v2", "parse_log_matplotlib"} {
					if got := Parse(name, id+" "+status+tail, Context{}); got.Statuses.Len() > 0 {
						t.Errorf("%s: %v", name, got.Statuses.Map())
					}
				}
			}
		}
		if status, _ := Parse("parse_log_pytest_v2", "PASSED "+id, Context{}).Statuses.Get(id); status != Passed {
			t.Errorf("%q is not read whole: %q", id, status)
		}
	}
}

// TestDjangoNoise (35, 38): whatever a test prints between its name and its
// result, and whatever its docstring says, the result is that test's.
func TestDjangoNoise(t *testing.T) {
	rng := rand.New(rand.NewPCG(35, 0))
	noise := []string{
		"System check identified no issues (0 silenced).", "  Applying auth.0001_initial... OK", "Creating tables...", "", "    Running deferred SQL...",
		"Testing against Django installed in '/x' with up to 2 processes", "Found 3 test(s).", "Internal Server Error: /x/", "Traceback (most recent call last):", "FAILED (errors=1)",
	}
	for range 200 {
		name := fmt.Sprintf("test_%d (m.tests.T)", rng.IntN(1000))
		if rng.IntN(2) == 0 {
			name = "If form data is provided, a parent's key no. " + name
		}
		lines := []string{name + " ... " + noise[rng.IntN(3)]}
		for range rng.IntN(6) {
			lines = append(lines, noise[rng.IntN(len(noise))])
		}
		log := strings.Join(append(lines, "ok", "test_next (m.tests.T) ... FAIL"), "\n")
		got := Parse("parse_log_django", log, Context{})
		if status, _ := got.Statuses.Get(name); status != Passed {
			t.Fatalf("%q is %q in\n%s\n%v", name, status, log, got.Statuses.Map())
		}
		if status, _ := got.Statuses.Get("test_next (m.tests.T)"); status != Failed {
			t.Fatalf("the next test is %q in\n%s", status, log)
		}
	}
}

// TestInterleaving (41, 62): the lines of tests that run at the same time come in
// any order in which a result follows its name; every test has a result, and as
// many pass and fail as did.
func TestInterleaving(t *testing.T) {
	rng := rand.New(rand.NewPCG(41, 0))
	for range 200 {
		n := 1 + rng.IntN(6)
		var lines []string
		names, results, passed := 0, 0, 0
		for results < n {
			switch {
			case rng.IntN(3) == 0:
				lines = append(lines, "[INFO] some other module's line")
			case names < n && (results == names || rng.IntN(2) == 0):
				lines = append(lines, fmt.Sprintf("+ mvn test -B -Dtest=Test%d -pl module", names))
				names++
			case results < names:
				word := "FAILURE"
				if rng.IntN(2) == 0 {
					word = "SUCCESS"
					passed++
				}
				lines = append(lines, "[INFO] BUILD "+word)
				results++
			}
		}
		got := Parse("parse_log_maven", strings.Join(lines, "\n"), Context{}).Statuses
		ok := 0
		for _, status := range got.All() {
			if status == Passed {
				ok++
			}
		}
		if got.Len() != n || ok != passed {
			t.Fatalf("%d tests, %d passed, want %d and %d:\n%s", got.Len(), ok, n, passed, strings.Join(lines, "\n"))
		}
	}
	for _, between := range []string{"", "noise\n", "noise\n\n  more > noise of it\n", "> Task :test\n"} {
		for _, word := range []string{"PASSED", "FAILED"} {
			got := Parse("parse_log_gradle_custom", "a.B > c\n"+between+word+"\n", Context{}).Statuses
			if status, _ := got.Get("a.B > c"); string(status) != word {
				t.Errorf("after %q: %v, want %s", between, got.Map(), word)
			}
		}
	}
}

// TestFilesKeepTheirNames (40): of several files in one log each has its own
// result, in whatever order, and no test is said to be of another's file.
func TestFilesKeepTheirNames(t *testing.T) {
	files := []string{"test/pillify-test.tsx", "test/MatrixClientPeg-test.ts", "test/a b-test.js"}
	for _, parser := range []string{"parse_log_carbon", "parse_log_react_pdf", "parse_log_grommet", "parse_log_emotion"} {
		for first := range files {
			var log strings.Builder
			want := map[string]Status{}
			for i := range files {
				file := files[(first+i)%len(files)]
				word, status := "PASS", Passed
				if i == 1 {
					word, status = "FAIL", Failed
				}
				fmt.Fprintf(&log, "%s %s\n  suite\n    ✓ does it (%d ms)\n", word, file, i)
				want[file] = status
			}
			got := Parse(parser, log.String(), Context{}).Statuses
			for file, status := range want {
				if found, _ := got.Get(file); found != status {
					t.Errorf("%s: %s is %q, want %s", parser, file, found, status)
				}
			}
			if got.Len() != len(want) {
				t.Errorf("%s: %v", parser, got.Map())
			}
		}
	}
}

// TestGoPackages (43): lines about packages, builds and coverage are no tests, and
// subtests and skips are.
func TestGoPackages(t *testing.T) {
	for _, line := range []string{
		"FAIL\texample.org/a\t0.01s", "ok  \texample.org/b\t0.01s", "ok  \texample.org/b\t(cached)", "?   \texample.org/c\t[no test files]", "FAIL", "PASS",
		"FAIL\texample.org/a [build failed]", "coverage: 81.0% of statements", "=== RUN   TestA", "=== PAUSE TestA", "panic: runtime error", "exit status 1",
	} {
		got := Parse("parse_log_gotest", line+"\n--- SKIP: TestA (0.00s)\n    --- PASS: TestA/sub (0.00s)\n"+line, Context{}).Statuses
		if g, w := marshal(t, got), `{"TestA":"SKIPPED","TestA/sub":"PASSED"}`; g != w {
			t.Errorf("%q: %s", line, g)
		}
	}
}
