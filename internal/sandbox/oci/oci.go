// Package oci runs sandboxes without a daemon: an OCI runtime (runc, crun, runsc)
// is started directly on a file system put together from an image's layers and a
// writable layer of the sandbox's own.
//
// One process of the runtime stays beside each sandbox, waits for its end and
// cleans up after it. The first process of the sandbox ends when its standard
// input does, and with it all others: what a killed evalrun leaves behind is
// folders and mounts, which Sweep removes.
//
// The package must not know patches, tests or verdicts, nor where images come
// from.
package oci

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/evalrun/evalrun/internal/cause"
	"github.com/evalrun/evalrun/internal/rootless"
	"github.com/evalrun/evalrun/internal/sandbox"
)

// Images gives the root file systems of images, by reference or digest.
type Images interface {
	Root(ctx context.Context, image string) (Root, error)
}

// Root is the file system of an image, which stays as it is until it is released.
type Root struct {
	Lower      []string // folders of the layers, the topmost first, as overlayfs takes them
	Env        []string // NAME=value
	WorkingDir string   // what the image asks for; commands say their own
	User       string   // what the image asks for; commands run as the specification says
	Release    func() error
}

// Options say how sandboxes are made.
type Options struct {
	Dir     string // where their files are; processes may share it
	Runtime string // name or path of the runtime; "" takes the first there is
	Images  Images
}

// Driver makes sandboxes.
type Driver struct {
	runtime runtime
	images  Images
	state   *state
	rootfs  rootfs
	groups  groups
	userNS  bool // we are root in a user namespace only

	mu   sync.Mutex
	live map[*Sandbox]bool
}

var _ sandbox.Driver = (*Driver)(nil)

// Info describes how the sandboxes of a driver are made.
type Info struct {
	Runtime string `json:"runtime"` // name and version
	Storage string `json:"storage"` // overlay, fuse-overlayfs or copy
	Cgroup  string `json:"cgroup"`  // 1, 2 or none
}

// New finds a runtime, and out what this machine lets it do.
func New(ctx context.Context, o Options) (*Driver, error) {
	defaultSignals()
	if err := notInChroot(); err != nil {
		return nil, err
	}
	gr := findGroups()
	rt, err := findRuntime(ctx, o.Runtime, gr)
	if err != nil {
		return nil, err
	}
	st, err := openState(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("sandboxes: %w", err)
	}
	d := &Driver{runtime: rt, images: o.Images, state: st, groups: gr, userNS: rootless.Inside(), live: map[*Sandbox]bool{}}
	if d.rootfs, err = findRootFS(ctx, filepath.Join(st.run, "try"), d.userNS); err != nil {
		return nil, errors.Join(err, st.close())
	}
	return d, nil
}

// Close destroys the sandboxes that are left and gives up the driver's folder.
func (d *Driver) Close() error {
	d.mu.Lock()
	left := make([]*Sandbox, 0, len(d.live))
	for s := range d.live {
		left = append(left, s)
	}
	d.mu.Unlock()
	var errs []error
	for _, s := range left {
		errs = append(errs, s.Destroy(context.Background()))
	}
	return errors.Join(append(errs, d.state.close())...)
}

// Info tells how sandboxes are made here.
func (d *Driver) Info() Info {
	return Info{Runtime: d.runtime.name + " " + d.runtime.version, Storage: d.rootfs.kind, Cgroup: d.groups.version}
}

// Unenforced renders the limits that cannot be held here, in words.
func (d *Driver) Unenforced() []string {
	return append(d.groups.unenforced(), fmt.Sprintf("disk: measured every %s while a command runs", sampleInterval))
}

func engineError(op string, err error) error {
	return &sandbox.EngineError{Op: "oci: " + op, Err: cause.As(cause.OfText(err.Error()), err)}
}
