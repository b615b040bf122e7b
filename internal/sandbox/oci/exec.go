package oci

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/layer"
)

// sampleInterval is how often a sandbox's writable layer and what it uses are
// measured while a command runs. Measuring walks the layer, so not too often.
const sampleInterval = 2 * time.Second

// Why a command was ended before its process.
var (
	errTimeout  = errors.New("the time limit of the command has passed")
	errDiskFull = errors.New("the sandbox has written more than its limit")
)

// wrapper tells that the process has begun, so that a runtime's own failures and
// exit codes are not taken for the command's. One pipe for both streams keeps
// their lines in the order they were written.
const wrapper = `echo >&4; exec "$@" >&3 2>&1 3>&- 4>&-`

// endOthers kills all but itself and the first process.
var endOthers = sandbox.Command{Argv: []string{"/bin/sh", "-c", "kill -KILL -1 2>/dev/null"}, Dir: "/"}

// Exec implements sandbox.Sandbox.
func (s *Sandbox) Exec(parent context.Context, cmd sandbox.Command) (sandbox.Result, error) {
	failed := sandbox.Result{ExitCode: -1}
	if len(cmd.Files) > 0 && len(cmd.Stdin) > 0 {
		return failed, errors.New("a command takes files or standard input, not both")
	}
	if parent.Err() != nil {
		return failed, errors.Join(context.Cause(parent), s.kill())
	}
	if s.dying() {
		return failed, s.dead(errors.New("its first process has ended"))
	}
	if s.ran.Load() {
		<-s.settled // before what ran first can have changed it
	}
	ctx, cancel := context.WithCancelCause(parent)
	var sampling sync.WaitGroup
	defer sampling.Wait()
	defer cancel(nil)
	start := time.Now()
	if cmd.Timeout > 0 {
		t := time.AfterFunc(cmd.Timeout, func() { cancel(errTimeout) })
		defer t.Stop()
	}
	sampling.Go(func() { s.sample(ctx, cancel) })
	if s.group != nil { // else the watchdog sees it
		sampling.Go(func() { s.group.WatchHeld(ctx, s.holds) })
	}

	out := &output{to: cmd.Output}
	if cmd.Alone {
		// The files are put in from outside: whoever could change them has to be gone.
		if _, err := s.command(ctx, endOthers, &output{}); err != nil {
			return failed, err
		}
	}
	if err := s.put(cmd.Files); err != nil {
		if full := s.hostFull(); full != nil {
			return failed, full
		}
		if s.dying() {
			return failed, s.dead(err)
		}
		fmt.Fprintln(out, err)
		return sandbox.Result{ExitCode: sandbox.FilesFailed, FilesFailed: true, Elapsed: time.Since(start)}, out.refused
	}
	code, err := s.command(ctx, cmd, out)
	res := sandbox.Result{ExitCode: code, Elapsed: time.Since(start)}
	if ctx.Err() != nil && (err != nil || code < 0) {
		cause := context.Cause(ctx)
		res.ExitCode, res.TimedOut, res.DiskFull = -1, errors.Is(cause, errTimeout), errors.Is(cause, errDiskFull)
		err = nil
		if !res.TimedOut && !res.DiskFull {
			err = cause
		}
		return res, err
	}
	if err == nil {
		err = s.hostFull()
	}
	if err == nil && cmd.Alone {
		<-s.settled
		if changed := s.asleep.Changed(); changed != nil {
			err = engineError("run process alone", changed)
		}
	}
	if err == nil {
		err = out.refused
	}
	if err != nil {
		var engine *sandbox.EngineError
		if errors.As(err, &engine) {
			res.ExitCode = -1
		}
	}
	return res, err
}

// put writes files where commands see them.
func (s *Sandbox) put(files []sandbox.File) error {
	root, err := s.openFiles()
	if err != nil {
		return err
	}
	defer root.Close()
	return putFiles(root, files)
}

