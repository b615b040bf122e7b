package cache

import (
	"fmt"
	"os"
	"path/filepath"
)

// Dir names the folder that holds everything evalrun keeps between runs:
// $EVALRUN_CACHE, else $XDG_CACHE_HOME/evalrun, else ~/.cache/evalrun. It does
// not create it.
//
// Without a home folder (a bare service account) it is a folder of this user
// below the system's temporary folder, so that a run works, if only for once.
func Dir() string {
	if dir := os.Getenv("EVALRUN_CACHE"); dir != "" {
		if abs, err := filepath.Abs(dir); err == nil {
			return abs
		}
		return dir
	}
	// The XDG specification says that a relative path is to be ignored.
	if dir := os.Getenv("XDG_CACHE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "evalrun")
	}
	if home, err := os.UserHomeDir(); err == nil && filepath.IsAbs(home) {
		return filepath.Join(home, ".cache", "evalrun")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("evalrun-cache-%d", os.Getuid()))
}
