package runner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/reports"
)

// What share of a limit counts as close to it.
const (
	closeTime     = 0.8 // of the wall clock
	closeThrottle = 0.1 // of the time its processes ran
	closePids     = 0.9
)

// limited notes the limits that may have shaped the verdict. Peak memory is not
// among them: the kernel counts cached files in, up to the limit, and a process
// killed for memory says more.
func (t *trial) limited(u sandbox.Usage) {
	say := func(format string, args ...any) {
		t.a.LimitedBy = append(t.a.LimitedBy, fmt.Sprintf(format, args...))
	}
	if u.OOMKills > 0 {
		say("memory: %d processes killed at %d MiB", u.OOMKills, t.limits.Sandbox.MemoryBytes>>20)
	}
	if u.ThrottledSeconds > closeThrottle*u.CPUSeconds && u.ThrottledSeconds > 1 {
		say("cpu: held back for %.1f s beside %.1f s of running, at %g processors", u.ThrottledSeconds, u.CPUSeconds, t.limits.Sandbox.CPUs)
	}
	if t.refused != "" {
		say("%s: %s", strings.TrimPrefix(t.refusedBy, "--"), t.refused)
	}
	seconds := 0.0
	for _, p := range t.a.Phases {
		if slices.Contains([]string{"setup", "build", "test", "eval"}, p.Name) {
			seconds += p.Seconds
		}
	}
	if limit := t.limits.Timeout.Seconds(); limit > 0 && seconds > closeTime*limit {
		say("time: %.0f s of %.0f s", seconds, limit)
	}
	if pids := t.limits.Sandbox.Pids; pids > 0 && float64(u.Pids) > closePids*float64(pids) {
		say("processes: %d of %d", u.Pids, pids)
	}
}

// needed is the memory that another attempt of the kind has to find on the machine; 0 is
// not known. Files that were read are kept by the kernel up to the limit, and given back
// to whoever needs the room: they do not count, where it is known what else there was. A
// quarter is for what came and went between two looks.
func needed(u reports.UsageRecord) int64 {
	held := u.HeldMemoryBytes + u.HeldMemoryBytes/4
	if u.HeldMemoryBytes == 0 || u.PeakMemoryBytes > 0 && u.PeakMemoryBytes < held {
		return u.PeakMemoryBytes
	}
	return held
}
