package runner_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/runner"
	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/sandboxtest"
	"github.com/evalrun/evalrun/reports"
)

// logBytes is the size of one attempt's log.
const logBytes = 100 << 20

// BenchmarkMemory runs instances whose tests print 100 MB each and reports the
// most memory the process ever held. EVALRUN_BENCH_INSTANCES sets their number.
func BenchmarkMemory(b *testing.B) {
	n := 20
	if text := os.Getenv("EVALRUN_BENCH_INSTANCES"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	// As the program itself sets it.
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(80 << 20))
	noise := bytes.Repeat([]byte("tests/test_x.py ............................................................ [ 50%]\n"), 1<<14)
	fake := &sandboxtest.Fake{OnExec: func(ctx context.Context, box *sandboxtest.FakeSandbox, cmd sandbox.Command) (sandbox.Result, error) {
		name := cmd.Argv[len(cmd.Argv)-1]
		switch {
		case strings.HasSuffix(name, "test.sh"):
			for written := 0; written < logBytes; written += len(noise) {
				cmd.Output.Write(noise)
			}
			fmt.Fprint(cmd.Output, passing)
			return sandbox.Result{}, nil
		default:
			return prints("NONCE try 1 1 0 -\nNONCE applied 1 1\n", 0)(ctx, box, cmd)
		}
	}}
	var list []runner.Job
	for i := range n {
		list = append(list, job(fmt.Sprintf("name-%03d", i)))
	}
	for b.Loop() {
		layout := reports.Layout{Root: b.TempDir()}
		if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o200); err != nil {
			b.Skip("peak memory cannot be reset here: ", err)
		}
		r := runner.New(runner.Options{
			RunID: "run", Layout: layout, Driver: fake, Observer: &eraser{layout: layout},
			Images: &fakeImages{image: func(context.Context, *datasets.Instance) (runner.Image, error) {
				return runner.Image{Ref: "x", Digest: "sha256:x"}, nil
			}},
			Workers: 2, Builders: 1, Rules: grading.DefaultRules, Network: func(context.Context, runner.Image) (string, error) { return "", nil },
			Limits: runner.Limits{Timeout: time.Hour, OutputBytes: 256 << 20},
		})
		attempts, err := r.Run(context.Background(), list)
		if err != nil {
			b.Fatal(err)
		}
		for _, a := range attempts {
			if a.Outcome != grading.Resolved {
				b.Fatalf("%s: %s %s", a.InstanceID, a.Outcome, a.Reason)
			}
		}
	}
	b.ReportMetric(peakMiB(b), "peak-RSS-MiB")
	b.ReportMetric(float64(n), "instances")
}

// eraser deletes logs that are done with, so that the disk need not hold all.
type eraser struct {
	layout reports.Layout
}

func (e *eraser) Worker(int, string) {}

func (e *eraser) Done(a *reports.Attempt) {
	os.Remove(e.layout.Instance(a.RunID, a.Model, a.InstanceID).TestOutput)
}

// peakMiB is the most memory the process held since the mark was reset.
func peakMiB(b *testing.B) float64 {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			if err != nil {
				b.Fatal(err)
			}
			return kib / 1024
		}
	}
	b.Fatal("no VmHWM in /proc/self/status")
	return 0
}
