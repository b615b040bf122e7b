package runner_test

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/runner"
	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/sandboxtest"
	"github.com/evalrun/evalrun/internal/screen"

	"context"
)

func newFile(name string, lines ...string) string {
	return fmt.Sprintf("diff --git a/%[1]s b/%[1]s\nnew file mode 100644\n--- /dev/null\n+++ b/%[1]s\n@@ -0,0 +1,%[2]d @@\n+%[3]s\n", name, len(lines), strings.Join(lines, "\n+"))
}

var (
	hook      = newFile("conftest.py", "def pytest_runtest_makereport(item, call):", "    pass")
	plainConf = newFile("conftest.py", "x = 1")
)

// onlyWith prints passing tests where the patch has a file, failing ones elsewhere.
func onlyWith(name string) func(*kit) {
	return func(k *kit) {
		with := map[*sandboxtest.FakeSandbox]bool{}
		apply := k.phases["apply.sh"]
		k.fake.OnExec = func(ctx context.Context, box *sandboxtest.FakeSandbox, cmd sandbox.Command) (sandbox.Result, error) {
			for _, f := range cmd.Files {
				if strings.Contains(f.Path, "patch.1.diff") {
					k.mu.Lock()
					with[box] = strings.Contains(string(f.Data), name)
					k.mu.Unlock()
				}
			}
			return k.exec(ctx, box, cmd)
		}
		k.phases["apply.sh"] = apply
		k.phases["test.sh"] = func(ctx context.Context, box *sandboxtest.FakeSandbox, cmd sandbox.Command) (sandbox.Result, error) {
			k.mu.Lock()
			has := with[box]
			k.mu.Unlock()
			if has {
				return prints(passing, 0)(ctx, box, cmd)
			}
			return prints(failing, 1)(ctx, box, cmd)
		}
	}
}

// reported is a second opinion whose runner writes these cases.
func reported(cases string) func(*kit) {
	return func(k *kit) {
		k.options.Verify = runner.VerifyAll
		k.fake.OnRead = func(_ context.Context, _ *sandboxtest.FakeSandbox, path string) ([]byte, error) {
			if !strings.HasPrefix(path, "/evalrun/") || !strings.HasSuffix(path, ".xml") {
				return nil, fs.ErrNotExist
			}
			return []byte("<testsuite>" + cases + "</testsuite>"), nil
		}
	}
}

func TestTrust(t *testing.T) {
	suspicious := func(k *kit) { k.options.Verify = runner.VerifySuspicious }
	for _, tt := range []struct {
		name    string
		patch   string
		world   func(*kit)
		want    grading.Outcome
		reason  string
		flagged string // part of what a person is told, "" for nothing
		started int
	}{
		{name: "honest", patch: goodPatch, world: suspicious, want: grading.Resolved, started: 1},
		{name: "honest, verified", patch: goodPatch, world: func(k *kit) { k.options.Verify = runner.VerifyAll }, want: grading.Resolved, flagged: "wrote none", started: 2},
		{name: "another verdict the second time", patch: goodPatch, world: both(func(k *kit) { k.options.Verify = runner.VerifyAll }, is("test.sh", inTurn(prints(passing, 0), prints(failing, 1)))), want: grading.Resolved, flagged: "another verdict", started: 2},
		{name: "the runner's report agrees", patch: goodPatch, world: reported(`<testcase classname="tests.test_x" name="test_new"/><testcase classname="tests.test_x" name="test_old"/>`), want: grading.Resolved, started: 2},
		{name: "the runner's report contradicts", patch: goodPatch, world: reported(`<testcase classname="tests.test_x" name="test_new"><failure/></testcase><testcase classname="tests.test_x" name="test_old"/>`), want: grading.Inconsistent, reason: "test_new passed in the log and is FAILED in the runner's report", started: 2},
		{name: "the runner's report lacks a test", patch: goodPatch, world: reported(`<testcase classname="tests.test_x" name="test_old"/>`), want: grading.Inconsistent, reason: "is not in the runner's report", started: 2},
		{name: "the report is cut short", patch: goodPatch, world: reported(`<testcase`), want: grading.Inconsistent, reason: "is not in the runner's report", started: 2},
		{name: "suspicious and right", patch: goodPatch + plainConf, world: suspicious, want: grading.Resolved, flagged: "conftest.py", started: 2},
		{name: "suspicious, not verified", patch: goodPatch + hook, want: grading.Resolved, flagged: "conftest.py", started: 1},
		{name: "resolved by a hook", patch: goodPatch + hook, world: both(suspicious, onlyWith("conftest.py")), want: grading.Tampering, reason: "conftest.py:1", flagged: "conftest.py", started: 2},
		{name: "nothing but a hook", patch: hook, world: suspicious, want: grading.Tampering, reason: "reporter-hook", flagged: "conftest.py", started: 1},
		{name: "resolved by honest infrastructure", patch: goodPatch + plainConf, world: both(suspicious, onlyWith("conftest.py")), want: grading.Resolved, flagged: "resolved only with what the patch does to conftest.py", started: 2},
		{name: "not resolved needs no second opinion", patch: goodPatch + hook, world: both(suspicious, is("test.sh", prints(failing, 1))), want: grading.Unresolved, flagged: "conftest.py", started: 1},
		{name: "no second opinion to be had", patch: goodPatch + hook, world: both(suspicious, func(k *kit) {
			first := k.phases["apply.sh"]
			k.phases["apply.sh"] = inTurn(first, fails(sandboxtest.Trouble("EOF")))
		}), want: grading.Resolved, flagged: "no second opinion", started: 4},
		{name: "blocked", patch: goodPatch + hook, world: func(k *kit) {
			k.options.Policy = screen.Policy{Files: map[screen.Class]screen.Action{screen.Pytest: screen.Block}}
		}, want: grading.Tampering, reason: "policy", started: 0},
		{name: "contradiction", patch: goodPatch, world: is("test.sh", prints("FAILED tests/test_x.py::test_new\n=== 1 failed, 1 passed in 0.1s ===\n"+passing, 0)), want: grading.Inconsistent, reason: "FAILED of tests/test_x.py::test_new", started: 1},
		{name: "no summary", patch: goodPatch, world: is("test.sh", prints("PASSED tests/test_x.py::test_new\nPASSED tests/test_x.py::test_old\n", 0)), want: grading.Resolved, flagged: "summary", started: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := newKit(t)
			if tt.world != nil {
				tt.world(k)
			}
			a := k.one(t, job("a", withPatch(tt.patch)))
			if a.Outcome != tt.want || !strings.Contains(a.Reason, tt.reason) {
				t.Errorf("%s %q, want %s %q", a.Outcome, a.Reason, tt.want, tt.reason)
			}
			if got := strings.Join(a.Trust.Flagged, "; "); !strings.Contains(got, tt.flagged) || tt.flagged == "" && got != "" {
				t.Errorf("flagged %q, want %q", got, tt.flagged)
			}
			if n := k.fake.Started(); n != tt.started {
				t.Errorf("%d sandboxes, want %d", n, tt.started)
			}
			if a.Trust.Screen == nil {
				t.Error("the record does not say what the patch looks like")
			}
		})
	}
}

