package runner_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/cause"
	"github.com/evalrun/evalrun/internal/runner"
	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/sandboxtest"
)

// setup gives a job all phases.
var setup = withEvaluation(func(e *datasets.Evaluation) { e.Setup, e.Build = "set up", "build" })

func oomKills(n int) func(*kit) {
	return func(k *kit) {
		k.fake.OnUsage = func(*sandboxtest.FakeSandbox) (sandbox.Usage, error) { return sandbox.Usage{OOMKills: n}, nil }
	}
}

func leftPids(n int64) func(*kit) {
	return func(k *kit) {
		k.fake.OnUsage = func(*sandboxtest.FakeSandbox) (sandbox.Usage, error) { return sandbox.Usage{Pids: n}, nil }
	}
}

func noImage(err error) func(*kit) {
	return func(k *kit) {
		k.images.image = func(context.Context, *datasets.Instance) (runner.Image, error) { return runner.Image{}, err }
	}
}

func is(name string, p phase) func(*kit) {
	return func(k *kit) { k.phases[name] = p }
}

func both(edits ...func(*kit)) func(*kit) {
	return func(k *kit) {
		for _, e := range edits {
			e(k)
		}
	}
}

// slow is a phase in which the engine does not answer.
var slow = fails(broken(cause.Timeout, "slow"))

