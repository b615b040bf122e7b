// Package engine pairs something that builds images with something that runs
// sandboxes from them, and finds out what this machine offers.
//
// It must not know instances, patches or verdicts.
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/evalrun/evalrun/images/builder"
	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/docker"
)

// Engine is a builder and a sandbox that share an image store.
type Engine struct {
	Name    string // docker, podman or embedded
	Why     string // it was taken, in words
	Info    Info
	Images  Store
	Sandbox sandbox.Driver
	Close   func() error

	// Disk is what the embedded solver's images take, in words; nil for daemons,
	// which tell it themselves.
	Disk func() (string, error)

	unenforced []string
}

// Info is what an engine says of itself.
type Info struct {
	Version       string
	APIVersion    string // "" without a daemon
	StorageDriver string
	CgroupVersion string // "1", "2" or "none"
	Runtime       string
	Kernel        string
	Architecture  string // as in x86_64 or amd64
	CPUs          int
	MemoryBytes   int64 // of the machine; 0 is unknown

	// StateDir is where it keeps images and what sandboxes write: a path of this
	// machine, never for a report; "" where it is on another one.
	StateDir string
	// Store tells its image store from all others; "" is the one in the cache folder.
	Store string
}

// Store is the engine's image store and solver.
type Store interface {
	builder.Engine
	ImageEnv(ctx context.Context, ref string) ([]string, error)
	RepoDigest(ctx context.Context, ref string) string
	RemoveImages(ctx context.Context) (int, error)
	// EachImage gives the images that are evalrun's: the layer each is, "" where it was
	// pulled, the bytes of its own, and when it was last used, as far as that is known.
	// What is known of an image beside the store (when a run took it last, and whether
	// evalrun has pulled it) is asked for, once for each there is.
	EachImage(ctx context.Context, known func(id string) (used time.Time, pulled bool), f func(id, name, kind string, bytes int64, used time.Time)) error
	// RemoveImage removes one image; false is one that is in use, or gone.
	RemoveImage(ctx context.Context, id string) (bool, error)
}

// Options say which engine, and how the embedded one is set up.
type Options struct {
	Name     string       // docker, podman, embedded, or auto
	CacheDir string       // the embedded engine's state is below it
	Runtime  string       // OCI runtime of the sandboxes; "" takes one
	Budget   int64        // bytes the embedded engine's images may use; 0 leaves a tenth of the disk free
	Say      func(string) // tells people what is waited for; may be nil
}

// names of the engines there are.
const (
	Auto     = "auto"
	Docker   = "docker"
	Podman   = "podman"
	Embedded = "embedded"
)

// errRefused is of an engine that answers and cannot do what was asked: another one
// must not be taken in silence.
var errRefused = errors.New("the engine answers, and does not have what was asked for")

// Open connects to the engine asked for. Auto takes a daemon that answers, and
// else the embedded engine.
func Open(ctx context.Context, o Options) (*Engine, error) {
	switch o.Name {
	case Docker:
		return openDocker(ctx, o, "as asked")
	case Podman:
		return openPodman(ctx, o, "as asked")
	case Embedded:
		return openEmbedded(ctx, o, "as asked")
	case Auto:
	default:
		return nil, fmt.Errorf("engine %q: want docker, podman, embedded or auto", o.Name)
	}
	e, dockerErr := openDocker(ctx, o, "its socket answers")
	if dockerErr == nil || errors.Is(dockerErr, errRefused) {
		return e, dockerErr
	}
	e, podmanErr := openPodman(ctx, o, "its socket answers")
	if podmanErr == nil {
		return e, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	e, err := openEmbedded(ctx, o, dockerErr.Error())
	if err != nil {
		return nil, fmt.Errorf("no engine can be used here (see `evalrun doctor`):\n  docker: %w\n  podman: %w\n  embedded: %w", dockerErr, podmanErr, err)
	}
	return e, nil
}

// openDocker opens what DOCKER_HOST names, which may be Podman, too.
func openDocker(ctx context.Context, o Options, why string) (*Engine, error) {
	c, err := docker.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if c.Podman() {
		return podmanEngine(ctx, o, c, why)
	}
	return dockerEngine(ctx, o, c, why)
}

func dockerEngine(ctx context.Context, o Options, c *docker.Client, why string) (*Engine, error) {
	if o.Runtime != "" {
		if err := c.UseRuntime(ctx, o.Runtime); err != nil {
			return nil, errors.Join(errRefused, err, c.Close())
		}
	}
	i, err := c.Info(ctx)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	lease(o, c)
	return &Engine{
		Name: Docker, Why: why, Images: c, Sandbox: c, Close: c.Close, unenforced: c.Unenforced(i),
		Info: Info{Version: i.Version, APIVersion: i.APIVersion, StorageDriver: i.StorageDriver, CgroupVersion: i.CgroupVersion, Runtime: i.Runtime,
			Kernel: i.Kernel, Architecture: i.Architecture, CPUs: i.CPUs, MemoryBytes: i.MemoryBytes, StateDir: c.StateDir(),
			Store: cmp.Or(i.ID, "docker")},
	}, nil
}

// NeedsNamespace reports whether the engine that would be opened needs this
// process to be root in a namespace of its own first (see package rootless).
func NeedsNamespace(ctx context.Context, name string) bool {
	if os.Geteuid() == 0 {
		return false
	}
	switch name {
	case Embedded, Podman:
		return true
	case Docker, Auto:
		if c, err := docker.Connect(ctx); err == nil {
			c.Close()
			return c.Podman()
		}
	}
	return name == Auto
}

// String says in one line what the engine is and why it was taken.
func (e *Engine) String() string {
	parts := []string{e.Name, e.Info.Version, e.Info.StorageDriver, e.Info.Runtime}
	var said []string
	for _, p := range parts {
		if p != "" {
			said = append(said, p)
		}
	}
	return fmt.Sprintf("%s (%s)", strings.Join(said, ", "), e.Why)
}

// Platform is what the engine's containers run on, as in "linux/amd64".
func (e *Engine) Platform() string {
	arch := map[string]string{"x86_64": "amd64", "aarch64": "arm64"}[e.Info.Architecture]
	return "linux/" + cmp.Or(arch, e.Info.Architecture)
}

// Unenforced are limits the engine cannot hold, in words.
func (e *Engine) Unenforced() []string { return e.unenforced }
