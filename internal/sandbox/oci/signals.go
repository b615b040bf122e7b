package oci

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// sigaction is the kernel's, as amd64 and arm64 have it.
type sigaction struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

// The signals C libraries keep for themselves. Some programs, make among them,
// start others with these ignored, which is inherited for ever: Go's own set-up
// leaves them alone, and the tests in a sandbox would find them so.
const firstReserved, lastReserved = 32, 33

// defaultSignals undoes that.
func defaultSignals() {
	const ignored = 1
	for sig := uintptr(firstReserved); sig <= lastReserved; sig++ {
		var now sigaction
		size := unsafe.Sizeof(now.mask)
		if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, 0, uintptr(unsafe.Pointer(&now)), size, 0, 0); errno != 0 || now.handler != ignored {
			continue
		}
		var standard sigaction
		unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&standard)), 0, size, 0, 0)
	}
}
