package oci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/cgroup"
	"github.com/evalrun/evalrun/internal/sandbox/layer"
)

// patience is how long the runtime may take for one thing before it counts as
// hung.
const patience = time.Minute

// Sandbox is one container of the runtime.
type Sandbox struct {
	d       *Driver
	name    string
	dir     string
	folders folders
	spec    sandbox.Spec
	env     []string // of the image and the specification
	image   Root
	unmount func() error
	copied  int64 // what the image itself takes in the writable layer

	run   *exec.Cmd     // the runtime, which waits for the first process
	ended chan struct{} // closed when the runtime has ended, and with it all processes
	life  *os.File      // the first process's input
	first *os.Process
	pid   int // first's, which it forgets when it is released
	// inside is the root as first sees it: by its number it could become another
	// process's. nil where nobody needs it, and until it is found.
	inside *os.File
	group  *cgroup.Group // nil without control groups

	settled chan struct{} // closed when asleep is known
	asleep  *sandbox.First

	ran atomic.Bool // a command has run in it

	mu   sync.Mutex
	seen sandbox.Usage

	gate       sync.RWMutex
	closed     bool           // nothing new may go to the background
	released   bool           // first and inside are no longer to be used
	background sync.WaitGroup // what outlives a command: see stream

	destroy  sync.Mutex
	finished bool
}

// Start implements sandbox.Driver.
func (d *Driver) Start(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if _, _, err := sandbox.ParseUser(spec.User); err != nil {
		return nil, engineError("make sandbox", err)
	}
	s := &Sandbox{d: d, name: d.state.name(spec.Name), spec: spec, ended: make(chan struct{})}
	s.dir = d.state.box(s.name)
	s.folders = foldersIn(s.dir)
	d.mu.Lock()
	d.live[s] = true
	d.mu.Unlock()
	err := s.start(ctx)
	if err == nil {
		return s, nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	// The caller has nothing to destroy yet, and ctx may be what ended it.
	return nil, errors.Join(err, s.Destroy(context.WithoutCancel(ctx)))
}

func (s *Sandbox) start(ctx context.Context) error {
	root, err := s.d.images.Root(ctx, s.spec.Image)
	if err != nil {
		return engineError("image "+s.spec.Image, err)
	}
	s.image = root
	s.env = environment(root.Env, s.spec.Env)
	group := ""
	if s.d.groups.version != "none" {
		group = filepath.Join(s.d.groups.parent, s.name)
	}
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		return engineError("make sandbox", err)
	}
	record := box{Runtime: s.d.runtime.path, Cgroup: group, Expiry: s.spec.Expiry.Unix(), Labels: s.spec.Labels}
	if err := writeJSON(filepath.Join(s.dir, "box.json"), record); err != nil {
		return engineError("make sandbox", err)
	}
	if s.unmount, err = s.d.rootfs.make(ctx, s.folders, root.Lower); err != nil {
		return engineError("make root file system", err)
	}
	if s.d.rootfs.kind == "copy" {
		if s.copied, err = layer.Size(ctx, s.folders.root); err != nil {
			return engineError("measure root file system", err)
		}
	}
	files := []sandbox.File{
		{Path: "/etc/hosts", Mode: 0o644, Data: []byte(hosts)}, {Path: "/etc/hostname", Mode: 0o644, Data: []byte("testbed\n")},
	}
	err = s.put(files)
	var writable []specs.Mount
	if err == nil && s.spec.ReadOnly {
		// The runtime cannot make them later, and takes their mode for what it mounts.
		if err = makeScratch(s.folders.root); err == nil {
			writable, err = stayWritable(s.folders.root, s.spec.Writable)
		}
	}
	if err != nil {
		return engineError("make root file system", err)
	}
	if err := writeJSON(filepath.Join(s.dir, "config.json"), s.d.runtimeSpec(s.spec, s.env, s.folders.root, group, writable)); err != nil {
		return engineError("make sandbox", err)
	}
	if err := s.launch(ctx); err != nil || s.spec.Handover() == "" {
		return err
	}
	// What was given away has been copied, and is not of the sandbox's writing.
	if s.copied, err = layer.Size(ctx, s.folders.upper+"/."); err != nil {
		return engineError("measure root file system", err)
	}
	return nil
}

