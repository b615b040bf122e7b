package docker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/docker/dockertest"
)

// A container that others remove while a command runs has not died of the command.
func TestRemovedDuringCommand(t *testing.T) {
	image := dockertest.Image(t)
	c := connect(t)
	ctx := context.Background()
	box, err := c.Start(ctx, sandbox.Spec{Image: image, Name: "removed", Expiry: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Destroy(ctx)
	go func() { // ends with the container
		time.Sleep(500 * time.Millisecond)
		c.api.ContainerRemove(ctx, box.(*Sandbox).id, container.RemoveOptions{Force: true})
	}()
	res, err := box.Exec(ctx, sandbox.Command{Argv: []string{"/bin/sleep", "60"}, Timeout: time.Minute})
	var engine *sandbox.EngineError
	if !errors.As(err, &engine) || errors.Is(err, sandbox.ErrDead) {
		t.Errorf("%+v, %v; want trouble of the engine", res, err)
	}
}
