package sandboxtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// FirstProcess checks that nothing inside a sandbox ends its first process, also while
// that is a shell: for a moment at the start, and for good where env is too old for
// what it would rather be, and that it starts no program of the sandbox any more: that
// may be the model's by then. The root file system is changed.
func FirstProcess(t *testing.T, root, script string) {
	if os.Geteuid() != 0 {
		t.Skip("making a process namespace needs root")
	}
	if err := os.Remove(filepath.Join(root, "bin/env")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "dev/shm"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, shell := range []string{"/bin/sh", "/bin/bash"} {
		t.Run(filepath.Base(shell), func(t *testing.T) {
			cmd := exec.Command(shell, "-c", script)
			cmd.Env = []string{"PATH=/usr/bin:/bin"}
			cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Cloneflags: syscall.CLONE_NEWPID}
			input, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer input.Close()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			defer cmd.Process.Kill()
			child := nextChild(t, cmd.Process.Pid, "", ended)
			hit := exec.Command("nsenter", "--target", fmt.Sprint(cmd.Process.Pid), "--pid", "bash", "-c", "(sleep 0 &); for s in {1..31}; do kill -$s 1; done; kill -KILL -1")
			if out, err := hit.CombinedOutput(); err != nil {
				t.Fatalf("nsenter: %v\n%s", err, out)
			}
			nextChild(t, cmd.Process.Pid, child, ended)
		})
	}
}

// nextChild waits until a process has one child that is not the one it had: a copy of
// itself.
func nextChild(t *testing.T, pid int, had string, ended <-chan error) string {
	t.Helper()
	for began := time.Now(); time.Since(began) < patience; time.Sleep(10 * time.Millisecond) {
		select {
		case err := <-ended:
			t.Fatalf("the first process has ended: %v", err)
		default:
		}
		now, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", pid))
		child := strings.TrimSpace(string(now))
		if err != nil || child == "" || string(now) == had || strings.Contains(child, " ") {
			continue
		}
		own, err1 := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		its, err2 := os.Readlink("/proc/" + child + "/exe")
		if err1 == nil && err2 == nil && its == own {
			return string(now)
		}
	}
	t.Fatal("the first process does not go on, or not by itself")
	return ""
}
