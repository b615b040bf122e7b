package oci

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/evalrun/evalrun/internal/rootless"
)

// runtime is an OCI runtime on this machine.
type runtime struct {
	path    string
	name    string // runc, crun, runsc, …
	version string
	// unfiltered says that it cannot keep system calls from a sandbox.
	unfiltered bool
}

// runtimes are looked for in this order: the leanest first.
var runtimes = []string{"crun", "runc", "runsc"}

// findRuntime finds a runtime by name or path, or the first that works with these
// control groups.
func findRuntime(ctx context.Context, wanted string, gr groups) (runtime, error) {
	names := runtimes
	if wanted != "" {
		names = []string{wanted}
	}
	var errs []error
	for _, name := range names {
		path, err := rootless.LookPath(name)
		if err != nil {
			continue
		}
		rt, err := askRuntime(ctx, path)
		if err == nil {
			err = rt.takes(gr)
		}
		if err == nil {
			return rt, nil
		}
		errs = append(errs, fmt.Errorf("OCI runtime %s: %w", path, err))
	}
	switch {
	case len(errs) > 0:
		return runtime{}, errors.Join(errs...)
	case wanted != "":
		return runtime{}, fmt.Errorf("there is no OCI runtime %q on PATH (name crun, runc or runsc, or give a path)", wanted)
	}
	return runtime{}, errors.New("there is no OCI runtime on PATH: install crun or runc (Debian: apt-get install runc; elsewhere `make runc` builds one)")
}

// takes tells why a runtime does not work with the control groups of this machine.
func (r runtime) takes(gr groups) error {
	if r.name == "crun" && gr.mixed {
		return errors.New("it does not take control groups of which some are v1 and some v2; use runc")
	}
	if r.unfiltered {
		return errors.New("it was built without seccomp, which keeps dangerous system calls from the sandbox; use another build (Debian's has it, `make runc` makes one)")
	}
	return nil
}

func askRuntime(ctx context.Context, path string) (runtime, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").CombinedOutput()
	if err != nil {
		return runtime{}, fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return newRuntime(path, string(out)), nil
}

// newRuntime reads what a runtime says about itself, as in "runc version 1.1.5".
func newRuntime(path, said string) runtime {
	first, _, _ := strings.Cut(said, "\n")
	name, version, ok := strings.Cut(first, " version ")
	if !ok {
		return runtime{path: path, name: filepath.Base(path), version: strings.TrimSpace(first)}
	}
	rt := runtime{path: path, name: filepath.Base(strings.TrimSpace(name)), version: strings.TrimSpace(version)}
	rt.unfiltered = rt.name == "runc" && !strings.Contains(said, "libseccomp:") || rt.name == "crun" && !strings.Contains(said, "+SECCOMP")
	return rt
}

// command is a call of the runtime.
func (d *Driver) command(args ...string) *exec.Cmd {
	return runtimeCommand(d.runtime, d.state.runtimeRoot(), d.groups.version != "none", args...)
}

func runtimeCommand(rt runtime, root string, groups bool, args ...string) *exec.Cmd {
	cmd := exec.Command(rt.path, append(rt.global(root, groups), args...)...)
	// Not this process's environment: runtimes heed variables of systemd's.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "XDG_RUNTIME_DIR=" + root}
	// An interrupt typed at the terminal is for this process alone.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

// global are the options before the runtime's command.
func (r runtime) global(root string, groups bool) []string {
	args := []string{"--root", root}
	if r.name == "runsc" {
		// It would keep what is written to itself, and not see files that are put in.
		args = append(args, "--network=none", "--overlay2=none", "--file-access=shared")
	}
	switch {
	case groups:
	case r.name == "crun":
		args = append(args, "--cgroup-manager", "disabled")
	case r.name == "runc":
		// It then goes on without the groups it cannot make.
		args = append(args, "--rootless", "true")
	case r.name == "runsc":
		args = append(args, "--ignore-cgroups")
	}
	return args
}

// exec are the arguments that start a process which inherits files 3 and 4.
func (r runtime) exec(process, name string) []string {
	if r.name == "runsc" {
		return []string{"exec", "--pass-fd", "3:3", "--pass-fd", "4:4", "--process", process, name}
	}
	return []string{"exec", "--preserve-fds", "2", "--process", process, name}
}

// crowded is how long a machine may have no room for one more process: what another
// sandbox starts without end is killed within that time, also where only the watchdog
// limits it.
const crowded = 10 * time.Second

// startProgram starts a program, or a copy of it once there is room for one more process.
func startProgram(ctx context.Context, cmd *exec.Cmd) (*exec.Cmd, error) {
	for began, pause := time.Now(), 10*time.Millisecond; ; pause = min(2*pause, time.Second) {
		try := &exec.Cmd{
			Path: cmd.Path, Args: cmd.Args, Env: cmd.Env, Dir: cmd.Dir, Stdin: cmd.Stdin, Stdout: cmd.Stdout, Stderr: cmd.Stderr,
			ExtraFiles: cmd.ExtraFiles, SysProcAttr: cmd.SysProcAttr, Err: cmd.Err,
		}
		err := try.Start()
		if !errors.Is(err, syscall.EAGAIN) || time.Since(began) > crowded {
			return try, err
		}
		select {
		case <-ctx.Done():
			return try, err
		case <-time.After(pause):
		}
	}
}
