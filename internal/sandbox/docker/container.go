package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/go-units"

	"github.com/evalrun/evalrun/internal/cause"
	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/cgroup"
)

// Labels of every container evalrun makes.
const (
	labelOwner  = "evalrun.owner"
	labelExpiry = "evalrun.expiry"
)

// firstProcess writes this machine's name as every distribution does and names the
// loopback addresses, then sleeps for ever. As the first of its process namespace it
// gets none of the signals sent from inside, so the tests cannot end it. It ignores
// SIGCHLD, so that the kernel itself reaps what the tests leave behind; where env
// cannot arrange that, a shell does while it waits for a copy of itself that reads what
// nobody writes. It starts no program: by that time any may be the model's.
// A daemon's own init would pass SIGTERM on, and is not everywhere installed.
const firstProcess = sandbox.Unmoved + `echo testbed >/etc/hostname
printf '127.0.0.1\tlocalhost testbed\n::1\tlocalhost ip6-localhost ip6-loopback testbed\n' >/etc/hosts
env --ignore-signal=CHLD true 2>/dev/null && exec env --ignore-signal=CHLD sleep infinity
mkfifo /dev/shm/first && exec 3<>/dev/shm/first && rm /dev/shm/first && while :; do (read -r line <&3); done
while :; do sleep 3600 & wait; done`

