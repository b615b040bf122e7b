package buildkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// sweep ends what a killed process has left of its builds: steps that still run,
// their mounts, and folders of both. The caller has the state to itself.
func (b *BuildKit) sweep(ctx context.Context) error {
	bundles, err := filepath.Glob(filepath.Join(b.root(), "executor", "*", "config.json"))
	if err != nil {
		return err
	}
	for _, path := range bundles {
		// Fails for a step that has ended, which is as good.
		exec.CommandContext(ctx, b.runtime, "delete", "--force", filepath.Base(filepath.Dir(path))).Run()
	}
	for _, path := range bundles {
		if err := removeSecrets(path); err != nil {
			return err
		}
	}
	if err := unmountBelow(b.o.Dir); err != nil {
		return err
	}
	for _, path := range bundles {
		os.RemoveAll(filepath.Dir(path))
	}
	return nil
}

// removeSecrets removes the secrets of a build step, each of which is mounted in
// a folder for temporary files. Only the step's own configuration says where.
func removeSecrets(config string) error {
	var step struct {
		Mounts []struct {
			Source string `json:"source"`
		} `json:"mounts"`
	}
	if _, err := readJSON(config, &step); err != nil {
		return err
	}
	for _, m := range step.Mounts {
		dir := filepath.Dir(m.Source)
		if filepath.Dir(dir) != filepath.Clean(os.TempDir()) || !strings.HasPrefix(filepath.Base(dir), "buildkit-secrets") {
			continue
		}
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("unmount %s, which a killed run has left: %w", dir, err)
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

// temporary are the names of the folders in which BuildKit and containerd mount
// for a moment.
var temporary = []string{"containerd-mount", "buildkit"}

// unmountBelow unmounts what is mounted in a folder, and what BuildKit has
// mounted from it elsewhere. Sandboxes of other processes stand on the same
// layers and stay.
func unmountBelow(dir string) error {
	mounts, err := mountinfo.GetMounts(nil)
	if err != nil {
		return fmt.Errorf("list mounts: %w", err)
	}
	below := strings.TrimSuffix(dir, "/") + "/"
	var errs []error
	for _, m := range slices.Backward(mounts) {
		ours := strings.HasPrefix(m.Mountpoint, below)
		for _, name := range temporary {
			if strings.HasPrefix(m.Mountpoint, filepath.Join(os.TempDir(), name)) && (strings.Contains(m.VFSOptions, below) || strings.Contains(m.Root, below)) {
				ours = true
			}
		}
		if !ours {
			continue
		}
		if err := unix.Unmount(m.Mountpoint, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("unmount %s, which a killed run has left: %w", m.Mountpoint, err))
		}
	}
	return errors.Join(errs...)
}
