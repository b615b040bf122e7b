package logparse

import (
	"os"
	"testing"

	"github.com/evalrun/evalrun/internal/reference"
)

// sharedFile opens a file of the reference material.
func sharedFile(t testing.TB, name string) *os.File {
	t.Helper()
	f, err := os.Open(reference.Path(t, name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}
