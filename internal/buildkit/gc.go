package buildkit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/moby/buildkit/cache"
	"github.com/moby/buildkit/client"
	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"
)

// recent is how long an image counts as used after it was asked for: whoever
// asked may be about to start a sandbox from it.
const recent = time.Hour

// pin keeps BuildKit from removing an image's layers.
type pin struct{ ref cache.ImmutableRef }

// pin holds an image that was just made.
func (d *daemon) pin(id digest.Digest, ref cache.ImmutableRef) {
	d.mu.Lock()
	old, ok := d.pins[id]
	d.pins[id] = pin{ref}
	d.exported = true
	d.mu.Unlock()
	if ok {
		old.ref.Release(context.Background())
	}
}

func (d *daemon) unpin(id digest.Digest) {
	d.mu.Lock()
	p, ok := d.pins[id]
	delete(d.pins, id)
	d.mu.Unlock()
	if ok {
		p.ref.Release(context.Background())
	}
}

func (d *daemon) releasePins() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.pins {
		p.ref.Release(context.Background())
	}
	clear(d.pins)
}

// collect brings the state back to its budget: build cache goes before images,
// and what was not used for longest goes first. Builds may go on meanwhile.
func (d *daemon) collect(ctx context.Context) error {
	d.mu.Lock()
	due := d.exported
	d.exported = false
	d.mu.Unlock()
	if !due {
		return nil
	}
	return d.shrink(ctx, d.b.o.Budget)
}

func (d *daemon) shrink(ctx context.Context, budget int64) error {
	unused, err := d.pinImages(ctx)
	if err != nil {
		return err
	}
	defer d.noteUsage(ctx)
	for {
		used, err := d.used(ctx)
		if err != nil {
			return err
		}
		limit := budget
		if limit <= 0 {
			limit = mostOf(d.b.o.Dir, used)
		}
		if used <= limit {
			return nil
		}
		if err := d.worker.Prune(ctx, nil, client.PruneInfo{All: true, MaxUsedSpace: limit}); err != nil {
			return err
		}
		if used, err = d.used(ctx); err != nil || used <= limit || len(unused) == 0 {
			return err
		}
		// One at a time: how much a layer that others share frees is not known before.
		img := unused[0]
		unused = unused[1:]
		if ok, err := d.b.images.remove(img); err != nil {
			return err
		} else if ok {
			d.unpin(img)
		}
	}
}

// pinImages holds the layers of all images, and lists those that may go: nobody
// uses them, and the one not asked for for longest is first.
func (d *daemon) pinImages(ctx context.Context) ([]digest.Digest, error) {
	all, err := d.b.images.all()
	if err != nil {
		return nil, err
	}
	type candidate struct {
		id   digest.Digest
		used time.Time
	}
	var old []candidate
	for _, img := range all {
		if img.CacheID == "" {
			continue
		}
		d.mu.Lock()
		_, pinned := d.pins[img.Digest]
		d.mu.Unlock()
		if !pinned {
			ref, err := d.worker.CacheMgr.Get(ctx, img.CacheID, nil, cache.NoUpdateLastUsed)
			if err != nil {
				// Its layers are gone.
				if loaded, err := d.b.images.load(img.Digest); err == nil && loaded == nil {
					d.b.images.remove(img.Digest)
				}
				continue
			}
			d.mu.Lock()
			d.pins[img.Digest] = pin{ref}
			d.mu.Unlock()
		}
		info, err := os.Stat(d.b.images.lock(img.Digest).Path())
		if err == nil && time.Since(info.ModTime()) > recent {
			old = append(old, candidate{img.Digest, info.ModTime()})
		}
	}
	slices.SortFunc(old, func(a, b candidate) int { return a.used.Compare(b.used) })
	var ids []digest.Digest
	for _, c := range old {
		ids = append(ids, c.id)
	}
	return ids, nil
}

// Usage is what an embedded engine's state holds.
type Usage struct {
	Images int   `json:"images"`
	Bytes  int64 `json:"bytes"` // images and build cache, when the last build ended
}

const usageFile = "usage.json"

// noteUsage writes down what there is, for those who ask without the databases.
func (d *daemon) noteUsage(ctx context.Context) {
	if n, err := d.used(ctx); err == nil {
		writeJSON(filepath.Join(d.b.o.Dir, usageFile), Usage{Bytes: n})
	}
}

// Usage tells what there is; it waits for nobody.
func (b *BuildKit) Usage() (Usage, error) {
	var u Usage
	if _, err := readJSON(filepath.Join(b.o.Dir, usageFile), &u); err != nil {
		return u, err
	}
	all, err := b.images.all()
	u.Images = len(all)
	return u, err
}

// used is what BuildKit's records take on disk.
func (d *daemon) used(ctx context.Context) (int64, error) {
	records, err := d.worker.DiskUsage(ctx, client.DiskUsageInfo{})
	var sum int64
	for _, r := range records {
		sum += r.Size
	}
	return sum, err
}

