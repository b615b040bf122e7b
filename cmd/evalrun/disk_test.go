package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/evalrun/evalrun/internal/room"
	"github.com/evalrun/evalrun/reports"
)

// smallDisk is a folder with a disk of its own.
func smallDisk(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		if errors.Is(err, syscall.EPERM) {
			t.Skip("a disk of the test's own needs root:", err)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// On a disk that fills up a run ends and says so; with room again, the same command
// ends it as if nothing had been.
func TestDiskFull(t *testing.T) {
	const instances = 10
	dir := data(t, instances, twoModels(instances)...)
	whole := t.TempDir()
	newFakeEngine().run(t, exitFine, fakeRun(dir, whole, "--disk-floor", "0"))
	want := resultsIn(t, whole)
	for _, options := range []string{"size=256k", "size=300k", "size=350k", "size=400k", "size=8m,nr_inodes=60", "size=8m,nr_inodes=120"} {
		disk := smallDisk(t, options)
		cacheDir := t.TempDir()
		out := filepath.Join(disk, "out")
		args := append(fakeRun(dir, out, "--disk-floor", "0"), "--cache", cacheDir)
		_, stderr := newFakeEngine().run(t, exitNotEvaluated, args)
		if !strings.Contains(stderr, "the disk is full") {
			t.Errorf("%s: evalrun says\n%s", options, stderr)
		}
		if err := unix.Mount("", disk, "", unix.MS_REMOUNT, "size=64m,nr_inodes=10000"); err != nil {
			t.Fatal(err)
		}
		newFakeEngine().run(t, exitFine, args)
		if diff := cmp.Diff(want, resultsIn(t, out)); diff != "" {
			t.Errorf("%s, and then with room (-undisturbed +resumed):\n%s", options, diff)
		}
	}
}

// A report for which there is no room is an error, leaves what was there before, and no
// part of itself.
func TestReportDiskFull(t *testing.T) {
	dir := data(t, 4, twoModels(4)...)
	out := t.TempDir()
	f := newFakeEngine()
	f.run(t, exitFine, fakeRun(dir, out))
	disk := smallDisk(t, "size=8k")
	page := filepath.Join(disk, "page.html")
	writeText(t, page, "the last report\n")
	var stderr strings.Builder
	if code := f.main([]string{"report", "run", "--out", out, "--html", page, "--force"}, io.Discard, &stderr); code == exitFine || !strings.Contains(stderr.String(), "no space left on device") {
		t.Errorf("exit code %d:\n%s", code, stderr.String())
	}
	entries, err := os.ReadDir(disk)
	if text, readErr := os.ReadFile(page); err != nil || readErr != nil || len(entries) != 1 || string(text) != "the last report\n" {
		t.Errorf("on the disk are %v, %v; the last report is %q, %v", entries, err, text, readErr)
	}
}

// What is no size is refused before anything is run.
func TestDiskFloorFlag(t *testing.T) {
	dir := data(t, 1, patchLine{"name-000", "a", patchOf("PATCH-GOOD", 0)})
	f := newFakeEngine()
	if _, stderr := f.run(t, exitUsage, fakeRun(dir, t.TempDir(), "--disk-floor", "much")); !strings.Contains(stderr, "--disk-floor") {
		t.Error(stderr)
	}
	if f.ran() != 0 {
		t.Error("tests were run")
	}
}

// good is a good patch for each of so many instances.
func good(instances int) []patchLine {
	var list []patchLine
	for i := range instances {
		list = append(list, patchLine{fmt.Sprintf("name-%03d", i), "a", patchOf("PATCH-GOOD", i)})
	}
	return list
}

// smallStore is on a disk with room for a few images of a GiB.
type smallStore struct {
	fullStore

	mu      sync.Mutex
	free    int64
	there   map[string]bool // by digest
	lowest  int64           // free when an image was pulled
	pulled  int
	removed int
}

func (s *smallStore) disk(string) (room.Disk, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return room.Disk{Free: s.free, Inodes: -1}, nil
}

func (s *smallStore) Image(_ context.Context, ref string) (string, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if digest := "sha256:" + strings.TrimPrefix(ref, "sha256:"); s.there[digest] {
		return digest, true, nil
	}
	return "", false, nil
}

func (s *smallStore) Pull(_ context.Context, ref string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lowest = min(s.lowest, s.free)
	s.free -= 1 << 30
	s.there["sha256:"+ref] = true
	s.pulled++
	return nil
}

func (s *smallStore) RemoveImage(_ context.Context, digest string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.there[digest] {
		return false, nil
	}
	delete(s.there, digest)
	s.free += 1 << 30
	s.removed++
	return true, nil
}

// Where the engine's disk does not hold the images of all instances, those that are done
// with go, no more of them than needed, and none is pulled below the floor.
func TestDiskFloorRemovesImages(t *testing.T) {
	const instances = 6
	s := &smallStore{free: 2500 << 20, lowest: 2500 << 20, there: map[string]bool{}}
	f := newFakeEngine()
	f.store, f.state, f.disk = s, "engine", s.disk
	_, stderr := f.run(t, exitFine, fakeRun(data(t, instances, good(instances)...), t.TempDir(), "--disk-floor", "1GiB", "--pulls", "1"))
	if f.ran() != instances || !strings.Contains(stderr, "where the engine keeps images") {
		t.Errorf("%d tests were run; evalrun says\n%s", f.ran(), stderr)
	}
	if s.pulled != instances || s.removed != instances-2 || s.lowest < 1<<30 {
		t.Errorf("%d images were pulled, %d removed, with as little as %d MiB free", s.pulled, s.removed, s.lowest>>20)
	}
}

// Below the floor nothing is begun, also where the images are there; it is once there is
// room, and where none comes the run ends and says which disk is full.
func TestDiskFloor(t *testing.T) {
	const instances = 3
	for _, c := range []struct {
		name, state string
		comes       bool // room does
		says        string
	}{
		{"the engine's disk", "engine", true, "where the engine keeps images"},
		{"the engine's disk stays full", "engine", false, "where the engine keeps images"},
		{"the results' disk", "", true, "where results are written"},
		{"the results' disk stays full", "", false, "where results are written"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFakeEngine()
			f.state = c.state
			var mu sync.Mutex
			looks, early := 0, -1
			f.disk = func(string) (room.Disk, error) {
				mu.Lock()
				defer mu.Unlock()
				looks++
				if c.comes && looks == 8 {
					early = f.ran()
				}
				if c.comes && looks >= 8 {
					return room.Disk{Free: 2 << 30, Inodes: -1}, nil
				}
				return room.Disk{Free: 1 << 20, Inodes: -1}, nil
			}
			code, tests := exitNotEvaluated, 0
			if c.comes {
				code, tests = exitFine, instances
			}
			_, stderr := f.run(t, code, fakeRun(data(t, instances, good(instances)...), t.TempDir(), "--disk-floor", "1GiB", "--pulls", "1"))
			if f.ran() != tests || c.comes && early != 0 {
				t.Errorf("%d tests were run, %d of them before there was room", f.ran(), early)
			}
			if !strings.Contains(stderr, "1 MiB are free "+c.says) || strings.Contains(stderr, room.ErrNone.Error()) == c.comes {
				t.Errorf("evalrun says\n%s", stderr)
			}
		})
	}
}

// A clock that jumps while a run goes on changes times, and nothing else: the
// journal's order is that of its numbers.
func TestClockJumps(t *testing.T) {
	const instances = 4
	dir := data(t, instances, twoModels(instances)...)
	out := t.TempDir()
	newFakeEngine().run(t, exitFine, fakeRun(dir, out))
	want := resultsIn(t, out)
	folder := filepath.Join(out, "logs/run_evaluation/run")
	// As if the first call had been made in the far future, and files before that.
	text, err := os.ReadFile(filepath.Join(folder, "run.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "run.json"), []byte(strings.ReplaceAll(string(text), `"created_at": "20`, `"created_at": "21`)), 0o644); err != nil {
		t.Fatal(err)
	}
	temp := filepath.Join(folder, ".run.json.0123456789abcdef.tmp")
	j := reports.Layout{Root: out}.JournalFile("run")
	lines, err := os.ReadFile(j)
	if err != nil {
		t.Fatal(err)
	}
	// Without its end, the run was killed.
	cut := strings.LastIndex(strings.TrimSuffix(string(lines), "\n"), "\n") + 1
	if err := errors.Join(os.WriteFile(temp, nil, 0o644), os.WriteFile(j, lines[:cut], 0o644)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("find", out, "-type", "f", "-exec", "touch", "-d", "2090-01-01", "{}", "+").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f := newFakeEngine()
	f.run(t, exitFine, fakeRun(dir, out))
	if diff := cmp.Diff(want, resultsIn(t, out)); diff != "" || f.ran() != 0 {
		t.Errorf("%d tests were run (-before +after):\n%s", f.ran(), diff)
	}
}
