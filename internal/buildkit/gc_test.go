package buildkit

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/moby/buildkit/client/llb"
)

// An image takes what all of its own layers take, and not what it stands on.
func TestSizes(t *testing.T) {
	k := newKit(t)
	b := k.open(nil)
	fill := func(s llb.State, name string, megabytes int) llb.State {
		return run(s, fmt.Sprintf("dd if=/dev/urandom of=/%s bs=1M count=%d 2>/dev/null", name, megabytes))
	}
	k.mustBuild(b, run(k.base(), "true"), "evalrun/base:1")
	k.mustBuild(b, fill(fill(on("evalrun/base:1"), "a", 20), "b", 1), "evalrun/env:1")
	k.mustBuild(b, fill(fill(on("evalrun/env:1"), "c", 5), "d", 1), "evalrun/instance:1")
	k.mustBuild(b, fill(on("evalrun/env:1"), "e", 3), "evalrun/instance:2")
	got := map[string]int64{}
	never := func(string) (time.Time, bool) { return time.Time{}, false }
	err := b.EachImage(t.Context(), never, func(_, name, kind string, bytes int64, used time.Time) {
		got[strings.TrimPrefix(name, "docker.io/")] = bytes
		if kind != "test" || time.Since(used) > time.Hour {
			t.Errorf("%s: kind %q, used %s", name, kind, used)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, megabytes := range map[string]int64{"evalrun/env:1": 21, "evalrun/instance:1": 6, "evalrun/instance:2": 3} {
		if over := got[name] - megabytes<<20; over < 0 || over > 512<<10 {
			t.Errorf("%s takes %d bytes, want those of %d MiB", name, got[name], megabytes)
		}
	}
	if len(got) != 4 || got["evalrun/base:1"] < 1<<20 {
		t.Errorf("images %v", got)
	}
}

// Over the budget build cache goes first, then the image used longest ago; one in
// use stays whatever it takes.
func TestCollect(t *testing.T) {
	k := newKit(t)
	b := k.open(nil)
	ctx := context.Background()
	k.mustBuild(b, run(k.base(), "true"), "evalrun/base:1")
	for i := range 4 {
		k.mustBuild(b, run(on("evalrun/base:1"), fmt.Sprintf("dd if=/dev/urandom of=/big bs=1M count=20 2>/dev/null; echo %d >/n", i)), fmt.Sprintf("evalrun/i:%d", i))
	}
	held, err := b.Root(ctx, "evalrun/i:0")
	if err != nil {
		t.Fatal(err)
	}
	defer held.Release()
	// The oldest is in use; the next two are old, the last one is not.
	for i := range 3 {
		img, err := b.images.find(fmt.Sprintf("evalrun/i:%d", i))
		if err != nil || img == nil {
			t.Fatal(err)
		}
		old := time.Now().Add(time.Duration(i-10) * time.Hour)
		if err := os.Chtimes(b.images.lock(img.Digest).Path(), old, old); err != nil {
			t.Fatal(err)
		}
	}
	d, done, err := b.use(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	used := func() int64 {
		n, err := d.used(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	there := func() (refs string) {
		for i := range 4 {
			if img, err := b.images.find(fmt.Sprintf("evalrun/i:%d", i)); err != nil {
				t.Fatal(err)
			} else if img != nil {
				refs += fmt.Sprint(i)
			}
		}
		return refs
	}
	before := used()
	// The tar the base came from is build cache: bigger than what must go.
	if err := d.shrink(ctx, before-(1<<20)); err != nil {
		t.Fatal(err)
	}
	if got := there(); got != "0123" || used() >= before {
		t.Errorf("build cache goes first: images %s, %d bytes of %d", got, used(), before)
	}
	if err := d.shrink(ctx, used()-(1<<20)); err != nil {
		t.Fatal(err)
	}
	if got := there(); got != "023" {
		t.Errorf("a little over the budget: images %s are left, want 023", got)
	}
	if err := d.shrink(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if got := there(); got != "03" {
		t.Errorf("far over the budget: images %s are left, want those in use and just asked for", got)
	}
	for _, i := range []int{0, 3} {
		if got := k.read(b, fmt.Sprintf("evalrun/i:%d", i), "n"); got != fmt.Sprintf("%d\n", i) {
			t.Errorf("image %d: %q", i, got)
		}
	}
	// What went is built again.
	if what := k.mustBuild(b, run(on("evalrun/i:3"), "echo more >>/n"), "evalrun/j:1"); !what.ranRun() {
		t.Errorf("%+v", what)
	}
}
