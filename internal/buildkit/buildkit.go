// Package buildkit is BuildKit in this process: the solver, a worker that runs
// build steps with an OCI runtime, and a store of the images it has made. It
// serves the builder like a daemon's BuildKit would, and gives the folders an
// image's root file system is made of to whatever runs sandboxes.
//
// BuildKit's inside moves from release to release, so all that touches it is
// here: another version of that module should change no other package. It must
// not know what images are built for, or what runs in them.
//
// The state is a folder. Only one process at a time has its databases open. The
// others wait: they stand in a queue, and whoever has it gives it up once the
// builds under way are done and another one waits. Images are read without it,
// so a process that only runs sandboxes never waits for one that builds.
package buildkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/containerd/log"
	"github.com/gofrs/flock"
	"github.com/moby/buildkit/client"
	"golang.org/x/sys/unix"
)

// Options configure a BuildKit.
type Options struct {
	Dir         string       // where its state is
	Runtime     string       // runc or crun, a name or a path; "" finds one
	Snapshotter string       // overlayfs, fuse-overlayfs or native; "" tries them in this order
	Budget      int64        // bytes of disk that images and build cache may use; 0 leaves a tenth of the disk free
	Rootless    bool         // the process is root only in its user namespace
	Say         func(string) // tells people why it takes longer; may be nil
}

// BuildKit is a solver with its image store.
type BuildKit struct {
	o       Options
	runtime string
	snap    snapshotter
	images  *store

	mu      sync.Mutex
	changed chan struct{} // closed when any of these do
	daemon  *daemon       // nil while another process may have the state
	users   int           // builds under way
	busy    bool          // daemon is being opened or closed
	leaving bool          // another process waits: no new builds
	closed  bool
}

// Open makes the state's folder ready. It starts nothing: the solver starts
// with the first build.
func Open(o Options) (*BuildKit, error) {
	runtime, err := FindRuntime(o.Runtime)
	if err != nil {
		return nil, err
	}
	if o.Say == nil {
		o.Say = func(string) {}
	}
	// Both log to standard error on their own account, over the progress display.
	if err := log.SetLevel("error"); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	o.Dir = dir
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, fmt.Errorf("the embedded engine's state: %w", err)
	}
	snap, err := chooseSnapshotter(o.Snapshotter, dir)
	if err != nil {
		return nil, err
	}
	images, err := openStore(filepath.Join(dir, "runc-"+snap.name))
	if err != nil {
		return nil, err
	}
	return &BuildKit{o: o, runtime: runtime, snap: snap, images: images, changed: make(chan struct{})}, nil
}

// Snapshotter is the name of what keeps the layers, and why it was taken.
func (b *BuildKit) Snapshotter() (name, why string) { return b.snap.name, b.snap.why }

// Runtime is the program that runs build steps.
func (b *BuildKit) Runtime() string { return b.runtime }

// Dir is where the state is.
func (b *BuildKit) Dir() string { return b.o.Dir }

// root is the worker's folder. Layers of one snapshotter are nothing to another.
func (b *BuildKit) root() string { return b.images.root }

// ResolvesImages implements builder.Engine.
func (b *BuildKit) ResolvesImages() bool { return true }

// Exporter implements builder.Engine.
func (b *BuildKit) Exporter() string { return exporterName }

// BuildKit returns a client of the solver. It stays with this process until
// done is called.
func (b *BuildKit) BuildKit(ctx context.Context) (c *client.Client, done func(), err error) {
	d, done, err := b.use(ctx)
	if err != nil {
		return nil, nil, err
	}
	return d.client, done, nil
}

// use returns the running solver, and starts it when there is none.
func (b *BuildKit) use(ctx context.Context) (*daemon, func(), error) {
	for {
		b.mu.Lock()
		switch {
		case b.closed:
			b.mu.Unlock()
			return nil, nil, errors.New("the embedded BuildKit is closed")
		case b.daemon != nil && !b.busy && !b.leaving:
			b.users++
			d := b.daemon
			b.mu.Unlock()
			return d, sync.OnceFunc(b.leave), nil
		case b.daemon != nil || b.busy:
			changed := b.changed
			b.mu.Unlock()
			select {
			case <-changed:
			case <-ctx.Done():
				return nil, nil, context.Cause(ctx)
			}
			continue
		}
		b.busy = true
		b.mu.Unlock()
		d, err := b.start(ctx)
		b.mu.Lock()
		b.busy, b.leaving = false, false
		if err == nil {
			b.daemon = d
		}
		b.notify()
		b.mu.Unlock()
		if err != nil {
			return nil, nil, err
		}
	}
}

