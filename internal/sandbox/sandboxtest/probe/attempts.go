package main

import (
	"os"
	"path/filepath"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attempts tries what reaches the kernel or the machine, and answers "" for what
// worked and the error for what did not.
func attempts() map[string]string {
	dir, err := os.MkdirTemp("", "attempts-")
	if err != nil {
		fatal(err)
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	now := unix.NsecToTimeval(time.Now().UnixNano())
	facts := map[string]string{}
	for name, err := range map[string]error{
		"block device":       unix.Mknod(in("block"), unix.S_IFBLK|0o600, int(unix.Mkdev(8, 0))),
		"memory device":      unix.Mknod(in("memory"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 1))),
		"mount tmpfs":        unix.Mount("none", dir, "tmpfs", 0, ""),
		"bind mount":         unix.Mount("/", dir, "", unix.MS_BIND, ""),
		"unmount":            unix.Unmount("/proc", unix.MNT_DETACH),
		"pivot root":         unix.PivotRoot(dir, dir),
		"user namespace":     unix.Unshare(unix.CLONE_NEWUSER),
		"mount namespace":    unix.Unshare(unix.CLONE_NEWNS),
		"network namespace":  unix.Unshare(unix.CLONE_NEWNET),
		"host name":          unix.Sethostname([]byte("other")),
		"clock":              unix.Settimeofday(&now),
		"swap":               call(unix.SYS_SWAPON, in("swap"), 0),
		"accounting":         unix.Acct(""),
		"kernel module":      unix.InitModule([]byte{0}, ""),
		"kernel log":         kernelLog(),
		"keyring":            call(unix.SYS_KEYCTL, "", 0),
		"programs in kernel": call(unix.SYS_BPF, "", 0),
		"performance events": call(unix.SYS_PERF_EVENT_OPEN, "", 0),
		"page faults":        call(unix.SYS_USERFAULTFD, "", 0),
		"file handles":       call(unix.SYS_OPEN_BY_HANDLE_AT, "", 0),
		"higher priority":    unix.Setpriority(unix.PRIO_PROCESS, 0, -10),
		"more open files":    unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}),
		"chroot":             unix.Chroot(dir),
	} {
		facts[name] = text(err)
	}
	return facts
}

func kernelLog() error {
	_, err := unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, make([]byte, 100))
	return err
}

// call makes a system call whose arguments do not matter: it must not get as far
// as to look at them.
func call(number uintptr, path string, flags uintptr) error {
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}
	if _, _, errno := syscall.Syscall(number, uintptr(unsafe.Pointer(p)), flags, 0); errno != 0 {
		return errno
	}
	return nil
}
