package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/internal/cause"
	"github.com/evalrun/evalrun/internal/engine"
	"github.com/evalrun/evalrun/internal/observe"
	"github.com/evalrun/evalrun/internal/runner"
)

func TestWorkerCount(t *testing.T) {
	for text, want := range map[string]workerCount{"auto": autoWorkers, "0": 0, "7": 7} {
		var w workerCount
		if err := w.UnmarshalText([]byte(text)); err != nil || w != want {
			t.Errorf("%q is %d, %v", text, w, err)
		}
	}
	for _, text := range []string{"", "-1", "many", "1.5"} {
		var w workerCount
		if err := w.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken for %d", text, w)
		}
	}
	if workerCount(2).share(8) != 4 || workerCount(16).share(8) != 1 || autoWorkers.share(8) != 1 {
		t.Error("sandboxes get the wrong share")
	}
}

// Only auto is bounded by processors; memory and disk bound every run, where they
// are known.
func TestCapacity(t *testing.T) {
	info := engine.Info{CPUs: 4, MemoryBytes: 1000, StateDir: t.TempDir()}
	fixed, auto := capacity(info, 8), capacity(info, autoWorkers)
	if fixed.CPUs != 0 || fixed.MemoryBytes != 900 || fixed.DiskBytes <= 0 {
		t.Errorf("8 workers: %+v", fixed)
	}
	if auto.CPUs != 4 || auto.MemoryBytes != 900 || auto.DiskBytes <= 0 {
		t.Errorf("auto: %+v", auto)
	}
	if c := capacity(engine.Info{}, 1); c.CPUs != 0 || c.MemoryBytes != 0 || c.DiskBytes != 0 {
		t.Errorf("nothing is known, and yet it is bounded: %+v", c)
	}
}

func TestEndOfRun(t *testing.T) {
	zone := time.FixedZone("somewhere", 2*3600)
	now := time.Date(2026, 11, 30, 21, 30, 0, 0, zone)
	for text, want := range map[string]string{
		"90m": "2026-11-30T23:00:00+02:00", "3600": "2026-11-30T22:30:00+02:00", "22:15": "2026-11-30T22:15:00+02:00",
		"06:00": "2026-12-01T06:00:00+02:00", "21:30": "2026-12-01T21:30:00+02:00", "2026-12-02T00:00:00Z": "2026-12-02T00:00:00Z",
	} {
		var d endOfRun
		if err := d.UnmarshalText([]byte(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		} else if got := d.from(now).Format(time.RFC3339); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
	for _, text := range []string{"", "soon", "-1h", "0", "25:00", "2026-11-30"} {
		var d endOfRun
		if err := d.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken for %s", text, d.from(now))
		}
	}
	if at := (endOfRun{}).from(now); !at.IsZero() {
		t.Errorf("without a deadline the run ends %s", at)
	}
}

// A run that is to end at a time ends when the clock says so, also where it was set while
// the run went on; one that may take a time takes it.
func TestClockIsSetDuringRun(t *testing.T) {
	for what, tt := range map[string]struct {
		set    time.Duration // after an hour
		before time.Duration // still to come of the real time when the run must go on
		after  time.Duration // and when it must have ended
	}{
		"not at all": {0, 3*time.Hour - time.Second, 3*time.Hour + time.Second},
		"forward":    {2 * time.Hour, time.Hour - time.Second, time.Hour + clockLook},
		"on":         {time.Hour, 2*time.Hour - time.Second, 2*time.Hour + clockLook},
		"back":       {-2 * time.Hour, 5*time.Hour - time.Second, 5*time.Hour + clockLook},
	} {
		synctest.Test(t, func(t *testing.T) {
			var set atomic.Int64
			clock := func() time.Time { return time.Now().Round(0).Add(time.Duration(set.Load())) }
			began := time.Now()
			var d endOfRun
			if err := d.UnmarshalText([]byte(began.Add(3 * time.Hour).Format(time.RFC3339))); err != nil {
				t.Fatal(err)
			}
			ctx, done := d.byClock(t.Context(), clock)
			defer done()
			time.Sleep(time.Hour - 2*time.Second)
			set.Store(int64(tt.set))
			time.Sleep(time.Until(began.Add(tt.before)))
			if ctx.Err() != nil {
				t.Errorf("set %s: the run has ended after %s", what, time.Since(began))
			}
			time.Sleep(time.Until(began.Add(tt.after)))
			synctest.Wait()
			if !errors.Is(context.Cause(ctx), runner.ErrDeadline) {
				t.Errorf("set %s: the run goes on after %s: %v", what, time.Since(began), context.Cause(ctx))
			}
		})
	}
	ctx, done := endOfRun{after: time.Hour}.byClock(t.Context(), func() time.Time { return time.Now().Add(24 * time.Hour) })
	defer done()
	if ctx.Err() != nil {
		t.Error("a run that may take an hour ends by the clock")
	}
}

func TestSpan(t *testing.T) {
	for _, tt := range []struct {
		low, high time.Duration
		want      string
	}{
		{0, 0, "0s"}, {31 * time.Second, 47 * time.Second, "31s to 47s"}, {64 * time.Second, 118 * time.Second, "1m00s to 2m00s"},
		{20 * time.Minute, 20*time.Minute + time.Second, "20m00s"}, {62 * time.Minute, 3*time.Hour + 7*time.Minute, "1h00m to 3h05m"},
	} {
		if got := span(tt.low, tt.high); got != tt.want {
			t.Errorf("%s to %s is %q, want %q", tt.low, tt.high, got, tt.want)
		}
	}
}

// The progress line has the range that was predicted, and none where none is known.
func TestPredictedTime(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	t.Setenv("TERM", "xterm")
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := newProgress(&out, true, 100, 4)
		known := false
		p.predict(func() (low, high time.Duration, ok bool) { return 2 * time.Minute, 5 * time.Minute, known })
		p.Done("a", "resolved", 1)
		if line := tty(t, out.String())[0]; strings.Contains(line, "ETA") {
			t.Errorf("nothing is known, and yet: %q", line)
		}
		known = true
		p.Done("b", "resolved", 1)
		if diff := cmp.Diff("50% [===========>             ] (2/4) 2 resolved · ETA 2m00s to 5m00s · 0s", tty(t, out.String())[0]); diff != "" {
			t.Error(diff)
		}
		p.Close()
	})
}