// mostOf is the budget when none is given: a tenth of the disk stays free, and 2
// GiB at least.
func mostOf(dir string, used int64) int64 {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil || st.Blocks == 0 { // some file systems do not count
		return used
	}
	size, free := int64(st.Blocks)*st.Bsize, int64(st.Bavail)*st.Bsize
	return max(1, used+free-max(2<<30, size/10))
}

// RemoveImages removes all images nobody uses, the build cache with them, and
// returns how many images went.
func (b *BuildKit) RemoveImages(ctx context.Context) (int, error) {
	d, done, err := b.use(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	all, err := b.images.all()
	if err != nil {
		return 0, err
	}
	if _, err := d.pinImages(ctx); err != nil {
		return 0, err
	}
	removed := 0
	var errs []error
	for _, img := range all {
		ok, err := b.images.remove(img.Digest)
		if err != nil {
			errs = append(errs, fmt.Errorf("remove image %s: %w", img.Digest, err))
		} else if ok {
			d.unpin(img.Digest)
			removed++
		}
	}
	errs = append(errs, d.worker.Prune(ctx, nil, client.PruneInfo{All: true}))
	d.noteUsage(ctx)
	return removed, errors.Join(errs...)
}

// EachImage gives the images of the store, which are all evalrun's: what the layers of one
// take that are of no image it stands on, nor counted with another one, and when it, or
// one that stands on it, was last asked for. One that was pulled is without a kind.
func (b *BuildKit) EachImage(ctx context.Context, known func(id string) (used time.Time, pulled bool), f func(id, name, kind string, bytes int64, used time.Time)) error {
	all, err := b.images.all()
	if err != nil || len(all) == 0 {
		return err
	}
	d, done, err := b.use(ctx)
	if err != nil {
		return err
	}
	defer done()
	records, err := d.worker.DiskUsage(ctx, client.DiskUsageInfo{})
	if err != nil {
		return err
	}
	tags, err := b.images.tags()
	if err != nil {
		return err
	}
	names := map[digest.Digest]string{}
	for _, t := range tags {
		names[t.Digest] = t.Ref
	}
	sizes, used := ownSizes(records, all), b.images.lastUsed(all, known)
	for i, img := range all {
		config, err := img.config()
		if err != nil {
			continue
		}
		f(string(img.Digest), cmp.Or(names[img.Digest], string(img.Digest)), config.Config.Labels["evalrun.kind"], sizes[img.CacheID], used[i])
	}
	return nil
}

// lastUsed is when each image, or one that stands on it, was asked for.
func (s *store) lastUsed(all []*image, known func(id string) (used time.Time, pulled bool)) []time.Time {
	asked := make([]time.Time, len(all))
	for i, img := range all {
		asked[i], _ = known(string(img.Digest))
		if info, err := os.Stat(s.lock(img.Digest).Path()); err == nil && info.ModTime().After(asked[i]) {
			asked[i] = info.ModTime()
		}
	}
	last := slices.Clone(asked)
	for i, below := range all {
		for j, img := range all {
			if asked[j].After(last[i]) && img.standsOn(below) {
				last[i] = asked[j]
			}
		}
	}
	return last
}

// standsOn reports whether an image has all layers of another one below its own.
func (i *image) standsOn(below *image) bool {
	own := len(i.Layers) - len(below.Layers)
	return len(below.Layers) > 0 && own >= 0 && slices.Equal(i.Layers[own:], below.Layers)
}

// ownSizes are, by the record an image ends with, the bytes of those it consists of but
// for those of other images it stands on. What several share otherwise is counted once.
func ownSizes(records []*client.UsageInfo, images []*image) map[string]int64 {
	byID := make(map[string]*client.UsageInfo, len(records))
	for _, r := range records {
		byID[r.ID] = r
	}
	ends := map[string]bool{}
	for _, img := range images {
		ends[img.CacheID] = true
	}
	own := map[string]int64{}
	seen := map[string]bool{}
	for _, img := range images {
		end := img.CacheID
		next := []string{end}
		for len(next) > 0 {
			id := next[len(next)-1]
			next = next[:len(next)-1]
			r := byID[id]
			if r == nil || seen[id] || id != end && ends[id] {
				continue
			}
			seen[id] = true
			own[end] += max(0, r.Size) // below 0 it is not known
			next = append(next, r.Parents...)
		}
	}
	return own
}

// RemoveImage removes one image, unless it is in use, and what of the build cache
// stood on it alone.
func (b *BuildKit) RemoveImage(ctx context.Context, id string) (bool, error) {
	d, done, err := b.use(ctx)
	if err != nil {
		return false, err
	}
	defer done()
	if _, err := d.pinImages(ctx); err != nil { // the others must not go with it
		return false, err
	}
	img, err := b.images.find(id)
	if err != nil || img == nil {
		return false, err
	}
	ok, err := b.images.remove(img.Digest)
	if !ok || err != nil {
		return false, err
	}
	d.unpin(img.Digest)
	defer d.noteUsage(ctx)
	return true, d.worker.Prune(ctx, nil, client.PruneInfo{All: true})
}
