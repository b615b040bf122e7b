package runner_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/runner"
	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/sandboxtest"
)

// What a flag keeps a row from is not held against the patch, and is no way for a
// patch to be let off.
func TestRefusals(t *testing.T) {
	const broken = "FAILED tests/test_x.py::test_new\nFAILED tests/test_x.py::test_old\n=== 2 failed in 0.10s ===\n"
	readOnly := func(l *runner.Limits) { l.ReadOnly = true }
	user := func(l *runner.Limits) { l.User = "1000:1000" }
	refused := "OSError: [Errno 30] Read-only file system: '/opt/x'\n"
	denied := "mkdir: cannot create directory '/opt/x': Permission denied\n"
	for _, tt := range []struct {
		name    string
		limits  func(*runner.Limits)
		world   func(*kit)
		want    grading.Outcome
		reason  string
		limited string
		started int // sandboxes
	}{
		{"tests that need the root", readOnly, is("test.sh", prints(refused+broken, 1)), grading.Ungradeable, "does not work with --read-only", "read-only: test: OSError", 2},
		{"tests that need root", user, is("test.sh", prints(denied+broken, 1)), grading.Ungradeable, "--user 1000:1000", "user 1000:1000: test: mkdir", 2},
		{"no test starts", readOnly, is("test.sh", prints(refused, 1)), grading.Ungradeable, "run it without", "read-only: test", 2},
		{"a set-up that needs the root", readOnly, both(is("setup.sh", prints(refused+"MARK status=1 pip install\n", 0)), is("test.sh", prints(failing, 1))), grading.Ungradeable, "in setup: OSError", "read-only: setup", 2},
		{"a set-up that always fails, and tests that say so and work", readOnly, both(is("setup.sh", prints("MARK status=1 pip install\n", 0)), is("test.sh", prints(refused+failing, 1))), grading.Unresolved, "FAIL_TO_PASS test", "read-only: test", 2},
		{"an engine in trouble", readOnly, is("test.sh", inTurn(prints(refused+broken, 1), fails(sandboxtest.Trouble("EOF")))), grading.InfraFailed, "without the patch", "read-only: test", 2},
		{"a wrong patch that says so itself", readOnly, is("test.sh", inTurn(prints(refused+broken, 1), prints(failing, 1))), grading.Unresolved, "FAIL_TO_PASS test", "read-only: test", 2},
		{"tests that say so and work", readOnly, is("test.sh", prints(refused+failing, 1)), grading.Unresolved, "FAIL_TO_PASS test", "read-only: test", 2},
		{"resolved all the same", readOnly, is("test.sh", prints(refused+passing, 0)), grading.Resolved, "", "read-only: test", 1},
		{"the other flag's words", readOnly, is("test.sh", prints(denied+broken, 1)), grading.Unresolved, "", "", 1},
		{"no flag", func(*runner.Limits) {}, is("test.sh", prints(refused+broken, 1)), grading.Unresolved, "", "", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := newKit(t)
			tt.limits(&k.options.Limits)
			tt.world(k)
			a := k.one(t, job("a", setup))
			if a.Outcome != tt.want || !strings.Contains(a.Reason, tt.reason) || k.fake.Started() != tt.started {
				t.Errorf("%s %q after %d sandboxes, want %s, %q and %d", a.Outcome, a.Reason, k.fake.Started(), tt.want, tt.reason, tt.started)
			}
			if got := strings.Join(a.LimitedBy, "; "); !strings.Contains(got, tt.limited) || tt.limited == "" && got != "" {
				t.Errorf("limited by %q, want %q", got, tt.limited)
			}
			if want := k.options.Limits; a.Limits.ReadOnly != want.ReadOnly || a.Limits.User != want.User {
				t.Errorf("the record says %+v", a.Limits)
			}
		})
	}
}

// Both flags reach the sandbox, and results of a run with other flags are others.
func TestRestricted(t *testing.T) {
	keys := map[string]bool{}
	for _, user := range []string{"", "1000:1000"} {
		for _, readOnly := range []bool{false, true} {
			k := newKit(t)
			k.options.Limits.ReadOnly, k.options.Limits.User = readOnly, user
			var spec sandbox.Spec
			k.fake.OnUsage = func(box *sandboxtest.FakeSandbox) (sandbox.Usage, error) {
				spec = box.Spec
				return sandbox.Usage{}, nil
			}
			a := k.one(t, job("a"))
			keys[a.RunKey] = true
			if spec.User != user || spec.ReadOnly != readOnly || !slices.Contains(spec.Writable, "/testbed") || !slices.Contains(spec.Owned, "/testbed") {
				t.Errorf("user %q, read-only %t: the sandbox was asked for as %+v", user, readOnly, spec)
			}
			if home := slices.Contains(spec.Env, "HOME=/tmp"); home != (user != "") {
				t.Errorf("user %q: environment %q", user, spec.Env)
			}
		}
	}
	if len(keys) != 4 {
		t.Errorf("%d keys of 4 ways to run, want 4", len(keys))
	}
}
