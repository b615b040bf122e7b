package grading

import (
	"fmt"
	"testing"

	"github.com/evalrun/evalrun/grading/logparse"
)

// official makes a log as the harness's scripts write it.
func official(region string, exitCode int) string {
	return fmt.Sprintf("+ git checkout\n+ : '%s'\n%s\n+ : '%s'\n%s: %d\n",
		logparse.StartTestOutput, region, logparse.EndTestOutput, logparse.TestExitCode, exitCode)
}

var oneTest = Expectation{FailToPass: []string{"a::t"}}

// TestFromLog says what can be graded, and what each rule set makes of it.
func TestFromLog(t *testing.T) {
	for _, c := range []struct {
		name, log string
		want      map[Rules]string // "resolved", "unresolved", or "not found"
	}{
		{"passes", official("PASSED a::t", 0), verdicts("resolved", "resolved", "resolved")},
		{"fails", official("FAILED a::t - boom", 1), verdicts("unresolved", "unresolved", "unresolved")},
		{"no markers", "PASSED a::t", verdicts("not found", "not found", "not found")},
		{"no end marker", logparse.StartTestOutput + "\nPASSED a::t\n", verdicts("not found", "not found", "not found")},
		{"apply failed", logparse.PatchApplyFailed + official("PASSED a::t", 0), verdicts("not found", "not found", "not found")},
		{"timed out, said after the end", official("PASSED a::t", 0) + logparse.TestsTimedOut, verdicts("not found", "not found", "not found")},
		{"results outside the markers", "PASSED a::t\n" + official("", 0), verdicts("resolved", "resolved", "not found")},
		{"nothing at all", official("", 0), verdicts("not found", "unresolved", "not found")},
		{"dots only, but a sign that a suite ran", official("..F\n3 passing", 0), verdicts("unresolved", "unresolved", "unresolved")},
		{"exit code says otherwise", official("PASSED a::t", 1), verdicts("not found", "resolved", "not found")},
		{"exit code fits another failure", official("PASSED a::t\nFAILED b::u", 1), verdicts("resolved", "resolved", "resolved")},
		{"exit code fits an error", official("PASSED a::t\nERROR b::u", 2), verdicts("resolved", "resolved", "resolved")},
		{"carriage returns", official("PASSED a::t\r\n", 0), verdicts("resolved", "resolved", "resolved")},
		{"broken UTF-8", official("\xe2\x82\nPASSED a::t\n\xff", 0), verdicts("resolved", "resolved", "resolved")},
		// A block of a patch's own before the true one: the official reading believes
		// it. Runs of ours grade with FromRegion, which does not.
		{"forged block", official("PASSED a::t", 0) + official("FAILED a::t", 1), verdicts("resolved", "resolved", "resolved")},
	} {
		for rules, want := range c.want {
			got := FromLog(rules, c.log, "parse_log_pytest", logparse.Context{}, oneTest)
			if verdict(got) != want {
				t.Errorf("%s under %s: got %s, want %s (reason %q)", c.name, rules, verdict(got), want, got.Reason)
			}
			if got.Rules != rules {
				t.Errorf("%s: the report names the rules %q, not %q", c.name, got.Rules, rules)
			}
			if !got.Resolved && got.Reason == "" {
				t.Errorf("%s under %s: no reason", c.name, rules)
			}
			if (got.Tests != nil) != got.Found {
				t.Errorf("%s under %s: found %v, tests_status %v", c.name, rules, got.Found, got.Tests)
			}
		}
	}
}

func verdicts(five, fourOne, strict string) map[Rules]string {
	return map[Rules]string{SWEBench5: five, SWEBench41: fourOne, Strict: strict}
}

func verdict(r Report) string {
	switch {
	case !r.Found:
		return "not found"
	case r.Resolved:
		return "resolved"
	}
	return "unresolved"
}

// TestFromRegion shows that markers in the output mean nothing when the harness
// itself knows where the output began and ended.
func TestFromRegion(t *testing.T) {
	for _, c := range []struct {
		name, region string
		exitCode     int
		want         string
	}{
		{"passes", "PASSED a::t", 0, "resolved"},
		{"fails", "FAILED a::t", 1, "unresolved"},
		{"exit code says otherwise", "PASSED a::t", 1, "not found"},
		{"killed", "PASSED a::t", -1, "not found"},
		{"nothing", "", 0, "not found"},
		{"forged block before the truth", official("PASSED a::t", 0) + "FAILED a::t", 1, "unresolved"},
		{"forged exit code", logparse.TestExitCode + ": 0\nPASSED a::t", 1, "not found"},
		{"forged end hides nothing", "PASSED a::t\n" + logparse.EndTestOutput + "\nFAILED a::t", 1, "unresolved"},
		{"a test prints a bad code", logparse.TestsTimedOut + "\nPASSED a::t", 0, "resolved"},
	} {
		got := FromRegion(SWEBench5, c.region, c.exitCode, "parse_log_pytest", logparse.Context{}, oneTest)
		if verdict(got) != c.want {
			t.Errorf("%s: got %s, want %s (reason %q)", c.name, verdict(got), c.want, got.Reason)
		}
		if got.ExitCode == nil || *got.ExitCode != c.exitCode {
			t.Errorf("%s: the report has the exit code %v", c.name, got.ExitCode)
		}
	}
}

