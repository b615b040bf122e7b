package docker

import (
	"context"
	"testing"
	"time"

	"github.com/docker/docker/api/types/events"

	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/docker/dockertest"
)

func event(action events.Action, container, exec string) events.Message {
	return events.Message{Action: action, Actor: events.Actor{ID: container, Attributes: map[string]string{"execID": exec}}}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestWatcher(t *testing.T) {
	w := &watcher{boxes: map[string]*boxEvents{}}
	w.take(event(events.ActionOOM, "a", "")) // not watched, and so not kept
	w.add("a")
	w.add("b")
	one, two := w.expect("a", "1"), w.expect("a", "2")
	for range 2 {
		w.take(event(events.ActionOOM, "a", ""))
	}
	w.take(event(events.ActionExecDie, "a", "2"))
	w.take(event(events.ActionExecDie, "a", "2"))
	w.take(event(events.ActionExecDie, "b", "1"))
	if w.kills("a") != 2 || w.kills("b") != 0 {
		t.Errorf("%d and %d kills, want 2 and 0", w.kills("a"), w.kills("b"))
	}
	if closed(one) || !closed(two) {
		t.Errorf("command 1 ended: %v, command 2: %v; want only the second", closed(one), closed(two))
	}
	w.forget("a")
	w.take(event(events.ActionOOM, "a", ""))
	if w.kills("a") != 0 || w.expect("a", "3") != nil || len(w.boxes) != 1 {
		t.Error("a container that is gone is still watched")
	}
}

// Where the kernel cannot be asked, the daemon's events and figures have to do.
func TestUsageFromDaemon(t *testing.T) {
	image := dockertest.Image(t)
	c := connect(t)
	b := start(t, c, sandbox.Spec{Image: image, Limits: sandbox.Limits{MemoryBytes: 64 << 20, Pids: 50}})
	b.elsewhere = context.Canceled // as for a container of another machine
	res, err := b.Exec(context.Background(), sandbox.Command{
		Argv: []string{"sh", "-c", "sleep 1000 & bash -c 'x=$(yes)'; sleep 2"}, Dir: "/", Timeout: time.Minute,
	})
	if err != nil || res.ExitCode != 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	u, err := b.Usage(context.Background())
	if err != nil || u.OOMKills < 1 || u.Pids < 2 || u.CPUSeconds <= 0 || u.PeakMemoryBytes < 1<<20 {
		t.Errorf("%+v, %v; want a kill, two processes, processor time and memory", u, err)
	}
}

// A daemon that comes back is listened to again.
func TestWatcherReconnects(t *testing.T) {
	d := dockertest.StartDaemon(t)
	t.Setenv("DOCKER_HOST", d.Host)
	c := connect(t)
	d.Kill()
	d.Restart(t)
	for range 100 { // until the daemon's events are heard
		b := start(t, c, sandbox.Spec{Image: d.Image})
		res, err := b.Exec(context.Background(), sandbox.Command{Argv: []string{"true"}})
		if err != nil || res.ExitCode != 0 {
			t.Fatalf("%+v, %v", res, err)
		}
		select {
		case <-*b.told.Load():
			return
		case <-time.After(500 * time.Millisecond):
		}
	}
	t.Error("the events of a daemon that came back are not heard")
}
