package sandbox

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// First is what the first process of a sandbox looked like from outside when it had
// nothing to do any more. All it does is sleep, so that it never looks otherwise: unless
// something inside has traced it or has written to its memory, to live on in it when
// everything else is ended. Who wakes it from outside, as a suspended machine does, may
// leave the number of another processor in it: one change alone may be the host's doing.
type First struct {
	pid   int
	print print
}

// print is a digest of a process, with what it waits for and without.
type print struct {
	whole, rest [sha256.Size]byte
	again       bool // it was disturbed, and waits on for what is not told
}

// settling is how long a first process may take to become what it stays, on a machine with
// much to do; staying how long one that is a shell has a copy of itself for its child
// before it is believed to stay one.
const (
	settling = 30 * time.Second
	staying  = time.Second
)

// NewFirst looks at a first process once it sleeps. nil is one of which nothing can be
// said: it stays a shell, which has a child anew whenever that is ended and whose memory
// changes, or it belongs to somebody whose memory may not be read.
func NewFirst(pid int) *First {
	began := time.Now()
	for moved := began; time.Since(began) < settling && time.Since(moved) < staying; time.Sleep(2 * time.Millisecond) {
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if err != nil {
			return nil
		}
		if !copied(pid, string(name)) {
			moved = time.Now()
		}
		waits, err := waitsFor(pid)
		if errors.Is(err, os.ErrPermission) {
			return nil
		}
		if err != nil || !asleep(strings.TrimSpace(string(name)), waits) {
			continue // not yet; a program that is being loaded waits, too, for other things
		}
		if p, err := printOf(pid); err == nil && !p.again {
			return &First{pid, p}
		}
	}
	return nil
}

// copied reports whether a process has one child, which is a copy of it, or the sleep that
// a shell waits for where it has nothing better.
func copied(pid int, name string) bool {
	child, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", pid))
	if err != nil {
		return true // the kernel does not tell: who is no copy cannot be waited for
	}
	its, err := os.ReadFile("/proc/" + strings.TrimSpace(string(child)) + "/comm")
	return err == nil && (string(its) == name || string(its) == "sleep\n")
}

var errAwake = errors.New("it does not wait")

// waitsFor is the system call a process waits in: number, arguments, stack, code.
func waitsFor(pid int) ([]string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", pid))
	fields := strings.Fields(string(text))
	if err == nil && len(fields) != 9 {
		err = errAwake
	}
	return fields, err
}

// calls are numbers of system calls.
type calls struct {
	read, restarted string
	sleep           []string // nanosleep, clock_nanosleep, pause
}

var kernel = map[string]calls{
	"amd64": {"0", "219", []string{"35", "230", "34"}},
	"arm64": {"63", "128", []string{"101", "115"}},
}[runtime.GOARCH]

// asleep reports whether a program does what it will do for ever.
func asleep(name string, waits []string) bool {
	switch name {
	case "cat":
		return waits[0] == kernel.read && waits[1] == "0x0" // from its input
	case "sleep":
		return slices.Contains(kernel.sleep, waits[0])
	}
	return false
}

// Changed tells what is wrong with a process that was changed since; nil is also one that
// has ended, or cannot be looked at any more.
func (f *First) Changed() error {
	if f == nil {
		return nil
	}
	now, err := printOf(f.pid)
	same := now.whole == f.print.whole || now.again && now.rest == f.print.rest
	if err != nil && !errors.Is(err, errAwake) || err == nil && same {
		return nil
	}
	return fmt.Errorf("%w: its first process was changed from inside", ErrDead)
}

// printOf hashes what a sleeping process consists of: where it waits and for what, its
// files, how it takes signals, its mappings and what is in them.
func printOf(pid int) (p print, err error) {
	h := sha256.New()
	dir := fmt.Sprintf("/proc/%d/", pid)
	waits, err := waitsFor(pid)
	if err != nil {
		return p, err
	}
	fmt.Fprintln(h, waits[7:])
	files, err := os.ReadDir(dir + "fd")
	if err != nil {
		return p, err
	}
	for _, file := range files {
		to, _ := os.Readlink(dir + "fd/" + file.Name())
		fmt.Fprintln(h, file.Name(), to)
	}
	status, err := os.ReadFile(dir + "status")
	if err != nil {
		return p, err
	}
	for line := range strings.Lines(string(status)) {
		name, _, _ := strings.Cut(line, ":")
		if slices.Contains([]string{"Name", "Uid", "TracerPid", "Threads", "SigBlk", "SigIgn", "SigCgt", "CapEff", "Seccomp"}, name) {
			io.WriteString(h, line)
		}
	}
	if err := hashMemory(h, dir); err != nil {
		return p, err
	}
	p.rest, p.again = [sha256.Size]byte(h.Sum(nil)), waits[0] == kernel.restarted
	fmt.Fprintln(h, waits)
	p.whole = [sha256.Size]byte(h.Sum(nil))
	return p, nil
}

// hashMemory takes in the mappings of a process and what is in them.
func hashMemory(h hash.Hash, dir string) error {
	const large = 16 << 20 // tables of locales; a sleeper has nothing else of the kind
	maps, err := os.ReadFile(dir + "maps")
	if err != nil {
		return err
	}
	memory, err := os.Open(dir + "mem")
	if err != nil {
		return err
	}
	defer memory.Close()
	lines := bufio.NewScanner(bytes.NewReader(maps))
	for lines.Scan() {
		var from, to int64
		line := lines.Text()
		if strings.HasSuffix(line, "[vsyscall]") {
			continue // the kernel's, at an address of its own
		}
		if _, err := fmt.Sscanf(line, "%x-%x", &from, &to); err != nil {
			return err
		}
		fmt.Fprintln(h, line)
		if strings.Contains(line, "[vvar") || to-from > large {
			continue // cannot be read, or would take long
		}
		if _, err := io.Copy(h, io.NewSectionReader(memory, from, to-from)); err != nil {
			// Behind the end of a file there is nothing; the kernel says so in this way.
			fmt.Fprintln(h, "unreadable")
		}
	}
	return lines.Err()
}
