package oci

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/oci/ocitest"
	"github.com/evalrun/evalrun/internal/sandbox/sandboxtest"
)

// inside runs a test again as a process of its own, in a mount namespace that a
// script has prepared. It reports whether this is that process.
func inside(t *testing.T, program, script string, attr *syscall.SysProcAttr) bool {
	t.Helper()
	if os.Getenv("EVALRUN_TEST_INSIDE") == t.Name() {
		return true
	}
	cmd := exec.Command("/bin/sh", "-ec", script+"\nexec \"$@\"", "sh", program, "-test.run", "^"+t.Name()+"$", "-test.v", "-test.short")
	cmd.Env = append(os.Environ(), "EVALRUN_TEST_INSIDE="+t.Name())
	cmd.SysProcAttr = attr
	cmd.SysProcAttr.Unshareflags |= syscall.CLONE_NEWNS
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// works checks that a sandbox starts, runs a command and ends.
func works(t *testing.T, d *Driver) {
	t.Helper()
	ctx := context.Background()
	s, err := d.Start(ctx, sandbox.Spec{Image: ocitest.Image, Limits: sandbox.Limits{MemoryBytes: 1 << 30, Pids: 100}, Expiry: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	if res, err := s.Exec(ctx, sandbox.Command{Argv: []string{"sh", "-c", "exit 7"}}); err != nil || res.ExitCode != 7 {
		t.Errorf("%+v, %v", res, err)
	}
	if err := s.Destroy(ctx); err != nil {
		t.Error(err)
	}
}

// Where control groups cannot be written, the watchdog stands in, and what is not
// enforced is said.
func TestReadOnlyGroups(t *testing.T) {
	runtimes := ocitest.Runtimes(t)
	if !inside(t, os.Args[0], `for m in /sys/fs/cgroup/*/; do mount --bind $m $m; mount -o remount,bind,ro $m; done`, &syscall.SysProcAttr{}) {
		return
	}
	for i, runtime := range runtimes {
		t.Run(filepath.Base(runtime), func(t *testing.T) {
			d := openDriver(t, runtime)
			said := strings.Join(d.Unenforced(), "\n")
			for _, limit := range []string{"memory: ", "processors: ", "processes: ", "disk: "} {
				if !strings.Contains(said, limit) {
					t.Errorf("%q is not said to be unenforced:\n%s", limit, said)
				}
			}
			if i > 0 {
				works(t, d) // one of them goes through all
				return
			}
			sandboxtest.Run(t, func(*testing.T) sandbox.Driver { return d }, ocitest.Image, sandboxtest.Options{
				Count: d.count, Capabilities: "00000000000004fb", Watched: true,
			})
		})
	}
}

// In a user namespace, as a user who is root nowhere else.
func TestUserNamespace(t *testing.T) {
	runtimes := ocitest.Runtimes(t)
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 200_000, Size: 65_536}}
	program := filepath.Join(os.TempDir(), "oci.test")
	if os.Getenv("EVALRUN_TEST_INSIDE") == "" {
		// Folders that this user may go through, and write into.
		dir, err := os.MkdirTemp("", "evalrun-userns-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		program = filepath.Join(dir, "oci.test")
		if out, err := exec.Command("cp", os.Args[0], program).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if err := os.Chown(dir, 200_000, 200_000); err != nil {
			t.Fatal(err)
		}
		t.Setenv("TMPDIR", dir)
		if err := sandboxtest.KeepProbe(filepath.Join(dir, "probe")); err != nil {
			t.Fatal(err)
		}
		t.Setenv("EVALRUN_TEST_PROBE", filepath.Join(dir, "probe"))
	}
	if !inside(t, program, "", &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true,
		Credential: &syscall.Credential{},
	}) {
		return
	}
	for i, runtime := range runtimes {
		t.Run(filepath.Base(runtime), func(t *testing.T) {
			d := openDriver(t, runtime)
			if d.Info().Cgroup != "none" {
				t.Errorf("%+v: control groups of a machine that is not ours", d.Info())
			}
			if i > 0 {
				works(t, d) // one of them goes through all
				return
			}
			sandboxtest.Run(t, func(*testing.T) sandbox.Driver { return d }, ocitest.Image, sandboxtest.Options{
				Count: d.count, Capabilities: "00000000000004fb", Watched: true,
			})
		})
	}
}

// A disk that is full by others' doing is trouble of this machine's, whatever the
// command makes of it.
func TestFullDisk(t *testing.T) {
	runtimes := ocitest.Runtimes(t)
	small := filepath.Join(t.TempDir(), "small")
	if err := os.Mkdir(small, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("none", small, "tmpfs", 0, "size=64m"); err != nil {
		t.Fatal(err)
	}
	defer syscall.Unmount(small, 0)
	ctx := context.Background()
	d, err := New(ctx, Options{Dir: filepath.Join(small, "oci"), Runtime: runtimes[0], Images: oneImage(ocitest.RootFS(t))})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	s, err := d.Start(ctx, sandbox.Spec{Image: ocitest.Image, Expiry: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	var engine *sandbox.EngineError
	res, err := s.Exec(ctx, sandbox.Command{Argv: []string{"sh", "-c", "head -c 100000000 /dev/zero >/file; exit 1"}})
	if !errors.As(err, &engine) || errors.Is(err, sandbox.ErrDead) || !strings.Contains(err.Error(), "make room") {
		t.Errorf("%+v, %v; want an *EngineError that says what to do", res, err)
	}
	if _, err := d.Start(ctx, sandbox.Spec{Image: ocitest.Image}); !errors.As(err, &engine) {
		t.Errorf("a start on a full disk: %v, want an *EngineError", err)
	}
	if err := s.Destroy(ctx); err != nil {
		t.Fatal(err)
	}
	works(t, d) // there is room again
}

// As the first process of a container, this one inherits whatever loses its parent,
// and must not be left with the dead.
func TestAsFirstProcess(t *testing.T) {
	runtimes := ocitest.Runtimes(t)
	if !inside(t, os.Args[0], "mount -t proc proc /proc", &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}) {
		return
	}
	if os.Getpid() != 1 {
		t.Fatalf("this is process %d", os.Getpid())
	}
	for _, runtime := range runtimes {
		for _, kind := range []string{"overlay", "fuse-overlayfs"} {
			d := openDriver(t, runtime)
			if kind != d.rootfs.kind {
				helper, err := exec.LookPath(kind)
				if err != nil || !exists("/dev/fuse") {
					continue
				}
				d.rootfs = rootfs{kind: kind, helper: helper}
			}
			ctx := context.Background()
			for _, timeout := range []time.Duration{0, 2 * time.Second} {
				s, err := d.Start(ctx, sandbox.Spec{Image: ocitest.Image, Expiry: time.Now().Add(time.Hour)})
				if err != nil {
					t.Fatal(err)
				}
				script := "(setsid sleep 1000 &); sleep 1000 & exit 0"
				if timeout > 0 {
					script += "& sleep 1000"
				}
				if res, err := s.Exec(ctx, sandbox.Command{Argv: []string{"sh", "-c", script}, Timeout: timeout}); err != nil {
					t.Errorf("%+v, %v", res, err)
				}
				if err := s.Destroy(ctx); err != nil {
					t.Error(err)
				}
			}
		}
	}
	var left []string
	for range 50 { // what serves a file system ends shortly after it has been unmounted
		left = nil
		stats, _ := filepath.Glob("/proc/[0-9]*/stat")
		for _, path := range stats {
			if text, err := os.ReadFile(path); err == nil && path != "/proc/1/stat" {
				left = append(left, string(text))
			}
		}
		if len(left) == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("left behind: %q", left)
}

// In a chroot a runtime would start commands outside of the sandbox they are for.
func TestChroot(t *testing.T) {
	if err := notInChroot(); os.Getenv("EVALRUN_TEST_INSIDE") == "" && err != nil {
		t.Skip("the tests run in a chroot themselves: ", err)
	}
	if !inside(t, os.Args[0], `d=$(mktemp -d); trap 'umount -l "$d"; rmdir "$d"' EXIT; mount --rbind / "$d"; chroot "$d" "$@"; exit`, &syscall.SysProcAttr{}) {
		return
	}
	if d, err := New(t.Context(), Options{Dir: t.TempDir()}); !errors.Is(err, errChroot) {
		t.Errorf("%v, %v", d, err)
	}
}
