package docker

import (
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

// EachImage gives the images evalrun has built: what the layers of one take that are of
// no image it stands on, and when it was made. The daemon does not know when one was
// used.
func (c *Client) EachImage(ctx context.Context, f func(id, name, kind string, bytes int64, used time.Time)) error {
	usage, err := c.api.DiskUsage(ctx, types.DiskUsageOptions{Types: []types.DiskUsageObject{types.ImageObject}})
	if err != nil {
		return engineError("measure images", err)
	}
	var ours []built
	for _, img := range usage.Images {
		if img.Labels[labelKind] == "" {
			continue
		}
		info, err := c.api.ImageInspect(ctx, img.ID)
		if cerrdefs.IsNotFound(err) {
			continue // it has gone meanwhile
		}
		if err != nil {
			return engineError("inspect image "+img.ID, err)
		}
		ours = append(ours, built{img, info.RootFS.Layers})
	}
	for _, img := range ours {
		name := img.ID
		if len(img.RepoTags) > 0 {
			name = img.RepoTags[0]
		}
		f(img.ID, name, img.Labels[labelKind], img.own(ours), time.Unix(img.Created, 0))
	}
	return nil
}

// built is an image of ours.
type built struct {
	*image.Summary
	layers []string
}

// own is what its layers take but for those of another one it stands on.
func (b built) own(all []built) int64 {
	var below int64
	for _, other := range all {
		if n := len(other.layers); n < len(b.layers) && slices.Equal(other.layers, b.layers[:n]) {
			below = max(below, other.Size)
		}
	}
	return b.Size - below
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
