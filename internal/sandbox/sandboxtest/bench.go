package sandboxtest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/evalrun/evalrun/internal/sandbox"
)

// Bench times sandboxes from start to end, around one command that does nothing.
func Bench(b *testing.B, driver sandbox.Driver, image string) {
	ctx := context.Background()
	var start, exec, destroy time.Duration
	var whole []time.Duration
	for b.Loop() {
		t0 := time.Now()
		s, err := driver.Start(ctx, sandbox.Spec{
			Image: image, Name: "bench", Limits: sandbox.Limits{CPUs: 1, MemoryBytes: 1 << 30, Pids: 100}, Expiry: t0.Add(time.Hour),
		})
		if err != nil {
			b.Fatal(err)
		}
		t1 := time.Now()
		res, err := s.Exec(ctx, sandbox.Command{Argv: []string{"true"}})
		if err != nil || res.ExitCode != 0 {
			b.Fatal(res, err)
		}
		t2 := time.Now()
		if err := s.Destroy(ctx); err != nil {
			b.Fatal(err)
		}
		t3 := time.Now()
		start, exec, destroy = start+t1.Sub(t0), exec+t2.Sub(t1), destroy+t3.Sub(t2)
		whole = append(whole, t3.Sub(t0))
	}
	for name, d := range map[string]time.Duration{"start": start, "exec": exec, "destroy": destroy} {
		b.ReportMetric(float64(d.Microseconds())/1e3/float64(b.N), "ms-"+name+"/op")
	}
	ReportMedian(b, whole)
}

// ReportMedian reports the median of some times, which one slow one among them
// does not move.
func ReportMedian(b *testing.B, times []time.Duration) {
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds())/1e3, "ms-median")
}
