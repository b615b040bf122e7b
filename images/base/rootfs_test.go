package base

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/evalrun/evalrun/images"
)

// tools puts scripts on the PATH, which has nothing else but what they need.
func tools(t *testing.T, scripts map[string]string) string {
	t.Helper()
	bin := t.TempDir()
	for name, text := range scripts {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\nPATH=/usr/bin:/bin\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	return bin
}

// fakeBootstrap notes its arguments and makes a tar; the tar is the argument
// before the mirror, if there is one.
const fakeBootstrap = `printf '%s\n' "$@" > "$(dirname "$0")/args"
for a; do case $a in *.tar) tar=$a;; esac; done
echo "system of $SOURCE_DATE_EPOCH" > "$tar"
echo "deb mirror" > "$(dirname "$tar")/sources.list"
`

func materialize(t *testing.T, source images.Source, dir, mirror string) RootFS {
	t.Helper()
	fs, err := Materialize(context.Background(), source, dir, mirror, func() {})
	if err != nil {
		t.Fatal(err)
	}
	return fs
}

func content(t *testing.T, fs RootFS) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(fs.Dir, RootFSFile))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestMaterializeDebian(t *testing.T) {
	bin := tools(t, map[string]string{"mmdebstrap": fakeBootstrap})
	dir := t.TempDir()
	source := images.Source{Kind: "debian", Ref: "bookworm"}
	fs := materialize(t, source, dir, "https://mirror.example/debian")
	if got := content(t, fs); got != "system of 1700000000\n" {
		t.Errorf("root file system %q", got)
	}
	if fs.Sources != "deb mirror\n" || !strings.HasPrefix(fs.Digest, "sha256:") {
		t.Errorf("got %+v", fs)
	}
	args, err := os.ReadFile(filepath.Join(bin, "args"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(args), "--variant=minbase\n") || !strings.HasSuffix(string(args), "\nhttps://mirror.example/debian\n") || !strings.Contains(string(args), "\nbookworm\n") {
		t.Errorf("called with %s", args)
	}
	// The second call makes nothing.
	tools(t, map[string]string{"mmdebstrap": "exit 7"})
	if again, err := Materialize(context.Background(), source, dir, "", func() { t.Error("made again") }); err != nil || again != fs {
		t.Errorf("again: %+v, %v", again, err)
	}
	// Another suite is another system.
	if _, err := Materialize(context.Background(), images.Source{Kind: "debian", Ref: "trixie"}, dir, "", func() {}); err == nil || !strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("trixie: %v", err)
	}
}

