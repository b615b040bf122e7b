package oci

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// copyLayers makes the root by copying the layers over each other, the lowest
// first: slow and large, but it works everywhere.
func copyLayers(ctx context.Context, f folders, lower []string) error {
	// One folder under both names, so that what is written is measured alike.
	if err := os.Remove(f.upper); err != nil {
		return err
	}
	if err := os.Symlink(filepath.Base(f.root), f.upper); err != nil {
		return err
	}
	for i, layer := range slices.Backward(lower) {
		if i < len(lower)-1 {
			if err := hide(layer, f.root); err != nil {
				return err
			}
		}
		out, err := exec.CommandContext(ctx, "cp", "-a", "--reflink=auto", layer+"/.", f.root).CombinedOutput()
		if err != nil {
			return fmt.Errorf("copy layer: %w: %s", err, bytes.TrimSpace(out))
		}
		if err := walkWhiteouts(layer, func(name string) error { return os.Remove(filepath.Join(f.root, name)) }, nil); err != nil {
			return err
		}
	}
	return nil
}

// hide removes from root what a layer says is no longer there, and what a file
// would be copied over that cannot take it.
func hide(layer, root string) error {
	remove := func(name string) error { return os.RemoveAll(filepath.Join(root, name)) }
	return walkWhiteouts(layer, remove, func(name string, d fs.DirEntry) error {
		path := filepath.Join(root, name)
		below, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if opaque(filepath.Join(layer, name)) || !d.IsDir() || !below.IsDir() {
			return os.RemoveAll(path)
		}
		return nil
	})
}

// walkWhiteouts walks a layer in overlayfs's format.
func walkWhiteouts(layer string, whiteout func(name string) error, other func(name string, d fs.DirEntry) error) error {
	return filepath.WalkDir(layer, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == layer {
			return err
		}
		name, err := filepath.Rel(layer, path)
		if err != nil {
			return err
		}
		if d.Type()&fs.ModeCharDevice != 0 {
			var st unix.Stat_t
			if err := unix.Lstat(path, &st); err != nil {
				return err
			}
			if st.Rdev == 0 {
				return whiteout(name)
			}
		}
		if other == nil {
			return nil
		}
		return other(name, d)
	})
}

// opaque reports whether a folder of a layer hides the one below it.
func opaque(dir string) bool {
	for _, name := range []string{"trusted.overlay.opaque", "user.overlay.opaque"} {
		value := make([]byte, 1)
		if n, err := unix.Lgetxattr(dir, name, value); err == nil && n == 1 && value[0] == 'y' {
			return true
		}
	}
	return false
}
