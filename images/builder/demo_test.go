package builder_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/evalrun/evalrun/cache"
	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/datasets/demo"
	"github.com/evalrun/evalrun/datasets/swebench"
	"github.com/evalrun/evalrun/images"
	"github.com/evalrun/evalrun/images/builder"
	"github.com/evalrun/evalrun/internal/mirror"
	"github.com/evalrun/evalrun/internal/toolchain"
)

// The demo's images, from Debian packages to the checkout, and nothing a second
// time. It works in the user's own cache folder, as `evalrun demo` does: what
// one has built the other finds.
func TestDemoImages(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: builds from Debian packages")
	}
	k := newKit(t)
	ctx := context.Background()
	dir := t.TempDir()
	if err := demo.WriteTo(dir); err != nil {
		t.Fatal(err)
	}
	if err := demo.Materialize(ctx, filepath.Join(dir, "repositories")); err != nil {
		t.Fatal(err)
	}
	ds, err := datasets.Load(ctx, filepath.Join(dir, "demo.jsonl"), datasets.LoadOptions{Split: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if len(ds.Instances) < 3 {
		t.Fatalf("%d instances", len(ds.Instances))
	}
	build := func() []builder.Image {
		t.Helper()
		b := k.builder(func(o *builder.Options) {
			o.CacheDir, o.Settings, o.Parallel = cache.Dir(), builder.HostSettings(), 2
			o.Toolchain = func(ctx context.Context, language, version string) (string, error) {
				return toolchain.Fetch(ctx, language, version, filepath.Join(cache.Dir(), "toolchains"))
			}
			o.Progress = func(e builder.Event) {
				if e.Done && !e.Cached {
					t.Logf("%s %s: %.1f s", e.Kind, e.Name, e.Seconds)
				}
			}
		})
		r := &images.Resolver{
			Base: images.Source{Kind: "debian", Ref: "bookworm"}, Platform: "linux/amd64", BaseDigest: b.BaseDigest,
			Interpreters: images.DefaultInterpreters(), HostSuite: images.HostSuite(), Memo: filepath.Join(cache.Dir(), "digests"),
			Mirrors: mirror.Set{Dirs: []string{filepath.Join(dir, "repositories")}},
		}
		made := make([]builder.Image, len(ds.Instances))
		var g errgroup.Group
		for i := range ds.Instances {
			g.Go(func() error {
				recipe, err := swebench.Derive(&ds.Instances[i])
				if err != nil {
					return err
				}
				spec, err := r.Resolve(ctx, &ds.Instances[i], &recipe)
				if err != nil {
					return err
				}
				made[i], err = b.Instance(ctx, spec)
				return err
			})
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		return made
	}
	first := build()
	before := k.engine.solves.Load()
	second := build()
	if n := k.engine.solves.Load() - before; n != 0 {
		t.Errorf("the second call solves %d layers", n)
	}
	for i, img := range first {
		inst := ds.Instances[i]
		if second[i].Digest != img.Digest {
			t.Errorf("%s: %s, then %s", inst.ID, img.Digest, second[i].Digest)
		}
		out := k.inside(img, "git rev-parse HEAD; git status --porcelain --untracked-files=no; git remote; locale 2>/dev/null | head -n 1; id -u nonroot; cat /etc/apt/sources.list")
		if want := inst.BaseCommit + "\nLANG=C.UTF-8\n"; !strings.HasPrefix(out, want) || strings.Contains(out, "://") {
			t.Errorf("%s: inside:\n%s", inst.ID, out)
		}
		k.holdsNoSetting(img)
	}
}

// holdsNoSetting looks for this machine's own settings in an image's configuration.
func (k *kit) holdsNoSetting(img builder.Image) {
	k.t.Helper()
	text := k.run("docker", "image", "inspect", img.Ref) + k.run("docker", "history", "--no-trunc", img.Ref)
	for _, kv := range builder.HostSettings().Env {
		name, value, _ := strings.Cut(kv, "=")
		if strings.Contains(value, "://") && strings.Contains(text, value) {
			k.t.Errorf("%s: the value of %s is in the image's configuration", img.Ref, name)
		}
	}
	if home, err := os.UserHomeDir(); err == nil && len(home) > len("/root") && strings.Contains(text, home) {
		k.t.Errorf("%s: a folder of this machine is in the image's configuration", img.Ref)
	}
}
