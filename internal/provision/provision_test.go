package provision

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/moby/buildkit/client"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/images"
	"github.com/evalrun/evalrun/images/builder"
	"github.com/evalrun/evalrun/internal/mirror"
)

// store is an image store and the registry behind it. What is pulled is
// "REF" -> id; a repository digest is the id with "repo" before it.
type store struct {
	mu       sync.Mutex
	local    map[string]string // reference -> id
	registry map[string]string // reference -> id
	pulls    []string
}

func (s *store) Image(_ context.Context, ref string) (string, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, ok := s.local[ref]
	return id, ok, nil
}

func (s *store) Pull(_ context.Context, ref string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pulls = append(s.pulls, ref)
	id, ok := s.registry[ref]
	if !ok {
		return fmt.Errorf("pull %s: not found", ref)
	}
	s.local[ref] = id
	return nil
}

func (s *store) ImageEnv(_ context.Context, ref string) ([]string, error) {
	return []string{"OF=" + ref}, nil
}

func (s *store) RepoDigest(_ context.Context, ref string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.registry {
		if s.local[ref] == id {
			return "sha256:repo-" + id
		}
	}
	return ""
}

func (s *store) BuildKit(context.Context) (*client.Client, func(), error) {
	return nil, nil, errors.New("no solver")
}
func (s *store) Exporter() string                                               { return "moby" }
func (s *store) ResolvesImages() bool                                           { return true }
func (s *store) ImageLabels(context.Context, string) (map[string]string, error) { return nil, nil }

func provider(t *testing.T, s *store, path string, frozen bool) *Provider {
	t.Helper()
	if s.local == nil {
		s.local = map[string]string{}
	}
	lock, err := images.OpenLock(path, frozen)
	if err != nil {
		t.Fatal(err)
	}
	return &Provider{Mode: Pull, Store: s, Lock: lock}
}

func TestPrebuilt(t *testing.T) {
	const named, own = "registry.example/own:1", ""
	official := "swebench/sweb.eval.x86_64.psf_1776_requests-1:latest"
	spaced := "registry.example/ns/sweb.eval.x86_64.psf_1776_requests-1:v2"
	for _, test := range []struct {
		mode      Mode
		image     string
		namespace string
		repos     bool
		want      string // "" builds
	}{
		{Auto, own, "", false, ""},
		{Auto, own, "", true, ""},
		{Auto, named, "", false, named},
		{Auto, named, "", true, ""},
		{Auto, own, "registry.example/ns", false, spaced},
		{Auto, own, "registry.example/ns", true, spaced},
		{Auto, named, "registry.example/ns", true, spaced},
		{Build, named, "", false, ""},
		{Build, own, "registry.example/ns", false, ""},
		{Pull, own, "", false, official},
		{Pull, own, "", true, official},
		{Pull, named, "", true, named},
		{Pull, named, "registry.example/ns", false, spaced},
	} {
		p := &Provider{Mode: test.mode, Namespace: test.namespace, HasRepos: test.repos}
		if test.namespace != "" {
			p.Tag = "v2"
		}
		if got := p.Prebuilt(&datasets.Instance{ID: "psf__requests-1", Image: test.image}); got != test.want {
			t.Errorf("%+v: %q", test, got)
		}
	}
}

func TestPulledOnceForMany(t *testing.T) {
	s := &store{registry: map[string]string{"registry.example/own:1": "one"}}
	p := provider(t, s, filepath.Join(t.TempDir(), "images.lock"), false)
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			img, err := p.Image(context.Background(), &datasets.Instance{ID: fmt.Sprint(i), Image: "registry.example/own:1"})
			if err != nil || img.Digest != "one" || img.Ref != "registry.example/own:1" || img.Env[0] != "OF=registry.example/own:1" {
				t.Errorf("%+v, %v", img, err)
			}
		})
	}
	wg.Wait()
	if len(s.pulls) != 1 {
		t.Errorf("pulls: %v", s.pulls)
	}
	if e, ok := p.Lock.Lookup("pull registry.example/own:1"); !ok || e.Digest != "sha256:repo-one" {
		t.Errorf("locked as %+v", e)
	}
}

// told is what was said of images.
type told struct{ said []string }

