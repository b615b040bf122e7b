package docker

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/docker/dockertest"
	"github.com/evalrun/evalrun/internal/sandbox/oci/ocitest"
	"github.com/evalrun/evalrun/internal/sandbox/sandboxtest"
)

func TestFirstProcess(t *testing.T) {
	sandboxtest.FirstProcess(t, ocitest.RootFS(t), firstProcess)
}

func start(t testing.TB, c *Client, spec sandbox.Spec) *Sandbox {
	t.Helper()
	if spec.Expiry.IsZero() {
		spec.Expiry = time.Now().Add(time.Hour)
	}
	b, err := c.Start(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Destroy(context.Background()) })
	return b.(*Sandbox)
}

func isEngineError(err error) bool {
	var engine *sandbox.EngineError
	return errors.As(err, &engine)
}

// A container that something else ends takes its commands with it, and says so.
func TestKilledFromOutside(t *testing.T) {
	image := dockertest.Image(t)
	c := connect(t)
	b := start(t, c, sandbox.Spec{Image: image})
	time.AfterFunc(time.Second, func() { c.api.ContainerKill(context.Background(), b.id, "KILL") })
	res, err := b.Exec(context.Background(), sandbox.Command{Argv: []string{"sleep", "1000"}, Timeout: time.Minute})
	if err != nil || res.ExitCode != -1 || res.TimedOut {
		t.Errorf("%+v, %v; want exit code -1 and no error", res, err)
	}
	_, err = b.Exec(context.Background(), sandbox.Command{Argv: []string{"true"}})
	if !isEngineError(err) || !errors.Is(err, sandbox.ErrDead) {
		t.Errorf("the next command gave %v, want an *EngineError around ErrDead", err)
	}
	if usage, err := b.Usage(context.Background()); err != nil || usage.PeakMemoryBytes < 0 {
		t.Errorf("usage of a dead container: %+v, %v", usage, err)
	}
}

// A container that something else removes is no doing of what ran in it.
func TestRemovedFromOutside(t *testing.T) {
	image := dockertest.Image(t)
	c := connect(t)
	b := start(t, c, sandbox.Spec{Image: image})
	if err := c.remove(context.Background(), b.id); err != nil {
		t.Fatal(err)
	}
	_, err := b.Exec(context.Background(), sandbox.Command{Argv: []string{"true"}})
	if !isEngineError(err) || errors.Is(err, sandbox.ErrDead) {
		t.Errorf("a command gave %v, want an *EngineError that is not ErrDead", err)
	}
	if err := b.Destroy(context.Background()); err != nil {
		t.Errorf("Destroy: %v", err)
	}
}

// Sweep removes what dead owners left, and nothing else.
func TestSweep(t *testing.T) {
	image := dockertest.Image(t)
	c := connect(t)
	ctx := context.Background()
	mine := start(t, c, sandbox.Spec{Image: image, Name: "mine"})

	gone := connect(t) // a client as of a process that has ended
	gone.owner = endedOwner(t)
	running := start(t, gone, sandbox.Spec{Image: image, Name: "running"})
	exited := start(t, gone, sandbox.Spec{Image: image, Name: "exited"})
	if err := exited.kill(ctx); err != nil {
		t.Fatal(err)
	}
	elsewhere := connect(t)
	elsewhere.owner = owner{host: "elsewhere-1", pid: 1, start: "1"}
	live := start(t, elsewhere, sandbox.Spec{Image: image, Name: "elsewhere"})
	expired := start(t, elsewhere, sandbox.Spec{Image: image, Name: "expired", Expiry: time.Now().Add(-time.Minute)})
	foreign, err := c.api.ContainerCreate(ctx, &container.Config{
		Image: image, Cmd: []string{"sleep", "1000"}, Labels: map[string]string{labelExpiry: strconv.Itoa(1)},
	}, nil, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.remove(ctx, foreign.ID) })

	swept, err := c.Sweep(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if swept < 3 {
		t.Errorf("%d swept, want at least the 3 made here", swept)
	}
	for name, want := range map[string]bool{mine.id: true, live.id: true, foreign.ID: true, running.id: false, exited.id: false, expired.id: false} {
		if _, err := c.api.ContainerInspect(ctx, name); (err == nil) != want {
			t.Errorf("container %s is there: %v, want %v", name, err == nil, want)
		}
	}
}

// What Docker can see of a container from outside agrees with what was asked.
func TestContainerSettings(t *testing.T) {
	image := dockertest.Image(t)
	c := connect(t)
	b := start(t, c, sandbox.Spec{
		Image: image, Name: "owner__name-1", Labels: map[string]string{"evalrun.run": "r"}, Env: []string{"A=b"},
		Capabilities: []string{"SYS_PTRACE"}, Limits: sandbox.Limits{CPUs: 1.5, MemoryBytes: 128 << 20, Pids: 99, DiskBytes: 1 << 30},
	})
	info, err := c.api.ContainerInspect(context.Background(), b.id)
	if err != nil {
		t.Fatal(err)
	}
	h := info.HostConfig
	if h.Memory != 128<<20 || h.MemorySwap != 128<<20 || h.NanoCPUs != 15e8 || h.PidsLimit == nil || *h.PidsLimit != 99 {
		t.Errorf("limits: %+v", h.Resources)
	}
	if h.Privileged || h.PidMode != "" || h.IpcMode != "private" || len(h.Binds)+len(h.Mounts)+len(h.Devices)+len(info.Mounts) != 0 {
		t.Errorf("not closed off: %+v", h)
	}
	if info.Config.Labels["evalrun.run"] != "r" || info.Config.Labels[labelOwner] != c.owner.String() {
		t.Errorf("labels: %v", info.Config.Labels)
	}
	var out bytes.Buffer
	res, err := b.Exec(context.Background(), sandbox.Command{Argv: []string{"grep", "CapEff", "/proc/self/status"}, Output: &out})
	if err != nil || res.ExitCode != 0 || out.String() != "CapEff:\t00000000000804fb\n" {
		t.Errorf("capabilities with SYS_PTRACE: %q, %+v, %v", out.String(), res, err)
	}
}
