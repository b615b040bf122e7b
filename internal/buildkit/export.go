package buildkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/pkg/archive"
	"github.com/moby/buildkit/cache"
	"github.com/moby/buildkit/exporter"
	"github.com/moby/buildkit/exporter/containerimage/exptypes"
	"github.com/moby/buildkit/session"
	"github.com/moby/buildkit/util/overlay"
	"github.com/opencontainers/go-digest"
	specs "github.com/opencontainers/image-spec/specs-go/v1"
)

// exporterName is the exporter that leaves an image in the store.
const exporterName = "evalrun"

// manifestKey says of a build's result by which digest a registry knows it; its
// configuration is then taken as it is.
const manifestKey = "evalrun.manifest"

// imageExporter makes images of build results.
type imageExporter struct{ d *daemon }

// Resolve implements exporter.Exporter.
func (e imageExporter) Resolve(_ context.Context, id int, attrs map[string]string) (exporter.ExporterInstance, error) {
	name, err := normal(attrs["name"])
	if err != nil {
		return nil, err
	}
	return &export{d: e.d, id: id, attrs: attrs, name: name}, nil
}

type export struct {
	d     *daemon
	id    int
	attrs map[string]string
	name  string
}

func (e *export) ID() int                  { return e.id }
func (e *export) Name() string             { return "naming to " + e.name }
func (e *export) Config() *exporter.Config { return exporter.NewConfig() }
func (e *export) Type() string             { return exporterName }
func (e *export) Attrs() map[string]string { return e.attrs }

// Export implements exporter.ExporterInstance.
func (e *export) Export(ctx context.Context, src *exporter.Source, info exporter.ExportBuildInfo) (map[string]string, exporter.FinalizeFunc, exporter.DescriptorReference, error) {
	ref, key, err := single(src)
	if err != nil {
		return nil, nil, nil, err
	}
	config := exptypes.ParseKey(src.Metadata, exptypes.ExporterImageConfigKey, key)
	img := &image{Manifest: digest.Digest(src.Metadata[manifestKey]), Layers: []string{}}
	var diffs []digest.Digest
	if ref != nil {
		if img.Layers, err = e.layers(ctx, ref, info.SessionID); err != nil {
			return nil, nil, nil, err
		}
		img.CacheID = ref.ID()
		if img.Manifest == "" {
			if diffs, err = e.d.diffIDs(ctx, ref, img.Layers); err != nil {
				return nil, nil, nil, fmt.Errorf("digests of the layers of %s: %w", e.name, err)
			}
		}
	}
	if img.Config, err = complete(config, diffs, img.Manifest != ""); err != nil {
		return nil, nil, nil, err
	}
	img.Digest = digest.FromBytes(img.Config)
	if ref != nil {
		e.d.pin(img.Digest, ref.Clone())
	}
	if err := e.d.b.images.put(e.name, img); err != nil {
		return nil, nil, nil, err
	}
	return map[string]string{exptypes.ExporterImageNameKey: e.name, exptypes.ExporterImageDigestKey: img.Digest.String()}, nil, nil, nil
}

// single is the one result of a build for one platform.
func single(src *exporter.Source) (cache.ImmutableRef, *exptypes.Platform, error) {
	ps, err := exptypes.ParsePlatforms(src.Metadata)
	if err != nil {
		return nil, nil, err
	}
	if len(ps.Platforms) != 1 {
		return nil, nil, fmt.Errorf("a build for %d platforms cannot be one image", len(ps.Platforms))
	}
	ref, ok := src.FindRef(ps.Platforms[0].ID)
	if !ok && len(src.Refs) > 0 {
		return nil, nil, errors.New("the build has no result for its platform")
	}
	return ref, &ps.Platforms[0], nil
}

// layers makes sure that the layers are folders for good, and names them.
func (e *export) layers(ctx context.Context, ref cache.ImmutableRef, sessionID string) ([]string, error) {
	if err := ref.Finalize(ctx); err != nil {
		return nil, err
	}
	mountable, err := ref.Mount(ctx, true, session.NewGroup(sessionID))
	if err != nil {
		return nil, err
	}
	mounts, release, err := mountable.Mount()
	if err != nil {
		return nil, err
	}
	defer release()
	dirs, err := foldersOf(mounts)
	if err != nil {
		return nil, err
	}
	for i, dir := range dirs {
		if dirs[i], err = filepath.Rel(e.d.b.root(), dir); err != nil || strings.HasPrefix(dirs[i], "..") {
			return nil, fmt.Errorf("layer %s is outside of %s", dir, e.d.b.root())
		}
	}
	return dirs, nil
}

