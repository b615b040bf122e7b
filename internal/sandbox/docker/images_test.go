package docker

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/image"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/evalrun/evalrun/internal/pull"
	"github.com/evalrun/evalrun/internal/sandbox/docker/dockertest"
)

// fakeRegistry is a registry on loopback whose answers about manifests can be
// made to fail.
type fakeRegistry struct {
	host string

	mu    sync.Mutex
	fault string // "429", "500", "cut" or "": what becomes of requests about manifests
	login string // user:password it wants, or ""
}

func newRegistry(t *testing.T) *fakeRegistry {
	r := &fakeRegistry{}
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if r.intercept(w, req) {
			return
		}
		inner.ServeHTTP(w, req)
	}))
	t.Cleanup(server.Close)
	r.host = strings.TrimPrefix(server.URL, "http://")
	return r
}

// intercept answers in the registry's place.
func (r *fakeRegistry) intercept(w http.ResponseWriter, req *http.Request) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if user, password, _ := req.BasicAuth(); r.login != "" && user+":"+password != r.login {
		w.Header().Set("WWW-Authenticate", `Basic realm="here"`)
		http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`, http.StatusUnauthorized)
		return true
	}
	if !strings.Contains(req.URL.Path, "/manifests/") {
		return false
	}
	switch r.fault {
	case "429":
		http.Error(w, `{"errors":[{"code":"TOOMANYREQUESTS","message":"slow down"}]}`, http.StatusTooManyRequests)
	case "500":
		http.Error(w, "oops", http.StatusInternalServerError)
	case "cut":
		panic(http.ErrAbortHandler)
	default:
		return false
	}
	return true
}

func (r *fakeRegistry) set(login, fault string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.login, r.fault = login, fault
}

// push puts a small image into the registry and returns its reference and the
// digest of its manifest.
func (r *fakeRegistry) push(t *testing.T) (ref, digest string) {
	t.Helper()
	img, err := random.Image(1000, 2)
	if err != nil {
		t.Fatal(err)
	}
	return r.put(t, img)
}

// put is push for an image that is given.
func (r *fakeRegistry) put(t *testing.T, img v1.Image) (ref, digest string) {
	t.Helper()
	hash, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	ref = fmt.Sprintf("%s/swebench/sweb.eval.x86_64.a_1776_b-1:%s", r.host, hash.Hex[:12])
	parsed, err := name.ParseReference(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(parsed, img); err != nil {
		t.Fatal(err)
	}
	return ref, hash.String()
}

func TestPull(t *testing.T) {
	dockertest.Image(t) // for the daemon
	c := connect(t)
	ctx := context.Background()
	r := newRegistry(t)
	tests := []struct {
		name    string
		login   string // the registry wants it
		have    string // docker's configuration has it
		faults  []string
		missing bool
		works   bool
		waits   int
		advice  string
	}{
		{name: "plain", works: true},
		{name: "rate limit", faults: []string{"429", "429"}, works: true, waits: 2},
		{name: "server errors", faults: []string{"500", "500"}, works: true, waits: 2},
		{name: "cut connections", faults: []string{"cut", "cut"}, works: true, waits: 2},
		{name: "everything", faults: []string{"cut", "429", "500"}, works: true, waits: 3},
		{name: "too much", faults: []string{"429", "429", "429", "429", "429"}, waits: 3, advice: "the registry limits pulls"},
		{name: "missing", missing: true},
		{name: "with login", login: "me:secret", have: "me:secret", works: true},
		{name: "without login", login: "me:secret", advice: "docker login"},
		{name: "with a wrong login", login: "me:secret", have: "me:wrong", advice: "docker login"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			config := t.TempDir()
			t.Setenv("DOCKER_CONFIG", config)
			if tt.have != "" {
				auth := fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, r.host, base64.StdEncoding.EncodeToString([]byte(tt.have)))
				if err := os.WriteFile(filepath.Join(config, "config.json"), []byte(auth), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			r.set("", "")
			ref, digest := r.push(t)
			if tt.missing {
				ref += "x"
			}
			waits := 0
			p := pull.Policy{Tries: 4, First: time.Second, Limited: time.Minute, Wait: func(context.Context, time.Duration) error {
				waits++
				return nil
			}}
			err := p.Run(ctx, ref, func() error {
				fault := "" // the next of the list for each try; the daemon asks more than once
				if waits < len(tt.faults) {
					fault = tt.faults[waits]
				}
				r.set(tt.login, fault)
				return c.pullOnce(ctx, ref)
			})
			if tt.works {
				t.Cleanup(func() { c.api.ImageRemove(ctx, ref, image.RemoveOptions{Force: true}) })
				_, there, imageErr := c.Image(ctx, ref)
				if err != nil || imageErr != nil || !there {
					t.Fatalf("pull: %v; then there: %v, %v", err, there, imageErr)
				}
				if diff := cmp.Diff(digest, c.RepoDigest(ctx, ref)); diff != "" {
					t.Errorf("digest (-pushed +pulled):\n%s", diff)
				}
			} else if err == nil || !strings.Contains(err.Error(), tt.advice) || !strings.Contains(err.Error(), ref) {
				t.Errorf("the error is %v, want one that names the image and says %q", err, tt.advice)
			}
			if waits != tt.waits {
				t.Errorf("waited %d times, want %d: %v", waits, tt.waits, err)
			}
		})
	}
}

// By its digest an image stays the same when its tag moves.
func TestPullByDigest(t *testing.T) {
	dockertest.Image(t)
	c := connect(t)
	ctx := context.Background()
	r := newRegistry(t)
	ref, digest := r.push(t)
	byDigest := ref[:strings.LastIndex(ref, ":")] + "@" + digest
	if err := c.Pull(ctx, byDigest); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.api.ImageRemove(ctx, byDigest, image.RemoveOptions{Force: true}) })
	id, there, err := c.Image(ctx, byDigest)
	if err != nil || !there || !strings.HasPrefix(id, "sha256:") || c.RepoDigest(ctx, byDigest) != digest {
		t.Errorf("%s, %v, %v; digest %s, want %s", id, there, err, c.RepoDigest(ctx, byDigest), digest)
	}
	if _, there, err := c.Image(ctx, "evalrun/no-such-image:here"); there || err != nil {
		t.Errorf("an image that is not there: %v, %v", there, err)
	}
}

func TestImageEnv(t *testing.T) {
	ref := dockertest.Image(t)
	c := connect(t)
	env, err := c.ImageEnv(context.Background(), ref)
	want := []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}
	if diff := cmp.Diff(want, env); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
