package docker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/layer"
)

const (
	// How often a running process is asked whether it has ended, besides its
	// output ending: a daemon it left behind may keep the output open for ever.
	pollInterval = 500 * time.Millisecond
	// The same once its output has ended, at most.
	closedInterval = 200 * time.Millisecond
	// How often the size of a sandbox's writable layer and its memory are measured
	// while a command runs. Measuring walks the layer, so not too often.
	sampleInterval = 3 * time.Second
)

// Why an exec was ended before its process.
var (
	errTimeout  = errors.New("the time limit of the command has passed")
	errDiskFull = errors.New("the sandbox has written more than its limit")
)

// One pipe for both streams keeps their lines in the order they were written.
const (
	wrapper = `exec "$@" 2>&1`
	// Files come as a tar on standard input: the daemon's own copying starts two
	// more processes and takes longer than many a command.
	// A failure is told by a first line that nothing else can know.
	wrapperWithFiles = `mark=$1
shift
said=$(tar -xmf - -C / 2>&1) || { printf '%s\n%s\n' "$mark" "$said"; exit 125; }
exec "$@" </dev/null 2>&1`
	// This kills all but who says it, and the first of the sandbox. There may be none.
	alone = "kill -KILL -1 2>/dev/null\n"
)

// execution is one command being run.
type execution struct {
	s      *Sandbox
	user   string
	cmd    sandbox.Command
	id     string
	output *output // nil until the process is attached
	mark   string  // first line of the output when the files could not be written
}

// Exec implements sandbox.Sandbox.
func (s *Sandbox) Exec(parent context.Context, cmd sandbox.Command) (sandbox.Result, error) {
	if len(cmd.Files) > 0 && len(cmd.Stdin) > 0 {
		return sandbox.Result{ExitCode: -1}, errors.New("a command takes files or standard input, not both")
	}
	if s.user != "" && len(cmd.Files) > 0 {
		// They are root's, the command is not.
		put := cmd
		put.Argv, put.Dir = []string{"true"}, "/"
		if res, err := s.exec(parent, put, ""); err != nil || res.ExitCode != 0 {
			return res, err
		}
		cmd.Files, cmd.Alone = nil, false
	}
	return s.exec(parent, cmd, s.user)
}

func (s *Sandbox) exec(parent context.Context, cmd sandbox.Command, user string) (sandbox.Result, error) {
	ctx, cancel := context.WithCancelCause(parent)
	var sampling sync.WaitGroup
	defer sampling.Wait()
	defer cancel(nil)
	if cmd.Timeout > 0 {
		t := time.AfterFunc(cmd.Timeout, func() { cancel(errTimeout) })
		defer t.Stop()
	}
	sampling.Go(func() { s.sample(ctx, cancel) })
	sampling.Go(func() {
		if s.lookUp(ctx) == nil {
			s.group.WatchHeld(ctx, s.holds)
		}
	})

	s.awaitFirst(parent)
	e := &execution{s: s, user: user, cmd: cmd}
	start := time.Now()
	code, err := e.run(ctx)
	res := sandbox.Result{ExitCode: code, Elapsed: time.Since(start)}
	if err != nil {
		res.ExitCode = -1
	}
	if err != nil && ctx.Err() != nil {
		err = e.stop(ctx, &res)
	} else if err == nil {
		e.output.drain()
		if said, _ := e.output.beginning(); e.mark != "" && code == sandbox.FilesFailed && strings.HasPrefix(said, e.mark) {
			res.FilesFailed = true
		}
		if full := s.c.hostFull(); full != nil && code != 0 {
			res.ExitCode, err = -1, full
		} else if cmd.Alone {
			<-s.settled
			if changed := s.asleep.Changed(); changed != nil {
				res.ExitCode, err = -1, engineError("run process alone", changed)
			}
		}
	}
	if e.output != nil {
		if cut := e.output.close(); err == nil {
			err = cut
		}
	}
	return res, err
}

// stop kills what an ended ctx leaves running.
func (e *execution) stop(ctx context.Context, res *sandbox.Result) error {
	cause := context.Cause(ctx)
	res.TimedOut = errors.Is(cause, errTimeout)
	res.DiskFull = errors.Is(cause, errDiskFull)
	if res.TimedOut {
		// A dead sandbox has no usage any more. This must not delay the kill much.
		brief, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		e.s.measure(brief, false)
		cancel()
	}
	err := e.s.kill(ctx)
	if e.output != nil && err == nil {
		e.output.drain()
	}
	if res.TimedOut || res.DiskFull {
		return err
	}
	return errors.Join(cause, err)
}

