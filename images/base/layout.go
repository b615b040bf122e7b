package base

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// splitTag takes "DIR@TAG" apart. A folder whose own name holds an @ goes first.
func splitTag(ref string) (dir, tag string) {
	i := strings.LastIndex(ref, "@")
	if _, err := os.Stat(filepath.Join(ref, "index.json")); err == nil || i < 0 {
		return ref, ""
	}
	return ref[:i], ref[i+1:]
}

// flatten writes an image of an OCI layout as a root file system.
func flatten(ref, tar string) error {
	dir, tag := splitTag(ref)
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return fmt.Errorf("OCI layout %s: %w", dir, err)
	}
	image, err := choose(index, tag)
	if err != nil {
		return fmt.Errorf("OCI layout %s: %w", dir, err)
	}
	content := mutate.Extract(image)
	defer content.Close()
	if err := writeFile(tar, content); err != nil {
		return fmt.Errorf("OCI layout %s: %w", dir, err)
	}
	return nil
}

// refName is the annotation that holds the tag of an image in a layout.
const refName = "org.opencontainers.image.ref.name"

// choose finds the image of a tag, or the only one, for this platform. Images
// for several platforms are an index in the index.
func choose(index v1.ImageIndex, tag string) (v1.Image, error) {
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	var found []v1.Descriptor
	var tags []string
	for _, d := range manifest.Manifests {
		name := d.Annotations[refName]
		tags = append(tags, name)
		platform := d.Platform
		fits := platform == nil || platform.OS == "" || platform.OS == "linux" && platform.Architecture == runtime.GOARCH
		// A tag may be written with the image's name before it.
		if fits && (tag == "" || name == tag || strings.HasSuffix(name, ":"+tag)) {
			found = append(found, d)
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("%d of its %d images fit, want one: linux/%s, tag %q of %q; name one as DIR@TAG", len(found), len(tags), runtime.GOARCH, tag, tags)
	}
	if found[0].MediaType.IsIndex() {
		inner, err := index.ImageIndex(found[0].Digest)
		if err != nil {
			return nil, err
		}
		return choose(inner, "")
	}
	return index.Image(found[0].Digest)
}
