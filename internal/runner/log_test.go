package runner_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/grading/logparse"
	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/sandboxtest"
	"github.com/evalrun/evalrun/reports"
)

func (k *kit) files() reports.InstanceFiles { return k.options.Layout.Instance("run", "model", "a") }

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The log has the official format.
func TestLog(t *testing.T) {
	k := newKit(t)
	k.phases["setup.sh"] = prints("setting up", 0) // no newline at its end
	k.phases["test.sh"] = prints(failing, 1)
	k.one(t, job("a", setup))
	want := "setting up\nbuilt\n+ : '>>>>> Start Test Output'\n" + failing + "+ : '>>>>> End Test Output'\n>>>>> Test Exit Code: 1\n"
	if diff := cmp.Diff(want, read(t, k.files().TestOutput)); diff != "" {
		t.Errorf("test_output.txt (-want +got):\n%s", diff)
	}
}

// Other tools, which have nothing but the log, come to the recorded verdict.
func TestLogGivesTheVerdict(t *testing.T) {
	long := strings.Repeat("noise of the tests\n", 100000)
	tests := []struct {
		name   string
		output string
		code   int
	}{
		{"resolved", passing, 0},
		{"unresolved", failing, 1},
		{"failing, but said to be fine", failing, 0},
		{"passing, but said to fail", passing, 3},
		{"no newline at the end", strings.TrimSuffix(passing, "\n"), 0},
		{"CRLF", strings.ReplaceAll(passing, "\n", "\r\n"), 0},
		{"not UTF-8", "\xff\xfe\n" + passing, 0},
		{"nothing", "", 0},
		{"nothing, and failed", "", 4},
		{"no statuses", "hello\n", 0},
		{"cut in the middle", failing + long + passing, 1},
		{"an end marker of its own", passing + "not '>>>>> End Test Outpu'\n", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := newKit(t)
			k.phases["test.sh"] = prints(tt.output, tt.code)
			j := job("a", setup)
			a := k.one(t, j)
			log := read(t, k.files().TestOutput)
			got := grading.FromLog(grading.DefaultRules, log, "parse_log_pytest", logparse.Context{Repo: j.Instance.Repo, InstanceID: "a"},
				grading.Expectation{FailToPass: j.Instance.FailToPass, PassToPass: j.Instance.PassToPass})
			type verdict struct {
				Found, Resolved bool
				Tests           *grading.TestsStatus
				ExitCode        *int
			}
			of := func(r grading.Report) verdict { return verdict{r.Found, r.Resolved, r.Tests, r.ExitCode} }
			if diff := cmp.Diff(of(*a.Verdict), of(got)); diff != "" {
				t.Errorf("(-recorded +from the log):\n%s", diff)
			}
			if int64(len(log)) > 3<<20 {
				t.Errorf("the log has %d bytes", len(log))
			}
		})
	}
}

// A log of tests that were stopped says so as the official ones do, and is not
// taken for a whole one.
func TestLogOfTimeout(t *testing.T) {
	k := newKit(t)
	k.phases["test.sh"] = hangs(passing + "test_last ...")
	k.one(t, job("a"))
	log := read(t, k.files().TestOutput)
	if !strings.HasSuffix(log, "test_last ...\n\n\nTimeout error: 1800 seconds exceeded.\n") {
		t.Errorf("the log is %q", log)
	}
	if cut := logparse.Cut(log); cut.Found {
		t.Error("the log counts as whole")
	}
}

