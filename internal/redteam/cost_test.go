package redteam_test

import (
	"context"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/patch"
	"github.com/evalrun/evalrun/internal/redteam"
	"github.com/evalrun/evalrun/internal/runner"
	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/docker"
	"github.com/evalrun/evalrun/internal/screen"
	"github.com/evalrun/evalrun/reports"
)

// clock takes the time of what is done in sandboxes beside the tests. Scripts of ours
// that would share a process run apart under it, each less what it takes to run none.
type clock struct {
	sandbox.Driver

	mu   sync.Mutex
	took map[string]time.Duration
}

func (c *clock) add(what string, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took[what] += max(d, 0)
}

func (c *clock) Start(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	box, err := c.Driver.Start(ctx, spec)
	of, ok := box.(*docker.Sandbox)
	if err != nil || !ok {
		return box, err
	}
	return &clocked{Sandbox: of, c: c}, nil
}

type clocked struct {
	*docker.Sandbox
	c *clock
}

// Exec implements sandbox.Sandbox.
func (b *clocked) Exec(ctx context.Context, cmd sandbox.Command) (sandbox.Result, error) {
	if len(cmd.Argv) < 3 || path.Base(cmd.Argv[1]) != "tasks" {
		return b.Sandbox.Exec(ctx, cmd)
	}
	began := time.Now()
	none := cmd
	none.Argv, none.Output = cmd.Argv[:2], nil
	if res, err := b.Sandbox.Exec(ctx, none); err != nil || res.ExitCode != 0 {
		return res, err
	}
	empty := time.Since(began)
	var res sandbox.Result
	for _, script := range cmd.Argv[2:] {
		one := cmd
		one.Argv = []string{cmd.Argv[0], cmd.Argv[1], script}
		began := time.Now()
		r, err := b.Sandbox.Exec(ctx, one)
		if err != nil {
			return r, err
		}
		b.c.add(strings.TrimSuffix(path.Base(script), ".sh"), time.Since(began)-empty)
		res = r
	}
	return res, nil
}

// Changed is what the runner looks at from outside.
func (b *clocked) Changed(ctx context.Context) ([]sandbox.Change, error) {
	defer func(began time.Time) { b.c.add("outside", time.Since(began)) }(time.Now())
	return b.Sandbox.Changed(ctx)
}

// BenchmarkDefences grades the gold patches of the demo one at a time, and gives of
// what an attempt takes the share of each defence: bringing the tests back, noting the
// tree and comparing it after the tests, looking from outside, screening. What it takes
// to apply the patch is none. Everybody pays for the restoring of tests in some way, so
// that the sum is more than the defences cost.
func BenchmarkDefences(b *testing.B) {
	f := newField(b, asked())
	c := &clock{Driver: f.engine.Sandbox, took: map[string]time.Duration{}}
	var jobs []runner.Job
	for i := range b.N {
		gold := f.gold("gold")
		one := gold[i%len(gold)]
		jobs = append(jobs, f.job(b, one))
		c.screened(b, one)
	}
	r := runner.New(runner.Options{
		RunID: "cost", Layout: reports.Layout{Root: f.dir}, Driver: c, Images: f.provider, Observer: quiet{}, Workers: 1, Builders: 1,
		Limits: limits, Rules: grading.DefaultRules, Network: func(context.Context, runner.Image) (string, error) { return "", nil }, Verify: runner.VerifyNone,
	})
	b.ResetTimer()
	attempts, err := r.Run(b.Context(), jobs)
	b.StopTimer()
	if err != nil {
		b.Fatal(err)
	}
	var all, defences time.Duration
	for _, a := range attempts {
		if a.Outcome != grading.Resolved {
			b.Fatalf("%s: %s %s", a.InstanceID, a.Outcome, a.Reason)
		}
		all += time.Duration(a.Seconds * float64(time.Second))
	}
	for what, d := range c.took {
		b.ReportMetric(d.Seconds()*1000/float64(b.N), what+"-ms/attempt")
		if what != "apply" {
			defences += d
		}
	}
	b.ReportMetric(all.Seconds()*1000/float64(b.N), "ms/attempt")
	b.ReportMetric(100*defences.Seconds()/all.Seconds(), "%-defences")
}

func (c *clock) screened(b *testing.B, one redteam.Case) {
	b.Helper()
	p, err := patch.Prepare(one.Patch)
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	screen.Patch(p, screen.Policy{})
	c.add("screen", time.Since(began))
}
