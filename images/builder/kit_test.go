package builder_test

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/moby/buildkit/client"

	"github.com/evalrun/evalrun/images"
	"github.com/evalrun/evalrun/images/builder"
	"github.com/evalrun/evalrun/internal/mirror"
	"github.com/evalrun/evalrun/internal/sandbox/docker"
	"github.com/evalrun/evalrun/internal/sandbox/docker/dockertest"
)

// counting is the daemon's engine; it counts how often it is asked to solve.
type counting struct {
	*docker.Client
	solves *atomic.Int32
}

func (c counting) BuildKit(ctx context.Context) (*client.Client, func(), error) {
	c.solves.Add(1)
	return c.Client.BuildKit(ctx)
}

// kit is what a test builds with.
type kit struct {
	t      *testing.T
	engine counting
	base   string // image with all that the layers' scripts call
	cache  string
	repo   string // work tree of o/n
	nonce  string
}

func newKit(t *testing.T) *kit {
	t.Helper()
	image := dockertest.Image(t)
	k := &kit{t: t, cache: t.TempDir(), repo: filepath.Join(t.TempDir(), "n"), nonce: fmt.Sprint(time.Now().UnixNano())}
	c, err := docker.Connect(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	k.engine = counting{c, new(atomic.Int32)}
	k.base = k.completed(image)
	k.git("init", "-q", "--template=", k.repo)
	return k
}

func (k *kit) run(name string, args ...string) string {
	k.t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		k.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// completed adds to the test image what building calls and grading does not.
func (k *kit) completed(image string) string {
	k.t.Helper()
	ref := strings.Replace(image, "evalrun/test:", "evalrun/test-base:", 1) + "-4"
	if exec.Command("docker", "image", "inspect", ref).Run() == nil {
		return ref
	}
	// docker cp makes no folders but those it copies.
	stage := k.t.TempDir()
	core := k.run("git", "--exec-path")
	for _, path := range []string{"/usr/bin/chown", "/usr/bin/comm", "/usr/bin/tee", "/usr/bin/tail", core + "/git-submodule", core + "/git-sh-setup", core + "/git-sh-i18n"} {
		k.run("mkdir", "-p", filepath.Join(stage, filepath.Dir(path)))
		k.run("cp", "-L", path, filepath.Join(stage, path))
	}
	id := k.run("docker", "create", image, "true")
	defer k.run("docker", "rm", id)
	k.run("docker", "cp", stage+"/.", id+":/")
	k.run("docker", "commit", id, ref)
	return ref
}

func (k *kit) git(args ...string) string {
	k.t.Helper()
	return k.run("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"}, args...)...)
}

// commit writes a.txt and commits it.
func (k *kit) commit(text string) string {
	k.t.Helper()
	if err := os.WriteFile(filepath.Join(k.repo, "a.txt"), []byte(text), 0o644); err != nil {
		k.t.Fatal(err)
	}
	k.git("-C", k.repo, "add", "-A")
	k.git("-C", k.repo, "commit", "-q", "-m", text)
	return k.git("-C", k.repo, "rev-parse", "HEAD")
}

// builder returns a Builder with flights of its own.
func (k *kit) builder(change func(*builder.Options)) *builder.Builder {
	k.t.Helper()
	lock, err := images.OpenLock(filepath.Join(k.cache, "images.lock"), false)
	if err != nil {
		k.t.Fatal(err)
	}
	o := builder.Options{Engine: k.engine, CacheDir: k.cache, Lock: lock, Parallel: 4}
	if change != nil {
		change(&o)
	}
	return builder.New(o)
}

// spec is an instance of o/n whose env nobody has built.
func (k *kit) spec(b *builder.Builder, commit string) images.InstanceSpec {
	k.t.Helper()
	source := images.Source{Kind: "image", Ref: k.base}
	digest, err := b.BaseDigest(context.Background(), source)
	if err != nil {
		k.t.Fatal(err)
	}
	return images.InstanceSpec{
		Env: images.EnvSpec{
			Base: images.BaseSpec{Source: source, Digest: digest, Platform: "linux/amd64"}, Language: "sh",
			Commands: []string{"echo " + k.nonce + " > /etc/env-of-test"},
		},
		InstanceID: "o__n-" + commit[:6], Repo: "o/n", BaseCommit: commit, Mirror: filepath.Join(k.repo, ".git"),
	}
}

func (k *kit) build(b *builder.Builder, spec images.InstanceSpec) builder.Image {
	k.t.Helper()
	img, err := b.Instance(context.Background(), spec)
	if err != nil {
		k.t.Fatal(err)
	}
	k.forget(spec)
	return img
}

// forget removes the images of a spec when the test is over.
func (k *kit) forget(spec images.InstanceSpec) {
	k.t.Cleanup(func() {
		for _, ref := range []string{images.Reference(images.Instance, spec.Key()), images.Reference(images.Env, spec.Env.Key())} {
			exec.Command("docker", "rmi", "-f", ref).Run()
		}
	})
}

// inside runs a script in a container of an image, without network.
func (k *kit) inside(img builder.Image, script string) string {
	k.t.Helper()
	return k.run("docker", "run", "--rm", "--network", "none", img.Ref, "bash", "-c", script)
}

// eachFile reads the file system of an image.
func (k *kit) eachFile(img builder.Image, f func(name string, r io.Reader)) {
	k.t.Helper()
	id := k.run("docker", "create", img.Ref, "true")
	defer k.run("docker", "rm", id)
	cmd := exec.Command("docker", "export", id)
	out, err := cmd.StdoutPipe()
	if err != nil {
		k.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	n := 0
	for r := tar.NewReader(out); ; n++ {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			k.t.Fatal(err)
		}
		f(h.Name, r)
	}
	io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != nil || n == 0 {
		k.t.Errorf("export: %v, %d files", err, n)
	}
}

// pin commits a submodule.
func (k *kit) pin(name, url, path, commit string) string {
	k.t.Helper()
	k.git("config", "--file", filepath.Join(k.repo, ".gitmodules"), "submodule."+name+".path", path)
	k.git("config", "--file", filepath.Join(k.repo, ".gitmodules"), "submodule."+name+".url", url)
	// A folder, or adding everything later would drop it.
	k.run("mkdir", "-p", filepath.Join(k.repo, path))
	k.git("-C", k.repo, "update-index", "--add", "--cacheinfo", "160000,"+commit+","+path)
	k.git("-C", k.repo, "add", ".gitmodules")
	k.git("-C", k.repo, "commit", "-q", "-m", "pin")
	return k.git("-C", k.repo, "rev-parse", "HEAD")
}

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