func TestOutcomes(t *testing.T) {
	tests := []struct {
		name    string
		job     runner.Job
		world   func(*kit)
		want    grading.Outcome
		reason  string
		started int // sandboxes
	}{
		{name: "resolved", job: job("a"), want: grading.Resolved, started: 1},
		{name: "resolved with all phases", job: job("a", setup), want: grading.Resolved, started: 1},
		{name: "wrong patch", job: job("a"), world: is("test.sh", prints(failing, 1)), want: grading.Unresolved, reason: "FAIL_TO_PASS test", started: 1},
		{name: "tests cannot start", job: job("a"), world: is("test.sh", prints("ImportError\n", 2)), want: grading.Unresolved, reason: "no test ran", started: 1},

		{name: "empty", job: job("a", withPatch("")), want: grading.EmptyPatch, reason: "no patch"},
		{name: "white space", job: job("a", withPatch(" \n\t\n")), want: grading.EmptyPatch},
		{name: "null", job: job("a", func(j *runner.Job) { j.Prediction.Patch = nil }), want: grading.EmptyPatch},
		{name: "empty needs no image", job: job("a", withPatch("")), world: noImage(errors.New("no image")), want: grading.EmptyPatch},
		{name: "no diff", job: job("a", withPatch("I could not find the bug.")), want: grading.ApplyFailed, reason: "no diff"},
		{name: "out of the tree", job: job("a", withPatch(strings.ReplaceAll(goodPatch, "x.py", "../../etc/x.py"))), want: grading.ApplyFailed, reason: "out of the tree"},
		{name: "does not apply", job: job("a"), world: is("apply.sh", prints("NONCE try 1 1 1 "+"ZXJyb3I6IHBhdGNoIGZhaWxlZDogeC5weTox"+"\nNONCE failed\n", 1)),
			want: grading.ApplyFailed, reason: "error: patch failed: x.py:1", started: 1},
		{name: "link out of the tree", job: job("a"), world: is("apply.sh", prints("NONCE refused eC5weQ== bGluaw==\n", 1)), want: grading.ApplyFailed, reason: "symbolic link", started: 1},

		{name: "tests never end", job: job("a"), world: is("test.sh", hangs("test_new ...")), want: grading.TimedOut, reason: "still in the test phase after 30m", started: 1},
		{name: "set-up never ends", job: job("a", setup), world: is("setup.sh", hangs("")), want: grading.TimedOut, reason: "still in the setup phase", started: 1},
		{name: "build leaves little time", job: job("a", setup), world: both(is("build.sh", takes(29*time.Minute, prints("", 0))), is("test.sh", takes(2*time.Minute, prints(passing, 0)))),
			want: grading.TimedOut, reason: "still in the test phase", started: 1},
		{name: "applying has its own time", job: job("a", withEvaluation(func(e *datasets.Evaluation) { e.TimeoutSeconds = 60 })),
			world: func(k *kit) { k.phases["apply.sh"] = takes(2*time.Minute, k.phases["apply.sh"]) }, want: grading.Resolved, started: 1},
		{name: "the row's own limit", job: job("a", withEvaluation(func(e *datasets.Evaluation) { e.TimeoutSeconds = 60 })), world: is("test.sh", hangs("")), want: grading.TimedOut, reason: "after 1m0s", started: 1},

		{name: "out of memory", job: job("a"), world: both(is("test.sh", prints(failing, 1)), oomKills(1)), want: grading.OutOfMemory, reason: "1024 MiB", started: 1},
		{name: "the row's own memory", job: job("a", withEvaluation(func(e *datasets.Evaluation) { e.MemoryMiB = 7 })), world: both(is("test.sh", prints(failing, 1)), oomKills(1)), want: grading.OutOfMemory, reason: "7 MiB", started: 1},
		{name: "killed and yet right", job: job("a"), world: oomKills(1), want: grading.Resolved, started: 1},
		{name: "dead of memory", job: job("a"), world: both(is("test.sh", dies), oomKills(1)), want: grading.OutOfMemory, started: 1},
		{name: "our script killed for memory", job: job("a", setup), world: both(is("restore.sh", prints("", 137)), oomKills(1)), want: grading.OutOfMemory, started: 1},
		{name: "no room for our script", job: job("a", setup), world: both(is("restore.sh", prints("sh: 0: Cannot fork\n", 2)), leftPids(100)), want: grading.Unresolved, reason: "100 processes", started: 1},
		{name: "no room for the tests", job: job("a", setup), world: both(is("test.sh", fails(&sandbox.EngineError{Op: "x", Err: sandbox.ErrDead})), leftPids(100)), want: grading.Unresolved, reason: "100 processes", started: 1},
		{name: "disk full", job: job("a"), world: is("test.sh", fullDisk), want: grading.DiskLimit, reason: "test phase wrote more than", started: 1},
		{name: "disk full in our script", job: job("a", setup), world: is("restore.sh", fullDisk), want: grading.DiskLimit, reason: "restore+snapshot phase", started: 1},
		{name: "sandbox ended twice", job: job("a"), world: is("test.sh", dies), want: grading.Unresolved, reason: "twice", started: 3},
		{name: "sandbox ended once", job: job("a"), world: is("test.sh", inTurn(dies, prints(passing, 0))), want: grading.Resolved, started: 2},
		{name: "sandbox ended before the tests", job: job("a", setup), world: is("setup.sh", dies), want: grading.Unresolved, reason: "twice", started: 3},
		{name: "sandbox ends before the patch's code", job: job("a"), world: is("apply.sh", dies), want: grading.InfraFailed, reason: "dead", started: 3},
		{name: "restore fails with and without the patch", job: job("a", setup), world: is("restore.sh", prints("", 1)), want: grading.InfraFailed, reason: "without the patch", started: 5},
		{name: "restore fails after the patch's set-up", job: job("a", setup), world: is("restore.sh", inTurn(prints("", 1), prints("", 1), prints("NONCE applied 1 1\n", 0))), want: grading.Unresolved, reason: "twice", started: 3},
		{name: "silent tests", job: job("a"), world: both(silenceOf(time.Minute), is("test.sh", hangs("test_new ..."))), want: grading.SilenceLimit, reason: "the test phase printed nothing for 1m0s", started: 1},
		{name: "slow tests that print", job: job("a"), world: both(silenceOf(time.Minute), is("test.sh", slowly(10, 50*time.Second, passing))), want: grading.Resolved, started: 1},
		{name: "changed files cannot be told", job: job("a"), world: both(is("snapshot.sh", prints("", 1)), is("changes.sh", dies)), want: grading.Resolved, started: 1},
		{name: "dies while changed files are looked for", job: job("a"), world: is("changes.sh", dies), want: grading.Resolved, started: 1},

		{name: "no statuses", job: job("a"), world: is("test.sh", prints("hello\n", 0)), want: grading.Unresolved, reason: "exited with 0", started: 1},
		{name: "blames the network", job: job("a"), world: is("test.sh", prints("Cannot connect to the Docker daemon\n", 1)), want: grading.Unresolved, reason: "exited with 1", started: 1},
		{name: "modules that are not in the image", job: job("a"), world: is("test.sh", prints("a.go:3:2: module lookup disabled by GOPROXY=off\n", 1)), want: grading.Ungradeable, reason: "GOPROXY=off", started: 2},
		{name: "pretends that modules are not in the image", job: job("a"), world: is("test.sh", inTurn(prints("a.go:3:2: module lookup disabled by GOPROXY=off\n", 1), prints(failing, 1))), want: grading.Unresolved, reason: "without the patch they do", started: 2},
		{name: "our script cannot be written, once", job: job("a"), world: is("test.sh", inTurn(unwritten, prints(passing, 0))), want: grading.Resolved, started: 2},
		{name: "our script can never be written", job: job("a"), world: is("apply.sh", unwritten), want: grading.InfraFailed, reason: "did not get to its result", started: 3},
		{name: "the tests exit with 125", job: job("a"), world: is("test.sh", prints(failing, 125)), want: grading.Unresolved, started: 1},
		{name: "the disk of all is full", job: job("a"), world: is("test.sh", fails(&sandbox.EngineError{Op: "x", Err: sandbox.ErrHostFull})), want: grading.InfraFailed, reason: "full", started: 3},
		{name: "unknown parser", job: job("a", withEvaluation(func(e *datasets.Evaluation) { e.LogParser = "parse_log_nothing" })), want: grading.Ungradeable, reason: "parse_log_nothing", started: 1},
		{name: "test patch does not apply", job: job("a"), world: is("restore.sh", prints("NONCE try 1 1 1 cGF0Y2ggZmFpbGVk\nNONCE failed\n", 1)), want: grading.Ungradeable, reason: "the row's test patch does not apply: patch failed", started: 1},
		{name: "test patch does not apply after the set-up of this patch", job: job("a", setup), world: func(k *kit) {
			k.phases["restore.sh"] = inTurn(prints("NONCE try 1 1 1 cGF0Y2ggZmFpbGVk\nNONCE failed\n", 1), k.phases["restore.sh"])
		}, want: grading.Unresolved, reason: "what the patch runs keeps the test files from being brought back", started: 2},
		{name: "test patch does not apply after any set-up", job: job("a", setup), world: is("restore.sh", prints("NONCE try 1 1 1 cGF0Y2ggZmFpbGVk\nNONCE failed\n", 1)), want: grading.Ungradeable, reason: "patch failed", started: 2},
		{name: "test patch out of the tree", job: job("a", withEvaluation(func(e *datasets.Evaluation) { e.ResetFiles = []string{"../x"} })), want: grading.Ungradeable, reason: "../x", started: 0},

		{name: "no image", job: job("a"), world: noImage(errors.New("step 3 failed")), want: grading.BuildFailed, reason: "step 3 failed"},
		{name: "engine does not start", job: job("a"), world: func(k *kit) {
			k.fake.OnStart = func(context.Context, sandbox.Spec) error { return sandboxtest.Trouble("no space left on device") }
		}, want: grading.InfraFailed, reason: "no space left on device", started: 3},
		{name: "engine fails in apply", job: job("a"), world: is("apply.sh", fails(sandboxtest.Trouble("EOF"))), want: grading.InfraFailed, reason: "EOF", started: 3},
		{name: "engine fails only in this patch's tests", job: job("a"), world: is("test.sh", inTurn(slow, slow, slow, prints(passing, 0), slow)), want: grading.Unresolved, reason: "keeps its sandbox from working", started: 5},
		{name: "engine fails in these tests, whatever the patch", job: job("a"), world: is("test.sh", slow), want: grading.InfraFailed, reason: "slow", started: 4},
		{name: "engine fails in these tests until it has less to do", job: job("a"), world: is("test.sh", inTurn(slow, slow, slow, prints(failing, 1), prints(passing, 0))), want: grading.Resolved, started: 5},
		{name: "sandbox dies where the engine has failed", job: job("a"), world: is("test.sh", inTurn(slow, slow, slow, prints(passing, 0), dies)), want: grading.Unresolved, reason: "keeps its sandbox from working", started: 5},
		{name: "engine fails in tests, and before those of the control", job: job("a"), world: func(k *kit) {
			restore := k.phases["restore.sh"]
			k.phases["restore.sh"] = inTurn(restore, restore, restore, slow)
			k.phases["test.sh"] = inTurn(slow, slow, slow, prints(passing, 0))
		}, want: grading.InfraFailed, reason: "slow", started: 4},
		{name: "engine fails once", job: job("a"), world: is("test.sh", inTurn(fails(sandboxtest.Trouble("EOF")), prints(passing, 0))), want: grading.Resolved, started: 2},
		{name: "our script says nothing", job: job("a"), world: is("apply.sh", prints("", 0)), want: grading.InfraFailed, reason: "did not get to its result", started: 3},
		{name: "our script never ends", job: job("a"), world: is("apply.sh", hangs("")), want: grading.ApplyFailed, reason: "not applied within 5m", started: 2},
		{name: "our script never ends, once", job: job("a"), world: is("apply.sh", inTurn(hangs(""), prints("NONCE try 1 1 0 -\nNONCE applied 1 1\n", 0))), want: grading.Resolved, started: 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := newKit(t)
			if tt.world != nil {
				tt.world(k)
			}
			a := k.one(t, tt.job)
			if a.Outcome != tt.want || !strings.Contains(a.Reason, tt.reason) {
				t.Errorf("%s: %q; want %s: %q", a.Outcome, a.Reason, tt.want, tt.reason)
			}
			if (a.Outcome == grading.Resolved) != (a.Reason == "") {
				t.Errorf("%s for the reason %q", a.Outcome, a.Reason)
			}
			if n := k.fake.Started(); n != tt.started {
				t.Errorf("%d sandboxes, want %d", n, tt.started)
			}
			if (a.Verdict != nil && a.Verdict.Resolved) != (a.Outcome == grading.Resolved) {
				t.Errorf("outcome %s with the verdict %+v", a.Outcome, a.Verdict)
			}
			if diff := cmp.Diff(a, k.stored(t)["a"], cmpopts.EquateEmpty(), cmpopts.IgnoreFields(a, "Verdict")); diff != "" {
				t.Errorf("on disk (-returned +stored):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"a"}, k.seen.done); diff != "" {
				t.Errorf("told as done (-want +got):\n%s", diff)
			}
		})
	}
}

