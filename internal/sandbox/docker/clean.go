package docker

import (
	"context"

	cerrdefs "github.com/containerd/errdefs"
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
