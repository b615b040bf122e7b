package docker

import (
	"cmp"
	"context"
	"slices"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
)

// labelKind is on every image the builder makes, and on no other.
const labelKind = "evalrun.kind"

// RemoveImages removes the images evalrun has built, instances before what they
// stand on, and returns how many went. One that is in use stays.
func (c *Client) RemoveImages(ctx context.Context) (int, error) {
	removed := 0
	for _, kind := range []string{"instance", "env", "base"} {
		list, err := c.api.ImageList(ctx, image.ListOptions{All: false, Filters: filters.NewArgs(filters.Arg("label", labelKind+"="+kind))})
		if err != nil {
			return removed, engineError("list images", err)
		}
		for _, img := range list {
			_, err := c.api.ImageRemove(ctx, img.ID, image.RemoveOptions{Force: true, PruneChildren: true})
			switch {
			case err == nil:
				removed++
			case !cerrdefs.IsNotFound(err) && !cerrdefs.IsConflict(err):
				return removed, engineError("remove image "+img.ID, err)
			}
		}
	}
	return removed, nil
}

// EachImage gives the images that are evalrun's: those it has built, and, without a kind,
// those of which known says that it has pulled them. Each comes with what its layers take
// that are of none before it, and with when it, or one that stands on it, was used last:
// that is for known to say, too. Of one that was never used it is when it was made.
func (c *Client) EachImage(ctx context.Context, known func(id string) (used time.Time, pulled bool), f func(id, name, kind string, bytes int64, used time.Time)) error {
	usage, err := c.api.DiskUsage(ctx, types.DiskUsageOptions{Types: []types.DiskUsageObject{types.ImageObject}})
	if err != nil {
		return engineError("measure images", err)
	}
	var all []stored
	for _, img := range usage.Images {
		s := stored{Summary: img}
		s.used, s.ours = known(img.ID)
		info, err := c.api.ImageInspect(ctx, img.ID)
		if cerrdefs.IsNotFound(err) {
			continue // it has gone meanwhile
		}
		if err != nil {
			return engineError("inspect image "+img.ID, err)
		}
		s.layers, s.ours = info.RootFS.Layers, s.ours || img.Labels[labelKind] != ""
		if s.ours && s.used.IsZero() {
			s.used = time.Unix(img.Created, 0)
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b stored) int {
		return cmp.Or(slices.Compare(a.layers, b.layers), cmp.Compare(a.ID, b.ID))
	})
	own := ownSizes(all)
	for i, img := range all {
		if img.ours {
			f(img.ID, img.name(), img.Labels[labelKind], own[i], lastUsed(all, i))
		}
	}
	return nil
}

// stored is an image in the daemon's store.
type stored struct {
	*image.Summary
	layers []string
	used   time.Time // zero is not known
	ours   bool
}

func (s stored) name() string {
	if len(s.RepoTags) > 0 {
		return s.RepoTags[0]
	}
	if len(s.RepoDigests) > 0 { // it was pulled by its digest
		return s.RepoDigests[0]
	}
	return s.ID
}

// standsOn reports whether an image begins with all layers of another one.
func (s stored) standsOn(other stored) bool {
	return len(other.layers) > 0 && inCommon(s, other) == len(other.layers)
}

// inCommon is how many layers two images begin with that are the same.
func inCommon(a, b stored) int {
	n := 0
	for n < len(a.layers) && n < len(b.layers) && a.layers[n] == b.layers[n] {
		n++
	}
	return n
}

// lastUsed is when the i-th image, or one that stands on it, was used.
func lastUsed(all []stored, i int) time.Time {
	last := all[i].used
	for _, other := range all {
		if other.used.After(last) && other.standsOn(all[i]) {
			last = other.used
		}
	}
	return last
}

// ownSizes are what the images that are ours take of their own, where all there are come
// sorted by their layers: what several have is counted with the first of them. Images
// share nothing but layers they begin with, so that what two of ours share is the image
// that one stands on, or all that one of them shares with any.
func ownSizes(all []stored) []int64 {
	own := make([]int64, len(all))
	last := -1 // of ours: none before it has more in common with the next
	for i, img := range all {
		if !img.ours {
			continue
		}
		var below int64
		for _, other := range all[:i] {
			if other.ours && img.standsOn(other) {
				below = max(below, other.Size)
			}
		}
		if last >= 0 {
			n := inCommon(all[last], img)
			for _, k := range []int{last, i} {
				if n > 0 && n == mostInCommon(all, k) {
					below = max(below, all[k].SharedSize)
				}
			}
		}
		own[i], last = max(0, img.Size-below), i
	}
	return own
}

// mostInCommon is how many layers the i-th image has in common with the one it is most
// like, which is beside it.
func mostInCommon(all []stored, i int) int {
	n := 0
	if i > 0 {
		n = inCommon(all[i-1], all[i])
	}
	if i+1 < len(all) {
		n = max(n, inCommon(all[i], all[i+1]))
	}
	return n
}

// ImageIDs are those of all images in the daemon's store.
func (c *Client) ImageIDs(ctx context.Context) (map[string]bool, error) {
	ids := map[string]bool{}
	err := c.ask(ctx, "list images", func(ctx context.Context) error {
		list, err := c.api.ImageList(ctx, image.ListOptions{})
		for _, img := range list {
			ids[img.ID] = true
		}
		return err
	})
	return ids, err
}

// RemoveImage removes one image, unless something stands on it or runs in it.
func (c *Client) RemoveImage(ctx context.Context, id string) (bool, error) {
	_, err := c.api.ImageRemove(ctx, id, image.RemoveOptions{PruneChildren: true})
	switch {
	case err == nil:
		return true, nil
	case cerrdefs.IsNotFound(err) || cerrdefs.IsConflict(err):
		return false, nil
	}
	return false, engineError("remove image "+id, err)
}
