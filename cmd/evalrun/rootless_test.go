package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// An ordinary user without subordinate ids and without a daemon is told what to have
// done, and doctor tells of everything else as well.
func TestWithoutSubordinateIDs(t *testing.T) {
	const nobody, id = "nobody", 65534
	if os.Geteuid() != 0 {
		t.Skip("becomes another user")
	}
	if _, err := exec.LookPath("newuidmap"); err != nil {
		t.Skip(err)
	}
	for _, path := range []string{"/etc/subuid", "/etc/subgid"} {
		if text, _ := os.ReadFile(path); strings.Contains("\n"+string(text), "\n"+nobody+":") {
			t.Skip(nobody, " has subordinate ids here: ", path)
		}
	}
	// A folder that this user may go through, with the test binary as evalrun in it.
	dir, err := os.MkdirTemp("", "evalrun-nobody-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin, home := filepath.Join(dir, "evalrun"), filepath.Join(dir, "home")
	if out, err := exec.Command("cp", exe, bin).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(home, 0o700), os.Chown(home, id, id)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		want []string
	}{
		{[]string{"demo", "--engine", "embedded"}, []string{"subordinate ids", "usermod --add-subuids"}},
		{[]string{"doctor"}, []string{"embedded: ", "subuid: no subordinate ids of " + nobody, "usermod --add-subuids", "docker: no Docker daemon answers", "git"}},
	} {
		cmd := exec.Command(bin, tt.args...)
		cmd.Dir = home
		cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "EVALRUN_CACHE=" + filepath.Join(home, "cache"), "DOCKER_HOST=unix://" + filepath.Join(dir, "no.sock"), "CONTAINER_HOST=unix://" + filepath.Join(dir, "no.sock")}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != exitNotEvaluated {
			t.Errorf("evalrun %s: exit code %d, %v", strings.Join(tt.args, " "), code, err)
		}
		for _, want := range tt.want {
			if !strings.Contains(string(out), want) {
				t.Errorf("evalrun %s does not say %q:\n%s", strings.Join(tt.args, " "), want, out)
			}
		}
	}
}