// command runs a process to its end, or to that of ctx: then all of the sandbox
// is killed. The exit code is -1 where the sandbox ended first.
func (s *Sandbox) command(ctx context.Context, cmd sandbox.Command, out *output) (int, error) {
	p, err := s.begin(ctx, cmd, out)
	if err != nil {
		return -1, engineError("start process", err)
	}
	select {
	case <-p.ended:
	case <-ctx.Done():
		s.measure() // a dead sandbox has no usage any more
		if err := s.kill(); err != nil {
			p.abandon()
			return -1, err
		}
		select {
		case <-p.ended:
		case <-time.After(patience):
			p.abandon()
			return -1, engineError("kill process", fmt.Errorf("%s does not end", s.d.runtime.name))
		}
	}
	p.finish()
	switch {
	case ctx.Err() != nil && s.dying():
		return -1, nil
	case !p.begun:
		return -1, s.notStarted(cmd, p.complaint())
	}
	s.ran.Store(true)
	code := p.cmd.ProcessState.ExitCode()
	if code < 0 {
		return -1, engineError("run process", fmt.Errorf("%s ended: %s: %s", s.d.runtime.name, p.cmd.ProcessState, p.complaint()))
	}
	if code == 128+int(unix.SIGKILL) && s.dying() {
		s.wait(patience)
		return -1, nil
	}
	return code, nil
}

// process is a process in a sandbox and the runtime that waits for it.
type process struct {
	cmd    *exec.Cmd
	stderr words
	ended  chan struct{}
	output *stream
	begin  *os.File // a byte comes when it has begun
	begun  bool
	spec   string // a file
}

// begin starts a process.
func (s *Sandbox) begin(ctx context.Context, cmd sandbox.Command, out *output) (p *process, err error) {
	dir := cmd.Dir
	if dir == "" {
		dir = "/testbed"
	}
	p = &process{ended: make(chan struct{})}
	spec, err := os.CreateTemp(s.dir, "process-*.json")
	if err != nil {
		return nil, err
	}
	spec.Close()
	p.spec = spec.Name()
	argv := append([]string{"/bin/sh", "-c", wrapper, "sh"}, cmd.Argv...)
	if err := writeJSON(p.spec, s.d.process(s.spec, environment(s.env, cmd.Env), dir, argv)); err != nil {
		return nil, err
	}
	begun, begin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer begin.Close()
	read, write, err := os.Pipe()
	if err != nil {
		begun.Close()
		return nil, err
	}
	defer write.Close()
	p.begin, p.output = begun, newStream(read, out)
	p.cmd = s.d.command(s.d.runtime.exec(p.spec, s.name)...)
	p.cmd.Stderr = &p.stderr
	lock, err := alive(s.dir, syscall.LOCK_SH)
	if err != nil {
		p.abandon()
		return nil, err
	}
	defer lock.Close()
	p.cmd.ExtraFiles = []*os.File{write, begin, lock} // the first two are for the process
	if len(cmd.Stdin) > 0 {
		input, err := memory(cmd.Stdin)
		if err != nil {
			p.abandon()
			return nil, err
		}
		defer input.Close()
		p.cmd.Stdin = input
	}
	s.gate.RLock()
	defer s.gate.RUnlock()
	err = errors.New("the sandbox is being destroyed")
	if !s.closed {
		p.cmd, err = startProgram(ctx, p.cmd)
	}
	if err != nil {
		p.abandon()
		return nil, err
	}
	s.background.Go(p.output.run)
	s.background.Go(func() {
		p.cmd.Wait() // its end is in its state
		close(p.ended)
	})
	return p, nil
}

// finish takes what the process has printed before its end. What it left behind
// may hold its output open, and goes on to be read from, but not kept.
func (p *process) finish() {
	p.output.settle()
	// Its other side is closed by now, but for a runtime that was killed.
	p.begin.SetReadDeadline(time.Now().Add(time.Second))
	n, _ := p.begin.Read(make([]byte, 1))
	p.begun = n == 1
	p.begin.Close()
	os.Remove(p.spec)
}