func (u *told) Take(image string) { u.said = append(u.said, "take "+image) }
func (u *told) Gone(image string) { u.said = append(u.said, "gone "+image) }
func (u *told) Close()            { u.said = append(u.said, "close") }

// Who keeps account of images is told of those that are given and that are gone, and of
// none that was only looked for.
func TestUsesAreTold(t *testing.T) {
	s := &store{registry: map[string]string{"registry.example/own:1": "one"}, local: map[string]string{"registry.example/own:2": "two"}}
	p := provider(t, s, filepath.Join(t.TempDir(), "images.lock"), false)
	uses := &told{}
	p.Uses = uses
	for tag, want := range map[string]bool{"1": true, "3": false} {
		if _, err := p.Image(t.Context(), &datasets.Instance{ID: tag, Image: "registry.example/own:" + tag}); (err == nil) != want {
			t.Errorf("image %s: %v", tag, err)
		}
	}
	if _, ok, err := p.There(t.Context(), &datasets.Instance{ID: "2", Image: "registry.example/own:2"}); !ok || err != nil {
		t.Error(ok, err)
	}
	p.Forget("one")
	p.Close()
	if want := []string{"take one", "gone one", "close"}; !slices.Equal(uses.said, want) {
		t.Errorf("told %q, want %q", uses.said, want)
	}
}

// An image that was removed is pulled again for the next that asks.
func TestForget(t *testing.T) {
	s := &store{registry: map[string]string{"registry.example/own:1": "one", "registry.example/own:2": "two", "registry.example/own@sha256:repo-one": "one"}}
	p := provider(t, s, filepath.Join(t.TempDir(), "images.lock"), false)
	get := func(tag string) {
		t.Helper()
		if _, err := p.Image(t.Context(), &datasets.Instance{ID: tag, Image: "registry.example/own:" + tag}); err != nil {
			t.Fatal(err)
		}
	}
	get("1")
	get("2")
	clear(s.local)
	p.Forget("one")
	get("1")
	get("2")
	if want := []string{"registry.example/own:1", "registry.example/own:2", "registry.example/own@sha256:repo-one"}; !slices.Equal(s.pulls, want) {
		t.Errorf("pulled %v, want %v", s.pulls, want)
	}
}

// A failed pull fails every instance that wants the image, each by its name.
func TestFailedPull(t *testing.T) {
	p := provider(t, &store{}, filepath.Join(t.TempDir(), "images.lock"), false)
	for _, id := range []string{"a", "b"} {
		_, err := p.Image(context.Background(), &datasets.Instance{ID: id, Image: "registry.example/gone:1"})
		if err == nil || err.Error() != "instance "+id+": pull registry.example/gone:1: not found" {
			t.Errorf("%v", err)
		}
	}
	if s := p.Store.(*store); len(s.pulls) != 1 {
		t.Errorf("pulls: %v", s.pulls)
	}
}

// Once locked, an image is pulled by its digest, wherever the tag points now.
func TestLockedIsPulledByDigest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "images.lock")
	inst := &datasets.Instance{ID: "a", Image: "registry.example:5000/own:1"}
	first := &store{registry: map[string]string{"registry.example:5000/own:1": "one"}}
	if _, err := provider(t, first, path, false).Image(context.Background(), inst); err != nil {
		t.Fatal(err)
	}
	for _, frozen := range []bool{false, true} {
		moved := &store{registry: map[string]string{"registry.example:5000/own:1": "two", "registry.example:5000/own@sha256:repo-one": "one"}}
		moved.local = map[string]string{"registry.example:5000/own:1": "two"}
		p := provider(t, moved, path, frozen)
		img, err := p.Image(context.Background(), inst)
		if err != nil || img.Digest != "one" || img.Ref != "registry.example:5000/own@sha256:repo-one" {
			t.Errorf("frozen %v: %+v, %v", frozen, img, err)
		}
		if len(moved.pulls) != 1 || moved.pulls[0] != "registry.example:5000/own@sha256:repo-one" {
			t.Errorf("frozen %v: pulls %v", frozen, moved.pulls)
		}
	}
}

