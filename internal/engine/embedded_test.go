package engine

import (
	"bytes"
	"context"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/evalrun/evalrun/images"
	"github.com/evalrun/evalrun/images/builder"
	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/docker/dockertest"
)

// openTest opens an embedded engine with a cache of the test's own.
func openTest(t *testing.T, cacheDir string) *Engine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("build steps and sandboxes need root")
	}
	e, err := Open(context.Background(), Options{Name: Embedded, CacheDir: cacheDir})
	if err != nil {
		t.Skip("no embedded engine here: ", err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// writeTar writes a small root file system with all that building calls.
func writeTar(t *testing.T, dir string) string {
	t.Helper()
	data, err := dockertest.RootFS()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "rootfs.tar")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	stage := t.TempDir()
	core := run(t, "git", "--exec-path")
	for _, tool := range []string{"/usr/bin/chown", "/usr/bin/comm", core + "/git-submodule", core + "/git-sh-setup", core + "/git-sh-i18n"} {
		run(t, "mkdir", "-p", filepath.Join(stage, filepath.Dir(tool)))
		run(t, "cp", "-L", tool, filepath.Join(stage, tool))
	}
	run(t, "tar", "--append", "--file", path, "--owner=0", "--group=0", "-C", stage, "./usr")
	return path
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// repository makes a repository with one commit.
func repository(t *testing.T) (gitDir, commit string) {
	t.Helper()
	dir := t.TempDir()
	git := func(args ...string) string {
		return run(t, "git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
	}
	git("init", "-q", "--template=")
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("content\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	git("add", "-A")
	git("commit", "-q", "-m", "one")
	return filepath.Join(dir, ".git"), git("rev-parse", "HEAD")
}

func oneLayer(t *testing.T, tar string) v1.Image {
	t.Helper()
	layer, err := tarball.LayerFromFile(tar)
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", "amd64"
	if img, err = mutate.ConfigFile(img, config); err != nil {
		t.Fatal(err)
	}
	return img
}

// From every kind of base the builder's layers come to stand on each other, and a
// sandbox on them.
func TestEmbedded(t *testing.T) {
	cacheDir, files := t.TempDir(), t.TempDir()
	e := openTest(t, cacheDir)
	tar := writeTar(t, files)
	ociDir := filepath.Join(files, "layout")
	l, err := layout.Write(ociDir, empty.Index)
	if err == nil {
		err = l.AppendImage(oneLayer(t, tar))
	}
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	pulled := strings.TrimPrefix(server.URL, "http://") + "/base/x:1"
	ref, err := name.ParseReference(pulled)
	if err == nil {
		err = remote.Write(ref, oneLayer(t, tar))
	}
	if err != nil {
		t.Fatal(err)
	}
	gitDir, commit := repository(t)
	for _, source := range []images.Source{{Kind: "rootfs", Ref: tar}, {Kind: "oci-layout", Ref: ociDir}, {Kind: "image", Ref: pulled}} {
		t.Run(source.Kind, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
			defer cancel()
			lock, err := images.OpenLock(filepath.Join(t.TempDir(), "images.lock"), false)
			if err != nil {
				t.Fatal(err)
			}
			b := builder.New(builder.Options{Engine: e.Images, CacheDir: cacheDir, Lock: lock, Parallel: 2})
			digest, err := b.BaseDigest(ctx, source)
			if err != nil {
				t.Fatal(err)
			}
			spec := images.InstanceSpec{
				Env: images.EnvSpec{Base: images.BaseSpec{Source: source, Digest: digest, Platform: e.Platform()}, Language: "sh",
					Commands: []string{"echo env > /etc/env-of-test"}},
				InstanceID: "o__n-1", Repo: "o/n", BaseCommit: commit, Mirror: gitDir,
				Install: []string{"echo installed > /opt/installed"},
			}
			img, err := b.Instance(ctx, spec)
			if err != nil {
				t.Fatal(err)
			}
			if words, err := e.ProbeNetwork(ctx, img.Digest); err != nil || !strings.HasPrefix(words, "none (verified") {
				t.Errorf("network: %q, %v", words, err)
			}
			box, err := e.Sandbox.Start(ctx, sandbox.Spec{Image: img.Ref, Name: "t", Env: img.Env, Limits: sandbox.Limits{MemoryBytes: 256 << 20, Pids: 64}})
			if err != nil {
				t.Fatal(err)
			}
			defer box.Destroy(context.Background())
			var out bytes.Buffer
			res, err := box.Exec(ctx, sandbox.Command{Argv: []string{"/bin/bash", "-c", "pwd; cat a.txt /etc/env-of-test /opt/installed; git rev-parse HEAD; git status --porcelain; echo $LANG"}, Output: &out})
			if err != nil || res.ExitCode != 0 {
				t.Fatalf("%+v, %v\n%s", res, err, &out)
			}
			if want := "/testbed\ncontent\nenv\ninstalled\n" + commit + "\nC.UTF-8\n"; out.String() != want {
				t.Errorf("inside:\n%s\nwant:\n%s", &out, want)
			}
		})
	}
	disk, err := e.Disk()
	if err != nil || strings.HasPrefix(disk, "0 images") {
		t.Errorf("disk: %q, %v", disk, err)
	}
}

// A row that brings a Dockerfile is built by the same solver, on an image of the
// store.
func TestEmbeddedDockerfile(t *testing.T) {
	cacheDir := t.TempDir()
	e := openTest(t, cacheDir)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	base := strings.TrimPrefix(server.URL, "http://") + "/base/x:1"
	ref, err := name.ParseReference(base)
	if err == nil {
		err = remote.Write(ref, oneLayer(t, writeTar(t, t.TempDir())))
	}
	if err != nil {
		t.Fatal(err)
	}
	gitDir, commit := repository(t)
	lock, err := images.OpenLock(filepath.Join(t.TempDir(), "images.lock"), false)
	if err != nil {
		t.Fatal(err)
	}
	b := builder.New(builder.Options{Engine: e.Images, CacheDir: cacheDir, Lock: lock, Parallel: 2})
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	img, err := b.Instance(ctx, images.InstanceSpec{
		InstanceID: "o__n-1", Repo: "o/n", BaseCommit: commit, Mirror: gitDir,
		Dockerfile: "FROM " + base + "\nENV PATH=/usr/bin:/bin NAME=value\nCOPY repository /testbed\nWORKDIR /testbed\nRUN git checkout -q --force --detach HEAD && cat a.txt > /copied\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	if env, err := e.Images.ImageEnv(ctx, img.Ref); err != nil || !strings.Contains(strings.Join(env, " "), "NAME=value") {
		t.Errorf("environment: %q, %v", env, err)
	}
	box, err := e.Sandbox.Start(ctx, sandbox.Spec{Image: img.Digest, Name: "t"})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Destroy(context.Background())
	if data, err := box.Read(ctx, "/copied", 100); err != nil || string(data) != "content\n" {
		t.Errorf("%q, %v", data, err)
	}
	// The server is not needed any more: what was pulled is there.
	server.Close()
	if _, ok, err := e.Images.Image(ctx, img.Digest); !ok || err != nil {
		t.Errorf("by digest: %v, %v", ok, err)
	}
}

// Auto without a daemon takes the embedded engine and says why.
func TestAutoWithoutDaemon(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the embedded engine needs root")
	}
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(t.TempDir(), "nobody.sock"))
	e, err := Open(context.Background(), Options{Name: Auto, CacheDir: t.TempDir()})
	if err != nil {
		t.Skip("no embedded engine here: ", err)
	}
	defer e.Close()
	if e.Name != Embedded || !strings.Contains(e.Why, "nobody.sock") || !strings.Contains(e.String(), "embedded, BuildKit ") {
		t.Errorf("%s: %q", e.Name, e)
	}
}
