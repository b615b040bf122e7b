package buildkit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/defaults"
	"github.com/gofrs/flock"
	bkcache "github.com/moby/buildkit/cache"
	"github.com/moby/buildkit/cache/contenthash"
	"github.com/moby/buildkit/cache/remotecache"
	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/cmd/buildkitd/config"
	"github.com/moby/buildkit/control"
	"github.com/moby/buildkit/frontend"
	dockerfile "github.com/moby/buildkit/frontend/dockerfile/builder"
	"github.com/moby/buildkit/frontend/gateway/forwarder"
	"github.com/moby/buildkit/session"
	"github.com/moby/buildkit/solver"
	"github.com/moby/buildkit/solver/bboltcachestorage"
	"github.com/moby/buildkit/util/db/boltutil"
	"github.com/moby/buildkit/util/entitlements"
	"github.com/moby/buildkit/util/grpcerrors"
	"github.com/moby/buildkit/worker"
	"github.com/opencontainers/go-digest"
	bolt "go.etcd.io/bbolt"
	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
)

// daemon is BuildKit while it has the state open.
type daemon struct {
	b          *BuildKit
	state      *flock.Flock
	worker     *evalWorker
	controller *control.Controller
	server     *grpc.Server
	client     *client.Client

	stopping chan struct{}
	tasks    sync.WaitGroup // the goroutines below

	mu   sync.Mutex
	pins map[digest.Digest]pin // images by digest: collecting garbage must not take their layers
	// exported tells that there may be something to collect.
	exported bool
}

// open starts BuildKit on the state, which is locked by now.
func (b *BuildKit) open(ctx context.Context) (*daemon, error) {
	if err := b.sweep(ctx); err != nil {
		return nil, err
	}
	sessions, err := session.NewManager()
	if err != nil {
		return nil, err
	}
	d := &daemon{b: b, stopping: make(chan struct{}), pins: map[digest.Digest]pin{}}
	if d.worker, err = newWorker(ctx, d); err != nil {
		return nil, err
	}
	if d.controller, err = d.newController(sessions); err != nil {
		return nil, errors.Join(err, d.worker.Close())
	}
	if err := d.serve(); err != nil {
		return nil, errors.Join(err, d.controller.Close())
	}
	d.tasks.Add(1)
	go d.watch()
	return d, nil
}

func (d *daemon) newController(sessions *session.Manager) (*control.Controller, error) {
	workers := &worker.Controller{}
	if err := workers.Add(d.worker); err != nil {
		return nil, err
	}
	root := d.b.o.Dir
	store, err := bboltcachestorage.NewStore(filepath.Join(root, "cache.db"))
	if err != nil {
		return nil, err
	}
	historyDB, err := boltutil.SafeOpen(filepath.Join(root, "history.db"), 0o600, &bolt.Options{FreelistType: bolt.FreelistMapType, NoFreelistSync: true})
	if err != nil {
		store.Close()
		return nil, err
	}
	// Builds have logs of ours; BuildKit's own history of them is off.
	none := int64(0)
	c, err := control.NewController(control.Opt{
		SessionManager:            sessions,
		WorkerController:          workers,
		Frontends:                 map[string]frontend.Frontend{"dockerfile.v0": forwarder.NewGatewayForwarder(workers.Infos(), dockerfile.Build)},
		ResolveCacheExporterFuncs: map[string]remotecache.ResolveCacheExporterFunc{},
		ResolveCacheImporterFuncs: map[string]remotecache.ResolveCacheImporterFunc{},
		CacheManager:              solver.NewCacheManager(context.Background(), "local", store, worker.NewCacheResultStorage(workers)),
		Entitlements:              []string{entitlements.EntitlementNetworkHost.String()},
		MeterProvider:             noop.NewMeterProvider(),
		HistoryDB:                 historyDB,
		CacheStore:                store,
		LeaseManager:              d.worker.LeaseManager(),
		ContentStore:              d.worker.ContentStore(),
		HistoryConfig:             &config.HistoryConfig{MaxEntries: &none},
		GarbageCollect:            d.worker.GarbageCollect,
		GracefulStop:              d.stopping,
	})
	if err != nil {
		store.Close()
		historyDB.Close()
	}
	return c, err
}

// serve puts the client and the controller on two ends of a pipe in memory.
func (d *daemon) serve() error {
	d.server = grpc.NewServer(grpc.ChainUnaryInterceptor(grpcerrors.UnaryServerInterceptor), grpc.StreamInterceptor(grpcerrors.StreamServerInterceptor),
		grpc.MaxRecvMsgSize(defaults.DefaultMaxRecvMsgSize), grpc.MaxSendMsgSize(defaults.DefaultMaxSendMsgSize))
	d.controller.Register(d.server)
	listener := bufconn.Listen(1 << 20)
	d.tasks.Add(1)
	go func() {
		defer d.tasks.Done()
		d.server.Serve(listener) // ends with the server
	}()
	c, err := client.New(context.Background(), "", client.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		d.server.Stop()
		return err
	}
	d.client = c
	return nil
}

// collectEvery is how often a process that builds for long collects garbage.
const collectEvery = 5 * time.Minute

// watch gives the state up when another process waits for it.
func (d *daemon) watch() {
	defer d.tasks.Done()
	queue, garbage := time.NewTicker(queuePoll), time.NewTicker(collectEvery)
	defer queue.Stop()
	defer garbage.Stop()
	asked := false
	for {
		select {
		case <-d.stopping:
			return
		case <-garbage.C:
			if err := d.collect(context.Background()); err != nil {
				d.b.o.Say(fmt.Sprintf("collecting the embedded engine's garbage: %v", err))
			}
		case <-queue.C:
			if !asked && d.b.wanted() {
				asked = true
				// It ends this goroutine, so it cannot be waited for here.
				go d.b.giveUp()
			}
		}
	}
}

// close stops BuildKit and lets the next process have the state.
func (d *daemon) close(last bool) error {
	close(d.stopping)
	var errs []error
	if last {
		errs = append(errs, d.collect(context.Background()))
	}
	errs = append(errs, d.client.Close())
	d.server.Stop()
	d.tasks.Wait()
	d.releasePins()
	errs = append(errs, d.forget())
	errs = append(errs, d.controller.Close())
	errs = append(errs, d.state.Close())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stop the embedded BuildKit: %w", err)
	}
	return nil
}

// known names a record of the cache; BuildKit asks for no more where it is used.
type known struct {
	bkcache.RefMetadata
	id string
}

func (k known) ID() string { return k.id }

// forget takes what BuildKit remembers of the files of records out of the process's
// memory, where it outlives the databases it is to be written to.
func (d *daemon) forget() error {
	items, err := d.worker.MetadataStore.All()
	for _, item := range items {
		contenthash.ClearCacheContext(known{id: item.ID()})
	}
	return err
}

// RemoveAll deletes the whole state of an embedded engine that no process uses.
func RemoveAll(ctx context.Context, dir string) error {
	if _, err := os.Stat(dir); err != nil {
		return nil
	}
	state := flock.New(filepath.Join(dir, stateFile))
	defer state.Close()
	if ok, err := state.TryLock(); err != nil || !ok {
		return errors.Join(fmt.Errorf("the embedded engine's state %s is in use by another process", dir), err)
	}
	if err := unmountBelow(dir); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}