// Sandbox is one container.
type Sandbox struct {
	c      *Client
	id     string
	user   string // of commands
	limits sandbox.Limits
	env    []string
	copied int64 // what of the image is counted as written

	ran  atomic.Bool                     // a process has run in it
	told atomic.Pointer[<-chan struct{}] // closed when the end of the latest command is among the events

	mu   sync.Mutex
	seen sandbox.Usage

	asking sync.Mutex
	about  *container.InspectResponse // nil until the daemon was asked

	looking   sync.Mutex
	group     *cgroup.Group // nil until it is looked up
	pid       int           // of the first process, where there is a group
	elsewhere error         // why there is none to be found

	settle  sync.Once
	settled chan struct{} // closed when asleep is known
	asleep  *sandbox.First

	destroy  sync.Mutex
	finished bool
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
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	config, host := c.containerConfig(spec, ipv6)
	s := &Sandbox{c: c, user: spec.User, limits: spec.Limits, env: spec.Env}
	s.limits.DiskBytes = 0 // until it is known what is not of its writing
	// Once asked, the daemon makes the container even if nobody waits for its id,
	// and then nobody could remove it.
	err := c.ask(context.WithoutCancel(ctx), "create container", func(ctx context.Context) error {
		created, err := c.api.ContainerCreate(ctx, config, host, nil, nil, containerName(spec.Name))
		s.id = created.ID
		return err
	})
	if err != nil {
		return nil, err
	}
	c.events.add(s.id)
	err = c.ask(ctx, "start container", func(ctx context.Context) error {
		return c.api.ContainerStart(ctx, s.id, container.StartOptions{})
	})
	if err == nil {
		err = s.handOver(ctx, spec)
	}
	if err != nil {
		// The caller has nothing to destroy yet, and ctx may be what ended it.
		return nil, errors.Join(err, s.Destroy(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// handOver gives the folders to the user that are to be the user's.
func (s *Sandbox) handOver(ctx context.Context, spec sandbox.Spec) error {
	if handover := spec.Handover(); handover != "" {
		var said bytes.Buffer
		cmd := sandbox.Command{Argv: []string{"/bin/sh", "-c", handover}, Dir: "/", Output: &said, Timeout: 10 * time.Minute}
		res, err := s.exec(ctx, cmd, "")
		if err != nil {
			return err
		}
		if res.ExitCode != 0 {
			return engineError("give folders to user "+spec.User, fmt.Errorf("exit code %d: %s", res.ExitCode, bytes.TrimSpace(said.Bytes())))
		}
		s.ran.Store(false)
	}
	if handedOver := spec.Handover() != "" || spec.ReadOnly && len(spec.Writable) > 0; handedOver && spec.Limits.DiskBytes > 0 {
		// What was given away or copied is not of the sandbox's writing.
		var err error
		if s.copied, err = s.size(ctx); err != nil {
			return err
		}
	}
	s.limits.DiskBytes = spec.Limits.DiskBytes
	return nil
}

func (c *Client) containerConfig(spec sandbox.Spec, ipv6 bool) (*container.Config, *container.HostConfig) {
	labels := map[string]string{labelOwner: c.owner.String(), labelExpiry: strconv.FormatInt(spec.Expiry.Unix(), 10)}
	for k, v := range spec.Labels {
		labels[k] = v
	}
	host := &container.HostConfig{
		NetworkMode: "none",
		CapDrop:     []string{"ALL"},
		CapAdd:      slices.Concat(sandbox.Capabilities, spec.Capabilities),
		SecurityOpt: []string{"no-new-privileges"},
		LogConfig:   container.LogConfig{Type: "none"},
		IpcMode:     "private",
		Runtime:     c.runtime,
		Resources: container.Resources{
			NanoCPUs:          int64(spec.Limits.CPUs * 1e9),
			CPUShares:         spec.Limits.CPUShares(),
			Memory:            spec.Limits.MemoryBytes,
			MemoryReservation: spec.Limits.MemoryReservation(),
			// Equal to Memory: no swap on top.
			MemorySwap: spec.Limits.MemoryBytes,
			Ulimits:    []*container.Ulimit{{Name: "core", Soft: 0, Hard: 0}, {Name: "nofile", Soft: 10240, Hard: 10240}},
		},
	}
	if c.podman {
		forPodman(host)
	}
	config := &container.Config{
		Image: spec.Image, Hostname: "testbed", User: "0:0", Env: spec.Env, Labels: labels,
		Entrypoint: []string{"/bin/sh"}, Cmd: []string{"-c", firstProcess},
		// The runtime makes an empty network with loopback by itself; the daemon's
		// own handling of one doubles the time a start takes.
		NetworkDisabled: true,
	}
	if spec.ReadOnly {
		readOnly(config, host, spec)
	}
	if pids := spec.Limits.Pids; pids > 0 {
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
	return config, host
}

// readOnly leaves a container only the folders to write to that are meant for it.
func readOnly(config *container.Config, host *container.HostConfig, spec sandbox.Spec) {
	memory := "rw,nosuid,nodev,exec,mode=1777"
	if n := spec.Limits.ScratchBytes(); n > 0 {
		memory += fmt.Sprintf(",size=%d", n)
	}
	host.ReadonlyRootfs, host.Tmpfs = true, map[string]string{}
	for _, dir := range sandbox.Scratch {
		if dir != "/dev/shm" { // is one already
			host.Tmpfs[dir] = memory
		}
	}
	// Volumes without a name begin with what the image has there.
	config.Volumes = map[string]struct{}{}
	for _, dir := range spec.Writable {
		config.Volumes[dir] = struct{}{}
	}
}

// containerName makes a valid and unique name of a hint.
func containerName(hint string) string {
	return fmt.Sprintf("%s-%016x", sandbox.ValidName(hint), rand.Uint64())
}

// Read implements sandbox.Sandbox.
func (s *Sandbox) Read(ctx context.Context, file string, limit int64) ([]byte, error) {
	var data []byte
	var odd error
	err := s.c.ask(ctx, "read "+file, func(ctx context.Context) error {
		body, _, err := s.c.api.CopyFromContainer(ctx, s.id, file)
		if cerrdefs.IsNotFound(err) && !strings.Contains(err.Error(), "No such container: "+s.id) {
			odd = &fs.PathError{Op: "read", Path: file, Err: fs.ErrNotExist}
			return nil
		}
		if err != nil {
			return err
		}
		defer body.Close()
		r := tar.NewReader(body)
		header, err := r.Next()
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg {
			odd = &fs.PathError{Op: "read", Path: file, Err: errors.New("not a regular file")}
			return nil
		}
		data, err = io.ReadAll(io.LimitReader(r, limit))
		return err
	})
	return data, errors.Join(err, odd)
}

// Usage implements sandbox.Sandbox. Of a container that has ended it is what was
// last seen.
func (s *Sandbox) Usage(ctx context.Context) (sandbox.Usage, error) {
	err := s.measure(ctx, true)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen.OOMKills = max(s.seen.OOMKills, s.c.events.kills(s.id))
	return s.seen, err
}

// measure updates what is known of the container's use. The daemon is asked only
// where the kernel cannot be; settled waits until it has told all about the last
// command.
func (s *Sandbox) measure(ctx context.Context, settled bool) error {
	u, err := s.fromKernel(ctx)
	if err != nil {
		if told := s.told.Load(); settled && told != nil {
			select {
			case <-*told:
			case <-time.After(eventDelay):
			case <-ctx.Done():
			}
		}
		if u, err = s.fromDaemon(ctx); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen.PeakMemoryBytes = max(s.seen.PeakMemoryBytes, u.PeakMemoryBytes)
	s.seen.OOMKills = max(s.seen.OOMKills, u.OOMKills)
	s.seen.CPUSeconds = max(s.seen.CPUSeconds, u.CPUSeconds)
	s.seen.ThrottledSeconds = max(s.seen.ThrottledSeconds, u.ThrottledSeconds)
	s.seen.Pids = u.Pids
	return nil
}

// fromKernel reads the container's control groups, if they are on this machine.
func (s *Sandbox) fromKernel(ctx context.Context) (sandbox.Usage, error) {
	if err := s.lookUp(ctx); err != nil {
		return sandbox.Usage{}, err
	}
	return s.group.Usage()
}

// lookUp finds the container's control groups, once.
func (s *Sandbox) lookUp(ctx context.Context) error {
	s.looking.Lock()
	defer s.looking.Unlock()
	if s.group != nil || s.elsewhere != nil {
		return s.elsewhere
	}
	info, err := s.inspect(ctx)
	if err != nil {
		return err
	}
	pid := 0
	if info.ContainerJSONBase != nil && info.State != nil {
		pid = info.State.Pid
	}
	table, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err == nil {
		s.group, err = cgroup.Find(string(table), cgroup.Root, s.id)
	}
	s.pid, s.elsewhere = pid, err
	return err
}

// awaitFirst waits until it is known what the first process looks like when it sleeps.
// The first call has it looked at meanwhile, and does not wait.
func (s *Sandbox) awaitFirst(ctx context.Context) {
	began := false
	s.settle.Do(func() {
		began, s.settled = true, make(chan struct{})
		go func() { // Destroy waits for it
			defer close(s.settled)
			if s.lookUp(ctx) == nil {
				s.asleep = sandbox.NewFirst(s.pid)
			}
		}()
	})
	if !began {
		<-s.settled
	}
}

// inspect asks the daemon once for what does not change while the container runs.
func (s *Sandbox) inspect(ctx context.Context) (*container.InspectResponse, error) {
	s.asking.Lock()
	defer s.asking.Unlock()
	if s.about != nil {
		return s.about, nil
	}
	err := s.c.ask(ctx, "inspect container", func(ctx context.Context) error {
		info, err := s.c.api.ContainerInspect(ctx, s.id)
		if err == nil {
			s.about = &info
		}
		return err
	})
	return s.about, err
}

// fromDaemon asks the daemon. Where it keeps no greatest memory use (cgroup v2),
// the use of this moment has to do.
func (s *Sandbox) fromDaemon(ctx context.Context) (sandbox.Usage, error) {
	var stats container.StatsResponse
	err := s.c.ask(ctx, "read usage", func(ctx context.Context) error {
		resp, err := s.c.api.ContainerStatsOneShot(ctx, s.id)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		return json.NewDecoder(resp.Body).Decode(&stats)
	})
	return sandbox.Usage{
		PeakMemoryBytes:  int64(max(stats.MemoryStats.MaxUsage, stats.MemoryStats.Usage)),
		Pids:             int64(stats.PidsStats.Current),
		CPUSeconds:       float64(stats.CPUStats.CPUUsage.TotalUsage) / 1e9,
		ThrottledSeconds: float64(stats.CPUStats.ThrottlingData.ThrottledTime) / 1e9,
	}, err
}

// Destroy implements sandbox.Sandbox. The container is killed, not asked: what
// runs in it has nothing left to say.
func (s *Sandbox) Destroy(ctx context.Context) error {
	s.destroy.Lock()
	defer s.destroy.Unlock()
	if s.finished {
		return nil
	}
	err := s.c.remove(ctx, s.id)
	if err == nil {
		s.settle.Do(func() { s.settled = make(chan struct{}); close(s.settled) })
		<-s.settled
		s.finished = true
		s.c.events.forget(s.id)
	}
	return err
}

// remove kills and removes a container, and waits until it is gone.
func (c *Client) remove(ctx context.Context, id string) error {
	for began, pause := time.Now(), 50*time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		err := c.ask(ctx, "remove container", func(ctx context.Context) error {
			err := c.api.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
			if cerrdefs.IsNotFound(err) {
				return nil
			}
			return err
		})
		if err == nil || !passing(err) || time.Since(began) > c.patience || wait(ctx, pause) != nil {
			return err
		}
	}
}

// passing reports whether what keeps a container from being removed is over in a
// moment: another removal, or a file system still busy after its last process.
func passing(err error) bool {
	return strings.Contains(err.Error(), "already in progress") || strings.Contains(err.Error(), "busy")
}

// kill ends every process of the sandbox, also when ctx is done.
func (s *Sandbox) kill(ctx context.Context) error {
	return s.c.ask(context.WithoutCancel(ctx), "kill container", func(ctx context.Context) error {
		err := s.c.api.ContainerKill(ctx, s.id, "KILL")
		if cerrdefs.IsNotFound(err) || cerrdefs.IsConflict(err) {
			return nil // it is gone already
		}
		return err
	})
}

// ask makes one request to the daemon. A daemon that hangs is as good as none.
func (c *Client) ask(ctx context.Context, op string, request func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	err := request(bounded)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case bounded.Err() != nil:
		err = cause.As(cause.Timeout, fmt.Errorf("the daemon did not answer within %s", c.patience))
	}
	return engineError(op, err)
}

func engineError(op string, err error) error {
	if strings.Contains(err.Error(), "is not running") || strings.Contains(err.Error(), podmanNotRunning) {
		err = fmt.Errorf("%w: %w", sandbox.ErrDead, err)
	}
	return &sandbox.EngineError{Op: "docker: " + op, Err: shortError(err)}
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