func (b *BuildKit) notify() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// leave ends one use.
func (b *BuildKit) leave() {
	b.makeRoom()
	b.mu.Lock()
	b.users--
	leave := b.leaving && b.users == 0
	b.mu.Unlock()
	if leave {
		b.stop(false)
	}
}

// makeRoom removes what ended steps have left, which otherwise stays for a minute or
// two, where the disk is full of it. The caller still counts as a user.
func (b *BuildKit) makeRoom() {
	var st unix.Statfs_t
	if unix.Statfs(b.o.Dir, &st) != nil || st.Blocks == 0 || int64(st.Bavail)*st.Bsize > leastFree {
		return
	}
	b.mu.Lock()
	d := b.daemon
	b.mu.Unlock()
	if d == nil {
		return
	}
	if err := d.worker.GarbageCollect(context.Background()); err != nil {
		b.o.Say(fmt.Sprintf("making room on a full disk: %v", err))
	}
}

// leastFree is what is left on a disk that counts as full.
const leastFree = 64 << 20

// giveUp stops the solver as soon as nothing is built.
func (b *BuildKit) giveUp() {
	b.mu.Lock()
	b.leaving = true
	idle := b.users == 0
	b.mu.Unlock()
	if idle {
		b.stop(false)
	}
}

// stop stops the solver if nobody uses it.
func (b *BuildKit) stop(last bool) error {
	b.mu.Lock()
	d := b.daemon
	if d == nil || b.busy || b.users > 0 {
		b.mu.Unlock()
		return nil
	}
	b.busy = true
	b.mu.Unlock()
	err := d.close(last)
	b.mu.Lock()
	b.daemon, b.busy, b.leaving = nil, false, false
	b.notify()
	b.mu.Unlock()
	return err
}

// Close stops the solver, once the builds under way have ended, and brings the
// state back to its budget.
func (b *BuildKit) Close() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	for {
		if err := b.stop(true); err != nil {
			return err
		}
		b.mu.Lock()
		gone, changed := b.daemon == nil && !b.busy, b.changed
		b.mu.Unlock()
		if gone {
			return nil
		}
		// Ends with the context of the last build.
		select {
		case <-changed:
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// How often a process in the queue tries again, and how often the one that has
// the state looks for a queue.
const (
	lockPoll  = 50 * time.Millisecond
	queuePoll = 200 * time.Millisecond
	queueFile = "queue.lock" // held by the first of those that wait
	stateFile = "state.lock" // held by the one that has the databases open
)

// start waits for its turn and opens the state.
func (b *BuildKit) start(ctx context.Context) (*daemon, error) {
	state, err := b.takeState(ctx)
	if err != nil {
		return nil, err
	}
	d, err := b.open(ctx)
	if err != nil {
		state.Close()
		return nil, fmt.Errorf("start the embedded BuildKit in %s: %w", b.o.Dir, err)
	}
	d.state = state
	return d, nil
}

func (b *BuildKit) takeState(ctx context.Context) (*flock.Flock, error) {
	queue, state := flock.New(filepath.Join(b.o.Dir, queueFile)), flock.New(filepath.Join(b.o.Dir, stateFile))
	defer queue.Close()
	for _, l := range []*flock.Flock{queue, state} {
		ok, err := l.TryLock()
		if err == nil && !ok {
			b.o.Say("another evalrun builds in this cache; waiting for its builds under way")
			ok, err = l.TryLockContext(ctx, lockPoll)
		}
		if err != nil || !ok {
			state.Close()
			if ctx.Err() != nil {
				return nil, fmt.Errorf("waiting for another evalrun that builds in %s: %w", b.o.Dir, context.Cause(ctx))
			}
			return nil, fmt.Errorf("lock %s: %w", l.Path(), err)
		}
	}
	return state, nil
}

// wanted tells whether another process waits for the state.
func (b *BuildKit) wanted() bool {
	queue := flock.New(filepath.Join(b.o.Dir, queueFile))
	defer queue.Close()
	ok, err := queue.TryLock()
	return err == nil && !ok
}
