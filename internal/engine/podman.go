package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/singleflight"

	"github.com/evalrun/evalrun/internal/buildkit"
	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/docker"
)

// openPodman pairs Podman's service with the solver of the embedded engine:
// Podman's own builder is no BuildKit. Images are loaded into Podman when the
// first sandbox is started from them.
func openPodman(ctx context.Context, o Options, why string) (*Engine, error) {
	c, err := connectPodman(ctx)
	if err != nil {
		return nil, err
	}
	return podmanEngine(ctx, o, c, why)
}

func podmanEngine(ctx context.Context, o Options, c *docker.Client, why string) (*Engine, error) {
	if os.Geteuid() != 0 {
		return nil, errors.Join(errors.New("with Podman images are built by the embedded engine, which needs root, or a user namespace in which it is root"), c.Close())
	}
	e, err := dockerEngine(ctx, o, c, why)
	if err != nil {
		return nil, err
	}
	b, err := buildkit.Open(buildkitOptions(o))
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	images := podmanImages{b, c}
	e.Name, e.Images, e.Sandbox, e.Info.Store = Podman, images, &loader{Client: c, images: b}, ""
	e.Close = func() error { return errors.Join(c.Close(), b.Close()) }
	e.Disk = diskOf(b)
	return e, nil
}

// connectPodman tries the addresses at which Podman's service listens.
func connectPodman(ctx context.Context) (*docker.Client, error) {
	var errs []error
	for _, host := range []string{os.Getenv("CONTAINER_HOST"), "unix:///run/podman/podman.sock", "unix://" + filepath.Join(cmp.Or(os.Getenv("XDG_RUNTIME_DIR"), "/run"), "podman/podman.sock")} {
		if host == "" {
			continue
		}
		c, err := docker.ConnectTo(ctx, host)
		if err == nil && c.Podman() {
			return c, nil
		}
		if err == nil {
			err = errors.Join(fmt.Errorf("at %s there is no Podman", host), c.Close())
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("no Podman service answers: %w (start it with `podman system service -t 0`, or name it in CONTAINER_HOST)", errors.Join(errs...))
}

// podmanImages are those of the embedded engine, with their copies in Podman.
type podmanImages struct {
	*solver
	podman *docker.Client
}

// solver is a name under which it can be embedded: it has a method BuildKit.
type solver = buildkit.BuildKit

// RemoveImages implements Store.
func (p podmanImages) RemoveImages(ctx context.Context) (int, error) {
	if _, err := p.podman.RemoveImages(ctx); err != nil {
		return 0, err
	}
	return p.solver.RemoveImages(ctx)
}

// loader starts sandboxes in Podman from images of the embedded engine.
type loader struct {
	*docker.Client
	images  *buildkit.BuildKit
	flights singleflight.Group
}

// Start implements sandbox.Driver.
func (l *loader) Start(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	id, ok, err := l.images.Image(ctx, spec.Image)
	if err == nil && !ok {
		err = fmt.Errorf("image %s is not in the embedded engine's store", spec.Image)
	}
	if err != nil {
		return nil, &sandbox.EngineError{Op: "podman: find image", Err: err}
	}
	name := "localhost/evalrun/loaded:" + strings.TrimPrefix(id, "sha256:")
	if _, err, _ := l.flights.Do(name, func() (any, error) { return nil, l.load(ctx, id, name) }); err != nil {
		return nil, &sandbox.EngineError{Op: "podman: load image " + spec.Image, Err: err}
	}
	spec.Image = name
	return l.Client.Start(ctx, spec)
}

func (l *loader) load(ctx context.Context, id, name string) error {
	if _, ok, err := l.Client.Image(ctx, name); ok || err != nil {
		return err
	}
	r, w := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := l.images.WriteArchive(ctx, id, name, w)
		w.CloseWithError(err)
		written <- err
	}()
	err := l.Client.Load(ctx, r)
	r.CloseWithError(cmp.Or(err, io.ErrClosedPipe))
	return errors.Join(<-written, err)
}
