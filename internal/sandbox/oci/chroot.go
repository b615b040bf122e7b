package oci

import (
	"errors"
	"fmt"
	goruntime "runtime"

	"golang.org/x/sys/unix"
)

// errChroot: in a chroot, what a runtime starts in a sandbox that is already there
// gets the root of the mount namespace, which is the machine's own and not the
// sandbox's.
var errChroot = errors.New("this process runs in a chroot, where OCI runtimes cannot keep commands in a sandbox; start evalrun outside, or where the root was changed with pivot_root (as containers do)")

// notInChroot compares this process's root with that of its mount namespace, which
// is what entering the namespace gives.
func notInChroot() error {
	var here, there unix.Statx_t
	if err := statRoot(&here); err != nil {
		return fmt.Errorf("look at /: %w", err)
	}
	done := make(chan error)
	go func() {
		// The thread is never given back: its root may be another.
		goruntime.LockOSThread()
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_FS); err != nil {
				return err
			}
			fd, err := unix.Open("/proc/thread-self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			if err := unix.Setns(fd, unix.CLONE_NEWNS); err != nil {
				return err
			}
			return statRoot(&there)
		}()
	}()
	if err := <-done; err != nil {
		return fmt.Errorf("find out whether this is a chroot: %w", err)
	}
	// Kernels before 5.8 do not tell mounts apart; then both are 0.
	if here.Mnt_id != there.Mnt_id || here.Ino != there.Ino || here.Dev_major != there.Dev_major || here.Dev_minor != there.Dev_minor {
		return errChroot
	}
	return nil
}

func statRoot(is *unix.Statx_t) error {
	return unix.Statx(unix.AT_FDCWD, "/", 0, unix.STATX_INO|unix.STATX_MNT_ID, is)
}
