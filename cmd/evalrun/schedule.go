package main

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/internal/engine"
	"github.com/evalrun/evalrun/internal/runner"
	"github.com/evalrun/evalrun/internal/schedule"
)

// workerCount is a number of attempts at a time: 0 is one per processor.
type workerCount int

// autoWorkers takes as many as there is room for.
const autoWorkers workerCount = -1

// autoPerCPU bounds how many attempts auto runs for a processor: tests that wait
// for something leave it to others.
const autoPerCPU = 4

// UnmarshalText reads a number, or "auto".
func (w *workerCount) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*w = autoWorkers
		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 0 {
		return fmt.Errorf("%q: want a number of attempts at a time, 0 (one per processor) or auto", text)
	}
	*w = workerCount(n)
	return nil
}

// most is how many attempts there may be at a time.
func (w workerCount) most() int {
	switch {
	case w == autoWorkers:
		return autoPerCPU * runtime.NumCPU()
	case w > 0:
		return int(w)
	}
	return runtime.NumCPU()
}

// share is the part of a machine's processors that one sandbox gets.
func (w workerCount) share(cpus int) float64 {
	if w == autoWorkers {
		return 1
	}
	return max(1, float64(cpus)/float64(w.most()))
}

// keptFree are parts of memory and disk that attempts do not count on.
const keptFree = 0.1

// capacity is what attempts may need together on the engine's machine. A number
// of workers that somebody chose is not put in question by processors.
func capacity(info engine.Info, w workerCount) schedule.Resources {
	r := schedule.Resources{MemoryBytes: int64(float64(info.MemoryBytes) * (1 - keptFree))}
	if w == autoWorkers {
		r.CPUs = float64(info.CPUs)
	}
	var fs unix.Statfs_t
	if info.StateDir != "" && unix.Statfs(info.StateDir, &fs) == nil && fs.Blocks > 0 {
		r.DiskBytes = max(1, int64(float64(fs.Bavail)*(1-keptFree))*fs.Bsize)
	}
	return r
}

// historyFile is where durations are kept.
func historyFile(cacheDir string) string { return filepath.Join(cacheDir, "durations.jsonl") }

// layerOf names what the images of a repository's version have in common, without
// resolving any of them.
func layerOf(inst *datasets.Instance) string {
	return inst.Repo + " " + inst.Version + " " + inst.EnvironmentSetupCommit
}

// endOfRun is when a run has to end: after a time, at a time of day, or at a date.
type endOfRun struct {
	after time.Duration
	clock time.Duration // since midnight, where daily
	daily bool
	at    time.Time
}

// UnmarshalText reads "2h", "22:30" or "2026-11-30T06:00:00Z".
func (d *endOfRun) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	*d = endOfRun{}
	if t, err := time.Parse("15:04", s); err == nil {
		d.daily, d.clock = true, time.Duration(t.Hour())*time.Hour+time.Duration(t.Minute())*time.Minute
		return nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		d.at = t
		return nil
	}
	var after duration
	if err := after.UnmarshalText([]byte(s)); err == nil && after > 0 {
		d.after = time.Duration(after)
		return nil
	}
	return fmt.Errorf("%q: want a time such as 2h, a time of day such as 22:30, or a date such as 2026-11-30T06:00:00Z", s)
}

// from is the moment for a run that begins now; zero is none.
func (d endOfRun) from(now time.Time) time.Time {
	switch {
	case d.after > 0:
		return now.Add(d.after)
	case d.daily:
		hour, minute := int(d.clock/time.Hour), int(d.clock%time.Hour/time.Minute)
		at := time.Date(now.Year(), now.Month(), now.Day(), hour, minute, 0, 0, now.Location())
		if !at.After(now) {
			at = time.Date(now.Year(), now.Month(), now.Day()+1, hour, minute, 0, 0, now.Location())
		}
		return at
	}
	return d.at
}

// clockLook is how often it is looked what time it is, where a run ends by the clock.
const clockLook = 15 * time.Second

// byClock ends a context when it is the time of day, or the date, at which the run has to
// end, however the clock came to it: it may be set while the run goes on, and timers stand
// still while the machine sleeps.
func (d endOfRun) byClock(parent context.Context, now func() time.Time) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	if at := d.from(now()); d.after == 0 && !at.IsZero() {
		go func() {
			for left := at.Sub(now()); left > 0; left = at.Sub(now()) {
				look := time.NewTimer(min(left, clockLook))
				select {
				case <-look.C:
				case <-ctx.Done():
					look.Stop()
					return
				}
			}
			cancel(runner.ErrDeadline)
		}()
	}
	return ctx, func() { cancel(nil) }
}
