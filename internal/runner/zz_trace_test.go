package runner_test

import (
	"context"
	"fmt"
	"sort"
	"sync"
	"testing"
	"time"

	"github.com/evalrun/evalrun/internal/runner"
	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/reports"
)

type tracer struct {
	sandbox.Driver
	mu sync.Mutex
	d  map[string][]float64
}

func (t *tracer) lap(n string, s time.Time) {
	t.mu.Lock()
	t.d[n] = append(t.d[n], time.Since(s).Seconds()*1000)
	t.mu.Unlock()
}
func (t *tracer) Start(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	defer t.lap("start", time.Now())
	b, err := t.Driver.Start(ctx, s)
	return &tbox{b, t}, err
}

type tbox struct {
	sandbox.Sandbox
	t *tracer
}

func (b *tbox) Exec(ctx context.Context, c sandbox.Command) (sandbox.Result, error) {
	defer b.t.lap("exec "+c.Argv[len(c.Argv)-1], time.Now())
	return b.Sandbox.Exec(ctx, c)
}
func (b *tbox) Usage(ctx context.Context) (sandbox.Usage, error) {
	defer b.t.lap("usage", time.Now())
	return b.Sandbox.Usage(ctx)
}
func (b *tbox) Destroy(ctx context.Context) error {
	defer b.t.lap("destroy", time.Now())
	return b.Sandbox.Destroy(ctx)
}
func (t *tracer) Worker(int, string) {}
func (t *tracer) Done(a *reports.Attempt) {
	t.mu.Lock()
	t.d["attempt"] = append(t.d["attempt"], a.Seconds*1000)
	t.mu.Unlock()
}

func TestTrace(t *testing.T) {
	c, image := daemon(t)
	o := realOptions(t, c, image)
	tr := &tracer{Driver: c, d: map[string][]float64{}}
	o.Driver, o.Observer = tr, tr
	var list []runner.Job
	for i := range 30 {
		list = append(list, realJob(fmt.Sprintf("instance-%d", i), fix))
	}
	s := time.Now()
	if _, err := runner.New(o).Run(context.Background(), list); err != nil {
		t.Fatal(err)
	}
	fmt.Printf("total per attempt %.0f ms (x2 workers: %.0f)\n", time.Since(s).Seconds()*1000/30, time.Since(s).Seconds()*2000/30)
	for n, v := range tr.d {
		sort.Float64s(v)
		fmt.Printf("%-28s min %.0f median %.0f max %.0f\n", n, v[0], v[len(v)/2], v[len(v)-1])
	}
}
