package buildkit

import (
	"context"
	"fmt"
	"io"

	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/exporter/containerimage/exptypes"
	gateway "github.com/moby/buildkit/frontend/gateway/client"
)

// WriteArchive writes an image of the store as a tar that `docker load` takes,
// under a name.
func (b *BuildKit) WriteArchive(ctx context.Context, ref, name string, w io.WriteCloser) error {
	img, err := b.images.find(ref)
	if err == nil && img == nil {
		err = fmt.Errorf("image %s is not in the embedded engine's store", ref)
	}
	if err != nil {
		return err
	}
	c, done, err := b.BuildKit(ctx)
	if err != nil {
		return err
	}
	defer done()
	build := func(ctx context.Context, g gateway.Client) (*gateway.Result, error) {
		def, err := llb.Image("docker.io/evalrun/stored@"+img.Digest.String(), llb.ResolveModePreferLocal).Marshal(ctx)
		if err != nil {
			return nil, err
		}
		res, err := g.Solve(ctx, gateway.SolveRequest{Definition: def.ToPB()})
		if err == nil {
			res.AddMeta(exptypes.ExporterImageConfigKey, img.Config)
		}
		return res, err
	}
	_, err = c.Build(ctx, client.SolveOpt{Exports: []client.ExportEntry{{
		// Whoever reads it unpacks it at once.
		Type: client.ExporterDocker, Attrs: map[string]string{"name": name, "compression": "uncompressed"},
		Output: func(map[string]string) (io.WriteCloser, error) { return w, nil },
	}}}, "evalrun", build, nil)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
