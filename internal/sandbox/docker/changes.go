package docker

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/layer"
)

// Changed is layer.Changed. The error is ErrUnsupported where the daemon is
// elsewhere, keeps what is written otherwise, or does not let us read it: it would
// tell itself, but compares the whole image for it.
func (s *Sandbox) Changed(ctx context.Context) ([]sandbox.Change, error) {
	info, err := s.inspect(ctx)
	if err != nil {
		return nil, err
	}
	if info.ContainerJSONBase == nil || info.GraphDriver.Name != "overlay2" {
		return nil, errors.ErrUnsupported
	}
	if len(info.Mounts) > 0 {
		return nil, errors.ErrUnsupported // what is written to volumes is not in the layer
	}
	lower := slices.DeleteFunc(filepath.SplitList(info.GraphDriver.Data["LowerDir"]), func(dir string) bool {
		return strings.HasSuffix(dir, "-init/diff") // the daemon's own files of each container
	})
	return layer.Changed(ctx, info.GraphDriver.Data["UpperDir"], lower)
}
