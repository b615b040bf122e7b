package buildkit

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/evalrun/evalrun/internal/rootless"
)

// Version is the version of BuildKit in this program.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "github.com/moby/buildkit" {
				return m.Version
			}
		}
	}
	return "of unknown version"
}

// FindRuntime returns the path of the program that runs build steps: the one
// named, or runc or crun from the path.
func FindRuntime(name string) (string, error) {
	if name != "" {
		path, err := rootless.LookPath(name)
		if err != nil {
			return "", fmt.Errorf("the embedded engine's OCI runtime: %w", err)
		}
		return path, nil
	}
	for _, name := range []string{"runc", "crun"} {
		if path, err := rootless.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("the embedded engine needs an OCI runtime and neither runc nor crun is on the path: `apt-get install runc`, or name one")
}
