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
	4: "715a29e1f2dfedaaeb6a1709a32c2d9780a31222c4e215029128fa45df5ad162",
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
			if f == "instance/scrub.sh" {
				continue // has a key of its own
			}
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
