package docker

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/evalrun/evalrun/internal/cause"
	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/docker/dockertest"
)

// signal is closed when something has been written to it.
type signal struct {
	bytes.Buffer
	seen chan struct{}
}

func (s *signal) Write(p []byte) (int, error) {
	if s.Len() == 0 {
		defer close(s.seen)
	}
	return s.Buffer.Write(p)
}

// running starts a command that does not end, and returns when it has begun.
func running(t *testing.T, b *Sandbox) <-chan error {
	t.Helper()
	out := &signal{seen: make(chan struct{})}
	ended := make(chan error, 1)
	go func() {
		res, err := b.Exec(context.Background(), sandbox.Command{Argv: []string{"sh", "-c", "echo begun; sleep 1000"}, Output: out})
		if err == nil {
			t.Errorf("%+v without an error", res)
		}
		ended <- err
	}()
	select {
	case <-out.seen:
	case <-time.After(time.Minute):
		t.Fatal("the command does not begin")
	}
	return ended
}

func await(t *testing.T, ended <-chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		if !isEngineError(err) || errors.Is(err, sandbox.ErrDead) {
			t.Errorf("the error is %v, want an *EngineError that is not ErrDead", err)
		}
		return err
	case <-time.After(time.Minute):
		t.Fatal("the command hangs")
		return nil
	}
}

// A daemon that dies in the middle of a command is an engine failure at once.
func TestDaemonDies(t *testing.T) {
	d := dockertest.StartDaemon(t)
	t.Setenv("DOCKER_HOST", d.Host)
	c := connect(t)
	b := start(t, c, sandbox.Spec{Image: d.Image})
	ended := running(t, b)
	d.Kill()
	if err := await(t, ended); cause.Of(err) != cause.Engine {
		t.Errorf("the command: %v (%s), want that the engine is gone", err, cause.Of(err))
	}
	if _, err := c.Start(context.Background(), sandbox.Spec{Image: d.Image}); !isEngineError(err) || cause.Of(err) != cause.Engine {
		t.Errorf("Start: %v (%s), want an *EngineError that says the engine is gone", err, cause.Of(err))
	}
	if err := b.Destroy(context.Background()); !isEngineError(err) || cause.Of(err) != cause.Engine {
		t.Errorf("Destroy: %v (%s), want an *EngineError that says the engine is gone", err, cause.Of(err))
	}
	if _, _, err := c.Image(context.Background(), d.Image); cause.Of(err) != cause.Engine {
		t.Errorf("Image: %v (%s), want that the engine is gone", err, cause.Of(err))
	}
	if err := c.Pull(context.Background(), "registry.example/x:1"); cause.Of(err) != cause.Engine {
		t.Errorf("Pull: %v (%s), want that the engine is gone", err, cause.Of(err))
	}
	if _, err := c.Sweep(context.Background()); !isEngineError(err) {
		t.Errorf("Sweep: %v, want an *EngineError", err)
	}
}

// A daemon that no longer answers is one too, after a while, and for every kind
// of request; and one that comes back is used again.
func TestDaemonHangs(t *testing.T) {
	d := dockertest.StartDaemon(t)
	t.Setenv("DOCKER_HOST", d.Host)
	c := connect(t)
	made := start(t, c, sandbox.Spec{Image: d.Image})
	hasty := &Client{api: c.api, owner: c.owner, events: c.events, patience: time.Second}
	b := &Sandbox{c: hasty, id: made.id}
	ended := running(t, b)
	d.Freeze()
	await(t, ended)
	ctx := context.Background()
	if _, err := b.Exec(ctx, sandbox.Command{Argv: []string{"true"}}); !isEngineError(err) || cause.Of(err) != cause.Timeout {
		t.Errorf("Exec: %v (%s), want an *EngineError that says it does not answer", err, cause.Of(err))
	}
	if _, err := b.Read(ctx, "/x", 1); !isEngineError(err) {
		t.Errorf("Read: %v, want an *EngineError", err)
	}
	if err := b.Destroy(ctx); !isEngineError(err) {
		t.Errorf("Destroy: %v, want an *EngineError", err)
	}
	// Cancelled, it gives the cancellation's cause all the same.
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := b.Exec(cancelled, sandbox.Command{Argv: []string{"true"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled Exec: %v", err)
	}
	d.Thaw()
	if err := made.Destroy(ctx); err != nil {
		t.Errorf("Destroy, again: %v", err)
	}
	if n := c.containers(t); n != 0 {
		t.Errorf("%d containers are left", n)
	}
}

func TestNoDaemon(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
	_, err := Connect(context.Background())
	if err == nil {
		t.Fatal("connected to nothing")
	}
	if text := err.Error(); !bytes.Contains([]byte(text), []byte("unix:///nonexistent/docker.sock")) || !bytes.Contains([]byte(text), []byte("evalrun doctor")) {
		t.Errorf("the error does not say where and what to do: %s", text)
	}
}
