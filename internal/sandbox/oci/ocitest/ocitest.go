// Package ocitest gives tests of the oci engine an image: a small root file
// system in a folder. It must not import the driver, whose own tests use it.
package ocitest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/evalrun/evalrun/internal/sandbox/docker/dockertest"
)

// Image is the name of the image there is.
const Image = "evalrun/test:folder"

// Env is what the image sets.
var Env = dockertest.Env

// RootFS unpacks the image's root file system into a folder of the test's.
func RootFS(t testing.TB) string {
	t.Helper()
	data, err := dockertest.RootFS()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "rootfs")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("tar", "-xpf", "-", "-C", dir)
	cmd.Stdin = bytes.NewReader(data)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("unpack the test image: %v\n%s", err, out)
	}
	return dir
}

// Runtimes are the OCI runtimes of this machine. Without root or without any the
// test is skipped, or fails if EVALRUN_REQUIRE_OCI is set.
func Runtimes(t testing.TB) []string {
	t.Helper()
	found := runtimes()
	why := ""
	switch {
	case os.Geteuid() != 0:
		why = "sandboxes of the oci engine need root"
	case len(found) == 0:
		why = "there is no OCI runtime: install crun or runc"
	}
	if why != "" {
		if os.Getenv("EVALRUN_REQUIRE_OCI") != "" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	return found
}

var runtimes = sync.OnceValue(func() []string {
	var found []string
	for _, name := range []string{"crun", "runc"} {
		for _, path := range []string{name, "/usr/sbin/" + name} {
			if path, err := exec.LookPath(path); err == nil {
				found = append(found, path)
				break
			}
		}
	}
	return found
})
