package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/evalrun/evalrun/images"
)

type doctorCmd struct {
	engineFlags
}

func (doctorCmd) Help() string {
	return `Each line is ok, a note, or something missing with the command that helps. Exit code 3
when something needed is missing.

Examples:
  evalrun doctor
  DOCKER_HOST=unix:///run/user/1000/docker.sock evalrun doctor
`
}

// finding is one line of the doctor.
type finding struct {
	level string // ok, note, missing
	what  string
	fix   string
}

// Run looks the machine over. Exit code 3 when something needed is missing.
func (c *doctorCmd) Run(e *env) error {
	var list []finding
	list = append(list, machine()...)
	engines, root := c.engines(e)
	list = append(list, engines...)
	list = append(list, disk("cache folder", c.cacheDir()))
	if root != "" {
		list = append(list, disk("engine's images", root))
	}
	list = append(list, tools()...)
	missing := 0
	for _, f := range list {
		fmt.Fprintf(e.stdout, "%-8s %s\n", f.level, f.what)
		if f.fix != "" {
			fmt.Fprintf(e.stdout, "%-8s   %s\n", "", f.fix)
		}
		if f.level == "missing" {
			missing++
		}
	}
	if missing > 0 {
		return &exitError{exitNotEvaluated, fmt.Errorf("%d things are missing", missing)}
	}
	fmt.Fprintln(e.stdout, "everything needed is there; try `evalrun demo`")
	return nil
}

func machine() []finding {
	var info unix.Sysinfo_t
	memory := "unknown"
	if unix.Sysinfo(&info) == nil {
		memory = gib(uint64(info.Totalram) * uint64(info.Unit))
	}
	list := []finding{{"ok", fmt.Sprintf("machine: %s/%s, %d processors, %s of memory", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), memory), ""}}
	if runtime.GOARCH != "amd64" {
		list = append(list, finding{"note", "most prebuilt images are for amd64", "build your own with --images build, or expect emulation"})
	}
	return list
}

func disk(name, path string) finding {
	for dir := path; ; dir = filepath.Dir(dir) {
		var st unix.Statfs_t
		if unix.Statfs(dir, &st) == nil {
			free := st.Bavail * uint64(st.Bsize)
			f := finding{"ok", fmt.Sprintf("%s: %s and %d inodes free", name, gib(free), st.Ffree), ""}
			if free < 10<<30 {
				f.level, f.fix = "note", "a run of several hundred instances wants 30 GiB or more; see `docker system df`"
			}
			if free < 2<<30 || st.Files > 0 && st.Ffree < 50000 {
				f.level = "missing"
			}
			return f
		}
		if dir == filepath.Dir(dir) {
			return finding{"note", name + ": free space unknown", ""}
		}
	}
}

func tools() []finding {
	var list []finding
	need := func(name, why, fix string) {
		if path, err := exec.LookPath(name); err == nil {
			list = append(list, finding{"ok", filepath.Base(path) + ": " + why, ""})
		} else {
			list = append(list, finding{"missing", name + ": " + why, fix})
		}
	}
	need("git", "cuts the history an instance may see", "apt-get install git")
	if _, err := exec.LookPath("mmdebstrap"); err == nil {
		list = append(list, finding{"ok", "mmdebstrap: makes debian: bases", ""})
	} else if _, err := exec.LookPath("debootstrap"); err == nil {
		list = append(list, finding{"ok", "debootstrap: makes debian: bases, as root", ""})
	} else {
		list = append(list, finding{"missing", "mmdebstrap or debootstrap: makes debian: bases", "apt-get install mmdebstrap, or use --base image:REF"})
	}
	if _, err := exec.LookPath("go"); err != nil {
		list = append(list, finding{"note", "go: fetches pinned Go tool chains for Go instances", "install Go, or use instances of other languages"})
	}
	dir := images.DefaultInterpreters()
	if found := images.FindInterpreters(dir); len(found) > 0 {
		text := "python interpreters:"
		for _, i := range found {
			text += " " + i.Version
		}
		list = append(list, finding{"ok", text, ""})
	} else {
		list = append(list, finding{"note", "no folder of python interpreters", "environments use Debian's own (3.9, 3.11, 3.13) unless --interpreters is given"})
	}
	return list
}

func gib(bytes uint64) string { return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30)) }
