package buildkit

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/sys/mountinfo"
)

// childEnv makes the test program a process of its own that builds: the state's
// folder, the folder with the tar, and what to do.
const childEnv = "EVALRUN_BUILDKIT_TEST_CHILD"

func TestMain(m *testing.M) {
	if what := os.Getenv(childEnv); what != "" {
		os.Exit(child(strings.Split(what, "|")))
	}
	os.Exit(m.Run())
}

// child builds an image that takes a while, and says when it is under way.
func child(args []string) int {
	k := &kit{dir: args[0], tars: args[1]}
	b, err := Open(Options{Dir: k.dir, Say: func(s string) { fmt.Println("SAID", s) }})
	if err == nil {
		_, err = k.build(context.Background(), b, run(k.base(), args[2]), args[3])
	}
	if err == nil {
		err = b.Close()
	}
	if err != nil {
		fmt.Println("ERROR", err)
		return 1
	}
	fmt.Println("BUILT")
	return 0
}

// start starts a child that runs a script as a build step.
func (k *kit) start(script, ref string) (*exec.Cmd, *strings.Builder) {
	k.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		k.t.Fatal(err)
	}
	cmd := exec.Command(exe)
	out := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(os.Environ(), childEnv+"="+strings.Join([]string{k.dir, k.tars, script, ref}, "|"))
	if err := cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { cmd.Process.Kill() })
	return cmd, out
}

// steps are the folders of build steps that run, or were left behind.
func (k *kit) steps() []string {
	k.t.Helper()
	list, err := filepath.Glob(filepath.Join(k.dir, "runc-*", "executor", "*", "config.json"))
	if err != nil {
		k.t.Fatal(err)
	}
	return list
}

func (k *kit) wait(what string, f func() bool) {
	k.t.Helper()
	for range 600 {
		if f() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	k.t.Fatalf("%s: in vain for a minute", what)
}

// Two processes on one state: the second waits for the first one's build, says
// so, and sees its image.
func TestTwoProcesses(t *testing.T) {
	k := newKit(t)
	first, firstOut := k.start("echo first >/n; sleep 3", "evalrun/first:1")
	k.wait("the first process's step", func() bool { return len(k.steps()) > 0 })
	var said []string
	b := k.open(func(o *Options) { o.Say = func(s string) { said = append(said, s) } })
	k.mustBuild(b, run(k.base(), "echo second >/n"), "evalrun/second:1")
	if len(said) == 0 || !strings.Contains(said[0], "another evalrun") {
		t.Errorf("nothing is said of waiting: %q", said)
	}
	if got := k.read(b, "evalrun/first:1", "n"); got != "first\n" {
		t.Errorf("the other's image: %q", got)
	}
	if err := first.Wait(); err != nil {
		t.Errorf("the first process: %v\n%s", err, firstOut)
	}
}

// A process that keeps the solver open without building gives it to another one,
// and gets it back.
func TestHandOver(t *testing.T) {
	k := newKit(t)
	b := k.open(nil)
	k.mustBuild(b, run(k.base(), "echo 1 >/n"), "evalrun/one:1")
	held, err := b.Root(context.Background(), "evalrun/one:1")
	if err != nil {
		t.Fatal(err)
	}
	defer held.Release()
	second, out := k.start("echo 2 >/n", "evalrun/two:1")
	if err := second.Wait(); err != nil {
		t.Fatalf("the second process: %v\n%s", err, out)
	}
	if what := k.mustBuild(b, run(k.base(), "echo 2 >/n"), "evalrun/three:1"); what.ranRun() {
		t.Errorf("what the other has built is built again: %q", what.ran)
	}
	if data, err := os.ReadFile(filepath.Join(held.Lower[0], "n")); err != nil || string(data) != "1\n" {
		t.Errorf("the image in use: %q, %v", data, err)
	}
}

// After kill -9 in the middle of a build the next process ends what was left
// running, takes the mounts off, and builds.
func TestKilled(t *testing.T) {
	k := newKit(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	cmd, out := k.start("test -s /run/secret; echo half >/n; sleep 1000", "evalrun/half:1")
	k.wait("the build step", func() bool { return len(k.steps()) > 0 })
	time.Sleep(500 * time.Millisecond)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	left := k.steps()
	if len(left) == 0 {
		t.Fatalf("nothing was left, so nothing is tested\n%s", out)
	}
	secrets := func() []string {
		list, err := filepath.Glob(filepath.Join(tmp, "buildkit-secrets*"))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	if len(secrets()) == 0 {
		t.Fatal("no secret was left, so nothing is tested")
	}
	b := k.open(nil)
	k.mustBuild(b, run(k.base(), "echo whole >/n"), "evalrun/whole:1")
	if got := k.read(b, "evalrun/whole:1", "n"); got != "whole\n" {
		t.Errorf("%q", got)
	}
	if _, ok, err := b.Image(context.Background(), "evalrun/half:1"); ok || err != nil {
		t.Errorf("the half-built image: %v, %v", ok, err)
	}
	for _, path := range left {
		id := filepath.Base(filepath.Dir(path))
		if out, err := exec.Command(b.Runtime(), "state", id).CombinedOutput(); err == nil {
			t.Errorf("step %s still runs: %s", id, out)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if left := secrets(); len(left) > 0 {
		t.Errorf("secrets are left: %q", left)
	}
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(k.dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mounts {
		t.Errorf("still mounted: %s", m.Mountpoint)
	}
	if steps := k.steps(); len(steps) > 0 {
		t.Errorf("folders are left: %q", steps)
	}
}