// What is no time to come is refused before anything is read.
func TestDeadlineFlag(t *testing.T) {
	dir := t.TempDir()
	rows := filepath.Join(dir, "rows.jsonl")
	if err := os.WriteFile(rows, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{"tomorrow": "time of day", "2001-01-01T00:00:00Z": "is past"} {
		var stderr strings.Builder
		if code := realMain([]string{"run", "-d", rows, "-p", "gold", "--deadline", text}, &strings.Builder{}, &stderr); code != exitUsage || !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: exit code %d, %s", text, code, stderr.String())
		}
	}
}

// The first failure of each cause is shown at once, above the bar; what is like it
// is not shown again. Only of what is tried again that is said.
func TestFirstFailureIsShown(t *testing.T) {
	var out strings.Builder
	ui := &display{progress: newProgress(&out, false, 80, 3), watch: observe.New(observe.Options{})}
	inst := runner.Job{Instance: &datasets.Instance{ID: "a-1"}, Prediction: &datasets.Prediction{}}
	full := cause.As(cause.Disk, errors.New("no space left on device"))
	for range 3 {
		ui.event(runner.Event{Kind: runner.Trouble, Job: inst, Err: full, Again: true})
	}
	ui.event(runner.Event{Kind: runner.Started, Job: inst, Err: full}) // told as trouble, too
	ui.event(runner.Event{Kind: runner.ImageReady, Job: inst})
	ui.event(runner.Event{Kind: runner.ImageReady, Job: inst, Err: errors.New("exit code: 1")})
	missing := cause.As(cause.Image, errors.New("manifest unknown"))
	ui.event(runner.Event{Kind: runner.Trouble, Job: inst, Err: missing})
	ui.event(runner.Event{Kind: runner.ImageReady, Job: inst, Err: missing})
	ui.progress.Close()
	want := "first failure: instance a-1: no space left on device\n" +
		"  (no room is left on the disk; it is tried again; if it stays so: " + cause.Disk.Advice() + ")\n" +
		"first failure: instance a-1: exit code: 1\n" +
		"first failure: instance a-1: manifest unknown\n" +
		"  (the image cannot be had: " + cause.Image.Advice() + ")\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}
