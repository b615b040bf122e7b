package buildkit

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/containerd/containerd/v2/core/diff/apply"
	"github.com/containerd/containerd/v2/core/metadata"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/plugins/content/local"
	"github.com/containerd/containerd/v2/plugins/diff/walking"
	"github.com/containerd/platforms"
	cachemetadata "github.com/moby/buildkit/cache/metadata"
	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/client/llb/sourceresolver"
	"github.com/moby/buildkit/executor/resources"
	"github.com/moby/buildkit/executor/runcexecutor"
	"github.com/moby/buildkit/exporter"
	"github.com/moby/buildkit/session"
	containerdsnapshot "github.com/moby/buildkit/snapshot/containerd"
	"github.com/moby/buildkit/solver"
	"github.com/moby/buildkit/solver/pb"
	"github.com/moby/buildkit/util/db/boltutil"
	"github.com/moby/buildkit/util/leaseutil"
	"github.com/moby/buildkit/util/network/netproviders"
	"github.com/moby/buildkit/version"
	"github.com/moby/buildkit/worker/base"
	specs "github.com/opencontainers/image-spec/specs-go/v1"
	bolt "go.etcd.io/bbolt"
)

// namespace is where BuildKit keeps its things in containerd's metadata.
const namespace = "buildkit"

// evalWorker is BuildKit's worker with an exporter and a source of our own: both
// know the image store.
type evalWorker struct {
	*base.Worker
	d    *daemon
	snap snapshots.Snapshotter
}

// newWorker does what worker/runc.NewWorkerOpt does, but for what that one does
// not give out.
func newWorker(ctx context.Context, d *daemon) (*evalWorker, error) {
	b := d.b
	snap, err := b.snap.open(filepath.Join(b.root(), "snapshots"))
	if err != nil {
		return nil, err
	}
	opt, err := workerOptions(ctx, b, b.root(), snap)
	if err != nil {
		return nil, errors.Join(err, snap.Close())
	}
	inner, err := base.NewWorker(ctx, opt)
	if err != nil {
		return nil, errors.Join(err, opt.MetadataStore.Close(), opt.ContentMetadata.Close(), snap.Close())
	}
	w := &evalWorker{Worker: inner, d: d, snap: snap}
	inner.SourceManager.Register(&imageSource{Source: inner.ImageSource, w: w})
	return w, nil
}

// Close also closes the snapshotter, whose database a worker otherwise keeps open
// until its process ends.
func (w *evalWorker) Close() error { return errors.Join(w.Worker.Close(), w.snap.Close()) }

func workerOptions(ctx context.Context, b *BuildKit, root string, snap snapshots.Snapshotter) (base.WorkerOpt, error) {
	fail := func(err error) (base.WorkerOpt, error) { return base.WorkerOpt{}, err }
	// Build steps see the network as this process does.
	networks, _, mode, err := netproviders.Providers(netproviders.Opt{Mode: "host"})
	if err != nil {
		return fail(err)
	}
	monitor, err := resources.NewMonitor()
	if err != nil {
		return fail(err)
	}
	exe, err := runcexecutor.New(runcexecutor.Opt{
		Root: filepath.Join(root, "executor"), CommandCandidates: []string{b.runtime}, Rootless: b.o.Rootless, ResourceMonitor: monitor,
	}, networks)
	if err != nil {
		return fail(err)
	}
	content, err := local.NewStore(filepath.Join(root, "content"))
	if err != nil {
		return fail(err)
	}
	id, err := base.ID(root)
	if err != nil {
		return fail(err)
	}
	db, err := boltutil.Open(filepath.Join(root, "containerdmeta.db"), 0o644, &bolt.Options{FreelistType: bolt.FreelistMapType, NoFreelistSync: true})
	if err != nil {
		return fail(err)
	}
	mdb := metadata.NewDB(db, content, map[string]snapshots.Snapshotter{b.snap.name: snap})
	if err := mdb.Init(ctx); err != nil {
		db.Close()
		return fail(err)
	}
	md, err := cachemetadata.NewStore(filepath.Join(root, "metadata_v2.db"))
	if err != nil {
		db.Close()
		return fail(err)
	}
	c := containerdsnapshot.NewContentStore(mdb.ContentStore(), namespace)
	return base.WorkerOpt{
		ID: id, Root: root, Labels: map[string]string{"org.mobyproject.buildkit.worker.network": mode},
		BuildkitVersion: client.BuildkitVersion{Package: version.Package, Version: version.Version, Revision: version.Revision},
		MetadataStore:   md, ContentMetadata: db, NetworkProviders: networks, Executor: exe,
		Snapshotter:  containerdsnapshot.NewSnapshotter(b.snap.name, mdb.Snapshotter(b.snap.name), namespace, nil),
		ContentStore: c, Applier: apply.NewFileSystemApplier(c), Differ: walking.NewWalkingDiff(c),
		Platforms:      []specs.Platform{platforms.Normalize(platforms.DefaultSpec())},
		LeaseManager:   leaseutil.WithNamespace(metadata.NewLeaseManager(mdb), namespace),
		GarbageCollect: mdb.GarbageCollect, MountPoolRoot: filepath.Join(root, "cachemounts"), ResourceMonitor: monitor,
	}, nil
}

// Exporter gives out ours beside BuildKit's own.
func (w *evalWorker) Exporter(name string, sm *session.Manager) (exporter.Exporter, error) {
	if name == exporterName {
		return imageExporter{w.d}, nil
	}
	return w.Worker.Exporter(name, sm)
}

// ResolveSourceMetadata tells about images of the store without a registry.
func (w *evalWorker) ResolveSourceMetadata(ctx context.Context, op *pb.SourceOp, opt sourceresolver.Opt, sm *session.Manager, jobCtx solver.JobContext) (*sourceresolver.MetaResponse, error) {
	if img, ok := w.d.b.images.source(op.Identifier); ok {
		return &sourceresolver.MetaResponse{Op: op, Image: &sourceresolver.ResolveImageResponse{Digest: img.manifest(), Config: img.Config}}, nil
	}
	return w.Worker.ResolveSourceMetadata(ctx, op, opt, sm, jobCtx)
}