func silenceOf(d time.Duration) func(*kit) {
	return func(k *kit) { k.options.Limits.Silence = d }
}

// slowly is a phase that prints a line at a time before it says what it has to.
func slowly(lines int, pause time.Duration, text string) phase {
	return func(ctx context.Context, box *sandboxtest.FakeSandbox, cmd sandbox.Command) (sandbox.Result, error) {
		for range lines {
			if err := sandboxtest.Sleep(ctx, pause); err != nil {
				return sandbox.Result{}, err
			}
			io.WriteString(cmd.Output, "...\n")
		}
		return prints(text, 0)(ctx, box, cmd)
	}
}

// unwritten is a command whose files could not be written.
func unwritten(_ context.Context, _ *sandboxtest.FakeSandbox, cmd sandbox.Command) (sandbox.Result, error) {
	io.WriteString(cmd.Output, "tar: No space left on device\n")
	return sandbox.Result{ExitCode: sandbox.FilesFailed, FilesFailed: true}, nil
}

func fullDisk(_ context.Context, box *sandboxtest.FakeSandbox, _ sandbox.Command) (sandbox.Result, error) {
	box.Kill()
	return sandbox.Result{ExitCode: -1, DiskFull: true}, nil
}

// What the record says besides the outcome.
func TestRecord(t *testing.T) {
	k := newKit(t)
	k.options.Unenforced = []string{"disk: measured"}
	k.images.image = func(context.Context, *datasets.Instance) (runner.Image, error) {
		return runner.Image{Ref: "ref", Digest: "sha256:d", Env: []string{"A=b"}, Deviations: []string{"Python 3.11 for 3.9"}}, nil
	}
	k.fake.OnUsage = func(box *sandboxtest.FakeSandbox) (sandbox.Usage, error) {
		if box.Spec.Image != "sha256:d" || box.Spec.Labels["evalrun.instance"] != "a" || box.Spec.Labels["evalrun.run"] != "run" || box.Spec.Expiry.IsZero() {
			t.Errorf("the sandbox was asked for as %+v", box.Spec)
		}
		return sandbox.Usage{PeakMemoryBytes: 5, CPUSeconds: 1.5, ThrottledSeconds: 0.5}, nil
	}
	k.phases["apply.sh"] = prints("NONCE try 1 1 1 bm8=\nNONCE try 1 2 0 -\nNONCE displaced eC5weQ==\nNONCE applied 1 2\n", 0)
	k.phases["restore.sh"] = prints("NONCE path restored dGVzdHMvYQ==\nNONCE path kept dGVzdHMvYg==\nNONCE try 1 1 0 -\nNONCE applied 1 1\n", 0)
	k.phases["setup.sh"] = takes(2*time.Second, prints("x\nMARK status=1 pip install -e .\ny\nMARK status=127 tox\n", 0))
	k.phases["changes.sh"] = prints("NONCE tree 0123456789abcdef0123456789abcdef01234567\nNONCE changed M eC5weQ==\nNONCE changed D eS5weQ==\nNONCE done\n", 0)
	k.phases["test.sh"] = takes(3*time.Second, prints(passing, 0))
	a := k.one(t, job("a", setup))

	if diff := cmp.Diff([]string{"Python 3.11 for 3.9"}, a.Deviations); diff != "" {
		t.Errorf("deviations (-want +got):\n%s", diff)
	}
	if a.Network != "none (verified)" || a.Image != "ref" || a.ImageDigest != "sha256:d" || a.Rules != "swebench-5" || a.LogParser != "parse_log_pytest" || a.Seconds != 5 {
		t.Errorf("%+v", a)
	}
	if a.Patch.Applied != "git apply --verbose --3way" || len(a.Patch.Tries) != 2 || a.Patch.Tries[0].ExitCode != 1 || a.Patch.Tries[0].Output != "no" {
		t.Errorf("patch: %+v", a.Patch)
	}
	if a.Usage.PeakMemoryBytes != 5 || a.Usage.CPUSeconds != 1.5 || a.Usage.ThrottledSeconds != 0.5 {
		t.Errorf("usage: %+v", a.Usage)
	}
	want := []string{
		"patch: creates x.py, which an untracked file of the image stood at",
		"setup: command failed with status=1: pip install -e .",
		"setup: command failed with status=127: tox",
		"the patch's version of the test file tests/a was replaced",
	}
	if diff := cmp.Diff(want, a.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	var phases []string
	for _, p := range a.Phases {
		phases = append(phases, p.Name)
	}
	if diff := cmp.Diff([]string{"apply", "setup", "restore+snapshot", "build", "test"}, phases); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"M x.py", "D y.py"}, a.ChangedByTests); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	if last := a.Phases[4]; last.Seconds != 3 || last.OutputBytes != int64(len(passing)) {
		t.Errorf("test phase: %+v", last)
	}
	if l := a.Limits; l.MemoryBytes != 1<<30 || l.Pids != 100 || l.TimeoutSeconds != 1800 || len(l.Unenforced) != 1 {
		t.Errorf("limits: %+v", l)
	}
}

