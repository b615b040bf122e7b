package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evalrun/evalrun/cache"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports"
)

// output is a writer that can be looked at while it is written.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) waitFor(t *testing.T, text string) {
	t.Helper()
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		o.mu.Lock()
		got := o.text.String()
		o.mu.Unlock()
		if strings.Contains(got, text) {
			return
		}
		if time.Since(start) > time.Minute {
			t.Fatalf("%q was not shown:\n%s", text, got)
		}
	}
}

// TestWatch follows a run that another process works on, until it lets go of it.
func TestWatch(t *testing.T) {
	layout := reports.Layout{Root: t.TempDir()}
	record := reports.RunRecord{RunID: "live", CreatedAt: time.Unix(0, 0), Models: []string{"m"}, Instances: 2, InstanceIDs: []string{"a", "b"}}
	if err := reports.WriteRun(layout, record); err != nil {
		t.Fatal(err)
	}
	finish := func(id string) {
		if err := os.MkdirAll(layout.Instance("live", "m", id).Dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := reports.WriteAttempt(layout, &reports.Attempt{RunID: "live", Model: "m", InstanceID: id, Outcome: grading.Resolved}); err != nil {
			t.Fatal(err)
		}
	}
	unlock, err := cache.Lock(context.Background(), filepath.Join(layout.RunDir("live"), ".lock"))
	if err != nil {
		t.Fatal(err)
	}
	var out, errs output
	code := make(chan int)
	go func() {
		code <- realMain([]string{"report", "live", "--out", layout.Root, "--watch", "--interval", "0.01"}, &out, &errs)
	}()
	out.waitFor(t, "resolved 0 of 2")
	finish("a")
	out.waitFor(t, "resolved 1 of 2")
	finish("b")
	out.waitFor(t, "resolved 2 of 2")
	select {
	case c := <-code:
		t.Errorf("ended with %d while the run goes on", c)
	default:
	}
	unlock()
	if c := <-code; c != exitFine {
		t.Errorf("exit code %d: %s", c, errs.text.String())
	}
}
