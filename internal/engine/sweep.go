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
// that is used: in the folder of the embedded engine, and in Docker and Podman if they
// answer at once.
func SweepOthers(ctx context.Context, o Options, used *Engine) (swept int, err error) {
	others := map[string]func(context.Context, Options) (int, error){
		Embedded: sweepFolder,
		Docker:   sweepDaemon(docker.Connect),
		Podman:   sweepDaemon(connectPodman),
	}
	delete(others, used.Name)
	for _, sweep := range others {
		n, failed := sweep(ctx, o)
		swept, err = swept+n, errors.Join(err, failed)
	}
	return swept, err
}

func sweepFolder(ctx context.Context, o Options) (int, error) {
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

func sweepDaemon(connect func(context.Context) (*docker.Client, error)) func(context.Context, Options) (int, error) {
	return func(ctx context.Context, o Options) (int, error) {
		ctx, cancel := context.WithTimeout(ctx, quickLook)
		defer cancel()
		c, err := connect(ctx)
		if err != nil {
			return 0, nil // there is none
		}
		lease(o, c)
		n, err := c.Sweep(ctx)
		return n, errors.Join(err, c.Close())
	}
}
