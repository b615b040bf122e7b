package docker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evalrun/evalrun/internal/sandbox"
)

// leastFree is what must be left on the daemon's disk.
const leastFree = 16 << 20

// hostFull is an error when the disk that all containers share has no room left:
// then what runs fails without having anything to do with it. Nothing is known of
// a daemon on another machine.
func (c *Client) hostFull() error {
	dir := c.StateDir()
	if dir == "" {
		return nil
	}
	var fs unix.Statfs_t
	if unix.Statfs(dir, &fs) != nil || fs.Blocks == 0 { // some file systems do not count
		return nil
	}
	if free := int64(fs.Bavail) * fs.Bsize; free < leastFree || fs.Files > 0 && fs.Ffree < 64 {
		return &sandbox.EngineError{Op: "docker: run process", Err: fmt.Errorf("%w: %d MiB are left where the daemon keeps containers: make room (`evalrun clean --images`)", sandbox.ErrHostFull, free>>20)}
	}
	return nil
}

// StateDir is the daemon's folder on this machine, or "".
func (c *Client) StateDir() string {
	c.root.Do(func() {
		if !strings.HasPrefix(c.api.DaemonHost(), "unix://") {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if info, err := c.Info(ctx); err == nil {
			c.rootDir = info.RootDir
		}
	})
	return c.rootDir
}

// seesVolumes reports whether the daemon's volumes can be measured from here: its own
// requests do not tell their sizes, but for all of the machine's at once.
func (c *Client) seesVolumes() bool {
	dir := c.StateDir()
	if dir == "" {
		return false
	}
	err := unix.Access(filepath.Join(dir, "volumes"), unix.R_OK|unix.X_OK)
	if errors.Is(err, unix.ENOENT) {
		err = unix.Access(dir, unix.R_OK|unix.X_OK) // Podman makes it with the first volume
	}
	return err == nil
}
