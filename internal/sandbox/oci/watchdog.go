package oci

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evalrun/evalrun/internal/sandbox"
)

// watchInterval is how often the processes of a sandbox without control groups
// are looked at.
const watchInterval = 100 * time.Millisecond

// watchdog stands in for control groups: it measures a sandbox by its processes,
// kills what uses most memory when all together pass the limit, and all when they
// are too many. What lives shorter than it looks away is not seen.
type watchdog struct {
	s        *Sandbox
	memory   bool               // the limit is not held by the kernel
	pids     bool               // the same
	seconds  map[string]float64 // processor time of those that live, by process id
	finished float64            // processor time of those that do not
}

// task is a process of a sandbox.
type task struct {
	dir     string // its folder in the sandbox's own /proc
	memory  int64  // its own
	shared  int64  // maybe with others, and maybe in a folder
	threads int64
	seconds float64
}

// watch measures until the sandbox ends.
func (w *watchdog) watch() {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		select {
		case <-w.s.ended:
			return
		case <-tick.C:
			w.look()
		}
	}
}

func (w *watchdog) look() {
	tasks := listTasks(fmt.Sprintf("/proc/self/fd/%d/proc", w.s.inside.Fd()))
	var memory, shared, threads int64
	var largest *task
	seconds := map[string]float64{}
	for _, t := range tasks {
		memory += t.memory
		shared += t.shared
		threads += t.threads
		seconds[t.dir] = t.seconds
		if largest == nil || t.memory+t.shared > largest.memory+largest.shared {
			largest = &t
		}
	}
	// Files in memory may be mapped, too, and must not count twice.
	memory += max(shared, w.s.inMemory())
	for dir, spent := range w.seconds {
		if now, ok := seconds[dir]; !ok || now < spent {
			w.finished += spent
		}
	}
	w.seconds = seconds
	total := w.finished
	for _, spent := range seconds {
		total += spent
	}
	killed := 0
	limits := w.s.spec.Limits
	if w.memory && limits.MemoryBytes > 0 && memory > limits.MemoryBytes && largest != nil && largest.kill() == nil {
		killed = 1
	}
	w.s.observe(sandbox.Usage{PeakMemoryBytes: memory, HeldMemoryBytes: memory, Pids: threads, CPUSeconds: total}, killed)
	if w.pids && limits.Pids > 0 && threads > limits.Pids {
		w.s.killFirst() // and with it all others
	}
}

// inMemory is what the folders hold that are kept in memory.
func (s *Sandbox) inMemory() int64 {
	folders := []string{"/", "/dev/shm"}
	if s.spec.ReadOnly {
		folders = append(folders, sandbox.Scratch...)
	}
	used := map[uint64]int64{} // by file system: a folder may be a link to another
	var root uint64
	for _, name := range folders {
		f, err := open(s.inside, name, unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			continue // nothing is mounted there any more
		}
		var st unix.Stat_t
		var fs unix.Statfs_t
		err = errors.Join(unix.Fstat(int(f.Fd()), &st), unix.Fstatfs(int(f.Fd()), &fs), f.Close())
		switch {
		case name == "/":
			root = st.Dev
		case err == nil && st.Dev != root && fs.Type == unix.TMPFS_MAGIC:
			used[st.Dev] = int64(fs.Blocks-fs.Bfree) * fs.Bsize
		}
	}
	var sum int64
	for _, n := range used {
		sum += n
	}
	return sum
}

// listTasks reads the processes of a /proc.
func listTasks(proc string) []task {
	dirs, _ := filepath.Glob(filepath.Join(proc, "[0-9]*"))
	var tasks []task
	for _, dir := range dirs {
		status, err := os.ReadFile(filepath.Join(dir, "status"))
		if err != nil {
			continue // it has ended
		}
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			continue
		}
		t := readTask(string(status), string(stat))
		t.dir = dir
		tasks = append(tasks, t)
	}
	return tasks
}

// readTask reads what the kernel says about a process: memory of its own, whether
// in memory or swapped out, what it shares, threads, and processor time.
func readTask(status, stat string) task {
	var t task
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
		switch name {
		case "RssAnon", "VmSwap":
			t.memory += n << 10
		case "RssShmem":
			t.shared = n << 10
		case "Threads":
			t.threads = n
		}
	}
	fields := statFields(stat)
	const utime, stime = 11, 12
	if len(fields) > stime {
		user, _ := strconv.ParseFloat(fields[utime], 64)
		system, _ := strconv.ParseFloat(fields[stime], 64)
		const ticksPerSecond = 100 // on every architecture Go knows
		t.seconds = (user + system) / ticksPerSecond
	}
	return t
}

// statFields are the fields of /proc/<pid>/stat from the process's state on. The
// command name before it may hold anything.
func statFields(stat string) []string {
	return strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
}

// kill kills the process by its folder: its number is another one out here.
func (t *task) kill() error {
	dir, err := os.OpenFile(t.dir, unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	return unix.PidfdSendSignal(int(dir.Fd()), unix.SIGKILL, nil, 0)
}
