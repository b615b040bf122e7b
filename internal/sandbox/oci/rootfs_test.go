package oci

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/layer"
	"github.com/evalrun/evalrun/internal/sandbox/oci/ocitest"
)

// newLayer makes a folder as overlayfs keeps a layer. Names that end in "/" are
// folders, what begins with "-> " is a link.
func newLayer(t *testing.T, entries map[string]string, whiteouts, opaques []string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range entries {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		to, isLink := strings.CutPrefix(text, "-> ")
		switch {
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(path, 0o755)
		case isLink:
			err = os.Symlink(to, path)
		default:
			err = os.WriteFile(path, []byte(text), 0o640)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range whiteouts {
		if err := unix.Mknod(filepath.Join(dir, name), unix.S_IFCHR, 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range opaques {
		if err := unix.Setxattr(filepath.Join(dir, name), "trusted.overlay.opaque", []byte("y"), 0); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// tree reads a folder back.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path)
		switch {
		case err != nil || path == dir:
			return err
		case d.IsDir():
			found[name+"/"] = ""
		case d.Type() == fs.ModeSymlink:
			to, _ := os.Readlink(path)
			found[name] = "-> " + to
		case d.Type().IsRegular():
			text, _ := os.ReadFile(path)
			info, _ := d.Info()
			found[name] = string(text) + " " + info.Mode().String()
		default:
			found[name] = d.Type().String()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Every way gives the same file system, and leaves the layers alone.
func TestRootFS(t *testing.T) {
	ocitest.Runtimes(t) // for root
	bottom := newLayer(t, map[string]string{
		"kept": "1", "gone": "1", "changed": "1", "folder/gone": "1", "folder/kept": "1", "hidden/a": "1", "hidden/deep/b": "1",
		"was folder/a": "1", "was file": "1", "was link": "-> folder", "link": "-> kept", "empty/": "",
	}, nil, nil)
	middle := newLayer(t, map[string]string{"changed": "2", "hidden/new": "2", "was folder": "2", "was file/a": "2", "was link/a": "2"},
		[]string{"gone"}, []string{"hidden"})
	top := newLayer(t, map[string]string{"folder/": "", "back": "3"}, []string{"folder/gone"}, nil)
	lower := []string{top, middle, bottom}
	want := map[string]string{
		"kept": "1 -rw-r-----", "changed": "2 -rw-r-----", "back": "3 -rw-r-----", "folder/": "", "folder/kept": "1 -rw-r-----", "hidden/": "",
		"hidden/new": "2 -rw-r-----", "was folder": "2 -rw-r-----", "was file/": "", "was file/a": "2 -rw-r-----", "was link/": "",
		"was link/a": "2 -rw-r-----", "link": "-> kept", "empty/": "",
	}
	before := []map[string]string{tree(t, top), tree(t, middle), tree(t, bottom)}
	ways := []rootfs{{kind: "overlay", options: []string{"index=off", "volatile"}}, {kind: "overlay"}, {kind: "copy"}}
	if helper, err := exec.LookPath("fuse-overlayfs"); err == nil && exists("/dev/fuse") {
		ways = append(ways, rootfs{kind: "fuse-overlayfs", helper: helper})
	}
	for _, r := range ways {
		t.Run(r.kind, func(t *testing.T) {
			f := foldersIn(t.TempDir())
			remove, err := r.make(context.Background(), f, lower)
			if err != nil {
				t.Fatal(err)
			}
			got := tree(t, f.root)
			if err := os.RemoveAll(filepath.Join(f.root, "hidden")); err != nil {
				t.Error(err)
			}
			if err := os.WriteFile(filepath.Join(f.root, "kept"), make([]byte, 1<<20), 0o644); err != nil {
				t.Error(err)
			}
			if n, err := layer.Size(context.Background(), f.upper+"/."); err != nil || n < 1<<20 || n > 2<<20 {
				t.Errorf("its size is %d, %v; want about 1 MiB", n, err)
			}
			if err := remove(); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			for i, dir := range lower {
				if diff := cmp.Diff(before[i], tree(t, dir)); diff != "" {
					t.Errorf("layer %d has changed: %s", i, diff)
				}
			}
		})
	}
}

// Sandboxes work on every kind of file system.
func TestSandboxOnEveryRootFS(t *testing.T) {
	runtime := ocitest.Runtimes(t)[0]
	ways := []rootfs{{kind: "copy"}}
	if helper, err := exec.LookPath("fuse-overlayfs"); err == nil && exists("/dev/fuse") {
		ways = append(ways, rootfs{kind: "fuse-overlayfs", helper: helper})
	}
	for _, way := range ways {
		t.Run(way.kind, func(t *testing.T) {
			d := openDriver(t, runtime)
			d.rootfs = way
			ctx := context.Background()
			s, err := d.Start(ctx, sandbox.Spec{Image: ocitest.Image, Limits: sandbox.Limits{DiskBytes: 32 << 20}, Expiry: time.Now().Add(time.Hour)})
			if err != nil {
				t.Fatal(err)
			}
			res, err := s.Exec(ctx, sandbox.Command{Argv: []string{"sh", "-c", "git status --short && echo new >/testbed/new && rm /etc/group && exit 3"}})
			if err != nil || res.ExitCode != 3 {
				t.Errorf("%+v, %v", res, err)
			}
			if text, err := s.Read(ctx, "/testbed/new", 10); string(text) != "new\n" || err != nil {
				t.Errorf("Read: %q, %v", text, err)
			}
			res, err = s.Exec(ctx, sandbox.Command{Argv: []string{"sh", "-c", "for i in 1 2 3 4; do head -c 20000000 /dev/zero >/$i; done; sleep 100"}})
			if err != nil || !res.DiskFull {
				t.Errorf("%+v, %v; want DiskFull", res, err)
			}
			if err := s.Destroy(ctx); err != nil {
				t.Error(err)
			}
			if left := d.leaks(t); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// Where overlayfs does not stand on the file system, another way is found.
func TestFindRootFS(t *testing.T) {
	ocitest.Runtimes(t)
	dir := filepath.Join(t.TempDir(), "a,b:c") // nothing that overlayfs takes
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r, err := findRootFS(context.Background(), filepath.Join(dir, "try"), false)
	if err != nil || r.kind == "overlay" {
		t.Errorf("%+v, %v; want a way that works in %s", r, err, dir)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// The same where it mounts and does not work, for want of extended attributes.
func TestWithoutExtendedAttributes(t *testing.T) {
	runtimes := ocitest.Runtimes(t)
	dir := filepath.Join(t.TempDir(), "ramfs")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", dir, "ramfs", 0, ""); err != nil {
		t.Skip("mount ramfs: ", err)
	}
	defer unix.Unmount(dir, 0)
	if err := unix.Setxattr(dir, "trusted.test", []byte("y"), 0); !errors.Is(err, unix.ENOTSUP) {
		t.Skipf("this file system has extended attributes: %v", err)
	}
	d, err := New(context.Background(), Options{Dir: filepath.Join(dir, "oci"), Runtime: runtimes[0], Images: oneImage(ocitest.RootFS(t))})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if d.Info().Storage == "overlay" {
		t.Errorf("%+v", d.Info())
	}
	works(t, d)
}
