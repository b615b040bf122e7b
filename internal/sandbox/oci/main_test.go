package oci

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// TestMain gives the tests a mount namespace of their own, where what they do to
// mounts is nobody else's concern, and without the v2 hierarchy of a machine that
// has both: crun does not work beside one.
func TestMain(m *testing.M) {
	const entered = "EVALRUN_TEST_MOUNTS"
	unshare, err := exec.LookPath("unshare")
	if os.Getenv(entered) != "" || os.Geteuid() != 0 || err != nil {
		os.Exit(m.Run())
	}
	const script = `if [ -d /sys/fs/cgroup/unified ]; then mount -t tmpfs none /sys/fs/cgroup/unified; fi; exec "$@"`
	argv := append([]string{unshare, "-m", "/bin/sh", "-c", script, "sh"}, os.Args...)
	fmt.Fprintln(os.Stderr, syscall.Exec(unshare, argv, append(os.Environ(), entered+"=1")))
	os.Exit(1)
}
