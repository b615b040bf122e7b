package logparse

import (
	"os"
	"path/filepath"
	"testing"
)

// sharedFile opens a file of the reference material that lies beside the module,
// and skips the test where there is none.
func sharedFile(t testing.TB, name string) *os.File {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Skip("no go.mod above this folder")
		}
		dir = parent
	}
	f, err := os.Open(filepath.Join(dir, "..", "shared", name))
	if err != nil {
		t.Skipf("reference material is not here: %v", err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}
