package builder_test

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/evalrun/evalrun/internal/mirror"
)

func mirrorsAt(exact map[string]string) mirror.Set { return mirror.Set{Exact: exact} }

// compressed is a gzipped copy of a tar.
func (k *kit) compressed(path string) string {
	k.t.Helper()
	in, err := os.Open(path)
	if err != nil {
		k.t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(path + ".gz")
	if err != nil {
		k.t.Fatal(err)
	}
	defer out.Close()
	w, _ := gzip.NewWriterLevel(out, gzip.BestSpeed)
	if _, err := io.Copy(w, in); err != nil {
		k.t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		k.t.Fatal(err)
	}
	return path + ".gz"
}

// layout is an OCI layout with one image of one layer.
func (k *kit) layout(path string) string {
	k.t.Helper()
	layer, err := tarball.LayerFromFile(path)
	if err != nil {
		k.t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		k.t.Fatal(err)
	}
	dir := filepath.Join(k.t.TempDir(), "layout")
	l, err := layout.Write(dir, empty.Index)
	if err != nil {
		k.t.Fatal(err)
	}
	if err := l.AppendImage(img); err != nil {
		k.t.Fatal(err)
	}
	return dir
}
