package buildkit

import (
	"context"

	"github.com/moby/buildkit/cache"
	"github.com/moby/buildkit/session"
	"github.com/moby/buildkit/solver"
	"github.com/moby/buildkit/source"
	"github.com/moby/buildkit/source/containerimage"
)

// imageSource finds images of the store by name, and leaves the others to
// BuildKit, which asks a registry.
type imageSource struct {
	*containerimage.Source
	w *evalWorker
}

// Resolve implements source.Source.
func (s *imageSource) Resolve(ctx context.Context, id source.Identifier, sm *session.Manager, vtx solver.Vertex) (source.SourceInstance, error) {
	if _, ok := id.(*containerimage.ImageIdentifier); ok {
		if img, ok := s.w.d.b.images.source(id.String()); ok {
			return &storedImage{img, s.w}, nil
		}
	}
	return s.Source.Resolve(ctx, id, sm, vtx)
}

// storedImage is an image of the store as a source of a build.
type storedImage struct {
	img *image
	w   *evalWorker
}

// CacheKey implements source.SourceInstance.
func (s *storedImage) CacheKey(context.Context, solver.JobContext, int) (key, pin string, opts solver.CacheOpts, done bool, err error) {
	return "evalrun-image:" + s.img.Digest.String(), s.img.manifest().String(), nil, true, nil
}

// Snapshot implements source.SourceInstance.
func (s *storedImage) Snapshot(ctx context.Context, _ solver.JobContext) (cache.ImmutableRef, error) {
	if s.img.CacheID == "" {
		return nil, nil
	}
	return s.w.CacheMgr.Get(ctx, s.img.CacheID, nil)
}
