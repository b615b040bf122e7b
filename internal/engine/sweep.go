package engine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/evalrun/evalrun/internal/sandbox/docker"
	"github.com/evalrun/evalrun/internal/sandbox/oci"
)

// leaseDir is where processes say that they live, below the cache folder.
func leaseDir(cacheDir string) string { return filepath.Join(cacheDir, "leases") }

// lease keeps what is made through a daemon from being swept while this process lives.
func lease(o Options, c *docker.Client) {
	if o.CacheDir == "" {
		return
	}
	if err := c.Lease(leaseDir(o.CacheDir)); err != nil && o.Say != nil {
		o.Say("warning: no lease can be taken, and others that use the daemon have only labels to go by: " + err.Error())
	}
}

// quickLook is what a daemon that is not used may take to be looked at.
const quickLook = 3 * time.Second

// SweepOthers removes what runs that are over have left on engines other than the one
// that is used, where they can be reached without starting anything: in the folder of
// the embedded engine, and in Docker if it answers at once.
func SweepOthers(ctx context.Context, o Options, used *Engine) (int, error) {
	if used.Name != Embedded {
		dir := sandboxDir(o.CacheDir)
		if os.Geteuid() != 0 || !oci.HasLeftovers(dir) {
			return 0, nil
		}
		d, err := oci.New(ctx, oci.Options{Dir: dir})
		if err != nil {
			return 0, err
		}
		n, err := d.Sweep(ctx)
		return n, errors.Join(err, d.Close())
	}
	ctx, cancel := context.WithTimeout(ctx, quickLook)
	defer cancel()
	c, err := docker.Connect(ctx)
	if err != nil {
		return 0, nil // there is none
	}
	lease(o, c)
	n, err := c.Sweep(ctx)
	return n, errors.Join(err, c.Close())
}
