// Package docker runs sandboxes as containers of a Docker daemon (or of what
// speaks its API), and gives the builder that daemon's BuildKit and image store.
//
// It is the only package that imports github.com/docker/docker: that module is
// frozen (new work happens in moby/moby/client), and moving on should touch one
// folder. It must not know patches, tests or verdicts.
package docker

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/client"
	buildkit "github.com/moby/buildkit/client"
)

// Client is a connection to one daemon.
type Client struct {
	api   *client.Client
	owner string

	buildkitOnce sync.Mutex
	buildkit     *buildkit.Client

	events *oomEvents
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
	ImageStore    bool     `json:"containerd_image_store"`
	Warnings      []string `json:"warnings,omitempty"`
}

// Connect opens the daemon DOCKER_HOST names, or the default one, and asks
// whether it is there.
func Connect(ctx context.Context) (*Client, error) {
	api, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, fmt.Errorf("docker: %w", err)
	}
	ping, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := api.Ping(ping); err != nil {
		api.Close()
		return nil, fmt.Errorf("no Docker daemon answers at %s: %w (start it, or see `evalrun doctor`)", api.DaemonHost(), shortError(err))
	}
	c := &Client{api: api, owner: ownerLabel()}
	c.events = watchOOM(api, c.owner)
	return c, nil
}

// Close releases the connections.
func (c *Client) Close() error {
	c.events.stop()
	c.buildkitOnce.Lock()
	defer c.buildkitOnce.Unlock()
	if c.buildkit != nil {
		c.buildkit.Close()
	}
	return c.api.Close()
}

// Info asks the daemon about itself.
func (c *Client) Info(ctx context.Context) (Info, error) {
	i, err := c.api.Info(ctx)
	if err != nil {
		return Info{}, fmt.Errorf("docker info: %w", shortError(err))
	}
	out := Info{
		Version: i.ServerVersion, APIVersion: c.api.ClientVersion(), StorageDriver: i.Driver, CgroupVersion: i.CgroupVersion,
		Kernel: i.KernelVersion, OS: i.OperatingSystem, Architecture: i.Architecture, CPUs: i.NCPU, MemoryBytes: i.MemTotal,
		Runtime: i.DefaultRuntime, RootDir: i.DockerRootDir, Warnings: i.Warnings,
	}
	for _, status := range i.DriverStatus {
		if status[0] == "driver-type" && strings.HasPrefix(status[1], "io.containerd.snapshotter") {
			out.ImageStore = true
		}
	}
	return out, nil
}

// HasBuildKit reports whether the daemon answers as a BuildKit.
func (c *Client) HasBuildKit(ctx context.Context) error {
	bk, err := c.BuildKit(ctx)
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
// Engine API as docker buildx does.
func (c *Client) BuildKit(ctx context.Context) (*buildkit.Client, error) {
	c.buildkitOnce.Lock()
	defer c.buildkitOnce.Unlock()
	if c.buildkit != nil {
		return c.buildkit, nil
	}
	// The connection outlives the call that first needed it.
	bk, err := buildkit.New(context.WithoutCancel(ctx), "",
		buildkit.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return c.api.DialHijack(ctx, "/grpc", "h2c", nil)
		}),
		buildkit.WithSessionDialer(func(ctx context.Context, proto string, meta map[string][]string) (net.Conn, error) {
			return c.api.DialHijack(ctx, "/session", proto, meta)
		}))
	if err != nil {
		return nil, fmt.Errorf("the daemon's BuildKit: %w", err)
	}
	c.buildkit = bk
	return bk, nil
}

// Exporter is the BuildKit exporter that leaves an image in the daemon's store:
// "moby" on every daemon; those with the containerd image store take it too.
func (c *Client) Exporter() string { return "moby" }

// ping is used to tell a dead daemon from a failed operation.
func (c *Client) ping(ctx context.Context) (types.Ping, error) { return c.api.Ping(ctx) }

// shortError cuts the advice the client library adds, which repeats ours.
func shortError(err error) error {
	text := err.Error()
	if i := strings.Index(text, ". Is the docker daemon running"); i > 0 {
		return fmt.Errorf("%s", text[:i])
	}
	return err
}

// ownerLabel names this process so that a later one can see whether it still
// lives: process id and start time, which together are never used twice.
func ownerLabel() string {
	pid := os.Getpid()
	return fmt.Sprintf("%d-%s", pid, processStart(pid))
}

// ownerAlive reports whether the process a label names still runs here.
func ownerAlive(label string) bool {
	var pid int
	var start string
	if _, err := fmt.Sscanf(label, "%d-%s", &pid, &start); err != nil {
		return false
	}
	now := processStart(pid)
	return now != "" && now == start
}

// processStart is a process's start time in clock ticks since boot, with the
// boot's id, or "" when there is no such process.
func processStart(pid int) string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The command name in parentheses may hold anything; fields count from after it.
	text := string(data)
	fields := strings.Fields(text[strings.LastIndex(text, ")")+1:])
	if len(fields) < 20 {
		return ""
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || len(boot) < 8 {
		return fields[19]
	}
	return fields[19] + "-" + string(boot[:8])
}
