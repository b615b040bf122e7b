package buildkit

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/opencontainers/go-digest"
)

// serve starts a registry on loopback that may want a login.
func serve(t *testing.T, login string) string {
	t.Helper()
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		want := "Basic " + base64.StdEncoding.EncodeToString([]byte(login))
		if login != "" && r.Header.Get("Authorization") != want {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// push pushes the test's root file system with a configuration.
func (k *kit) push(ref string, auth authn.Authenticator) v1.Image {
	k.t.Helper()
	layer, err := tarball.LayerFromFile(filepath.Join(k.tars, "rootfs.tar"))
	if err != nil {
		k.t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err == nil {
		img, err = mutate.ConfigFile(img, &v1.ConfigFile{
			OS: "linux", Architecture: "amd64", RootFS: v1.RootFS{Type: "layers", DiffIDs: diffIDsOf(k, img)},
			Config: v1.Config{Env: []string{"PULLED=yes"}, WorkingDir: "/testbed", User: "nobody"},
		})
	}
	if err != nil {
		k.t.Fatal(err)
	}
	parsed, err := name.ParseReference(ref)
	if err == nil {
		err = remote.Write(parsed, img, remote.WithAuth(auth))
	}
	if err != nil {
		k.t.Fatal(err)
	}
	return img
}

func diffIDsOf(k *kit, img v1.Image) []v1.Hash {
	k.t.Helper()
	c, err := img.ConfigFile()
	if err != nil {
		k.t.Fatal(err)
	}
	return c.RootFS.DiffIDs
}

// A pulled image has the digests the registry's has, is a root file system, and
// layers can be built on it.
func TestPull(t *testing.T) {
	k := newKit(t)
	ref := serve(t, "") + "/eval/x:latest"
	pushed := k.push(ref, authn.Anonymous)
	b := k.open(nil)
	ctx := context.Background()
	if _, ok, err := b.Image(ctx, ref); ok || err != nil {
		t.Fatalf("before the pull: %v, %v", ok, err)
	}
	if err := b.Pull(ctx, ref); err != nil {
		t.Fatal(err)
	}
	config, _ := pushed.ConfigName()
	manifest, _ := pushed.Digest()
	if id, ok, err := b.Image(ctx, ref); err != nil || !ok || id != config.String() {
		t.Errorf("image %q, %v, %v; want %s", id, ok, err, config)
	}
	if got := b.RepoDigest(ctx, ref); got != manifest.String() {
		t.Errorf("repo digest %q, want %s", got, manifest)
	}
	root, err := b.Root(ctx, ref)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Release()
	if len(root.Env) != 1 || root.Env[0] != "PULLED=yes" || root.WorkingDir != "/testbed" || root.User != "nobody" {
		t.Errorf("%+v", root)
	}
	if _, err := os.Stat(filepath.Join(root.Lower[0], "usr/bin/bash")); err != nil {
		t.Error(err)
	}
	k.mustBuild(b, run(k.on(ref), "echo built >/n"), "evalrun/on-pulled:1")
	if got := k.read(b, "evalrun/on-pulled:1", "n"); got != "built\n" {
		t.Errorf("%q", got)
	}
	// It is shown as pulled, and was used when what stands on it was.
	old := time.Now().Add(-240 * time.Hour)
	if err := os.Chtimes(b.images.lock(digest.Digest(config.String())).Path(), old, old); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]string{}
	err = b.EachImage(ctx, func(string) (time.Time, bool) { return time.Time{}, false }, func(_, name, kind string, bytes int64, used time.Time) {
		kinds[name] = kind
		if time.Since(used) > time.Hour || name == ref && bytes < 1<<20 {
			t.Errorf("%s takes %d bytes, used %s", name, bytes, used)
		}
	})
	if kind, ok := kinds[ref]; err != nil || len(kinds) != 2 || !ok || kind != "" {
		t.Errorf("listed are %v, %v", kinds, err)
	}
	err = b.Pull(ctx, strings.Replace(ref, "/x:", "/missing:", 1))
	if err == nil || !strings.Contains(err.Error(), "try 1 of") {
		t.Errorf("an image that is not there: %v", err)
	}
}

// Logins are found where docker keeps them.
func TestPullLogin(t *testing.T) {
	k := newKit(t)
	host := serve(t, "user:pass")
	ref := host + "/eval/x:latest"
	k.push(ref, &authn.Basic{Username: "user", Password: "pass"})
	config := t.TempDir()
	t.Setenv("DOCKER_CONFIG", config)
	b := k.open(nil)
	ctx := context.Background()
	if err := b.Pull(ctx, ref); err == nil || !strings.Contains(err.Error(), "docker login") {
		t.Errorf("without a login: %v", err)
	}
	text := `{"auths":{"` + host + `":{"auth":"` + base64.StdEncoding.EncodeToString([]byte("user:pass")) + `"}}}`
	if err := os.WriteFile(filepath.Join(config, "config.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.Pull(ctx, ref); err != nil {
		t.Errorf("with a login: %v", err)
	}
	stopped := errors.New("stopped")
	cancelled, cancel := context.WithCancelCause(ctx)
	cancel(stopped)
	if err := b.Pull(cancelled, host+"/eval/y:latest"); !errors.Is(err, stopped) {
		t.Errorf("interrupted: %v", err)
	}
}
