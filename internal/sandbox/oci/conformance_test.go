package oci

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/oci/ocitest"
	"github.com/evalrun/evalrun/internal/sandbox/sandboxtest"
)

// oneImage is an image in a folder.
type oneImage string

func (dir oneImage) Root(_ context.Context, image string) (Root, error) {
	if image != ocitest.Image {
		return Root{}, fmt.Errorf("there is no image %q", image)
	}
	return Root{Lower: []string{string(dir)}, Env: ocitest.Env}, nil
}

// open makes a driver with a folder of its own and checks at the end that nothing
// is left in it.
func openDriver(t testing.TB, runtime string) *Driver {
	t.Helper()
	d, err := New(context.Background(), Options{Dir: filepath.Join(t.TempDir(), "oci"), Runtime: runtime, Images: oneImage(ocitest.RootFS(t))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if left, err := filepath.Glob(filepath.Join(d.state.dir, "runs", "*")); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
	return d
}

func (d *Driver) count(t testing.TB) int {
	t.Helper()
	boxes, err := d.state.boxes()
	if err != nil {
		t.Fatal(err)
	}
	return len(boxes)
}

// leaks lists what is left on the machine of the sandboxes of a driver.
func (d *Driver) leaks(t testing.TB) []string { return leftBehind(t, filepath.Base(d.state.run)) }

func TestConformance(t *testing.T) {
	for i, runtime := range ocitest.Runtimes(t) {
		t.Run(filepath.Base(runtime), func(t *testing.T) {
			d := openDriver(t, runtime)
			sandboxtest.Run(t, func(*testing.T) sandbox.Driver { return d }, ocitest.Image, sandboxtest.Options{
				Count:        d.count,
				Capabilities: "00000000000004fb",
				Leaks:        d.leaks,
				Slow:         i > 0, // one of them goes through all
			})
		})
	}
}
