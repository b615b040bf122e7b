package sandbox

import (
	"fmt"
	"strconv"
	"strings"
)

// Capabilities every sandbox keeps, on every engine: what package managers and
// test suites run by root use on their own files and processes, and nothing that
// reaches the kernel or the network.
var Capabilities = []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETGID", "SETUID", "KILL", "NET_BIND_SERVICE"}

// Unmoved begins the script of a sandbox's first process. The kernel keeps from the
// first of a process namespace what it has no handler for, and shells have one for
// interrupts, some for whatever ends a process.
const Unmoved = "trap '' HUP INT QUIT ILL TRAP ABRT BUS FPE USR1 SEGV USR2 PIPE ALRM TERM XCPU XFSZ VTALRM PROF IO PWR SYS\n"

// ValidName makes of a hint the beginning of a name that engines take.
func ValidName(hint string) string {
	var b strings.Builder
	b.WriteString("evalrun-")
	for _, r := range hint {
		if b.Len() >= 80 {
			break
		}
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_.-", r) {
			b.WriteRune(r)
		} else {
			b.WriteByte('_')
		}
	}
	return b.String()
}

// ParseUser reads UID or UID:GID; nothing is root.
func ParseUser(user string) (uid, gid uint32, err error) {
	if user == "" {
		return 0, 0, nil
	}
	first, second, both := strings.Cut(user, ":")
	if !both {
		second = "0"
	}
	u, err1 := strconv.ParseUint(first, 10, 31)
	g, err2 := strconv.ParseUint(second, 10, 31)
	if err1 != nil || err2 != nil {
		return 0, 0, fmt.Errorf("user %q: want UID or UID:GID", user)
	}
	return uint32(u), uint32(g), nil
}

// Handover is a shell command, for root, that gives the Owned folders to the user;
// "" where there is nothing to be given. A folder may be a link to one; links in it
// are not followed.
func (s Spec) Handover() string {
	uid, gid, err := ParseUser(s.User)
	if err != nil || uid == 0 || len(s.Owned) == 0 {
		return ""
	}
	var names strings.Builder
	for _, dir := range s.Owned {
		names.WriteString(" '" + strings.ReplaceAll(dir, "'", `'\''`) + "/.'")
	}
	return fmt.Sprintf("mkdir -p --%[1]s && chown -Rh -- %[2]d:%[3]d%[1]s", names.String(), uid, gid)
}
