package grading

import (
	"testing"

	"github.com/evalrun/evalrun/grading/logparse"
)

// FuzzFromLog grades any log under all rules. Nothing may panic; what is not found
// is not resolved and has a reason; every test of the row is accounted for.
func FuzzFromLog(f *testing.F) {
	f.Add("PASSED a::t", 0, "a::t", "b[c")
	f.Add(official("PASSED a::t\nFAILED b[c d] - x", 1), 1, "a::t", "b[c")
	f.Add(official("a ... ok\nFAIL:", 0)+logparse.ResetFailed, -9, "a", "")
	f.Fuzz(func(t *testing.T, log string, exitCode int, f2p, p2p string) {
		for _, rules := range AllRules() {
			for _, failOnly := range []bool{false, true} {
				want := Expectation{FailToPass: []string{f2p}, PassToPass: []string{p2p, f2p}, FailOnly: failOnly}
				for _, parser := range []string{"parse_log_pytest_v2", "parse_log_django", "parse_log_p5js"} {
					checkReport(t, want, FromLog(rules, log, parser, logparse.Context{}, want))
					checkReport(t, want, FromRegion(rules, log, exitCode, parser, logparse.Context{}, want))
				}
			}
		}
	})
}

func checkReport(t *testing.T, want Expectation, got Report) {
	t.Helper()
	if got.Resolved == (got.Reason != "") {
		t.Errorf("resolved %v, reason %q", got.Resolved, got.Reason)
	}
	if !got.Found {
		if got.Resolved || got.Tests != nil {
			t.Errorf("not found, yet resolved %v with tests %v", got.Resolved, got.Tests)
		}
		return
	}
	f2p, p2p := got.Tests.FailToPass, got.Tests.PassToPass
	if f2p.Total() > len(want.FailToPass) || p2p.Total() > len(want.PassToPass) {
		t.Errorf("more tests than the row has: %v", got.Tests)
	}
	if got.Resolved && len(f2p.Failure)+len(p2p.Failure) > 0 {
		t.Errorf("resolved with failures: %v", got.Tests)
	}
}