func TestFrozenPull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "images.lock")
	if err := os.WriteFile(path, []byte(`{"schema_version": 1, "images": {}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	s := &store{registry: map[string]string{"registry.example/own:1": "one"}}
	_, err := provider(t, s, path, true).Image(context.Background(), &datasets.Instance{ID: "a", Image: "registry.example/own:1"})
	if err == nil || !strings.Contains(err.Error(), "--frozen") || len(s.pulls) != 0 {
		t.Errorf("%v, pulls %v", err, s.pulls)
	}
}

// An image made on this machine has no digest of a registry: it is locked by
// its id, and found again.
func TestLocalImageIsLockedByItsID(t *testing.T) {
	path := filepath.Join(t.TempDir(), "images.lock")
	inst := &datasets.Instance{ID: "a", Image: "mine:1"}
	s := &store{local: map[string]string{"mine:1": "sha256:local"}}
	for _, frozen := range []bool{false, false, true} {
		img, err := provider(t, s, path, frozen).Image(context.Background(), inst)
		if err != nil || img.Ref != "mine:1" || img.Digest != "sha256:local" {
			t.Errorf("frozen %v: %+v, %v", frozen, img, err)
		}
	}
	if len(s.pulls) != 0 {
		t.Errorf("pulls: %v", s.pulls)
	}
	s.local["mine:1"] = "sha256:other"
	if _, err := provider(t, s, path, true).Image(context.Background(), inst); err == nil {
		t.Error("another image than the locked one was taken")
	}
}

func TestByDigest(t *testing.T) {
	for ref, want := range map[string]string{
		"a/b:tag": "a/b@d", "a/b": "a/b@d", "registry.example:5000/a/b": "registry.example:5000/a/b@d", "registry.example:5000/a:1": "registry.example:5000/a@d",
		"a/b@sha256:old": "a/b@d", "a/b:tag@sha256:old": "a/b@d", "b:1": "b@d",
	} {
		if got := byDigest(ref, "d"); got != want {
			t.Errorf("%s: %s, want %s", ref, got, want)
		}
	}
}

func TestBuild(t *testing.T) {
	ctx := context.Background()
	s := &store{}
	p := provider(t, s, filepath.Join(t.TempDir(), "images.lock"), false)
	p.Mode = Build
	p.Resolver = &images.Resolver{Base: images.Source{Kind: "debian", Ref: "bookworm"}, BaseDigest: func(context.Context, images.Source) (string, error) { return "sha256:1", nil }}
	p.Builder = builder.New(builder.Options{Engine: s, CacheDir: t.TempDir(), Lock: p.Lock})
	p.Recipes = map[string]*datasets.Recipe{"a": {}}
	inst := &datasets.Instance{ID: "a", Repo: "o/n", BaseCommit: strings.Repeat("1", 40), Image: "named:1"}
	_, err := p.Image(ctx, inst)
	var missing *mirror.NotFoundError
	if !errors.As(err, &missing) || !strings.HasPrefix(err.Error(), "instance a: ") {
		t.Errorf("got %v", err)
	}
	if len(s.pulls) != 0 {
		t.Errorf("pulls: %v", s.pulls)
	}
}

// What an image is called is known before it is there: by its tag, and by the digest that
// is locked.
func TestThere(t *testing.T) {
	const tag, digest = "registry.example/own:1", "registry.example/own@sha256:repo-one"
	inst := &datasets.Instance{ID: "i", Image: tag}
	s := &store{registry: map[string]string{tag: "one", digest: "one"}}
	p := provider(t, s, filepath.Join(t.TempDir(), "images.lock"), false)
	look := func(what, ref, pinned, id string) {
		t.Helper()
		img, ok, err := p.There(t.Context(), inst)
		if err != nil || ok != (id != "") || img.Ref != ref || img.Pinned != pinned || img.Digest != id {
			t.Errorf("%s: %+v, %v, %v", what, img, ok, err)
		}
	}
	look("before it was pulled", tag, "", "")
	if _, err := p.Image(t.Context(), inst); err != nil {
		t.Fatal(err)
	}
	s.local[digest] = "one" // as an engine knows it by both
	look("pulled", digest, digest, "one")
	delete(s.local, tag)
	look("its tag is gone", digest, digest, "one")
	s.local[tag] = "two"
	look("its tag has moved", digest, digest, "one")
	clear(s.local)
	look("gone", tag, digest, "")
	if len(s.pulls) != 1 {
		t.Errorf("pulls: %v", s.pulls)
	}
	p.Scrub = true
	look("to be scrubbed", "", "", "")
}