// A script that runs whole brings its own markers.
func TestWhole(t *testing.T) {
	script := "#!/bin/bash\ncd /testbed\n: '>>>>> Start Test Output'\npytest\n: '>>>>> End Test Output'\ngit checkout x\n"
	whole := withEvaluation(func(e *datasets.Evaluation) {
		*e = datasets.Evaluation{Whole: true, Script: script, LogParser: "parse_log_pytest"}
	})
	output := func(text string, code int) string {
		return fmt.Sprintf("+ cd /testbed\n+ : '>>>>> Start Test Output'\n%s+ : '>>>>> End Test Output'\n>>>>> Test Exit Code: %d\nUpdated 1 path\n", text, code)
	}
	tests := []struct {
		name   string
		output string
		code   int
		want   grading.Outcome
	}{
		{"resolved", output(passing, 0), 0, grading.Resolved},
		{"the script's own status does not count", output(passing, 0), 1, grading.Resolved},
		{"unresolved", output(failing, 1), 0, grading.Unresolved},
		{"no end", "+ : '>>>>> Start Test Output'\n" + passing, 1, grading.Unresolved},
		{"no end, and all is said to be well", "+ : '>>>>> Start Test Output'\n" + passing, 0, grading.Unresolved},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := newKit(t)
			k.phases["eval.sh"] = prints(tt.output, tt.code)
			a := k.one(t, job("a", whole))
			if a.Outcome != tt.want {
				t.Errorf("%s %s, want %s", a.Outcome, a.Reason, tt.want)
			}
			if diff := cmp.Diff([]string{"a/apply.sh", "a/snapshot.sh", "a/eval.sh", "a/changes.sh"}, k.ran); diff != "" {
				t.Errorf("what ran (-want +got):\n%s", diff)
			}
			if got := read(t, k.files().TestOutput); !strings.HasPrefix(got, tt.output) {
				t.Errorf("the log is %q", got)
			}
		})
	}
}

// What other tools look for beside the log.
func TestFilesOfAttempt(t *testing.T) {
	k := newKit(t)
	for range 2 { // a second call replaces all of it
		k.one(t, job("a", withEvaluation(func(e *datasets.Evaluation) { e.Script = "#!/bin/bash\nrun\n" })))
	}
	if got := read(t, k.files().Patch); got != goodPatch {
		t.Errorf("patch.diff is %q", got)
	}
	if got := read(t, k.files().EvalScript); got != "#!/bin/bash\nrun\n" {
		t.Errorf("eval.sh is %q", got)
	}
	log := read(t, k.files().Log)
	for _, want := range []string{">>>>> Applied Patch: git apply --verbose\n", "test: exit status 0 in 0.00 s", "outcome: resolved"} {
		if !strings.Contains(log, want) {
			t.Errorf("run_instance.log lacks %q:\n%s", want, log)
		}
	}
	if got := read(t, k.files().Report); !strings.Contains(got, `"resolved": true`) {
		t.Errorf("report.json is %s", got)
	}
	// One that is not graded leaves no report of the one before.
	k.phases["apply.sh"] = prints("NONCE try 1 1 1 bm8=\nNONCE failed\n", 1)
	k.one(t, job("a"))
	if _, err := os.Stat(k.files().Report); err == nil && strings.Contains(read(t, k.files().Report), `"resolved": true`) {
		t.Error("the report of an earlier attempt is still there")
	}
	if log := read(t, k.files().Log); !strings.Contains(log, ">>>>> Patch Apply Failed: ") {
		t.Errorf("run_instance.log does not say that the patch failed:\n%s", log)
	}
}

// TestOneLongLine: tests that print 100 MB without a line end cost about the bytes of
// their log, twice where they are graded, and are graded like any other.
func TestOneLongLine(t *testing.T) {
	const size = 100 << 20
	noise := bytes.Repeat([]byte("."), 1<<20)
	k := newKit(t)
	k.options.Limits.OutputBytes = 256 << 20
	k.phases["test.sh"] = func(ctx context.Context, box *sandboxtest.FakeSandbox, cmd sandbox.Command) (sandbox.Result, error) {
		for range size / len(noise) {
			cmd.Output.Write(noise)
		}
		return prints("\n"+passing, 0)(ctx, box, cmd)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	a := k.one(t, job("a"))
	runtime.ReadMemStats(&after)
	if a.Outcome != grading.Resolved {
		t.Errorf("%s: %s", a.Outcome, a.Reason)
	}
	if info, err := os.Stat(k.files().TestOutput); err != nil || info.Size() < size {
		t.Errorf("the log: %+v, %v", info, err)
	}
	t.Logf("%d MiB were allocated", (after.TotalAlloc-before.TotalAlloc)>>20)
	if n := after.TotalAlloc - before.TotalAlloc; n > 4*size {
		t.Errorf("%d MiB were allocated for a log of %d MiB", n>>20, size>>20)
	}
}
