package runner_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/cause"
	"github.com/evalrun/evalrun/internal/runner"
	"github.com/evalrun/evalrun/internal/sandbox/docker"
	"github.com/evalrun/evalrun/internal/sandbox/docker/dockertest"
	"github.com/evalrun/evalrun/reports"
)

// A daemon that crashes while tests run, and is started again, costs time only.
func TestRealDaemonRestart(t *testing.T) {
	d := dockertest.StartDaemon(t)
	t.Setenv("DOCKER_HOST", d.Host)
	c, err := docker.Connect(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	o := realOptions(t, c, d.Image)
	entered, troubled := make(chan struct{}, 100), make(chan error, 100)
	o.Events = func(ev runner.Event) {
		switch ev.Kind {
		case runner.Entered:
			entered <- struct{}{}
		case runner.Trouble:
			troubled <- ev.Err
		}
	}
	slow := withEvaluation(func(e *datasets.Evaluation) { e.Test = "sleep 4; " + e.Test })
	var list []runner.Job
	for i := range 4 {
		list = append(list, realJob(fmt.Sprint("restart-", i), fix, slow))
	}
	r := runner.New(o)
	var attempts []reports.Attempt
	done := make(chan struct{})
	go func() {
		defer close(done)
		attempts, err = r.Run(context.Background(), list)
	}()
	<-entered
	time.Sleep(2 * time.Second) // into the tests
	d.Kill()
	time.Sleep(3 * time.Second)
	d.Restart(t)
	<-done
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range attempts {
		if a.Outcome != grading.Resolved {
			t.Errorf("%s: %s %q, warnings %q", a.InstanceID, a.Outcome, a.Reason, a.Warnings)
		}
	}
	if left := r.Leftovers(); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	select {
	case err := <-troubled:
		if cause.Of(err) != cause.Engine {
			t.Errorf("the first trouble is %v (%s)", err, cause.Of(err))
		}
	default:
		t.Error("nobody noticed that the daemon was gone")
	}
}