// launch starts the runtime and waits until the first process says it is there.
func (s *Sandbox) launch(ctx context.Context) error {
	input, life, err := os.Pipe()
	if err != nil {
		return engineError("start sandbox", err)
	}
	s.life = life
	defer input.Close()
	said, output, err := os.Pipe()
	if err != nil {
		return engineError("start sandbox", err)
	}
	defer said.Close()
	defer output.Close()
	log, err := os.Create(s.log())
	if err != nil {
		return engineError("start sandbox", err)
	}
	defer log.Close()
	lock, err := alive(s.dir, syscall.LOCK_SH)
	if err != nil {
		return engineError("start sandbox", err)
	}
	defer lock.Close()
	cmd := s.d.command("run", "--bundle", s.dir, "--pid-file", filepath.Join(s.dir, "pid"), s.name)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = input, output, log
	cmd.ExtraFiles = []*os.File{lock}
	if cmd, err = startProgram(ctx, cmd); err != nil {
		return engineError("start "+s.d.runtime.name, err)
	}
	s.run = cmd
	go func() {
		cmd.Wait() // how it ends says nothing that its log does not
		close(s.ended)
	}()
	output.Close()

	limit := patience
	if s.spec.Handover() != "" {
		limit = 10 * patience // a repository has many files
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { said.SetReadDeadline(time.Now()) })
	defer stop()
	if _, err := io.ReadFull(said, make([]byte, len("ready\n"))); err != nil {
		if ctx.Err() != nil {
			return engineError("start sandbox", fmt.Errorf("%s does not answer within %s", s.d.runtime.name, limit))
		}
		s.wait(patience)
		return engineError("start sandbox", fmt.Errorf("%s: %s", s.d.runtime.name, s.complaint()))
	}
	return s.find()
}

// find finds the first process and its control groups.
func (s *Sandbox) find() error {
	var pid int
	for began := time.Now(); pid == 0; time.Sleep(time.Millisecond) {
		text, err := os.ReadFile(filepath.Join(s.dir, "pid"))
		if err == nil {
			pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		if err != nil && time.Since(began) > patience {
			return engineError("start sandbox", err)
		}
	}
	first, err := os.FindProcess(pid)
	if err != nil {
		return engineError("start sandbox", err)
	}
	s.first, s.pid = first, pid
	s.settled = make(chan struct{})
	s.background.Go(func() {
		defer close(s.settled)
		s.asleep = sandbox.NewFirst(pid)
	})
	if s.spec.ReadOnly || !s.d.groups.readable() {
		s.inside, err = openRoot(fmt.Sprintf("/proc/%d/root", pid))
		if err == nil {
			err = first.Signal(syscall.Signal(0)) // the same process still has the number
		}
		if err != nil {
			return engineError("start sandbox", err)
		}
	}
	if s.d.groups.readable() {
		table, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if err == nil {
			s.group, err = cgroup.Find(string(table), cgroup.Root, s.name)
		}
		if err != nil {
			return engineError("start sandbox", err)
		}
		return nil
	}
	w := &watchdog{s: s, memory: !s.d.groups.memory, pids: !s.d.groups.pids}
	s.background.Go(w.watch)
	return nil
}

// openFiles opens the root where files are put: what a ReadOnly sandbox can write is
// seen from inside only.
func (s *Sandbox) openFiles() (*os.File, error) {
	if !s.spec.ReadOnly || s.inside == nil {
		return openRoot(s.folders.root)
	}
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.released {
		return nil, errors.New("the sandbox has been destroyed")
	}
	return open(s.inside, "/", unix.O_PATH|unix.O_DIRECTORY)
}

func (s *Sandbox) log() string { return filepath.Join(s.dir, "log") }

// complaint is the end of what the runtime printed.
func (s *Sandbox) complaint() string {
	text, err := os.ReadFile(s.log())
	if err != nil {
		return err.Error()
	}
	if len(text) == 0 {
		return fmt.Sprintf("it ended without a word: %s", s.run.ProcessState)
	}
	return lastWords(text)
}

func lastWords(text []byte) string {
	said := strings.TrimSpace(string(text))
	return said[max(0, len(said)-1000):]
}

// wait waits for the end of all processes.
func (s *Sandbox) wait(limit time.Duration) bool {
	select {
	case <-s.ended:
		return true
	case <-time.After(limit):
		return false
	}
}

// kill ends every process of the sandbox and waits until they are gone: with the
// first of its process namespace the kernel kills all others.
func (s *Sandbox) kill() error {
	if s.run == nil {
		return nil
	}
	s.life.Close()
	if err := s.killFirst(); err != nil {
		return engineError("kill sandbox", err)
	}
	if s.wait(patience) {
		return nil
	}
	out, err := s.d.command("delete", "--force", s.name).CombinedOutput()
	s.run.Process.Kill()
	if !s.wait(patience) {
		return engineError("kill sandbox", fmt.Errorf("its processes do not end: %w: %s", err, lastWords(out)))
	}
	return nil
}

func (s *Sandbox) killFirst() error {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.first == nil || s.released {
		return nil
	}
	if err := s.first.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// dying reports whether the first process has ended or is about to: then whatever
// else ended was killed by that.
func (s *Sandbox) dying() bool {
	select {
	case <-s.ended:
		return true
	default:
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.pid))
	if err != nil {
		return true
	}
	fields := statFields(string(text))
	if len(fields) < 7 {
		return true
	}
	flags, err := strconv.ParseUint(fields[6], 10, 64)
	const exiting = 0x4 // PF_EXITING
	return err != nil || flags&exiting != 0 || fields[0] == "Z" || fields[0] == "X"
}

// Read implements sandbox.Sandbox.
func (s *Sandbox) Read(ctx context.Context, path string, limit int64) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	root, err := openRoot(s.folders.root)
	if err != nil {
		return nil, engineError("read "+path, err)
	}
	defer root.Close()
	return readFile(root, path, limit)
}