// TestFailOnly: a silent run passes if a suite ran, and only then.
func TestFailOnly(t *testing.T) {
	want := Expectation{FailToPass: []string{"Chart fits "}, FailOnly: true}
	for log, verdictWant := range map[string]string{
		official("Executed 5 of 5 SUCCESS", 0):                                "resolved",
		official("Executed 0 of 0 ERROR", 1):                                  "not found",
		official("Cannot start Chrome", 1):                                    "not found",
		official("Chrome 90.0 (Linux) Chart fits FAILED\nExecuted 5 of 5", 1): "unresolved",
	} {
		got := FromLog(SWEBench5, log, "parse_log_chart_js", logparse.Context{}, want)
		if verdict(got) != verdictWant {
			t.Errorf("%q: got %s, want %s (reason %q)", log, verdict(got), verdictWant, got.Reason)
		}
	}
}

func TestUnknownParser(t *testing.T) {
	got := FromLog(SWEBench5, official("PASSED a::t", 0), "parse_log_nonesuch", logparse.Context{}, oneTest)
	if got.Found || got.Reason == "" {
		t.Errorf("found %v, reason %q", got.Found, got.Reason)
	}
}

// TestEditionFollowsRules: release 4.1's parsers cut ids at the first space.
func TestEditionFollowsRules(t *testing.T) {
	log := official("PASSED a::t[x y]", 0)
	for rules, id := range map[Rules]string{SWEBench5: "a::t[x y]", Strict: "a::t[x y]", SWEBench41: "a::t[x"} {
		got := FromLog(rules, log, "parse_log_astropy", logparse.Context{}, Expectation{FailToPass: []string{id}})
		if !got.Resolved {
			t.Errorf("%s: %q is not passed: %s", rules, id, got.Reason)
		}
	}
}

func TestParserReasonIsReported(t *testing.T) {
	got := FromLog(SWEBench5, official("FAIL:\na ... ok", 0), "parse_log_django", logparse.Context{}, Expectation{FailToPass: []string{"a"}})
	if !got.Resolved || got.ParserReason == "" {
		t.Errorf("resolved %v, parser reason %q", got.Resolved, got.ParserReason)
	}
}

func TestInfraFailure(t *testing.T) {
	for _, c := range []struct {
		log, class, reason string
		ambiguous          bool
	}{
		{"all is well", "", "", false},
		{"a\nError: Failed to launch the browser\nb", "browser_launch_failed", "Error: Failed to launch the browser", false},
		{"Gtk: cannot open display: :99", "display_unavailable", "Gtk: cannot open display: :99", false},
		{"fork: Cannot allocate memory", "out_of_memory", "fork: Cannot allocate memory", false},
		{"a\nKilled\nb", "out_of_memory", "Killed", false},
		{"Killed", "out_of_memory", "Killed", false},
		{"test_Killed\nKilled by\n", "", "", false},
		{"docker: Error response from daemon: no", "container_unavailable", "docker: Error response from daemon: no", false},
		{"curl: Could not resolve host: example.org", "network_unreachable", "curl: Could not resolve host: example.org", false},
		{"ModuleNotFoundError: No module named 'x'", "missing_module", "ModuleNotFoundError: No module named 'x'", true},
		{"=== no tests ran in 0.1s ===", "no_tests_collected", "=== no tests ran in 0.1s ===", true},
		{"Timeout error: x\nTimeout error: 1800 seconds exceeded.", "tests_timed_out", "Timeout error: 1800 seconds exceeded.", true},
		{"Timeout error: seconds exceeded", "", "", false},
		{"no tests ran\nCannot allocate memory", "out_of_memory", "Cannot allocate memory", false},
	} {
		class, reason, ambiguous := InfraFailure(c.log)
		if class != c.class || reason != c.reason || ambiguous != c.ambiguous {
			t.Errorf("%q: got %q %q %v", c.log, class, reason, ambiguous)
		}
	}
}

// TestInfraOnlyWhereNotFound: a sign in a log that could be graded says nothing.
func TestInfraOnlyWhereNotFound(t *testing.T) {
	graded := FromLog(SWEBench5, official("ModuleNotFoundError: x\nFAILED a::t", 1), "parse_log_pytest", logparse.Context{}, oneTest)
	if graded.InfraClass != "" || graded.InfraFailure() {
		t.Errorf("class %q on a graded log", graded.InfraClass)
	}
	broken := FromLog(SWEBench5, official("Killed", 137), "parse_log_pytest", logparse.Context{}, oneTest)
	if !broken.InfraFailure() || broken.InfraClass != "out_of_memory" {
		t.Errorf("class %q, failure %v", broken.InfraClass, broken.InfraFailure())
	}
	maybe := FromLog(SWEBench5, official("no tests ran", 5), "parse_log_pytest", logparse.Context{}, oneTest)
	if maybe.InfraFailure() || maybe.InfraClass != "no_tests_collected" || !maybe.InfraAmbiguous {
		t.Errorf("class %q, failure %v", maybe.InfraClass, maybe.InfraFailure())
	}
}
