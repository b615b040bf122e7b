package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/go-units"

	"github.com/evalrun/evalrun/internal/sandbox"
)

// Labels of every container evalrun makes.
const (
	labelOwner  = "evalrun.owner"
	labelExpiry = "evalrun.expiry"
)

// Capabilities every sandbox keeps: what package managers and test suites run
// by root use on their own files and processes, and nothing that reaches the
// kernel or the network.
var capabilities = []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETGID", "SETUID", "KILL", "NET_BIND_SERVICE"}

// How often the size of a sandbox's writable layer is measured while a command
// runs. Measuring walks the layer, so not too often.
const diskInterval = 3 * time.Second

// firstProcess sleeps and reaps what the tests leave behind. As the first of its
// process namespace it gets none of the signals sent from inside, so the tests
// cannot end it; a daemon's own init would pass SIGTERM on, and is not
// everywhere installed.
const firstProcess = "while :; do sleep 3600 & wait; done"

// Sandbox is one container.
type Sandbox struct {
	c      *Client
	id     string
	limits sandbox.Limits

	destroy sync.Once
	gone    error
}

var _ sandbox.Driver = (*Client)(nil)

// Start makes and starts a container in which nothing runs yet.
func (c *Client) Start(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	s, err := c.start(ctx, spec, true)
	if err != nil && strings.Contains(err.Error(), "ipv6") {
		// A kernel without IPv6 has no such setting, and no ::1 to offer either.
		s, err = c.start(ctx, spec, false)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (c *Client) start(ctx context.Context, spec sandbox.Spec, ipv6 bool) (*Sandbox, error) {
	config, host := c.containerConfig(spec, ipv6)
	created, err := c.api.ContainerCreate(ctx, config, host, nil, nil, "")
	if err != nil {
		return nil, engineError("create container", err)
	}
	s := &Sandbox{c: c, id: created.ID, limits: spec.Limits}
	if err := s.begin(ctx, spec.Files); err != nil {
		// The caller has nothing to destroy yet, and ctx may be what ended it.
		return nil, errors.Join(err, s.Destroy(context.WithoutCancel(ctx)))
	}
	return s, nil
}

func (s *Sandbox) begin(ctx context.Context, files []sandbox.File) error {
	if len(files) > 0 {
		if err := s.Put(ctx, files...); err != nil {
			return err
		}
	}
	if err := s.c.api.ContainerStart(ctx, s.id, container.StartOptions{}); err != nil {
		return engineError("start container", err)
	}
	return nil
}

func (c *Client) containerConfig(spec sandbox.Spec, ipv6 bool) (*container.Config, *container.HostConfig) {
	labels := map[string]string{labelOwner: c.owner, labelExpiry: strconv.FormatInt(spec.Expiry.Unix(), 10)}
	for k, v := range spec.Labels {
		labels[k] = v
	}
	pids := spec.Limits.Pids
	host := &container.HostConfig{
		NetworkMode: "none",
		CapDrop:     []string{"ALL"},
		CapAdd:      append(append([]string{}, capabilities...), spec.Capabilities...),
		SecurityOpt: []string{"no-new-privileges"},
		LogConfig:   container.LogConfig{Type: "none"},
		IpcMode:     "private",
		ExtraHosts:  []string{"testbed:127.0.0.1"},
		Resources: container.Resources{
			NanoCPUs: int64(spec.Limits.CPUs * 1e9),
			Memory:   spec.Limits.MemoryBytes,
			// Equal to Memory: no swap on top.
			MemorySwap: spec.Limits.MemoryBytes,
			Ulimits:    []*container.Ulimit{{Name: "core", Soft: 0, Hard: 0}, {Name: "nofile", Soft: 10240, Hard: 10240}},
		},
	}
	if pids > 0 {
		host.Resources.PidsLimit = &pids
	}
	if spec.Limits.DiskBytes > 0 {
		// One file cannot pass the limit; the sum of all is watched while commands run.
		host.Resources.Ulimits = append(host.Resources.Ulimits,
			&units.Ulimit{Name: "fsize", Soft: spec.Limits.DiskBytes, Hard: spec.Limits.DiskBytes})
	}
	if ipv6 {
		host.Sysctls = map[string]string{
			"net.ipv6.conf.all.disable_ipv6": "0", "net.ipv6.conf.default.disable_ipv6": "0", "net.ipv6.conf.lo.disable_ipv6": "0",
		}
	}
	return &container.Config{
		Image: spec.Image, Hostname: "testbed", User: "0:0", Env: spec.Env, Labels: labels,
		Entrypoint: []string{"/bin/sh"}, Cmd: []string{"-c", firstProcess},
	}, host
}

// Exec implements sandbox.Sandbox.
func (s *Sandbox) Exec(ctx context.Context, cmd sandbox.Command) (sandbox.Result, error) {
	dir := cmd.Dir
	if dir == "" {
		dir = "/testbed"
	}
	// One pipe for both streams keeps their lines in the order they were written.
	argv := append([]string{"/bin/sh", "-c", `exec "$@" 2>&1`, "sh"}, cmd.Argv...)
	created, err := s.c.api.ContainerExecCreate(ctx, s.id, container.ExecOptions{
		Cmd: argv, Env: cmd.Env, WorkingDir: dir, AttachStdout: true, AttachStderr: true, AttachStdin: len(cmd.Stdin) > 0,
	})
	if err != nil {
		return sandbox.Result{}, engineError("create process", err)
	}
	start := time.Now()
	attached, err := s.c.api.ContainerExecAttach(ctx, created.ID, container.ExecAttachOptions{})
	if err != nil {
		return sandbox.Result{}, engineError("start process", err)
	}
	defer attached.Close()
	e := &execution{s: s, id: created.ID, cmd: cmd, start: start}
	return e.wait(ctx, attached)
}

// Put implements sandbox.Sandbox.
func (s *Sandbox) Put(ctx context.Context, files ...sandbox.File) error {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	dirs := map[string]bool{"/": true, "/tmp": true}
	for _, f := range files {
		for _, d := range parents(f.Path) {
			if dirs[d] {
				continue
			}
			dirs[d] = true
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: d[1:] + "/", Mode: 0o755}); err != nil {
				return err
			}
		}
		if err := w.WriteHeader(&tar.Header{Name: strings.TrimPrefix(f.Path, "/"), Mode: f.Mode, Size: int64(len(f.Data))}); err != nil {
			return err
		}
		if _, err := w.Write(f.Data); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := s.c.api.CopyToContainer(ctx, s.id, "/", &buf, container.CopyToContainerOptions{}); err != nil {
		return engineError("copy files into container", err)
	}
	return nil
}

func parents(file string) []string {
	var dirs []string
	for d := path.Dir(file); d != "/" && d != "."; d = path.Dir(d) {
		dirs = append([]string{d}, dirs...)
	}
	return dirs
}

// Read implements sandbox.Sandbox.
func (s *Sandbox) Read(ctx context.Context, file string, limit int64) ([]byte, error) {
	body, _, err := s.c.api.CopyFromContainer(ctx, s.id, file)
	if err != nil {
		return nil, engineError("read "+file, err)
	}
	defer body.Close()
	r := tar.NewReader(body)
	header, err := r.Next()
	if err != nil {
		return nil, engineError("read "+file, err)
	}
	if header.Typeflag != tar.TypeReg {
		return nil, engineError("read "+file, errors.New("not a regular file"))
	}
	return io.ReadAll(io.LimitReader(r, limit))
}

// Usage implements sandbox.Sandbox.
func (s *Sandbox) Usage(ctx context.Context) (sandbox.Usage, error) {
	u := sandbox.Usage{OOMKills: s.c.events.count(s.id)}
	resp, err := s.c.api.ContainerStatsOneShot(ctx, s.id)
	if err != nil {
		return u, engineError("read usage", err)
	}
	defer resp.Body.Close()
	var stats container.StatsResponse
	if err := json.NewDecoder(resp.Body).Decode(&stats); err != nil {
		return u, engineError("read usage", err)
	}
	u.PeakMemoryBytes = int64(max(stats.MemoryStats.MaxUsage, stats.MemoryStats.Usage))
	u.CPUSeconds = float64(stats.CPUStats.CPUUsage.TotalUsage) / 1e9
	u.ThrottledSeconds = float64(stats.CPUStats.ThrottlingData.ThrottledTime) / 1e9
	return u, nil
}

// Destroy implements sandbox.Sandbox. The container is killed, not asked: what
// runs in it has nothing left to say.
func (s *Sandbox) Destroy(ctx context.Context) error {
	s.destroy.Do(func() {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
		defer cancel()
		err := s.c.api.ContainerRemove(ctx, s.id, container.RemoveOptions{Force: true, RemoveVolumes: true})
		if err != nil && !cerrdefs.IsNotFound(err) {
			s.gone = engineError("remove container", err)
		}
		s.c.events.forget(s.id)
	})
	return s.gone
}

func (s *Sandbox) kill(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if err := s.c.api.ContainerKill(ctx, s.id, "KILL"); err != nil && !cerrdefs.IsNotFound(err) && !cerrdefs.IsConflict(err) {
		return engineError("kill container", err)
	}
	return nil
}

// Sweep implements sandbox.Driver.
func (c *Client) Sweep(ctx context.Context) (int, error) {
	list, err := c.api.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", labelOwner))})
	if err != nil {
		return 0, engineError("list containers", err)
	}
	swept := 0
	for _, ct := range list {
		owner := ct.Labels[labelOwner]
		expiry, _ := strconv.ParseInt(ct.Labels[labelExpiry], 10, 64)
		expired := expiry > 0 && time.Now().Unix() > expiry
		if owner == c.owner || ownerAlive(owner) && !expired {
			continue
		}
		err := c.api.ContainerRemove(ctx, ct.ID, container.RemoveOptions{Force: true, RemoveVolumes: true})
		if err != nil && !cerrdefs.IsNotFound(err) && !cerrdefs.IsConflict(err) {
			return swept, engineError("remove left-over container", err)
		}
		swept++
	}
	return swept, nil
}

func engineError(op string, err error) error {
	if strings.Contains(err.Error(), "is not running") {
		err = fmt.Errorf("%w: %w", sandbox.ErrDead, err)
	}
	return &sandbox.EngineError{Op: "docker: " + op, Err: shortError(err)}
}

// Unenforced renders the limits the daemon cannot hold, in words.
func Unenforced(info Info) []string {
	var out []string
	for _, w := range info.Warnings {
		if strings.Contains(w, "No swap limit") || strings.Contains(w, "No memory limit") || strings.Contains(w, "No pids limit") || strings.Contains(w, "No cpu cfs") {
			out = append(out, strings.TrimPrefix(w, "WARNING: "))
		}
	}
	return append(out, fmt.Sprintf("disk: measured every %s while a command runs", diskInterval))
}