func (p *process) abandon() {
	if p.cmd != nil && p.cmd.Process != nil {
		p.cmd.Process.Kill()
	}
	p.begin.Close()
	p.output.from.Close()
	os.Remove(p.spec)
}

// words are the first of what a runtime says. Until it has started the process,
// what runs in the sandbox can write there, too.
type words struct{ bytes.Buffer }

func (w *words) Write(b []byte) (int, error) {
	if room := 64<<10 - w.Len(); room > 0 {
		w.Buffer.Write(b[:min(len(b), room)])
	}
	return len(b), nil
}

func (p *process) complaint() string { return lastWords(p.stderr.Bytes()) }

// memory is a file that holds data, and nothing else's.
func memory(data []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("stdin", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "stdin")
	if _, err = f.Write(data); err == nil {
		_, err = f.Seek(0, 0)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// notStarted is the error for a process the runtime could not start. Where the
// sandbox itself is the reason, because of what ran in it before, it is as good
// as dead.
func (s *Sandbox) notStarted(cmd sandbox.Command, said string) error {
	err := fmt.Errorf("%s: %s", s.d.runtime.name, said)
	if s.dying() {
		return s.dead(err)
	}
	usage, _ := s.Usage(context.Background())
	// The runtime itself needs a few processes to start one.
	full := usage.OOMKills > 0 || s.spec.Limits.Pids > 0 && usage.Pids >= s.spec.Limits.Pids-16
	if s.ran.Load() && (full || s.gutted(cmd)) {
		return s.dead(err)
	}
	return engineError("start process", err)
}

func (s *Sandbox) dead(err error) error {
	return engineError("start process", fmt.Errorf("%w: %w", sandbox.ErrDead, err))
}

// gutted reports whether the sandbox lacks the folder to start in or the shell to
// start.
func (s *Sandbox) gutted(cmd sandbox.Command) bool {
	root, err := openRoot(s.folders.root)
	if err != nil {
		return false
	}
	defer root.Close()
	dir := cmd.Dir
	if dir == "" {
		dir = "/testbed"
	}
	for name, flags := range map[string]int{filepath.Clean("/" + dir): unix.O_PATH | unix.O_DIRECTORY, "/bin/sh": unix.O_PATH} {
		f, err := open(root, name, flags)
		if err != nil {
			return true
		}
		f.Close()
	}
	return false
}

// sample measures what a running command uses, as long as ctx lasts, and stops it
// when it has written too much.
func (s *Sandbox) sample(ctx context.Context, stop func(error)) {
	pause := sampleInterval
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		began := time.Now()
		s.measure()
		if limit := s.spec.Limits.DiskBytes; limit > 0 {
			n, err := layer.Size(ctx, s.folders.upper+"/.")
			if err == nil {
				s.mu.Lock()
				s.seen.DiskBytes = max(s.seen.DiskBytes, n-s.copied)
				s.mu.Unlock()
			}
			if err == nil && n-s.copied > limit {
				stop(errDiskFull)
				return
			}
		}
		if err := s.hostFull(); err != nil {
			stop(err)
			return
		}
		// Measuring must not become the work, nor be put off for long.
		pause = min(max(sampleInterval, 10*time.Since(began)), 10*sampleInterval)
	}
}

// hostFull is an error when the disk that all sandboxes share has no room left:
// then what runs fails without having anything to do with it.
func (s *Sandbox) hostFull() error {
	const least = 16 << 20
	var fs unix.Statfs_t
	if err := unix.Statfs(s.dir, &fs); err != nil {
		return engineError("measure free space", err)
	}
	if fs.Blocks == 0 {
		return nil // this file system does not count
	}
	if free := int64(fs.Bavail) * fs.Bsize; free < least || fs.Files > 0 && fs.Ffree < 64 {
		return engineError("run process", fmt.Errorf("%w: %d MiB are left at %s: make room, or move the cache", sandbox.ErrHostFull, free>>20, s.d.state.dir))
	}
	return nil
}
