package buildkit

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/evalrun/evalrun/internal/sandbox/docker/dockertest"
)

// mounted is a folder with a file system of its own.
func mounted(t *testing.T, kind, options string) string {
	t.Helper()
	needsRoot(t)
	dir := filepath.Join(t.TempDir(), kind)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("none", dir, kind, 0, options); err != nil {
		t.Skipf("mount %s: %v", kind, err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
			syscall.Unmount(dir, syscall.MNT_DETACH)
		}
	})
	return dir
}

// On a file system without extended attributes overlayfs mounts, and fails when a
// folder of a lower layer goes: another way is taken, and layers come out right.
func TestWithoutExtendedAttributes(t *testing.T) {
	dir := mounted(t, "ramfs", "")
	if err := syscall.Setxattr(dir, "trusted.test", []byte("y"), 0); !errors.Is(err, syscall.ENOTSUP) {
		t.Skipf("this file system has extended attributes: %v", err)
	}
	data, err := dockertest.RootFS()
	if err != nil {
		t.Fatal(err)
	}
	k := newKitIn(t, filepath.Join(dir, "state"), data)
	b := k.open(nil)
	if name, why := b.Snapshotter(); name == Overlay {
		t.Fatalf("layers are kept with %s: %s", name, why)
	}
	k.mustBuild(b, run(k.base(), "mkdir -p /folder/below; echo old >/folder/file"), "evalrun/base:1")
	k.mustBuild(b, run(on("evalrun/base:1"), "rm -r /folder && mkdir /folder && echo new >/folder/other"), "evalrun/env:1")
	k.mustBuild(b, run(on("evalrun/env:1"), "ls /folder >/list"), "evalrun/instance:1")
	if got := k.read(b, "evalrun/instance:1", "list"); got != "other\n" {
		t.Errorf("a folder that was made anew holds %q", got)
	}
}

// A build that fills the disk fails and says so; the state is good afterwards.
func TestFullDisk(t *testing.T) {
	dir := mounted(t, "tmpfs", "size=200m")
	data, err := dockertest.RootFS()
	if err != nil {
		t.Fatal(err)
	}
	k := newKitIn(t, filepath.Join(dir, "state"), data)
	b := k.open(nil)
	k.mustBuild(b, run(k.base(), "true"), "evalrun/base:1")
	if _, err := k.build(context.Background(), b, run(on("evalrun/base:1"), "head -c 1000000000 /dev/zero >/file"), "evalrun/env:1"); err == nil {
		t.Error("a gigabyte went onto a disk of 200 MB")
	}
	if _, ok, err := b.Image(context.Background(), "evalrun/env:1"); ok || err != nil {
		t.Errorf("what failed is there: %t, %v", ok, err)
	}
	k.mustBuild(b, run(on("evalrun/base:1"), "echo small >/file"), "evalrun/env:2")
	if got := k.read(b, "evalrun/env:2", "file"); got != "small\n" {
		t.Errorf("what was built afterwards holds %q", got)
	}
}
