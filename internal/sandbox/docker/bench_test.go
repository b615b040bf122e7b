package docker

import (
	"context"
	"testing"
	"time"

	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/docker/dockertest"
)

// BenchmarkSandbox is a sandbox from its start to its end, around one command.
func BenchmarkSandbox(b *testing.B) {
	image := dockertest.Image(b)
	c := connect(b)
	ctx := context.Background()
	var start, exec, destroy time.Duration
	for b.Loop() {
		t0 := time.Now()
		s, err := c.Start(ctx, sandbox.Spec{Image: image, Limits: sandbox.Limits{CPUs: 1, MemoryBytes: 1 << 30, Pids: 100}, Expiry: time.Now().Add(time.Hour)})
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
		start, exec, destroy = start+t1.Sub(t0), exec+t2.Sub(t1), destroy+time.Since(t2)
	}
	for name, d := range map[string]time.Duration{"start": start, "exec": exec, "destroy": destroy} {
		b.ReportMetric(float64(d.Milliseconds())/float64(b.N), "ms-"+name+"/op")
	}
}
