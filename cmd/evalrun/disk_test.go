package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

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

// Below the floor nothing new is begun.
func TestDiskFloor(t *testing.T) {
	dir := data(t, 1, patchLine{"name-000", "a", patchOf("PATCH-GOOD", 0)})
	f := newFakeEngine()
	if _, stderr := f.run(t, exitUsage, fakeRun(dir, t.TempDir(), "--disk-floor", "much")); !strings.Contains(stderr, "--disk-floor") {
		t.Error(stderr)
	}
	if f.ran() != 0 {
		t.Error("tests were run")
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
