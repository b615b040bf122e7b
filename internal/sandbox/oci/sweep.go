package oci

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"
)

// Sweep implements sandbox.Driver.
func (d *Driver) Sweep(ctx context.Context) (int, error) {
	swept := 0
	err := d.state.exclusively(func() error {
		runs, err := filepath.Glob(filepath.Join(d.state.dir, "runs", "*"))
		if err != nil {
			return err
		}
		for _, run := range runs {
			if run == d.state.run {
				continue
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			n, err := d.sweepRun(run)
			swept += n
			if err != nil {
				return engineError("remove what an earlier run left behind", err)
			}
		}
		return nil
	})
	return swept, err
}

// sweepRun destroys the sandboxes of another run, if its process is gone. Its lock is
// the lease of all of them: as long as it is held, none has expired.
func (d *Driver) sweepRun(run string) (swept int, err error) {
	l := flock.New(filepath.Join(run, "lock"))
	gone, err := l.TryLock()
	if err != nil || !gone {
		return 0, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	boxes, err := filepath.Glob(filepath.Join(run, "boxes", "*"))
	if err != nil {
		return 0, err
	}
	for _, dir := range boxes {
		record, _ := readBox(dir) // one that was killed early has none
		if err := d.sweepBox(run, dir, record); err != nil {
			return swept, err
		}
		swept++
	}
	return swept, removeAll(run)
}

// sweepBox destroys one sandbox of another run. Of one that had no record yet,
// there is nothing but its folder.
func (d *Driver) sweepBox(run, dir string, record box) error {
	name := filepath.Base(dir)
	// It ends by itself, and cleans up.
	if err := awaitRuntime(dir, 10*time.Second); err != nil {
		return err
	}
	if record.Runtime != "" {
		rt := runtime{path: record.Runtime, name: filepath.Base(record.Runtime)}
		// It may know nothing of it, as it has cleaned up by itself.
		runtimeCommand(rt, filepath.Join(run, "runtime"), record.Cgroup != "", "delete", "--force", name).Run()
		if err := awaitRuntime(dir, 10*time.Second); err != nil {
			return err
		}
	}
	if err := d.groups.remove(name); err != nil {
		return err
	}
	if err := unmount(foldersIn(dir).root); err != nil {
		return err
	}
	return removeAll(dir)
}

// awaitRuntime gives the runtimes at work on a sandbox time to end. One that does
// not is dealt with all the same.
func awaitRuntime(dir string, limit time.Duration) error {
	for began := time.Now(); time.Since(began) < limit; time.Sleep(10 * time.Millisecond) {
		f, err := alive(dir, syscall.LOCK_EX)
		if err == nil {
			return f.Close()
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
	}
	return nil
}

// removeGroup removes a control group, with the groups below and the processes in
// it.
func removeGroup(dir string) error {
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		below, _ := filepath.Glob(filepath.Join(dir, "*", "cgroup.procs"))
		for _, procs := range below {
			if err := removeGroup(filepath.Dir(procs)); err != nil {
				return err
			}
		}
		err := unix.Rmdir(dir)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || time.Since(began) > 10*time.Second {
			return &os.PathError{Op: "remove", Path: dir, Err: err}
		}
		if err := killGroup(dir); err != nil {
			return err
		}
	}
}

func killGroup(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return err
	}
	for _, word := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(word)
		if err != nil || pid <= 1 {
			return fmt.Errorf("%s lists process %q", dir, word)
		}
		syscall.Kill(pid, syscall.SIGKILL)
	}
	return nil
}

// HasLeftovers reports whether a run that is over has left something in a folder. It
// only looks.
func HasLeftovers(dir string) bool {
	runs, _ := filepath.Glob(filepath.Join(dir, "runs", "*"))
	for _, run := range runs {
		l := flock.New(filepath.Join(run, "lock"), flock.SetFlag(os.O_RDONLY))
		gone, err := l.TryRLock()
		l.Close()
		if gone || errors.Is(err, os.ErrNotExist) {
			return true
		}
	}
	return false
}
