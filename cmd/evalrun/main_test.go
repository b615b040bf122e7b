package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/evalrun/evalrun/internal/sandbox/docker"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"evalrun":      func() { os.Exit(realMain(os.Args[1:], os.Stdout, os.Stderr)) },
		"evalrun-fake": func() { os.Exit(newFakeEngine().main(os.Args[1:], os.Stdout, os.Stderr)) },
	})
}

// TestScripts runs what needs no engine.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/script",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"status": status},
		Setup: func(e *testscript.Env) error {
			e.Setenv("EVALRUN_CACHE", filepath.Join(e.WorkDir, "cache"))
			// An address where no daemon answers.
			e.Setenv("DOCKER_HOST", "unix://"+filepath.Join(e.WorkDir, "no.sock"))
			return nil
		},
	})
}

// status runs evalrun and holds its exit status to the one wanted; what it printed
// can be looked at as after exec.
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N ARGS...")
	}
	var exit *exec.ExitError
	got := 0
	if err := ts.Exec("evalrun", args[1:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit status %d, want %s", got, args[0])
	}
}

// needDocker skips the test where no daemon answers, or fails it where one was
// promised.
func needDocker(t *testing.T) {
	t.Helper()
	c, err := docker.Connect(context.Background())
	if err == nil {
		c.Close()
		return
	}
	if os.Getenv("EVALRUN_REQUIRE_DOCKER") != "" {
		t.Fatal(err)
	}
	t.Skip(err)
}

// TestDemo grades the whole demo dataset for real and compares every outcome.
func TestDemo(t *testing.T) {
	needDocker(t)
	var out, errs strings.Builder
	dir := t.TempDir()
	if code := realMain([]string{"demo", "--out", dir, "--fresh", "--check"}, &out, &errs); code != exitFine {
		t.Fatalf("exit code %d\n%s\n%s", code, out.String(), errs.String())
	}
	if want := "32 outcomes, 0 not as expected\n"; out.String() != want {
		t.Errorf("output %q, want %q", out.String(), want)
	}
	// Again: nothing is run, the result is the same.
	out.Reset()
	errs.Reset()
	if code := realMain([]string{"demo", "--out", dir, "--check"}, &out, &errs); code != exitFine {
		t.Fatalf("second call: exit code %d\n%s\n%s", code, out.String(), errs.String())
	}
	if strings.Contains(errs.String(), "built in") {
		t.Errorf("the second call built images:\n%s", errs.String())
	}
	// What was written is true.
	out.Reset()
	if code := realMain([]string{"report", "verify", "demo", "--out", dir}, &out, &errs); code != exitFine || !strings.Contains(out.String(), " 0 differ, 0 unchecked") {
		t.Errorf("verify: exit code %d\n%s", code, out.String())
	}
	for _, file := range []string{"gold.demo.json", "evalrun-demo__mixed.demo.json", "logs/run_evaluation/demo/run.json", "images.lock",
		"logs/run_evaluation/demo/gold/evalrun-demo__textkit-1/report.json"} {
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			t.Error(err)
		}
	}
}

// TestInterrupt ends a run in the middle: nothing may be left running, what was
// done is kept, and the next call goes on from there.
func TestInterrupt(t *testing.T) {
	needDocker(t)
	dir := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The test binary is evalrun when it is called so.
	bin := filepath.Join(t.TempDir(), "evalrun")
	if err := os.Symlink(exe, bin); err != nil {
		t.Fatal(err)
	}
	var errs strings.Builder
	cmd := exec.Command(bin, "demo", "--out", dir, "--fresh", "-j", "1")
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	attempts := filepath.Join(dir, "logs/run_evaluation/demo/*/*/attempt.json")
	for start := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if found, _ := filepath.Glob(attempts); len(found) >= 2 {
			break
		}
		if time.Since(start) > 15*time.Minute {
			cmd.Process.Kill()
			t.Fatalf("no attempt was finished\n%s", errs.String())
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
		t.Fatalf("exit code %d, want %d\n%s", code, exitInterrupted, errs.String())
	}
	owners, err := exec.Command("docker", "ps", "-a", "--format", `{{.Label "evalrun.owner"}}`).Output()
	if err != nil {
		t.Fatalf("docker ps: %v", err)
	}
	if strings.Contains(string(owners), "."+strconv.Itoa(cmd.Process.Pid)+".") {
		t.Errorf("containers of the interrupted process are left:\n%s", owners)
	}
	done, _ := filepath.Glob(attempts)
	var out strings.Builder
	errs.Reset()
	if code := realMain([]string{"demo", "--out", dir, "--check"}, &out, &errs); code != exitFine {
		t.Fatalf("the next call: exit code %d\n%s%s", code, out.String(), errs.String())
	}
	if len(done) == 0 {
		t.Error("nothing was kept of the interrupted run")
	}
}
