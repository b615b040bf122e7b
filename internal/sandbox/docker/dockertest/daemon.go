package dockertest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Daemon is a daemon of a test's own, which may be killed.
type Daemon struct {
	Host  string
	Image string

	dir  string
	args []string
	cmd  *exec.Cmd
	done chan struct{}
}

// StartDaemon starts a daemon that touches no other and no network of this
// machine, with further arguments. The test is skipped without root or without
// dockerd on this machine.
func StartDaemon(t testing.TB, args ...string) *Daemon {
	t.Helper()
	if _, err := exec.LookPath("dockerd"); err != nil {
		t.Skip("a daemon of its own needs dockerd here: ", err)
	}
	if os.Geteuid() != 0 {
		t.Skip("a daemon of its own needs root")
	}
	// Not t.TempDir, whose names are too long for a socket.
	dir, err := os.MkdirTemp("", "dockerd-")
	if err != nil {
		t.Fatal(err)
	}
	d := &Daemon{Host: "unix://" + filepath.Join(dir, "d.sock"), dir: dir, args: args}
	t.Cleanup(func() { d.cleanUp(t) })
	d.Restart(t)
	if d.Image, err = ImageAt(d.Host); err != nil {
		t.Fatal(err)
	}
	return d
}

// Restart starts the daemon again after Kill.
func (d *Daemon) Restart(t testing.TB) {
	t.Helper()
	in := func(name string) string { return filepath.Join(d.dir, name) }
	// What a crash has left, a process id that is taken by then included, would
	// keep it from starting.
	killBelow(d.dir)
	os.Remove(in("exec/containerd/containerd.pid"))
	log, err := os.Create(in("log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	args := []string{"--data-root", in("root"), "--exec-root", in("exec"), "-H", d.Host, "--pidfile", in("d.pid"),
		"--bridge", "none", "--iptables=false", "--ip6tables=false", "--ip-masq=false", "--ip-forward=false"}
	d.cmd = exec.Command("dockerd", append(args, d.args...)...)
	d.cmd.Stdout, d.cmd.Stderr = log, log
	// Its containerd is in the group too, so that nothing outlives the test. A
	// network of its own, because a daemon told to have no bridge removes the one
	// that another daemon's containers stand on.
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Cloneflags: syscall.CLONE_NEWNET}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	d.done = done
	go func(cmd *exec.Cmd) { cmd.Wait(); close(done) }(d.cmd)
	for range 600 {
		if err = ping(d.Host); err == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	text, _ := os.ReadFile(in("log"))
	t.Fatalf("the daemon does not start: %v\n%s", err, text)
}

// Kill ends the daemon as a crash would.
func (d *Daemon) Kill() {
	d.cmd.Process.Kill()
	<-d.done
}

// Freeze stops the daemon without ending it, and Thaw lets it go on.
func (d *Daemon) Freeze() { d.cmd.Process.Signal(syscall.SIGSTOP) }

// Thaw undoes Freeze.
func (d *Daemon) Thaw() { d.cmd.Process.Signal(syscall.SIGCONT) }

func (d *Daemon) cleanUp(t testing.TB) {
	d.Thaw()
	// Asked to end, it ends its containers too.
	select {
	case <-d.done:
	default:
		d.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-d.done:
		case <-time.After(30 * time.Second):
			d.Kill()
		}
	}
	killBelow(d.dir)
	unmountBelow(d.dir)
	if err := os.RemoveAll(d.dir); err != nil {
		t.Logf("the daemon's folder: %v", err)
	}
}

// unmountBelow takes off what is mounted in a folder, the innermost first.
func unmountBelow(dir string) {
	text, _ := os.ReadFile("/proc/self/mounts")
	mounts := strings.Split(string(text), "\n")
	for i := len(mounts) - 1; i >= 0; i-- {
		if fields := strings.Fields(mounts[i]); len(fields) > 1 && strings.HasPrefix(fields[1], dir+"/") {
			syscall.Unmount(fields[1], syscall.MNT_DETACH)
		}
	}
}

// killBelow kills what a killed daemon has left running: its containerd, the
// shims, and what runs in their containers. All of them name the folder.
func killBelow(dir string) {
	for range 5 {
		found := false
		stats, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, path := range stats {
			text, err := os.ReadFile(path)
			if err != nil || !containsFolder(text, dir) {
				continue
			}
			found = true
			killTree(filepath.Base(filepath.Dir(path)))
		}
		if !found {
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func containsFolder(cmdline []byte, dir string) bool {
	for _, word := range strings.Split(string(cmdline), "\x00") {
		if strings.HasPrefix(strings.TrimPrefix(word, "unix://"), dir+"/") {
			return true
		}
	}
	return false
}

// killTree kills a process and its children, which are a shim's containers.
func killTree(pid string) {
	children, _ := filepath.Glob("/proc/" + pid + "/task/*/children")
	for _, path := range children {
		text, _ := os.ReadFile(path)
		for _, child := range strings.Fields(string(text)) {
			killTree(child)
		}
	}
	if n, err := strconv.Atoi(pid); err == nil && n > 1 {
		syscall.Kill(n, syscall.SIGKILL)
	}
}