// What the policy puts back is put back after the patch, and after the set-up.
func TestProtect(t *testing.T) {
	k := newKit(t)
	k.phases["protect.sh"] = prints("NONCE path deleted c2l0ZWN1c3RvbWl6ZS5weQ==\nNONCE done\n", 0)
	restored := ""
	restore := k.phases["restore.sh"]
	k.phases["restore.sh"] = func(ctx context.Context, box *sandboxtest.FakeSandbox, cmd sandbox.Command) (sandbox.Result, error) {
		restored = string(cmd.Files[len(cmd.Files)-1].Data)
		return restore(ctx, box, cmd)
	}
	a := k.one(t, job("a", withPatch(goodPatch+newFile("sitecustomize.py", "x")), setup))
	if want := []string{"a/apply.sh", "a/protect.sh", "a/setup.sh", "a/restore.sh"}; !slices.Equal(k.ran[:4], want) {
		t.Errorf("ran %v, want %v first", k.ran, want)
	}
	if !strings.Contains(restored, "'sitecustomize.py'") {
		t.Error("it is not put back after the set-up")
	}
	if a.Outcome != grading.Resolved || a.Trust.Screen.Files[1].Action != screen.Restore {
		t.Errorf("%s %s %+v", a.Outcome, a.Reason, a.Trust.Screen)
	}
}

// A verdict that a limit may have shaped says so.
func TestLimitedBy(t *testing.T) {
	for _, tt := range []struct {
		name  string
		usage sandbox.Usage
		takes time.Duration
		want  string
	}{
		{"far from all limits", sandbox.Usage{CPUSeconds: 100, ThrottledSeconds: 5, Pids: 3}, time.Minute, ""},
		{"throttled", sandbox.Usage{CPUSeconds: 100, ThrottledSeconds: 30}, time.Minute, "cpu: held back for 30.0 s"},
		{"close to the time limit", sandbox.Usage{}, 25 * time.Minute, "time: 1500 s of 1800 s"},
		{"killed for memory", sandbox.Usage{OOMKills: 2}, time.Minute, "memory: 2 processes killed at 1024 MiB"},
		{"many processes", sandbox.Usage{Pids: 95}, time.Minute, "processes: 95 of 100"},
	} {
		k := newKit(t)
		k.fake.OnUsage = func(*sandboxtest.FakeSandbox) (sandbox.Usage, error) { return tt.usage, nil }
		k.phases["test.sh"] = takes(tt.takes, prints(passing, 0))
		k.options.Limits.Sandbox.CPUsGuaranteed, k.options.Limits.Sandbox.MemoryGuaranteedBytes = 0.5, 512<<20
		a := k.one(t, job("a"))
		if l := a.Limits; l.CPUsGuaranteed != 0.5 || l.MemoryGuaranteedBytes != 512<<20 {
			t.Errorf("%s: guaranteed are %g processors and %d bytes", tt.name, l.CPUsGuaranteed, l.MemoryGuaranteedBytes)
		}
		if got := strings.Join(a.LimitedBy, "; "); !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
