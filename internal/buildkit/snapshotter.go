package buildkit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/plugins/snapshots/native"
	"github.com/containerd/containerd/v2/plugins/snapshots/overlay"
	"github.com/containerd/containerd/v2/plugins/snapshots/overlay/overlayutils"
	fuseoverlayfs "github.com/containerd/fuse-overlayfs-snapshotter/v2"
)

// The snapshotters, best first.
const (
	Overlay    = "overlayfs"
	fuseName   = "fuse-overlayfs"
	nativeName = "native"
)

// snapshotter is how layers are kept.
type snapshotter struct {
	name string
	why  string
	open func(root string) (snapshots.Snapshotter, error)
}

// chooseSnapshotter tries mounts below dir. Whether one works depends on the
// kernel, on the file system of dir and on what this process may do.
func chooseSnapshotter(name, dir string) (snapshotter, error) {
	overlaid := snapshotter{name: Overlay, open: func(root string) (snapshots.Snapshotter, error) {
		return overlay.NewSnapshotter(root, overlay.AsynchronousRemove)
	}}
	fused := snapshotter{name: fuseName, open: func(root string) (snapshots.Snapshotter, error) {
		return fuseoverlayfs.NewSnapshotter(root)
	}}
	copied := snapshotter{name: nativeName, open: native.NewSnapshotter}
	for _, s := range []snapshotter{overlaid, fused, copied} {
		if s.name == name {
			s.why = "as asked"
			return s, nil
		}
	}
	if name != "" {
		return snapshotter{}, fmt.Errorf("snapshotter %q: want %s, %s or %s", name, Overlay, fuseName, nativeName)
	}
	probe, err := os.MkdirTemp(dir, "probe-")
	if err != nil {
		return snapshotter{}, fmt.Errorf("the embedded engine's state: %w", err)
	}
	defer os.RemoveAll(probe)
	overlayErr := overlayutils.Supported(filepath.Join(probe, "overlay"))
	if overlayErr == nil {
		overlayErr = replacesFolders(filepath.Join(probe, "folders"))
	}
	if overlayErr == nil {
		overlaid.why = "overlayfs mounts"
		return overlaid, nil
	}
	fuseErr := fuseoverlayfs.Supported(filepath.Join(probe, "fuse"))
	if fuseErr == nil {
		fused.why = fmt.Sprintf("overlayfs does not work: %v", overlayErr)
		return fused, nil
	}
	copied.why = fmt.Sprintf("every layer is a full copy, because overlayfs does not work (%v), nor fuse-overlayfs (%v)", overlayErr, fuseErr)
	return copied, nil
}

// replacesFolders tries whether a folder of a lower layer can be removed and made
// again: that takes extended attributes, without which overlayfs mounts all the same.
func replacesFolders(dir string) (err error) {
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"lower/folder/below", "upper", "work", "merged"} {
		if err := os.MkdirAll(in(name), 0o700); err != nil {
			return err
		}
	}
	options := []string{"lowerdir=" + in("lower"), "upperdir=" + in("upper"), "workdir=" + in("work")}
	if user, err := overlayutils.NeedsUserXAttr(dir); err == nil && user {
		options = append(options, "userxattr")
	}
	if err := mount.All([]mount.Mount{{Type: "overlay", Source: "overlay", Options: options}}, in("merged")); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, mount.UnmountAll(in("merged"), 0)) }()
	folder := in("merged/folder")
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		return errors.Join(err, fmt.Errorf("a folder that was removed and made again holds %d entries of before", len(left)))
	}
	return nil
}