func TestMaterializeDebianFailures(t *testing.T) {
	source := images.Source{Kind: "debian", Ref: "bookworm"}
	t.Run("nothing installed", func(t *testing.T) {
		tools(t, nil)
		_, err := Materialize(context.Background(), source, t.TempDir(), "", func() {})
		for _, text := range []string{"base debian:bookworm", "neither mmdebstrap nor debootstrap", "apt-get install mmdebstrap", "--base image:REF"} {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%v: want %q in it", err, text)
			}
		}
	})
	t.Run("its words are shown", func(t *testing.T) {
		tools(t, map[string]string{"mmdebstrap": "echo 'E: no such mirror' >&2; exit 25"})
		_, err := Materialize(context.Background(), source, t.TempDir(), "", func() {})
		if err == nil || !strings.Contains(err.Error(), "mmdebstrap: exit status 25\nE: no such mirror") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a failure leaves nothing to trip over", func(t *testing.T) {
		dir := t.TempDir()
		tools(t, map[string]string{"mmdebstrap": fakeBootstrap + "exit 1"})
		if _, err := Materialize(context.Background(), source, dir, "", func() {}); err == nil {
			t.Fatal("no error")
		}
		for _, name := range []string{RootFSFile, partFile} {
			if _, err := os.Stat(filepath.Join(dir, "debian-bookworm", name)); err == nil {
				t.Errorf("%s is left", name)
			}
		}
		tools(t, map[string]string{"mmdebstrap": fakeBootstrap})
		if got := content(t, materialize(t, source, dir, "")); !strings.HasPrefix(got, "system") {
			t.Errorf("got %q", got)
		}
	})
	t.Run("killed half way", func(t *testing.T) {
		dir := t.TempDir()
		home := filepath.Join(dir, "debian-bookworm")
		if err := os.MkdirAll(filepath.Join(home, "tree-123/etc"), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{RootFSFile, partFile} {
			if err := os.WriteFile(filepath.Join(home, name), []byte("half"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		tools(t, map[string]string{"mmdebstrap": `for a; do case $a in *.tar) [ ! -e "$a" ] || exit 3;; esac; done` + "\n" + fakeBootstrap})
		if got := content(t, materialize(t, source, dir, "")); !strings.HasPrefix(got, "system") {
			t.Errorf("got %q", got)
		}
		if left, _ := filepath.Glob(filepath.Join(home, "tree-*")); left != nil {
			t.Errorf("left: %v", left)
		}
	})
	t.Run("tar of another size than recorded", func(t *testing.T) {
		dir := t.TempDir()
		tools(t, map[string]string{"mmdebstrap": fakeBootstrap})
		fs := materialize(t, source, dir, "")
		if err := os.WriteFile(filepath.Join(fs.Dir, RootFSFile), []byte("cut"), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := content(t, materialize(t, source, dir, "")); !strings.HasPrefix(got, "system") {
			t.Errorf("got %q", got)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		bin := tools(t, map[string]string{"mmdebstrap": `trap 'echo cleaned > "$(dirname "$0")/ended"; exit 1' TERM
echo > "$(dirname "$0")/started"
sleep 100 & wait`})
		ctx, cancel := context.WithCancelCause(context.Background())
		stop := errors.New("enough")
		go func() {
			for range 1000 {
				if _, err := os.Stat(filepath.Join(bin, "started")); err == nil {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			cancel(stop)
		}()
		if _, err := Materialize(ctx, source, t.TempDir(), "", func() {}); !errors.Is(err, stop) {
			t.Errorf("got %v", err)
		}
		if _, err := os.Stat(filepath.Join(bin, "ended")); err != nil {
			t.Error("the tool was not given the time to clean up")
		}
	})
}

// Two runs on one machine make a system once.
func TestMaterializeOnce(t *testing.T) {
	bin := tools(t, map[string]string{"mmdebstrap": `echo call >> "$(dirname "$0")/calls"; sleep 0.2` + "\n" + fakeBootstrap})
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if _, err := Materialize(context.Background(), images.Source{Kind: "debian", Ref: "bookworm"}, dir, "", func() {}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if calls, _ := os.ReadFile(filepath.Join(bin, "calls")); string(calls) != "call\n" {
		t.Errorf("calls: %q", calls)
	}
}

func TestMaterializeRootFS(t *testing.T) {
	dir, from := t.TempDir(), t.TempDir()
	path := filepath.Join(from, "system.tar")
	if err := os.WriteFile(path, []byte("one"), 0o644); err != nil {
		t.Fatal(err)
	}
	source := images.Source{Kind: "rootfs", Ref: path}
	one := materialize(t, source, dir, "")
	if content(t, one) != "one" || one.Sources != "" {
		t.Errorf("got %+v", one)
	}
	if err := os.WriteFile(path, []byte("two"), 0o644); err != nil {
		t.Fatal(err)
	}
	two := materialize(t, source, dir, "")
	if content(t, two) != "two" || two.Digest == one.Digest || content(t, one) != "one" {
		t.Errorf("after a change: %+v and %+v", one, two)
	}
	source.Ref = filepath.Join(from, "gone.tar")
	if _, err := Materialize(context.Background(), source, dir, "", func() {}); err == nil || !strings.Contains(err.Error(), "base rootfs:"+source.Ref) {
		t.Errorf("missing: %v", err)
	}
	if _, err := Materialize(context.Background(), images.Source{Kind: "image", Ref: "x"}, dir, "", func() {}); err == nil {
		t.Error("an image was made")
	}
}

// image makes an image of one file.
func image(t *testing.T, text string) v1.Image {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := w.WriteHeader(&tar.Header{Name: "etc/motd", Mode: 0o644, Size: int64(len(text))}); err != nil {
		t.Fatal(err)
	}
	io.WriteString(w, text)
	w.Close()
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func TestMaterializeOCILayout(t *testing.T) {
	from := filepath.Join(t.TempDir(), "lay@out")
	path, err := layout.Write(from, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	named := func(name string) layout.Option { return layout.WithAnnotations(map[string]string{refName: name}) }
	if err := path.AppendImage(image(t, "one"), named("one")); err != nil {
		t.Fatal(err)
	}
	motd := func(ref string) string {
		t.Helper()
		fs, err := Materialize(context.Background(), images.Source{Kind: "oci-layout", Ref: ref}, t.TempDir(), "", func() {})
		if err != nil {
			return err.Error()
		}
		r := tar.NewReader(strings.NewReader(content(t, fs)))
		for {
			h, err := r.Next()
			if err != nil {
				return err.Error()
			}
			if strings.TrimPrefix(h.Name, "/") == "etc/motd" {
				data, _ := io.ReadAll(r)
				return string(data)
			}
		}
	}
	if got := motd(from); got != "one" {
		t.Errorf("the only image: %s", got)
	}
	if err := path.AppendImage(image(t, "two"), named("registry.example/a/b:two")); err != nil {
		t.Fatal(err)
	}
	// Several platforms under one name.
	many := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: image(t, "ours"), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: runtime.GOARCH}}},
		mutate.IndexAddendum{Add: image(t, "other"), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "other"}}})
	if err := path.AppendIndex(many, named("many")); err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string]string{from + "@one": "one", from + "@two": "two", from + "@many": "ours"} {
		if got := motd(ref); got != want {
			t.Errorf("%s: %s, want %s", filepath.Base(ref), got, want)
		}
	}
	for ref, want := range map[string]string{from: "3 of its 3 images fit", from + "@three": "0 of its 3 images fit", t.TempDir(): "index.json"} {
		if got := motd(ref); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %q in it", filepath.Base(ref), got, want)
		}
	}
}