// Usage implements sandbox.Sandbox. Of a sandbox that has ended it is what was
// last seen.
func (s *Sandbox) Usage(context.Context) (sandbox.Usage, error) {
	err := s.measure()
	if err != nil && s.dying() {
		err = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		return s.seen, engineError("read usage", err)
	}
	return s.seen, nil
}

// measure updates what is known of the sandbox's use.
func (s *Sandbox) measure() error {
	if s.group == nil {
		return nil // the watchdog does it
	}
	u, err := s.group.Usage()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen.OOMKills = max(s.seen.OOMKills, u.OOMKills)
	s.note(u)
	return nil
}

// observe is what the watchdog has seen and done.
func (s *Sandbox) observe(u sandbox.Usage, killed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen.OOMKills += killed
	s.note(u)
}

// holds takes in what the sandbox holds in memory.
func (s *Sandbox) holds(bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen.HeldMemoryBytes = max(s.seen.HeldMemoryBytes, bytes)
}

func (s *Sandbox) note(u sandbox.Usage) {
	s.seen.HeldMemoryBytes = max(s.seen.HeldMemoryBytes, u.HeldMemoryBytes)
	s.seen.PeakMemoryBytes = max(s.seen.PeakMemoryBytes, u.PeakMemoryBytes)
	s.seen.CPUSeconds = max(s.seen.CPUSeconds, u.CPUSeconds)
	s.seen.ThrottledSeconds = max(s.seen.ThrottledSeconds, u.ThrottledSeconds)
	s.seen.Pids = u.Pids
}

// Destroy implements sandbox.Sandbox.
func (s *Sandbox) Destroy(context.Context) error {
	s.destroy.Lock()
	defer s.destroy.Unlock()
	if s.finished {
		return nil
	}
	s.gate.Lock()
	s.closed = true
	s.gate.Unlock()
	if s.life != nil {
		s.life.Close()
	}
	if err := s.kill(); err != nil {
		return err
	}
	s.background.Wait()
	s.gate.Lock()
	if s.first != nil && !s.released {
		s.first.Release()
		s.inside.Close()
		s.released = true
	}
	s.gate.Unlock()
	if err := s.d.groups.remove(s.name); err != nil {
		return engineError("remove control group", err)
	}
	if s.unmount != nil {
		if err := s.unmount(); err != nil {
			return engineError("remove root file system", err)
		}
	}
	if err := removeAll(s.dir); err != nil {
		return engineError("remove sandbox", err)
	}
	if s.image.Release != nil {
		if err := s.image.Release(); err != nil {
			return engineError("release image", err)
		}
	}
	s.finished = true
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	delete(s.d.live, s)
	return nil
}

// Changed is layer.Changed; the other ways to make a root keep what is written in
// forms of their own, or with the image.
func (s *Sandbox) Changed(ctx context.Context) ([]sandbox.Change, error) {
	if s.d.rootfs.kind != "overlay" {
		return nil, errors.ErrUnsupported
	}
	return layer.Changed(ctx, s.folders.upper, s.image.Lower)
}
