package docker

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/evalrun/evalrun/internal/sandbox/docker/dockertest"
)

// What an image stands on is another one's; what only looks alike is not. What several
// of ours begin with is counted with the first, and with none of others'.
func TestOwnSize(t *testing.T) {
	tests := []struct {
		layers       string
		size, shared int64
		foreign      bool
		own          int64
	}{
		{"a", 100, 100, false, 100},
		{"abc", 130, 130, false, 30},
		{"abc", 130, 130, false, 0}, // the same layers under another name
		{"abcd", 135, 130, false, 5},
		{"ax", 107, 100, false, 7},
		{"ay", 108, 100, true, 0},
		{"fg", 300, 250, true, 0},
		{"fh", 310, 250, false, 310},
		{"qrs", 210, 200, false, 210}, // nothing but these two has what they share
		{"qrt", 220, 200, false, 20},
		{"qz", 170, 150, false, 20}, // and this one less of it
		{"z", 50, 0, false, 50},
	}
	var all []stored
	for _, tt := range tests {
		all = append(all, stored{Summary: &image.Summary{Size: tt.size, SharedSize: tt.shared}, layers: strings.Split(tt.layers, ""), ours: !tt.foreign})
	}
	if !slices.IsSortedFunc(all, func(a, b stored) int { return slices.Compare(a.layers, b.layers) }) {
		t.Fatal("the images are to be sorted")
	}
	for i, got := range ownSizes(all) {
		if got != tests[i].own {
			t.Errorf("image %d, %s, takes %d bytes of its own, want %d", i, tests[i].layers, got, tests[i].own)
		}
	}
}

// An image was used when one that stands on it was.
func TestLastUsed(t *testing.T) {
	day := func(n int) time.Time { return time.Unix(int64(n)*86400, 0) }
	all := []stored{
		{layers: []string{"a"}, used: day(3)},
		{layers: []string{"a", "b"}, used: day(1)},
		{layers: []string{"a", "b", "c"}, used: day(2)},
		{layers: []string{"x"}, used: day(9)},
		{used: day(1)}, // without layers: nothing stands on it
	}
	for i, want := range []int{3, 2, 2, 9, 1} {
		if got := lastUsed(all, i); !got.Equal(day(want)) {
			t.Errorf("image %d was used %s, want day %d", i, got.UTC(), want)
		}
	}
}

// Of images that were pulled those are listed that evalrun has pulled, with their last
// use and without what they share; they go unless a container has them.
func TestPulledImages(t *testing.T) {
	dockertest.Image(t) // for the daemon
	c := connect(t)
	ctx := context.Background()
	r := newRegistry(t)
	layer := func(size int64) v1.Layer {
		l, err := random.Layer(size, types.DockerLayer)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	const common = 2 << 20
	below := layer(common)
	var refs, ids []string
	var together int64
	for _, layers := range [][]v1.Layer{{below, layer(1000)}, {below, layer(2000)}, {layer(3000)}} {
		img, err := mutate.AppendLayers(empty.Image, layers...)
		if err != nil {
			t.Fatal(err)
		}
		ref, _ := r.put(t, img)
		if err := c.pullOnce(ctx, ref); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.api.ImageRemove(ctx, ref, image.RemoveOptions{Force: true}) })
		id, _, err := c.Image(ctx, ref)
		if err != nil {
			t.Fatal(err)
		}
		size, err := c.ImageSize(ctx, ref)
		if err != nil {
			t.Fatal(err)
		}
		refs, ids, together = append(refs, ref), append(ids, id), together+size
	}
	used := time.Now().Add(-time.Hour).Truncate(time.Second)
	asked := map[string]bool{}
	var listed int64
	var found []string
	err := c.EachImage(ctx, func(id string) (time.Time, bool) {
		asked[id] = true
		if i := slices.Index(ids, id); i == 0 || i == 1 {
			return used, true
		}
		return time.Time{}, false
	}, func(id, name, kind string, bytes int64, at time.Time) {
		i := slices.Index(ids, id)
		if i < 0 {
			return
		}
		listed += bytes
		if found = append(found, name); kind != "" || !at.Equal(used) || name != refs[i] {
			t.Errorf("%s is listed as %q, %q, used %s", refs[i], name, kind, at)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 2 || slices.Contains(found, refs[2]) {
		t.Errorf("listed are %v, want the two that evalrun has pulled of %v", found, refs)
	}
	if !asked[ids[2]] {
		t.Error("nobody was asked about an image of somebody else's")
	}
	if most := together - common; listed > most || listed < common {
		t.Errorf("they take %d bytes, want at most %d, since two share %d", listed, most, common)
	}
	if all, err := c.ImageIDs(ctx); err != nil || !all[ids[0]] || !all[ids[2]] {
		t.Errorf("the ids of all images lack these: %v", err)
	}
	user, err := c.api.ContainerCreate(ctx, &container.Config{Image: refs[0], Cmd: []string{"none"}}, nil, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.remove(ctx, user.ID) })
	for i, want := range []bool{false, true} {
		removed, err := c.RemoveImage(ctx, ids[i])
		_, there, lookErr := c.Image(ctx, refs[i])
		if err != nil || lookErr != nil || removed != want || there == want {
			t.Errorf("%s: removed %v, still there %v, %v, %v", refs[i], removed, there, err, lookErr)
		}
	}
}
