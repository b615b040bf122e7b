// Package docker runs sandboxes as containers of a Docker daemon (or of what
// speaks its API), and gives the builder that daemon's BuildKit and image store.
//
// It is the only package that imports github.com/docker/docker: that module is
// frozen (new work happens in moby/moby/client), and moving on should touch one
// folder. It must not know patches, tests or verdicts.
package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/client"
	buildkit "github.com/moby/buildkit/client"

	"github.com/evalrun/evalrun/internal/cause"
)

// Client is a connection to one daemon.
type Client struct {
	api      *client.Client
	root     sync.Once // for rootDir
	rootDir  string    // the daemon's folder, where it is on this machine
	owner    owner
	leases   leases
	giveBack func() // the lease of this process; nil is none
	// patience is how long the daemon may take to answer one request before it
	// counts as gone.
	patience time.Duration
	runtime  string // of the sandboxes; "" takes the daemon's default

	buildkitMu sync.Mutex
	buildkit   *buildkit.Client

	events *watcher
	podman bool // not Docker: see podman.go
}

// Info describes the daemon.
type Info struct {
	Version       string   `json:"version"`
	APIVersion    string   `json:"api_version"`
	StorageDriver string   `json:"storage_driver"`
	CgroupVersion string   `json:"cgroup_version"`
	Kernel        string   `json:"kernel"`
	OS            string   `json:"os"`
	Architecture  string   `json:"architecture"`
	CPUs          int      `json:"cpus"`
	MemoryBytes   int64    `json:"memory_bytes"`
	Runtime       string   `json:"runtime"`
	RootDir       string   `json:"-"` // a path of this machine: for the doctor, never for a report
	ID            string   `json:"-"` // of the daemon, and no other
	ImageStore    bool     `json:"containerd_image_store"`
	Warnings      []string `json:"warnings,omitempty"`
}

// Connect opens the daemon DOCKER_HOST names, or the default one, and asks
// whether it is there.
func Connect(ctx context.Context) (*Client, error) { return open(ctx, client.FromEnv) }

// ConnectTo opens the daemon at an address such as unix:///run/podman/podman.sock.
func ConnectTo(ctx context.Context, host string) (*Client, error) {
	return open(ctx, client.WithHost(host))
}

func open(ctx context.Context, from client.Opt) (*Client, error) {
	api, err := client.NewClientWithOpts(from, client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, fmt.Errorf("docker: %w", err)
	}
	ping, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	answer, err := api.Ping(ping)
	if err != nil {
		api.Close()
		return nil, fmt.Errorf("no Docker daemon answers at %s: %w (start it, or see `evalrun doctor`)", api.DaemonHost(), shortError(err))
	}
	// Now, since the library would do it with the first request and without a lock.
	api.NegotiateAPIVersionPing(answer)
	version, err := api.ServerVersion(ping)
	if err != nil {
		api.Close()
		return nil, fmt.Errorf("the daemon at %s does not tell its version: %w", api.DaemonHost(), shortError(err))
	}
	c := &Client{api: api, owner: thisProcess(), patience: 2 * time.Minute}
	for _, part := range version.Components {
		c.podman = c.podman || strings.HasPrefix(part.Name, "Podman")
	}
	c.events = watch(api, c.owner)
	return c, nil
}

// Podman reports whether it is Podman that speaks Docker's API there.
func (c *Client) Podman() bool { return c.podman }

// Close releases the connections.
func (c *Client) Close() error {
	if c.giveBack != nil {
		c.giveBack()
	}
	c.events.stop()
	c.buildkitMu.Lock()
	defer c.buildkitMu.Unlock()
	if c.buildkit != nil {
		c.buildkit.Close()
	}
	return c.api.Close()
}

// Info asks the daemon about itself.
func (c *Client) Info(ctx context.Context) (Info, error) {
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	i, err := c.api.Info(ctx)
	if err != nil {
		return Info{}, fmt.Errorf("docker info: %w", shortError(err))
	}
	out := Info{
		Version: i.ServerVersion, APIVersion: c.api.ClientVersion(), StorageDriver: i.Driver, CgroupVersion: i.CgroupVersion,
		Kernel: i.KernelVersion, OS: i.OperatingSystem, Architecture: i.Architecture, CPUs: i.NCPU, MemoryBytes: i.MemTotal,
		Runtime: cmp.Or(c.runtime, i.DefaultRuntime), RootDir: i.DockerRootDir, ID: i.ID, Warnings: i.Warnings,
	}
	for _, status := range i.DriverStatus {
		if status[0] == "driver-type" && strings.HasPrefix(status[1], "io.containerd.snapshotter") {
			out.ImageStore = true
		}
	}
	return out, nil
}

// UseRuntime has sandboxes run by an OCI runtime that the daemon knows by this name,
// for example runsc or kata. It must be called before the first sandbox starts.
func (c *Client) UseRuntime(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	i, err := c.api.Info(ctx)
	if err != nil {
		return fmt.Errorf("docker info: %w", shortError(err))
	}
	if _, ok := i.Runtimes[name]; !ok {
		return fmt.Errorf("the daemon knows no OCI runtime %q, only %s: add it to \"runtimes\" in /etc/docker/daemon.json and start the daemon anew",
			name, strings.Join(slices.Sorted(maps.Keys(i.Runtimes)), ", "))
	}
	c.runtime = name
	return nil
}

// HasBuildKit reports whether the daemon answers as a BuildKit.
func (c *Client) HasBuildKit(ctx context.Context) error {
	bk, _, err := c.BuildKit(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := bk.ListWorkers(ctx); err != nil {
		return fmt.Errorf("the daemon's BuildKit: %w", err)
	}
	return nil
}

// BuildKit returns a client of the BuildKit inside the daemon, reached over the
// Engine API as docker buildx does. Any number of builds may use it at a time.
func (c *Client) BuildKit(ctx context.Context) (bk *buildkit.Client, done func(), err error) {
	done = func() {}
	c.buildkitMu.Lock()
	defer c.buildkitMu.Unlock()
	if c.buildkit != nil {
		return c.buildkit, done, nil
	}
	// The connection outlives the call that first needed it.
	bk, err = buildkit.New(context.WithoutCancel(ctx), "",
		buildkit.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return c.api.DialHijack(ctx, "/grpc", "h2c", nil)
		}),
		buildkit.WithSessionDialer(func(ctx context.Context, proto string, meta map[string][]string) (net.Conn, error) {
			return c.api.DialHijack(ctx, "/session", proto, meta)
		}))
	if err != nil {
		return nil, nil, fmt.Errorf("the daemon's BuildKit: %w", err)
	}
	c.buildkit = bk
	return bk, done, nil
}

// ResolvesImages implements builder.Engine: the daemon's solver looks into its
// own image store before it asks a registry.
func (c *Client) ResolvesImages() bool { return true }

// Exporter is the BuildKit exporter that leaves an image in the daemon's store:
// "moby" on every daemon; those with the containerd image store take it too.
func (c *Client) Exporter() string { return "moby" }

// shortError cuts the advice the client library adds, which repeats ours, and says
// what the daemon or the way to it failed of.
func shortError(err error) error {
	c, text := cause.OfConnection(err), err.Error()
	switch {
	case client.IsErrConnectionFailed(err):
		c = cause.Engine
	case c == cause.Unknown:
		c = cause.OfText(text)
	}
	if i := strings.Index(text, ". Is the docker daemon running"); i > 0 {
		err = errors.New(text[:i])
	}
	return cause.As(c, err)
}
