package docker

import (
	"context"
	"errors"
	"io"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/evalrun/evalrun/internal/sandbox"
)

const (
	// How often a running process is asked whether it has ended, besides its
	// output ending: a daemon it left behind may keep the output open for ever.
	pollInterval = 500 * time.Millisecond
	// How long output may still arrive after the process has ended.
	drain = time.Second
)

// execution is one running exec of a container.
type execution struct {
	s     *Sandbox
	id    string
	cmd   sandbox.Command
	start time.Time
}

func (e *execution) wait(ctx context.Context, attached types.HijackedResponse) (sandbox.Result, error) {
	output := e.cmd.Output
	if output == nil {
		output = io.Discard
	}
	copied := make(chan error, 1)
	go func() {
		// A process that prints without end must not hang us: writers given here
		// never block for long, and never fail on size.
		_, err := stdcopy.StdCopy(output, output, attached.Reader)
		copied <- err
	}()
	if len(e.cmd.Stdin) > 0 {
		go func() {
			attached.Conn.Write(e.cmd.Stdin) // a process may end without reading it all
			attached.CloseWrite()
		}()
	}
	var deadline <-chan time.Time
	if e.cmd.Timeout > 0 {
		t := time.NewTimer(time.Until(e.start.Add(e.cmd.Timeout)))
		defer t.Stop()
		deadline = t.C
	}
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	disk := time.NewTicker(diskInterval)
	defer disk.Stop()
	// stop ends the copying whatever state it is in; output is not written after it.
	stop := func() {
		attached.Close()
		<-copied
	}
	for {
		select {
		case <-copied:
			code, err := e.exitCode(ctx)
			return sandbox.Result{ExitCode: code, Elapsed: time.Since(e.start)}, err
		case <-poll.C:
			ended, code, err := e.inspect(ctx)
			if err != nil || !ended {
				continue // the next poll or the end of the output will tell
			}
			elapsed := time.Since(e.start)
			select {
			case <-copied:
			case <-time.After(drain):
				stop()
			}
			return sandbox.Result{ExitCode: code, Elapsed: elapsed}, nil
		case <-disk.C:
			if e.s.limits.DiskBytes > 0 && e.s.size(ctx) > e.s.limits.DiskBytes {
				err := e.s.kill(ctx)
				stop()
				return sandbox.Result{ExitCode: -1, DiskFull: true, Elapsed: time.Since(e.start)}, err
			}
		case <-deadline:
			err := e.s.kill(ctx)
			stop()
			return sandbox.Result{ExitCode: -1, TimedOut: true, Elapsed: time.Since(e.start)}, err
		case <-ctx.Done():
			err := e.s.kill(ctx)
			stop()
			return sandbox.Result{ExitCode: -1}, errors.Join(context.Cause(ctx), err)
		}
	}
}

// exitCode asks for the status after the output has ended; the daemon may need
// a moment to notice the end of the process.
func (e *execution) exitCode(ctx context.Context) (int, error) {
	pause := time.Millisecond
	for waited := time.Duration(0); ; waited += pause {
		ended, code, err := e.inspect(ctx)
		if err != nil {
			return -1, engineError("inspect process", err)
		}
		if ended {
			return code, nil
		}
		// A process that closed its output but works on is waited for like any
		// other; its deadline still holds.
		if e.cmd.Timeout > 0 && time.Since(e.start) > e.cmd.Timeout {
			return -1, e.s.kill(ctx)
		}
		if pause < 200*time.Millisecond {
			pause *= 2
		}
		if err := wait(ctx, pause); err != nil {
			return -1, errors.Join(err, e.s.kill(ctx))
		}
	}
}

func (e *execution) inspect(ctx context.Context) (ended bool, code int, err error) {
	info, err := e.s.c.api.ContainerExecInspect(ctx, e.id)
	if cerrdefs.IsNotFound(err) {
		// The container died under the process.
		return true, -1, nil
	}
	if err != nil {
		return false, 0, err
	}
	return !info.Running, info.ExitCode, nil
}

// size is what the container has written to its own layer, or 0 if unknown.
func (s *Sandbox) size(ctx context.Context) int64 {
	sized, _, err := s.c.api.ContainerInspectWithRaw(ctx, s.id, true)
	if err != nil || sized.SizeRw == nil {
		return 0
	}
	return *sized.SizeRw
}
