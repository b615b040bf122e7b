package docker

import (
	"context"
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

// EachImage gives the images evalrun has built: what removing one would free, and
// when it was made. The daemon does not know when one was used.
func (c *Client) EachImage(ctx context.Context, f func(id, name, kind string, bytes int64, used time.Time)) error {
	usage, err := c.api.DiskUsage(ctx, types.DiskUsageOptions{Types: []types.DiskUsageObject{types.ImageObject}})
	if err != nil {
		return engineError("measure images", err)
	}
	for _, img := range usage.Images {
		kind := img.Labels[labelKind]
		if kind == "" {
			continue
		}
		name := img.ID
		if len(img.RepoTags) > 0 {
			name = img.RepoTags[0]
		}
		f(img.ID, name, kind, img.Size-max(0, img.SharedSize), time.Unix(img.Created, 0))
	}
	return nil
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