// run starts the process and waits for its end, or for that of ctx.
func (e *execution) run(ctx context.Context) (int, error) {
	dir := e.cmd.Dir
	if dir == "" {
		dir = "/testbed"
	}
	argv, input := []string{"/bin/sh", "-c", wrapper, "sh"}, len(e.cmd.Stdin) > 0
	if len(e.cmd.Files) > 0 {
		e.mark = "evalrun-files-" + rand.Text()
		argv, input = []string{"/bin/sh", "-c", wrapperWithFiles, "sh", e.mark}, true
	}
	if e.s.c.podman {
		argv[2] = podmanWrapper(argv[2], e.s.env, e.cmd)
	}
	if e.cmd.Alone {
		argv[2] = alone + argv[2]
	}
	opts := container.ExecOptions{
		Cmd: append(argv, e.cmd.Argv...), Env: e.cmd.Env, WorkingDir: dir, User: e.user,
		AttachStdout: true, AttachStderr: true, AttachStdin: input,
	}
	err := e.s.c.ask(ctx, "create process", func(ctx context.Context) error {
		created, err := e.s.c.api.ContainerExecCreate(ctx, e.s.id, opts)
		e.id = created.ID
		return err
	})
	if err != nil {
		return -1, err
	}
	told := e.s.c.events.expect(e.s.id, e.id)
	if told != nil {
		e.s.told.Store(&told)
	}
	attached, err := e.attach(ctx)
	if err != nil {
		return -1, err
	}
	e.output = newOutput(attached, e.cmd)
	e.output.resets = e.s.c.podman
	return e.wait(ctx)
}

