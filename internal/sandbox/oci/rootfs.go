package oci

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/containerd/v2/core/mount"
	"golang.org/x/sys/unix"
)

// rootfs makes the root file systems of sandboxes: a writable layer over those of
// the image, in whichever way works where the sandboxes are.
type rootfs struct {
	kind    string // overlay, fuse-overlayfs or copy
	options []string
	helper  string // path of fuse-overlayfs
}

// folders are those of one sandbox's file system.
type folders struct {
	upper string // what it has written; with copy, everything
	work  string
	root  string // the whole
}

func foldersIn(dir string) folders {
	return folders{upper: filepath.Join(dir, "upper"), work: filepath.Join(dir, "work"), root: filepath.Join(dir, "root")}
}

// findRootFS tries the ways in turn, in a folder of its own.
func findRootFS(ctx context.Context, dir string, userNS bool) (rootfs, error) {
	var marks []string
	if userNS {
		marks = []string{"userxattr"}
	}
	ways := []rootfs{
		// volatile: nothing of a sandbox outlives it, so nothing need be forced to disk.
		{kind: "overlay", options: append([]string{"index=off", "volatile"}, marks...)},
		{kind: "overlay", options: append([]string{"index=off"}, marks...)},
		{kind: "overlay", options: marks},
	}
	if helper, err := exec.LookPath("fuse-overlayfs"); err == nil {
		ways = append(ways, rootfs{kind: "fuse-overlayfs", helper: helper})
	}
	ways = append(ways, rootfs{kind: "copy"})
	var errs []error
	for _, way := range ways {
		err := way.try(ctx, dir)
		if err == nil {
			return way, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", way.kind, err))
	}
	return rootfs{}, fmt.Errorf("no file system for sandboxes can be made in %s: %w", filepath.Dir(dir), errors.Join(errs...))
}

// try finds out whether a folder of a lower layer can be replaced by a new one:
// that needs extended attributes, without which some mount but do not work.
func (r rootfs) try(ctx context.Context, dir string) (err error) {
	defer func() { err = errors.Join(err, removeAll(dir)) }()
	lower := filepath.Join(dir, "lower")
	if err := os.MkdirAll(filepath.Join(lower, "folder", "below"), 0o700); err != nil {
		return err
	}
	f := foldersIn(dir)
	remove, err := r.make(ctx, f, []string{lower})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	folder := filepath.Join(f.root, "folder")
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		return fmt.Errorf("a folder that was removed and made again holds %d entries of before: %w", len(left), err)
	}
	return nil
}

// make makes the root of a sandbox. What it returns takes it off again, but for its
// folders, and may be called again after it failed.
func (r rootfs) make(ctx context.Context, f folders, lower []string) (remove func() error, err error) {
	for _, dir := range []string{f.upper, f.work, f.root} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
		// Whatever mask this process has: the upper one is the sandbox's own root.
		if err := os.Chmod(dir, 0o755); err != nil {
			return nil, err
		}
	}
	options := append([]string{"lowerdir=" + strings.Join(lower, ":"), "upperdir=" + f.upper, "workdir=" + f.work}, r.options...)
	switch r.kind {
	case "overlay":
		err := mount.All([]mount.Mount{{Type: "overlay", Source: "overlay", Options: append(options, "nodev")}}, f.root)
		return func() error { return unmount(f.root) }, err
	case "fuse-overlayfs":
		return serve(ctx, exec.Command(r.helper, "-f", "-o", strings.Join(options, ","), f.root), f.root)
	}
	return func() error { return nil }, copyLayers(ctx, f, lower)
}

// serve starts what serves a file system, as a child that can be waited for, and
// waits until it is mounted.
func serve(ctx context.Context, cmd *exec.Cmd, root string) (remove func() error, err error) {
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	remove = func() error {
		if err := unmount(root); err != nil {
			return err
		}
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			cmd.Process.Kill()
			<-ended
		}
		return nil
	}
	for {
		var fs unix.Statfs_t
		if unix.Statfs(root, &fs) == nil && fs.Type == unix.FUSE_SUPER_MAGIC {
			return remove, nil
		}
		select {
		case <-ended:
			return nil, fmt.Errorf("%s: %s: %s", cmd.Path, cmd.ProcessState, lastWords(said.Bytes()))
		case <-ctx.Done():
			cmd.Process.Kill()
			return nil, errors.Join(context.Cause(ctx), remove())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// unmount takes off whatever is mounted there, at the latest when the last
// process that uses it has gone.
func unmount(dir string) error {
	for {
		err := unix.Unmount(dir, unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EBUSY) {
			err = unix.Unmount(dir, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
		}
		switch {
		case errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT):
			return nil // nothing is mounted there any more
		case err != nil:
			return &os.PathError{Op: "unmount", Path: dir, Err: err}
		}
	}
}

// removeAll removes a folder, also one that holds paths longer than the system
// takes in one piece.
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil {
		return nil
	}
	if out, err := exec.Command("rm", "-rf", "--one-file-system", "--", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("remove %s: %w: %s", dir, err, bytes.TrimSpace(out))
	}
	return nil
}
