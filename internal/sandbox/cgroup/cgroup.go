// Package cgroup reads from the kernel what a container uses: memory, processor
// time, processes, out-of-memory kills, under cgroup v1 and v2.
//
// It must not know engines; it is told a name that is in the path of the
// container's groups.
package cgroup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/evalrun/evalrun/internal/sandbox"
)

// Root is where the control groups of a machine are mounted.
const Root = "/sys/fs/cgroup"

// Group is the control groups of one container.
type Group struct {
	memory, cpu, cpuacct, pids string // folders; all the same under v2
	unified                    bool
}

// Find looks up the control groups of a container's first process in its table,
// a /proc/<pid>/cgroup of this machine. The container's name must be in their
// paths: the process may be one of another machine, and its number mean another
// one here.
func Find(table, root, container string) (*Group, error) {
	folders := map[string]string{}
	for line := range strings.Lines(table) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 || !strings.Contains(fields[2], container) {
			continue
		}
		for _, controller := range strings.Split(fields[1], ",") {
			folders[controller] = filepath.Join(root, controller, fields[2])
		}
	}
	g := &Group{memory: folders["memory"], cpu: folders["cpu"], cpuacct: folders["cpuacct"], pids: folders["pids"]}
	if all, ok := folders[""]; ok && g.memory == "" {
		g = &Group{memory: all, cpu: all, cpuacct: all, pids: all, unified: true}
	}
	if g.memory == "" || g.cpu == "" || g.cpuacct == "" || g.pids == "" {
		return nil, fmt.Errorf("no control groups of container %.12s on this machine", container)
	}
	return g, nil
}

// Usage reads what there is to read. It fails once the container has ended.
func (g *Group) Usage() (sandbox.Usage, error) {
	var r reader
	var u sandbox.Usage
	u.Pids = r.number(g.pids, "pids.current")
	if g.unified {
		u.OOMKills = int(r.field(g.memory, "memory.events", "oom_kill"))
		u.CPUSeconds = float64(r.field(g.cpu, "cpu.stat", "usage_usec")) / 1e6
		u.ThrottledSeconds = float64(r.field(g.cpu, "cpu.stat", "throttled_usec")) / 1e6
		u.PeakMemoryBytes = r.number(g.memory, "memory.current")
		// Kernels before 5.19 do not have this one.
		var newer reader
		u.PeakMemoryBytes = max(u.PeakMemoryBytes, newer.number(g.memory, "memory.peak"))
		return u, r.err
	}
	u.OOMKills = int(r.field(g.memory, "memory.oom_control", "oom_kill"))
	u.CPUSeconds = float64(r.number(g.cpuacct, "cpuacct.usage")) / 1e9
	u.ThrottledSeconds = float64(r.field(g.cpu, "cpu.stat", "throttled_time")) / 1e9
	u.PeakMemoryBytes = r.number(g.memory, "memory.max_usage_in_bytes")
	return u, r.err
}

// Held is the memory that could not be given back at this moment: what processes have
// for themselves, and files in memory. 0 is not known.
func (g *Group) Held() int64 {
	var r reader
	own, shared := "total_rss", "total_shmem"
	if g.unified {
		own, shared = "anon", "shmem"
	}
	held := r.field(g.memory, "memory.stat", own) + r.field(g.memory, "memory.stat", shared)
	if r.err != nil {
		return 0
	}
	return held
}

// How long WatchHeld pauses: briefly at first, since most commands are short.
const (
	firstPause = 50 * time.Millisecond
	mostPause  = time.Second
)

// WatchHeld passes on what the container holds, as long as ctx lasts. The kernel keeps no
// peak of it, and reading it is reading one file.
func (g *Group) WatchHeld(ctx context.Context, take func(bytes int64)) {
	pause := firstPause
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		take(g.Held())
		pause = min(2*pause, mostPause)
		timer.Reset(pause)
	}
}

// reader reads numbers from files and keeps its first error.
type reader struct{ err error }

func (r *reader) text(dir, file string) string {
	data, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil && r.err == nil {
		r.err = err
	}
	return strings.TrimSpace(string(data))
}

func (r *reader) number(dir, file string) int64 {
	return r.parse(file, r.text(dir, file))
}

// field reads a line "name number"; one that is not there counts as 0.
func (r *reader) field(dir, file, name string) int64 {
	for line := range strings.Lines(r.text(dir, file)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return r.parse(file, strings.TrimSpace(value))
		}
	}
	return 0
}

func (r *reader) parse(file, text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("%s: %w", file, err)
	}
	return n
}