// attach starts the process. The library does not heed ctx while it waits for
// the daemon's answer.
func (e *execution) attach(ctx context.Context) (attached types.HijackedResponse, err error) {
	err = e.s.c.ask(ctx, "start process", func(ctx context.Context) error {
		failed := make(chan error, 1)
		started := make(chan types.HijackedResponse)
		go func() {
			answer, err := e.s.c.api.ContainerExecAttach(ctx, e.id, container.ExecAttachOptions{})
			if err != nil {
				failed <- err
				return
			}
			select {
			case started <- answer:
			case <-ctx.Done():
				answer.Close()
			}
		}()
		select {
		case attached = <-started:
			return nil
		case err := <-failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return attached, err
}

// wait returns the exit code of the process once it has ended. A process that
// closed its output but works on is waited for like any other.
func (e *execution) wait(ctx context.Context) (int, error) {
	pause := pollInterval
	timer := time.NewTimer(pause)
	defer timer.Stop()
	closed := e.output.done
	for {
		select {
		case <-ctx.Done():
			return -1, context.Cause(ctx)
		case <-closed:
			closed = nil
			pause = time.Millisecond
		case <-timer.C:
			if closed == nil {
				pause = min(2*pause, closedInterval)
			}
		}
		var info container.ExecInspect
		err := e.s.c.ask(ctx, "inspect process", func(ctx context.Context) (err error) {
			info, err = e.s.c.api.ContainerExecInspect(ctx, e.id)
			return err
		})
		if err != nil {
			return -1, err
		}
		if !info.Running {
			return e.exitCode(ctx, info)
		}
		timer.Reset(pause)
	}
}

// exitCode tells a process that ended from one that never began, and from one
// that died with its sandbox.
func (e *execution) exitCode(ctx context.Context, info container.ExecInspect) (int, error) {
	switch {
	case info.Pid == 0 && (info.ExitCode == 126 || info.ExitCode == 127):
		e.output.drain()
		if said, ok := e.output.beginning(); ok && (strings.HasPrefix(said, "OCI runtime") || e.s.c.podman && podmanNotStarted(said)) {
			return -1, e.notStarted(ctx, said)
		}
	case info.ExitCode == 137 && e.s.died(ctx):
		return -1, e.s.removed(ctx)
	}
	e.s.ran.Store(true)
	return info.ExitCode, nil
}

// notStarted is the error for a process the runtime could not start. Where the
// sandbox itself is the reason, because of what ran in it before, it is as good
// as dead.
func (e *execution) notStarted(ctx context.Context, said string) error {
	err := errors.New(strings.TrimSpace(said))
	usage, _ := e.s.Usage(ctx)
	// The runtime itself needs a few processes to start one.
	full := usage.OOMKills > 0 || e.s.limits.Pids > 0 && usage.Pids >= e.s.limits.Pids-16
	if e.s.ran.Load() && (full || gutted(said)) {
		err = fmt.Errorf("%w: %w", sandbox.ErrDead, err)
	}
	return engineError("start process", err)
}

// gutted reports whether a runtime's error says that the sandbox lacks the
// folder to start in or the shell to start.
func gutted(said string) bool {
	return strings.Contains(said, "chdir to cwd") || strings.Contains(said, `exec: "/bin/sh"`)
}

// removed is an error where somebody removes the container: nothing that runs inside
// can. Being killed comes first, and the rest may take a moment.
func (s *Sandbox) removed(ctx context.Context) error {
	for range 10 {
		gone := false
		err := s.c.ask(ctx, "inspect container", func(ctx context.Context) error {
			info, err := s.c.api.ContainerInspect(ctx, s.id)
			gone = cerrdefs.IsNotFound(err) || err == nil && info.State != nil && (info.State.Status == "removing" || info.State.Dead)
			return err
		})
		if gone {
			return engineError("run command", errors.New("the container was removed from outside while the command ran"))
		}
		if err != nil {
			return err
		}
		if wait(ctx, 50*time.Millisecond) != nil {
			return nil // the run ends
		}
	}
	return nil
}

// died reports whether the container has ended. The daemon may learn of its end
// a little later than of the end of a process in it.
func (s *Sandbox) died(ctx context.Context) bool {
	if usage, err := s.Usage(ctx); err == nil && usage.OOMKills > 0 && usage.Pids > 0 {
		return false // the process was killed for its memory, and the container lives
	}
	patience := 5
	for try := 0; try < patience; try++ {
		dead := false
		err := s.c.ask(ctx, "inspect container", func(ctx context.Context) error {
			info, err := s.c.api.ContainerInspect(ctx, s.id)
			dead = cerrdefs.IsNotFound(err) || err == nil && info.State != nil && !info.State.Running
			return err
		})
		if dead {
			return true
		}
		if u, err := s.fromKernel(ctx); s.c.podman && (err != nil || u.Pids == 0) {
			patience = podmanPatience // nothing runs in it, and Podman does not know yet
		}
		if err != nil || wait(ctx, 50*time.Millisecond) != nil {
			return false
		}
	}
	return false
}

// sample measures what a running command uses, as long as ctx lasts, and stops
// it when it has written too much.
func (s *Sandbox) sample(ctx context.Context, stop func(error)) {
	s.lookUp(ctx) // while there is something to be found
	pause := sampleInterval
	for wait(ctx, pause) == nil {
		began := time.Now()
		if s.limits.DiskBytes > 0 {
			// What cannot be measured now may be the next time.
			if n, err := s.size(ctx); err == nil {
				n = max(0, n-s.copied)
				s.mu.Lock()
				s.seen.DiskBytes = max(s.seen.DiskBytes, n)
				s.mu.Unlock()
				if n > s.limits.DiskBytes {
					stop(errDiskFull)
					return
				}
			}
		}
		if full := s.c.hostFull(); full != nil {
			stop(full)
			return
		}
		s.measure(ctx, false)
		// Measuring must not become the work, nor be put off for long.
		pause = min(max(sampleInterval, 10*time.Since(began)), 10*sampleInterval)
	}
}

// holds takes in what the container holds in memory.
func (s *Sandbox) holds(bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen.HeldMemoryBytes = max(s.seen.HeldMemoryBytes, bytes)
}

// size is what the container has in its own layer and volumes, these as far as they
// can be seen.
func (s *Sandbox) size(ctx context.Context) (int64, error) {
	var n int64
	var volumes []string
	err := s.c.ask(ctx, "measure container", func(ctx context.Context) error {
		sized, _, err := s.c.api.ContainerInspectWithRaw(ctx, s.id, true)
		if err != nil {
			return err
		}
		if sized.ContainerJSONBase == nil || sized.SizeRw == nil || *sized.SizeRw < 0 {
			return errors.New("the daemon does not tell how much has been written")
		}
		n = *sized.SizeRw
		for _, m := range sized.Mounts {
			if m.Type == mount.TypeVolume {
				volumes = append(volumes, m.Source)
			}
		}
		return nil
	})
	if err != nil || !s.c.seesVolumes() {
		return n, err
	}
	for _, dir := range volumes {
		taken, err := layer.Size(ctx, dir)
		if err != nil {
			return 0, engineError("measure volume", err)
		}
		n += taken
	}
	return n, nil
}
