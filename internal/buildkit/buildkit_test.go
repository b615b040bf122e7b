package buildkit

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Layers stand on each other by name, are folders, and are there again after a
// restart, when nothing is built twice.
func TestLayers(t *testing.T) {
	for _, name := range []string{Overlay, nativeName} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t)
			if name == Overlay {
				if s, err := chooseSnapshotter("", k.dir); err != nil || s.name != name {
					t.Skipf("%s: %v", s.why, err)
				}
			}
			with := func(o *Options) { o.Snapshotter = name }
			b := k.open(with)
			k.mustBuild(b, run(k.base(), "echo base >/base; echo old >/changed"), "evalrun/base:1")
			k.mustBuild(b, run(on("evalrun/base:1"), "echo env >/env; echo new >/changed"), "evalrun/env:1")
			k.mustBuild(b, run(on("evalrun/env:1"), "cat /base /env >/instance; rm /base"), "evalrun/instance:1")
			if got := k.read(b, "evalrun/instance:1", "instance"); got != "base\nenv\n" {
				t.Errorf("the instance saw %q of its layers", got)
			}
			if got := k.read(b, "docker.io/evalrun/instance:1", "changed"); got != "new\n" {
				t.Errorf("of a file that two layers have: %q", got)
			}
			digest, ok, err := b.Image(context.Background(), "evalrun/instance:1")
			if err != nil || !ok || !strings.HasPrefix(digest, "sha256:") {
				t.Fatalf("%q, %v, %v", digest, ok, err)
			}
			if env, err := b.ImageEnv(context.Background(), digest); err != nil || !slices.Equal(env, []string{"NAME=evalrun/instance:1"}) {
				t.Errorf("by digest: %q, %v", env, err)
			}
			if labels, err := b.ImageLabels(context.Background(), "evalrun/instance:1"); err != nil || labels["note"] != "kept" {
				t.Errorf("labels %q, %v", labels, err)
			}
			if _, err := b.ImageLabels(context.Background(), "evalrun/none:1"); err == nil {
				t.Error("labels of an image that is not there")
			}
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			b = k.open(with)
			if again, ok, err := b.Image(context.Background(), "evalrun/instance:1"); err != nil || !ok || again != digest {
				t.Errorf("after a restart: %q, %v, %v, want %s", again, ok, err, digest)
			}
			if what := k.mustBuild(b, run(k.base(), "echo base >/base; echo old >/changed"), "evalrun/base:1"); what.ranRun() {
				t.Errorf("built again after a restart: %q", what.ran)
			}
			if what := k.mustBuild(b, run(on("evalrun/env:1"), "cat /base /env >/instance; rm /base"), "evalrun/instance:2"); what.ranRun() {
				t.Errorf("built again on an image: %q", what.ran)
			}
			root, err := b.Root(context.Background(), digest)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Release()
			if root.WorkingDir != "/testbed" || len(root.Lower) == 0 {
				t.Errorf("%+v", root)
			}
			for _, dir := range root.Lower {
				if info, err := os.Stat(dir); err != nil || !info.IsDir() {
					t.Errorf("layer %s: %v", dir, err)
				}
			}
		})
	}
}

// A name that was built anew is the new image; the old one is there by digest.
func TestRename(t *testing.T) {
	k := newKit(t)
	b := k.open(nil)
	ctx := context.Background()
	k.mustBuild(b, run(k.base(), "echo 1 >/n"), "evalrun/base:1")
	first, _, _ := b.Image(ctx, "evalrun/base:1")
	k.mustBuild(b, run(k.base(), "echo 2 >/n"), "evalrun/base:1")
	second, _, _ := b.Image(ctx, "evalrun/base:1")
	if first == "" || first == second {
		t.Fatalf("%q, then %q", first, second)
	}
	if got := k.read(b, "evalrun/base:1", "n"); got != "2\n" {
		t.Errorf("by name: %q", got)
	}
	if got := k.read(b, first, "n"); got != "1\n" {
		t.Errorf("by the digest of the first: %q", got)
	}
	if _, ok, err := b.Image(ctx, "evalrun/nothing:1"); ok || err != nil {
		t.Errorf("an image nobody made: %v, %v", ok, err)
	}
	if _, err := b.Root(ctx, "evalrun/nothing:1"); err == nil || !strings.Contains(err.Error(), "not in the embedded engine's store") {
		t.Errorf("its root: %v", err)
	}
	if _, _, err := b.Image(ctx, "Not A Reference"); err == nil {
		t.Error("what is no reference is no error")
	}
}

func TestRemoveImages(t *testing.T) {
	k := newKit(t)
	b := k.open(nil)
	ctx := context.Background()
	k.mustBuild(b, run(k.base(), "echo 1 >/n"), "evalrun/base:1")
	k.mustBuild(b, run(on("evalrun/base:1"), "echo 2 >/m"), "evalrun/env:1")
	held, err := b.Root(ctx, "evalrun/base:1")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := b.RemoveImages(ctx); n != 1 || err != nil {
		t.Errorf("removed %d images, %v; want the one nobody uses", n, err)
	}
	if got := k.read(b, "evalrun/base:1", "n"); got != "1\n" {
		t.Errorf("the image in use: %q", got)
	}
	if err := held.Release(); err != nil {
		t.Fatal(err)
	}
	if n, err := b.RemoveImages(ctx); n != 1 || err != nil {
		t.Errorf("then removed %d, %v", n, err)
	}
	if left, err := filepath.Glob(filepath.Join(held.Lower[0], "*")); err != nil || len(left) > 0 {
		t.Errorf("of the layer there is left: %q, %v", left, err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := RemoveAll(ctx, k.dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(k.dir); err == nil {
		t.Error("the state is still there")
	}
}
