package images_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/evalrun/evalrun/images"
)

// scripts is the digest of the layers' scripts at a revision.
var scripts = map[int64]string{
	3: "cd940b0efa228f88ecfae7c00ae04733bad7024d80eaa1f50430386f568f98ab",
}

// A layer whose script changed is another layer, though no key says so by itself.
func TestRevisionFollowsTheScripts(t *testing.T) {
	h := sha256.New()
	for _, pattern := range []string{"base/*.sh", "env/*.sh", "instance/*.sh", "instance/*.py"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			h.Write([]byte(f))
			h.Write(data)
		}
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != scripts[images.Revision] {
		t.Errorf("the scripts' digest is %s. If what a layer holds has changed, raise images.Revision and add the digest here; if only words have, change the digest", got)
	}
}
