package docker

import (
	"testing"

	"github.com/docker/docker/api/types/image"
)

// What an image stands on is another one's; what only looks alike is not.
func TestOwnSize(t *testing.T) {
	all := []built{
		{&image.Summary{Size: 100}, []string{"a"}},
		{&image.Summary{Size: 130}, []string{"a", "b", "c"}},
		{&image.Summary{Size: 135}, []string{"a", "b", "c", "d"}},
		{&image.Summary{Size: 107}, []string{"a", "x"}},
		{&image.Summary{Size: 130}, []string{"a", "b", "c"}}, // the same layers under another name
		{&image.Summary{Size: 50}, []string{"z"}},
	}
	for i, want := range []int64{100, 30, 5, 7, 30, 50} {
		if got := all[i].own(all); got != want {
			t.Errorf("image %d takes %d bytes of its own, want %d", i, got, want)
		}
	}
}