// foldersOf returns the folders a snapshot is mounted from, topmost first.
func foldersOf(mounts []mount.Mount) ([]string, error) {
	if len(mounts) == 1 {
		m := mounts[0]
		if m.Type == "bind" || m.Type == "rbind" {
			return []string{m.Source}, nil
		}
		for _, o := range m.Options {
			if lower, ok := strings.CutPrefix(o, "lowerdir="); ok {
				return strings.Split(lower, ":"), nil
			}
		}
	}
	return nil, fmt.Errorf("a snapshot that is mounted in a way unknown here: %v", mounts)
}

// complete returns an image's configuration with its layers.
func complete(config []byte, diffs []digest.Digest, asIs bool) ([]byte, error) {
	if asIs && len(config) > 0 {
		return config, nil
	}
	if len(config) == 0 {
		config, _ = json.Marshal(specs.Image{Platform: specs.Platform{OS: "linux", Architecture: runtime.GOARCH}})
	}
	// Not through the struct: it would drop what it does not know.
	var fields map[string]any
	if err := json.Unmarshal(config, &fields); err != nil {
		return nil, fmt.Errorf("the image's configuration: %w", err)
	}
	fields["rootfs"] = specs.RootFS{Type: "layers", DiffIDs: diffs}
	delete(fields, "history")
	delete(fields, "moby.buildkit.buildinfo.v1")
	return json.Marshal(fields)
}

// diffKey is where a layer's digest is remembered: layers are shared.
const diffKey = "evalrun.diffid"

// diffIDs are the digests of the layers' content as tar, lowest first, as every
// image configuration has them. A snapshotter without separate layers gets one.
func (d *daemon) diffIDs(ctx context.Context, ref cache.ImmutableRef, layers []string) ([]digest.Digest, error) {
	var lower []string
	for _, l := range slices.Backward(layers) {
		lower = append(lower, filepath.Join(d.b.root(), l))
	}
	chain := ref.LayerChain()
	defer chain.Release(context.WithoutCancel(ctx))
	if d.b.snap.name != Overlay || len(chain) != len(lower) {
		mountable, err := ref.Mount(ctx, true, nil)
		if err != nil {
			return nil, err
		}
		mounts, release, err := mountable.Mount()
		if err != nil {
			return nil, err
		}
		defer release()
		sum, err := remembered(ref, func(w io.Writer) error {
			return mount.WithReadonlyTempMount(ctx, mounts, func(root string) error { return archive.WriteDiff(ctx, w, "", root) })
		})
		return []digest.Digest{sum}, err
	}
	var diffs []digest.Digest
	for i, dir := range lower {
		sum, err := remembered(chain[i], func(w io.Writer) error {
			return overlay.WriteUpperdir(ctx, w, dir, mountOf(lower[:i]))
		})
		if err != nil {
			return nil, err
		}
		diffs = append(diffs, sum)
	}
	return diffs, nil
}

// mountOf mounts layers read-only, the lowest first.
func mountOf(dirs []string) []mount.Mount {
	switch len(dirs) {
	case 0:
		return nil
	case 1:
		return []mount.Mount{{Type: "bind", Source: dirs[0], Options: []string{"ro", "rbind"}}}
	}
	topmost := slices.Clone(dirs)
	slices.Reverse(topmost)
	return []mount.Mount{{Type: "overlay", Source: "overlay", Options: []string{"lowerdir=" + strings.Join(topmost, ":")}}}
}

func remembered(ref cache.ImmutableRef, write func(io.Writer) error) (digest.Digest, error) {
	if known, err := ref.GetExternal(diffKey); err == nil {
		if sum := digest.Digest(known); sum.Validate() == nil {
			return sum, nil
		}
	}
	digester := digest.Canonical.Digester()
	if err := write(digester.Hash()); err != nil {
		return "", err
	}
	sum := digester.Digest()
	return sum, ref.SetExternal(diffKey, []byte(sum))
}
