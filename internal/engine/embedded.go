package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/evalrun/evalrun/internal/buildkit"
	"github.com/evalrun/evalrun/internal/rootless"
	"github.com/evalrun/evalrun/internal/sandbox/oci"
)

// BuildKitDir is where the embedded engine keeps its images, below the cache
// folder.
func BuildKitDir(cacheDir string) string { return filepath.Join(cacheDir, "buildkit") }

// sandboxDir is where its sandboxes write.
func sandboxDir(cacheDir string) string { return filepath.Join(cacheDir, "sandboxes") }

func openEmbedded(ctx context.Context, o Options, why string) (*Engine, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("the embedded engine needs root, or a user namespace in which it is root")
	}
	b, err := buildkit.Open(buildkitOptions(o))
	if err != nil {
		return nil, err
	}
	d, err := oci.New(ctx, oci.Options{Dir: sandboxDir(o.CacheDir), Runtime: o.Runtime, Images: roots{b}})
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	name, reason := b.Snapshotter()
	if name != buildkit.Overlay {
		why += "; " + name + ": " + reason
	}
	info := d.Info()
	return &Engine{
		Name: Embedded, Why: why, Images: b, Sandbox: d, unenforced: d.Unenforced(),
		// Sandboxes go before the layers they stand on.
		Close: func() error { return errors.Join(d.Close(), b.Close()) },
		Disk:  diskOf(b),
		Info: Info{Version: "BuildKit " + buildkit.Version(), StorageDriver: name, CgroupVersion: info.Cgroup, Runtime: info.Runtime,
			Kernel: kernel(), Architecture: runtime.GOARCH, CPUs: runtime.NumCPU(), MemoryBytes: memory(), StateDir: o.CacheDir},
	}, nil
}

func buildkitOptions(o Options) buildkit.Options {
	return buildkit.Options{Dir: BuildKitDir(o.CacheDir), Budget: o.Budget, Rootless: rootless.Inside(), Say: o.Say}
}

func diskOf(b *buildkit.BuildKit) func() (string, error) {
	return func() (string, error) {
		u, err := b.Usage()
		return fmt.Sprintf("%d images, %.1f GiB with the build cache", u.Images, float64(u.Bytes)/(1<<30)), err
	}
}

// HasState reports whether an embedded engine has been used with this cache.
func HasState(cacheDir string) bool {
	_, err := os.Stat(BuildKitDir(cacheDir))
	return err == nil
}

// roots gives the sandboxes the images of a BuildKit.
type roots struct{ b *buildkit.BuildKit }

// Root implements oci.Images.
func (r roots) Root(ctx context.Context, image string) (oci.Root, error) {
	root, err := r.b.Root(ctx, image)
	return oci.Root(root), err
}

func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// memory is that of the machine, in bytes; 0 where it cannot be told.
func memory() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit)
}
