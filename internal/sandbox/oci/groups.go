package oci

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/cgroup"
)

// groups is what this process may do with control groups.
type groups struct {
	version string // "1", "2", or "none"
	parent  string // below which the sandboxes' groups are, as the runtime takes it
	folders []string
	mixed   bool  // some controllers are v2's and others v1's
	why     error // there are none

	memory, swap, cpu, pids bool // which limits they hold
}

// ourGroup holds the groups of all sandboxes.
const ourGroup = "evalrun"

// movedGroup takes the processes that stand in the way: under v2, a group with
// processes of its own cannot limit groups below it.
const movedGroup = "evalrun.main"

func findGroups() groups {
	table, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return groups{version: "none", why: err}
	}
	if isUnified(cgroup.Root) {
		return findUnified(cgroup.Root, string(table))
	}
	return findV1(cgroup.Root, string(table))
}

// isUnified reports whether a hierarchy of v2 is mounted there.
func isUnified(dir string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(dir, &fs) == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC
}

// findV1 makes our group in every hierarchy: the runtime wants all or none.
func findV1(root, table string) groups {
	unified, _ := os.ReadFile(filepath.Join(root, "unified", "cgroup.controllers"))
	g := groups{version: "1", parent: "/" + ourGroup, mixed: len(strings.Fields(string(unified))) > 0}
	for line := range strings.Lines(table) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		if fields[1] == "" {
			if !isUnified(filepath.Join(root, "unified")) {
				continue
			}
			fields[1] = "unified" // where a v2 hierarchy is mounted beside those of v1
		}
		for _, name := range strings.Split(strings.TrimPrefix(fields[1], "name="), ",") {
			hierarchy := filepath.Join(root, name)
			if _, err := os.Stat(hierarchy); err != nil {
				continue // not mounted
			}
			dir := filepath.Join(hierarchy, ourGroup)
			if err := makeGroup(dir); err != nil {
				return groups{version: "none", mixed: g.mixed, why: err}
			}
			g.folders = append(g.folders, dir)
			switch name {
			case "memory":
				g.memory, g.swap = true, exists(filepath.Join(dir, "memory.memsw.limit_in_bytes"))
			case "cpu":
				g.cpu = exists(filepath.Join(dir, "cpu.cfs_quota_us"))
			case "pids":
				g.pids = true
			}
		}
	}
	if len(g.folders) == 0 {
		return groups{version: "none", why: fmt.Errorf("no hierarchy is mounted below %s", root)}
	}
	return g
}

// findUnified makes our group at the root of the hierarchy, or, where that is not
// ours, below the group we are in.
func findUnified(root, table string) groups {
	own := ""
	for line := range strings.Lines(table) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			own = path
		}
	}
	if filepath.Base(own) == movedGroup {
		own = filepath.Dir(own)
	}
	var errs []error
	for _, parent := range slices.Compact([]string{"/", cmp.Or(own, "/")}) {
		g := groups{version: "2", parent: filepath.Join(parent, ourGroup)}
		dir := filepath.Join(root, g.parent)
		err := delegate(filepath.Dir(dir))
		if err == nil {
			err = makeGroup(dir)
		}
		if err == nil {
			err = delegate(dir)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		g.folders = []string{dir}
		text, _ := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
		held := strings.Fields(string(text)) // for the groups below too: they were just enabled
		g.memory, g.cpu, g.pids = slices.Contains(held, "memory"), slices.Contains(held, "cpu"), slices.Contains(held, "pids")
		g.swap = exists(filepath.Join(dir, "memory.swap.max"))
		return g
	}
	return groups{version: "none", why: errors.Join(errs...)}
}

// delegate lets the groups below one have limits.
func delegate(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for _, controller := range []string{"memory", "cpu", "pids"} {
		if !slices.Contains(strings.Fields(string(text)), controller) {
			continue
		}
		err := enable(dir, controller)
		if errors.Is(err, unix.EBUSY) {
			if err = moveProcesses(dir); err == nil {
				err = enable(dir, controller)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func enable(dir, controller string) error {
	return os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+controller), 0o644)
}

// moveProcesses moves the processes of a group into one below it.
func moveProcesses(dir string) error {
	to := filepath.Join(dir, movedGroup)
	if err := os.Mkdir(to, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return err
	}
	for _, pid := range strings.Fields(string(text)) {
		err := os.WriteFile(filepath.Join(to, "cgroup.procs"), []byte(pid), 0o644)
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}

// makeGroup makes the group that holds all others. An earlier run may have made
// it where this one may do nothing.
func makeGroup(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	below, err := os.MkdirTemp(dir, "try-")
	if err != nil {
		return err
	}
	return os.Remove(below)
}

// remove removes what is left of a sandbox's groups, with the processes in them.
func (g *groups) remove(name string) error {
	var errs []error
	for _, dir := range g.folders {
		errs = append(errs, removeGroup(filepath.Join(dir, name)))
	}
	return errors.Join(errs...)
}

// resources are the limits as the runtime takes them, those that can be held.
func (g *groups) resources(l sandbox.Limits) *specs.LinuxResources {
	if g.version == "none" {
		return nil
	}
	r := &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}}
	if l.MemoryBytes > 0 && g.memory {
		r.Memory = &specs.LinuxMemory{Limit: &l.MemoryBytes}
		if g.swap {
			// Equal to the limit: no swap on top.
			r.Memory.Swap = &l.MemoryBytes
		}
	}
	if low := l.MemoryReservation(); low > 0 && g.memory {
		if r.Memory == nil {
			r.Memory = new(specs.LinuxMemory)
		}
		r.Memory.Reservation = &low
	}
	if l.CPUs > 0 && g.cpu {
		period := uint64(100_000)
		quota := max(int64(l.CPUs*float64(period)), 1000)
		r.CPU = &specs.LinuxCPU{Quota: &quota, Period: &period}
	}
	if shares := uint64(l.CPUShares()); shares > 0 && g.cpu {
		if r.CPU == nil {
			r.CPU = new(specs.LinuxCPU)
		}
		r.CPU.Shares = &shares
	}
	if l.Pids > 0 && g.pids {
		r.Pids = &specs.LinuxPids{Limit: &l.Pids}
	}
	return r
}

// readable reports whether they tell what a sandbox uses. Under v2 the time of
// processors is there without their controller.
func (g *groups) readable() bool { return g.memory && g.pids && (g.cpu || g.version == "2") }

// unenforced renders what these groups cannot hold.
func (g *groups) unenforced() []string {
	var out []string
	why := ""
	if g.why != nil {
		why = fmt.Sprintf(" (no control groups: %v)", g.why)
	}
	if !g.memory {
		out = append(out, fmt.Sprintf("memory: measured every %s, and what uses most is killed above the limit%s", watchInterval, why))
	} else if !g.swap && swapping() {
		out = append(out, "memory: swap does not count")
	}
	if !g.cpu {
		out = append(out, "processors: not limited"+why)
	}
	if !g.pids {
		out = append(out, fmt.Sprintf("processes: counted every %s, and the sandbox is killed above the limit%s", watchInterval, why))
	}
	return out
}

// swapping reports whether this machine has swap space.
func swapping() bool {
	text, err := os.ReadFile("/proc/swaps")
	return err == nil && strings.Count(strings.TrimSpace(string(text)), "\n") > 0
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