// A second try starts from a clean record, and the first is not hidden.
func TestTriesAreTold(t *testing.T) {
	k := newKit(t)
	k.phases["setup.sh"] = prints("MARK status=1 pip install\n", 0)
	k.phases["test.sh"] = inTurn(fails(sandboxtest.Trouble("connection reset")), fails(sandboxtest.Trouble("EOF")), prints(passing, 0))
	a := k.one(t, job("a", setup))
	want := []string{"try 1: fake: connection reset", "try 2: fake: EOF", "setup: command failed with status=1: pip install"}
	if diff := cmp.Diff(want, a.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if len(a.Phases) != 5 || len(a.Patch.Tries) != 1 || a.Seconds <= 0 || a.Seconds > 2+4 {
		t.Errorf("%d phases, %d tries of the patch, %v s with pauses of up to 2 and 4", len(a.Phases), len(a.Patch.Tries), a.Seconds)
	}
}

// The phases get the prelude and the script, as files: an argument has a limit.
func TestScripts(t *testing.T) {
	long := strings.Repeat("# a long script\n", 20000)
	k := newKit(t)
	scripts := map[string]string{}
	for name, p := range k.phases {
		k.phases[name] = func(ctx context.Context, box *sandboxtest.FakeSandbox, cmd sandbox.Command) (sandbox.Result, error) {
			for _, arg := range cmd.Argv {
				if len(arg) > 1000 {
					t.Errorf("%s: an argument of %d bytes", name, len(arg))
				}
			}
			scripts[name] = string(cmd.Files[len(cmd.Files)-1].Data)
			return p(ctx, box, cmd)
		}
	}
	k.one(t, job("a", setup, withEvaluation(func(e *datasets.Evaluation) {
		e.Prelude = "cd /testbed"
		e.Test = long + "run the tests"
	})))
	if want := "set -uxo pipefail\ncd /testbed\n" + long + "run the tests\n"; scripts["test.sh"] != want {
		t.Errorf("the test script is %d bytes beginning with %.60q", len(scripts["test.sh"]), scripts["test.sh"])
	}
	for _, name := range []string{"setup.sh", "build.sh"} {
		if s := scripts[name]; !strings.HasPrefix(s, "trap ") || !strings.Contains(s, "\nset -uxo pipefail\ncd /testbed\n") {
			t.Errorf("%s is %q", name, s)
		}
	}
	// What tells a result from an imitation is not known to what ran before.
	if strings.Contains(scripts["restore.sh"], strings.SplitN(strings.SplitAfterN(scripts["apply.sh"], "nonce=", 2)[1], "\n", 2)[0]) {
		t.Error("both scripts have the same nonce")
	}
}
