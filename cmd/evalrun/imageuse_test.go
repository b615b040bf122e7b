package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/datasets/swebench"
	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/sandboxtest"
	"github.com/evalrun/evalrun/internal/upkeep"
)

// pulledStore is that of a daemon in which there are images of others. All were made long
// ago, and it knows nothing else of their use.
type pulledStore struct {
	fullStore
	mu  sync.Mutex
	ids map[string]string // by reference
}

func (s *pulledStore) Image(_ context.Context, ref string) (string, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, ok := s.ids[ref]
	return id, ok, nil
}

func (s *pulledStore) Pull(_ context.Context, ref string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids[ref] = "sha256:" + ref[strings.LastIndex(ref, "name-"):len(ref)-len(":latest")]
	return nil
}

func (s *pulledStore) ImageIDs(context.Context) (map[string]bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := map[string]bool{}
	for _, id := range s.ids {
		ids[id] = true
	}
	return ids, nil
}

func (s *pulledStore) EachImage(_ context.Context, known func(string) (time.Time, bool), f func(id, name, kind string, bytes int64, used time.Time)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ref, id := range s.ids {
		used, pulled := known(id)
		if used.IsZero() {
			used = time.Now().Add(-90 * 24 * time.Hour)
		}
		if pulled {
			f(id, ref, "", 1<<20, used)
		}
	}
	return nil
}

func (s *pulledStore) RemoveImage(_ context.Context, id string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.ids)
	maps.DeleteFunc(s.ids, func(_, have string) bool { return have == id })
	return len(s.ids) < before, nil
}

// there are the images of the store.
func (s *pulledStore) there() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Values(s.ids))
}

// What a run has pulled is shown and trimmed by when it was used, except while a run has
// it; what was there before is let alone, under whatever name it is pulled.
func TestPulledImagesAreKnown(t *testing.T) {
	var list []patchLine
	for i, id := range []string{"name-000", "name-001", "name-002", "name-003"} {
		list = append(list, patchLine{id, "a", patchOf("PATCH-GOOD", i)})
	}
	dir, out := data(t, len(list), list...), t.TempDir()
	f := newFakeEngine()
	named := swebench.ImageName(&datasets.Instance{ID: "name-000", Repo: "owner/name"}, "swebench", "latest")
	store := &pulledStore{ids: map[string]string{named: "sha256:name-000", "somebody/else:1": "sha256:name-003"}}
	f.store = store
	cacheDir := filepath.Join(out, "cache")
	prune := func(how ...string) []string {
		return append([]string{"cache", "prune", "--cache", cacheDir, "--kind", "pulled"}, how...)
	}
	var once sync.Once
	exec := f.fake.OnExec
	f.fake.OnExec = func(ctx context.Context, box *sandboxtest.FakeSandbox, cmd sandbox.Command) (sandbox.Result, error) {
		if box.Spec.Labels["evalrun.instance"] == "name-001" {
			once.Do(func() {
				var said strings.Builder
				if code := f.main(prune("--max-size", "0"), &said, &said); code != exitFine || !slices.Contains(store.there(), "sha256:name-001") {
					t.Errorf("while the run goes on: exit code %d, left are %v\n%s", code, store.there(), said.String())
				}
			})
		}
		return exec(ctx, box, cmd)
	}
	f.run(t, exitFine, fakeRun(dir, out))
	once.Do(func() { t.Error("name-001 was not run") })

	text, _ := f.run(t, exitFine, []string{"cache", "du", "--cache", cacheDir, "--json", "--all"})
	var entries []upkeep.Entry
	if err := json.Unmarshal([]byte(text), &entries); err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, e := range entries {
		if e.Kind == "pulled" {
			shown = append(shown, e.Name)
			if e.Where != "fake" || e.Bytes != 1<<20 || time.Since(e.Used) > time.Hour {
				t.Errorf("shown as %+v", e)
			}
		}
	}
	slices.Sort(shown)
	one, two := strings.Replace(named, "000", "001", 1), strings.Replace(named, "000", "002", 1)
	if diff := cmp.Diff([]string{one, two}, shown); diff != "" {
		t.Errorf("shown as pulled (-want +got):\n%s", diff)
	}

	makeOld(t, filepath.Join(cacheDir, "image-uses"), 40*24*time.Hour)
	f.run(t, exitFine, fakeRun(dir, out, "-i", "name-001", "--run-id", "again"))
	if said, _ := f.run(t, exitFine, prune("--older-than", "30d")); !strings.Contains(said, "fake: removed 1 of pulled") {
		t.Errorf("said %q", said)
	}
	if diff := cmp.Diff([]string{"sha256:name-000", "sha256:name-001", "sha256:name-003", "sha256:name-003"}, store.there()); diff != "" {
		t.Errorf("left by age (-want +got):\n%s", diff)
	}
	f.run(t, exitFine, prune("--max-size", "0"))
	if diff := cmp.Diff([]string{"sha256:name-000", "sha256:name-003", "sha256:name-003"}, store.there()); diff != "" {
		t.Errorf("left in the end (-want +got):\n%s", diff)
	}
}

// makeOld makes files look as if they had been written some time ago.
func makeOld(t *testing.T, dir string, by time.Duration) {
	t.Helper()
	then, n := time.Now().Add(-by), 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		n++
		return os.Chtimes(path, then, then)
	})
	if err != nil || n == 0 {
		t.Fatalf("%d files made old, %v", n, err)
	}
}

// A run whose uses cannot be written down is a run, and says so once.
func TestUsesCannotBeNoted(t *testing.T) {
	dir, out := data(t, 2, patchLine{"name-000", "a", patchOf("PATCH-GOOD", 0)}, patchLine{"name-001", "a", patchOf("PATCH-GOOD", 1)}), t.TempDir()
	f := newFakeEngine()
	f.store = &pulledStore{ids: map[string]string{}}
	if err := errors.Join(os.MkdirAll(filepath.Join(out, "cache"), 0o755), os.WriteFile(filepath.Join(out, "cache", "image-uses"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	if _, stderr := f.run(t, exitFine, fakeRun(dir, out)); strings.Count(stderr, "it cannot be noted which images this run uses") != 1 {
		t.Error(stderr)
	}
}
