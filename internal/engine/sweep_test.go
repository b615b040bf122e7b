package engine

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestSweepOthers: a run on Docker removes what a killed one has left in the folder of
// the embedded engine, and leaves alone what a live one has there.
func TestSweepOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	if _, err := exec.LookPath("runc"); err != nil {
		if _, err := exec.LookPath("crun"); err != nil {
			t.Skip("there is no OCI runtime here")
		}
	}
	cache, ctx := t.TempDir(), context.Background()
	used := &Engine{Name: Docker}
	if n, err := SweepOthers(ctx, Options{CacheDir: cache}, used); n != 0 || err != nil {
		t.Errorf("where nothing was: %d, %v", n, err)
	}
	if left, err := os.ReadDir(cache); err != nil || len(left) > 0 {
		t.Errorf("looking has made %v (%v)", left, err)
	}
	killed := filepath.Join(sandboxDir(cache), "runs", "0123456789abcdef")
	if err := os.MkdirAll(filepath.Join(killed, "boxes", "box-1"), 0o700); err != nil {
		t.Fatal(err)
	}
	if n, err := SweepOthers(ctx, Options{CacheDir: cache}, used); n != 1 || err != nil {
		t.Errorf("swept %d, %v; want the one that was left", n, err)
	}
	if left, err := filepath.Glob(filepath.Join(sandboxDir(cache), "runs", "*")); err != nil || len(left) > 0 {
		t.Errorf("left are %v (%v)", left, err)
	}
}
