package docker

import (
	"fmt"
	"os"
	"strings"
)

// owner names a process so that others can tell whether it still lives: where
// it runs, and its process id and start time there, which together are never
// used twice.
type owner struct {
	host  string // boot id and process namespace: what must agree for pid to mean anything
	pid   int
	start string // clock ticks since boot
}

func thisProcess() owner {
	pid := os.Getpid()
	return owner{host: hostID(), pid: pid, start: processStart(pid)}
}

func (o owner) String() string { return fmt.Sprintf("%s.%d.%s", o.host, o.pid, o.start) }

func parseOwner(label string) (owner, bool) {
	var o owner
	host, rest, ok := strings.Cut(label, ".")
	if !ok || host == "" {
		return o, false
	}
	o.host = host
	if n, err := fmt.Sscanf(rest, "%d.%s", &o.pid, &o.start); n != 2 || err != nil {
		return o, false
	}
	return o, true
}

type life int

const (
	unknown life = iota // it runs, or ran, on another machine or in another process namespace
	alive
	dead
)

// life tells whether the process still runs, as far as can be seen from here.
func (o owner) life() life {
	switch {
	case o.host != hostID():
		return unknown
	case o.start != "" && processStart(o.pid) == o.start:
		return alive
	}
	return dead
}

// hostID names this boot of this machine and the process namespace we are in.
func hostID() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	id := strings.ReplaceAll(strings.TrimSpace(string(boot)), "-", "")
	if err != nil || id == "" {
		if id, err = os.Hostname(); err != nil {
			id = "unknown"
		}
		id = strings.ReplaceAll(id, ".", "-")
	}
	namespace, err := os.Readlink("/proc/self/ns/pid") // pid:[4026531836]
	if err != nil {
		return id
	}
	return id + "-" + strings.Trim(strings.TrimPrefix(namespace, "pid:"), "[]")
}

// processStart is a process's start time in clock ticks since boot, or "" when
// there is no such process.
func processStart(pid int) string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The command name in parentheses may hold anything; fields count from after it.
	text := string(data)
	fields := strings.Fields(text[strings.LastIndex(text, ")")+1:])
	if len(fields) < 20 || fields[0] == "Z" {
		return ""
	}
	return fields[19]
}
