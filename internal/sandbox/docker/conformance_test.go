package docker

import (
	"context"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/docker/dockertest"
	"github.com/evalrun/evalrun/internal/sandbox/sandboxtest"
)

// connect opens the default daemon and checks at the end that all is closed.
func connect(t testing.TB) *Client {
	t.Helper()
	c, err := Connect(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

// containers counts this process's containers.
func (c *Client) containers(t testing.TB) int {
	t.Helper()
	list, err := c.api.ContainerList(context.Background(), container.ListOptions{
		All: true, Filters: filters.NewArgs(filters.Arg("label", labelOwner+"="+c.owner.String())),
	})
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestConformance(t *testing.T) {
	image := dockertest.Image(t)
	c := connect(t)
	sandboxtest.Run(t, func(*testing.T) sandbox.Driver { return c }, image, sandboxtest.Options{
		Count: c.containers,
		// CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, NET_BIND_SERVICE
		Capabilities: "00000000000004fb",
		Daemon:       true,
		Slow:         true,
	})
}
