package redteam_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/evalrun/evalrun/internal/engine"
	"github.com/evalrun/evalrun/internal/redteam"
)

// theSandbox are the tricks that are after the sandbox and not after the verdict, and
// some of the others: what an engine has a part in.
var theSandbox = regexp.MustCompile(`^(escape-.*|network-.*|abstract-socket|docker-socket|host-environment|proc-1-fd|ptrace-.*|sockets|dev-tty|` +
	`fork-bomb|memory.*|disk.*|inodes|zombies|hang|output-flood|daemons-that-stay|kill-everything|removes-everything|setup-replaces-.*|setup-path-tool|conftest-makereport|init-exits)$`)

// TestHostileEmbedded grades some of the hostile patches on the embedded engine.
// EVALRUN_REDTEAM_ENGINE=embedded has all of them graded there.
func TestHostileEmbedded(t *testing.T) {
	if os.Getenv("EVALRUN_REDTEAM_ENGINE") != "" {
		t.Skip("one engine is asked for")
	}
	if os.Geteuid() != 0 {
		t.Skip("the embedded engine is root in a user namespace otherwise, which a test cannot enter")
	}
	cases := slices.DeleteFunc(readCases(t, "hostile", 60), func(c redteam.Case) bool { return !theSandbox.MatchString(c.Name) })
	if len(cases) < 30 && os.Getenv("EVALRUN_REDTEAM") == "" {
		t.Fatalf("%d cases", len(cases))
	}
	f := newField(t, engine.Embedded)
	const gold = "textkit-1"
	want := f.goldStatuses(t, "gold", gold)
	f.expect(t, "hostile", cases)
	if diff := cmp.Diff(want, f.goldStatuses(t, "gold-again", gold)); diff != "" {
		t.Errorf("the gold patch comes out otherwise (-before +after):\n%s", diff)
	}
	f.onlyOurFiles(t, "hostile")
	f.host.same(t)
}

// found is what a sandbox of the embedded engine has on this machine.
type found struct {
	dir    string // its folder, which the names of its mounts begin with
	cgroup string // as the runtime was told
}

// embedded finds the sandbox with our name below the engine's folder.
func (h *host) embedded(name string) (found, error) {
	records, err := filepath.Glob(filepath.Join(h.boxes, "runs", "*", "boxes", "*", "box.json"))
	if err != nil {
		return found{}, err
	}
	for _, path := range records {
		var record struct {
			Cgroup string
			Labels map[string]string
		}
		text, err := os.ReadFile(path)
		if err != nil || json.Unmarshal(text, &record) != nil {
			continue // another process's, that has gone
		}
		if record.Labels[label] == name {
			return found{filepath.Dir(path), record.Cgroup}, nil
		}
	}
	return found{}, fmt.Errorf("sandbox %s is not to be found below %s", name, h.boxes)
}

// noteEmbedded is note for the embedded engine.
func (h *host) noteEmbedded(name string) *os.File {
	box, err := h.embedded(name)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.failed = err
		return nil
	}
	h.found = append(h.found, box)
	pid, err := os.ReadFile(filepath.Join(box.dir, "pid"))
	if err != nil {
		h.failed = err
		return nil
	}
	ns, err := os.Open(fmt.Sprintf("/proc/%s/ns/net", strings.TrimSpace(string(pid))))
	if err != nil {
		return nil // it has died by itself
	}
	h.namespaces++
	return ns
}

// remainsEmbedded are what the embedded engine's sandboxes have left.
func (h *host) remainsEmbedded() []string {
	var left []string
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		left = append(left, err.Error())
	}
	for _, box := range h.found {
		if _, err := os.Lstat(box.dir); err == nil {
			left = append(left, "folder "+box.dir)
		}
		if strings.Contains(string(mounts), box.dir) {
			left = append(left, "mounts of "+box.dir)
		}
		if box.cgroup == "" {
			continue
		}
		for _, pattern := range []string{"/sys/fs/cgroup" + box.cgroup, "/sys/fs/cgroup/*" + box.cgroup} {
			groups, _ := filepath.Glob(pattern)
			for _, dir := range groups {
				var fs unix.Statfs_t
				if unix.Statfs(dir, &fs) == nil && fs.Type != unix.TMPFS_MAGIC {
					left = append(left, "control group "+dir)
				}
			}
		}
	}
	return left
}
