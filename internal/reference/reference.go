// Package reference finds, for tests, the reference material that may stand
// beside the repository: published datasets, real logs with official answers.
// Where it is not there, a test that wants it is skipped, and says so.
//
// Only tests import it, and it must not know what is in the material.
package reference

import (
	"os"
	"path/filepath"
	"testing"
)

// Path is a file or folder of the material.
func Path(t testing.TB, name string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above this folder")
		}
		dir = filepath.Dir(dir)
	}
	path := filepath.Join(dir, "..", "shared", filepath.FromSlash(name))
	if _, err := os.Stat(path); err != nil {
		t.Skipf("the reference material is not beside the repository: %v", err)
	}
	return path
}
