// Package rootless makes an ordinary user root in a namespace of its own: the
// program is started again in a new user and mount namespace, in which it is
// root, its subordinate ids are the other users, and what it mounts nobody else
// sees. Everything after that works as it does for root.
//
// It must not know what is done there.
package rootless

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// stageEnv tells the program started again how far it is. It holds the number of
// the pipe on which it hears that its ids are mapped.
const stageEnv = "EVALRUN_ROOTLESS_STAGE"

const (
	stageWait  = "wait"  // the ids are not mapped yet
	stageReady = "ready" // root in the namespace
)

// Inside reports whether this process is in a user namespace that is not the
// machine's own.
func Inside() bool {
	table, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && !wholeMap(string(table))
}

// wholeMap reports whether a map of ids is that of the machine: all are themselves.
func wholeMap(table string) bool {
	var inside, outside, count uint64
	n, err := fmt.Sscan(table, &inside, &outside, &count)
	return n == 3 && err == nil && inside == 0 && outside == 0 && count == 1<<32-1
}

// Init must be called first of all in main: it is where the program arrives when
// Run has started it again. In any other case it does nothing.
func Init() error {
	switch os.Getenv(stageEnv) {
	case stageWait:
		return again()
	case stageReady:
		// What is mounted from here on stays here.
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("mount namespace: %w", err)
		}
		return os.Unsetenv(stageEnv)
	}
	return nil
}

// again starts the program once more when the ids are mapped: whoever was not
// root when a program started has no capabilities; now that the user is, starting
// gives them.
func again() error {
	// Ends when the one that maps the ids closes it, or dies.
	ready := os.NewFile(3, "ready")
	said, err := io.ReadAll(ready)
	if err != nil || string(said) != "mapped" {
		return errors.Join(errors.New("the ids of the user namespace were not mapped"), err)
	}
	ready.Close()
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.Setenv(stageEnv, stageReady); err != nil {
		return err
	}
	return fmt.Errorf("start %s again: %w", exe, unix.Exec(exe, os.Args, os.Environ()))
}

// Run starts this program again with the same arguments as root in a new user
// namespace, and waits for its end. It returns the exit code. Signals are passed
// on.
func Run(ctx context.Context) (int, error) {
	ids, err := subordinate()
	if err != nil {
		return 0, err
	}
	exe, err := os.Executable()
	if err != nil {
		return 0, err
	}
	said, say, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer say.Close()
	cmd := exec.Command(exe, os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{said}
	cmd.Env = append(os.Environ(), stageEnv+"="+stageWait, "XDG_RUNTIME_DIR="+runtimeDir(), "USER="+cmp.Or(os.Getenv("USER"), "user"))
	// A group of its own: Ctrl-C reaches it once, through us.
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS, Setpgid: true, Pdeathsig: unix.SIGKILL}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM)
	defer signal.Stop(signals)
	err = cmd.Start()
	said.Close()
	if err != nil {
		return 0, fmt.Errorf("start in a user namespace: %w%s", err, advice(err))
	}
	if err := ids.apply(ctx, cmd.Process.Pid); err != nil {
		cmd.Process.Kill()
		cmd.Wait()
		return 0, err
	}
	if _, err := say.WriteString("mapped"); err == nil {
		say.Close()
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			cmd.Process.Signal(s)
		case err := <-done:
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				return 0, err
			}
			return exitCode(cmd.ProcessState), nil
		}
	}
}

func exitCode(s *os.ProcessState) int {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal())
	}
	return s.ExitCode()
}

func advice(err error) string {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EINVAL) {
		return " (user namespaces are not allowed here: see sysctl user.max_user_namespaces and kernel.unprivileged_userns_clone, or run as root)"
	}
	return ""
}

// runtimeDir is where runtimes keep their state: not /run, which is not ours.
func runtimeDir() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" && unix.Access(dir, unix.W_OK) == nil {
		return dir
	}
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("evalrun-run-%d", os.Getuid()))
	os.Mkdir(dir, 0o700)
	// Somebody else may have made it first, or a link in its place.
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && int(st.Uid) == os.Getuid() && st.Mode&0o077 == 0 {
		return dir
	}
	if own, err := os.MkdirTemp("", "evalrun-run-"); err == nil {
		return own
	}
	return dir
}

// idMaps are the arguments of newuidmap and newgidmap.
type idMaps struct{ uid, gid []string }

// subordinate maps this user to root and its subordinate ids to the others.
func subordinate() (idMaps, error) {
	for _, tool := range []string{"newuidmap", "newgidmap"} {
		if _, err := LookPath(tool); err != nil {
			return idMaps{}, fmt.Errorf("without root the embedded engine needs %s: `apt-get install uidmap`", tool)
		}
	}
	u, err := user.Current()
	if err != nil {
		return idMaps{}, err
	}
	var m idMaps
	for _, f := range []struct {
		path string
		own  int
		to   *[]string
	}{{"/etc/subuid", os.Getuid(), &m.uid}, {"/etc/subgid", os.Getgid(), &m.gid}} {
		text, err := os.ReadFile(f.path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return idMaps{}, err
		}
		ranges := rangesOf(string(text), u.Username, u.Uid)
		if len(ranges) == 0 {
			return idMaps{}, fmt.Errorf("without root the embedded engine needs subordinate ids, and %s has none of %s: as root, `usermod --add-subuids 100000-165535 --add-subgids 100000-165535 %s`",
				f.path, u.Username, u.Username)
		}
		*f.to = mapArgs(f.own, ranges)
	}
	return m, nil
}

// idRange is a line of /etc/subuid.
type idRange struct{ first, count int }

func rangesOf(text, name, id string) []idRange {
	var ranges []idRange
	for sc := bufio.NewScanner(strings.NewReader(text)); sc.Scan(); {
		fields := strings.Split(strings.TrimSpace(sc.Text()), ":")
		if len(fields) != 3 || fields[0] != name && fields[0] != id {
			continue
		}
		first, err1 := strconv.Atoi(fields[1])
		count, err2 := strconv.Atoi(fields[2])
		if err1 == nil && err2 == nil && first > 0 && count > 0 {
			ranges = append(ranges, idRange{first, count})
		}
	}
	return ranges
}

// mapArgs are triples of first id inside, first outside, and how many.
func mapArgs(own int, ranges []idRange) []string {
	args := []string{"0", strconv.Itoa(own), "1"}
	next := 1
	for _, r := range ranges {
		args = append(args, strconv.Itoa(next), strconv.Itoa(r.first), strconv.Itoa(r.count))
		next += r.count
	}
	return args
}

func (m idMaps) apply(ctx context.Context, pid int) error {
	for _, c := range []struct {
		tool string
		args []string
	}{{"newuidmap", m.uid}, {"newgidmap", m.gid}} {
		out, err := exec.CommandContext(ctx, c.tool, append([]string{strconv.Itoa(pid)}, c.args...)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: %w: %s", c.tool, err, strings.TrimSpace(string(out)))
		}
	}
	return nil
}

// LookPath finds a program where an ordinary user may have to look for it: on the
// path, beside this program, and in the folders for administrators, which are not
// on every user's path.
func LookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil || filepath.Base(name) != name {
		return path, err
	}
	dirs := []string{"/usr/local/sbin", "/usr/sbin", "/sbin"}
	if self, err := os.Executable(); err == nil {
		dirs = append([]string{filepath.Dir(self)}, dirs...)
	}
	for _, dir := range dirs {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", err
}
