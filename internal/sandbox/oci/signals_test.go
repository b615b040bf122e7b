package oci

import (
	"os/exec"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/evalrun/evalrun/internal/sandbox/oci/ocitest"
	"github.com/evalrun/evalrun/internal/sandbox/sandboxtest"
)

func TestFirstProcess(t *testing.T) {
	sandboxtest.FirstProcess(t, ocitest.RootFS(t), firstProcess)
}

// As under make: what it starts has the C library's signals ignored.
func TestDefaultSignals(t *testing.T) {
	ignore := sigaction{handler: 1}
	if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, firstReserved, uintptr(unsafe.Pointer(&ignore)), 0, 8, 0, 0); errno != 0 {
		t.Fatal(errno)
	}
	ignored := func() string {
		out, err := exec.Command("grep", "SigIgn", "/proc/self/status").Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	if s := ignored(); !strings.Contains(s, "8000000") {
		t.Fatalf("it is not ignored, so there is nothing to test: %s", s)
	}
	defaultSignals()
	if s := ignored(); strings.Contains(s, "8000000") {
		t.Errorf("still ignored: %s", s)
	}
}
