package upkeep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// names lists what is there of evalrun's, with its kind.
func names(t *testing.T, s *store, noted *Uses) []string {
	t.Helper()
	list, err := InEngine(t.Context(), "docker", s, noted)
	must(t, err)
	var out []string
	for _, e := range list {
		out = append(out, e.Kind+" "+e.Name)
	}
	slices.Sort(out)
	return out
}

// threeImages are one that evalrun has built, one that it has pulled, and one that was
// there before, all made 90 days ago.
func threeImages(t *testing.T) (*store, string) {
	t.Helper()
	made := time.Now().Add(-90 * 24 * time.Hour)
	s := &store{images: []Entry{{Kind: "instance", Name: "sha256:b", Bytes: 10, Used: made}, {Name: "sha256:c", Bytes: 20, Used: made}, {Name: "sha256:d", Bytes: 30, Used: made}}}
	dir := t.TempDir()
	noted := NewUses(dir, "daemon")
	must(t, noted.Pulled(Pull{"sha256:c", "example/c:1", "docker"}), noted.Take("sha256:d"))
	noted.Close()
	return s, dir
}

// What evalrun has pulled is its own, and nobody else's is, though runs use it; nor is
// what another daemon has by the same name.
func TestPulledIsOurs(t *testing.T) {
	s, dir := threeImages(t)
	if diff := cmp.Diff([]string{"instance sha256:b", "pulled sha256:c"}, names(t, s, NewUses(dir, "daemon"))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := names(t, s, NewUses(dir, "another")); !slices.Equal(got, []string{"instance sha256:b"}) {
		t.Errorf("of another daemon: %v", got)
	}
	removed, err := Rule{Most: 0}.Trim(t.Context(), mustList(t, s, dir), time.Now())
	if err != nil || len(removed) != 2 || len(s.images) != 1 || s.images[0].Name != "sha256:d" {
		t.Errorf("removed %v, left %v, %v", removed, s.images, err)
	}
	// Somebody pulls it, now that evalrun's is gone.
	s.images = append(s.images, Entry{Name: "sha256:c"})
	if got := names(t, s, NewUses(dir, "daemon")); len(got) > 0 {
		t.Errorf("evalrun takes %v for its own, which it has removed", got)
	}
}

func mustList(t *testing.T, s *store, dir string) []Entry {
	t.Helper()
	list, err := InEngine(t.Context(), "docker", s, NewUses(dir, "daemon"))
	must(t, err)
	return list
}

// What was used lately stays, however long ago it was made; of what no run has used that
// is what there is to go by.
func TestLastUse(t *testing.T) {
	s, dir := threeImages(t)
	s.images = append(s.images, Entry{Kind: "env", Name: "sha256:e", Bytes: 40, Used: time.Now().Add(-90 * 24 * time.Hour)})
	noted := NewUses(dir, "daemon")
	must(t, noted.Take("sha256:b"), noted.Take("sha256:c"))
	noted.Close()
	ago := func(days int) time.Time { return time.Now().Add(-time.Duration(days) * 24 * time.Hour) }
	old := ago(40)
	for _, suffix := range []string{usedSuffix, pulledSuffix} {
		must(t, os.Chtimes(noted.file("sha256:c", suffix), old, old))
	}
	removed, err := Rule{Most: -1, Age: 30 * 24 * time.Hour}.Trim(t.Context(), mustList(t, s, dir), time.Now())
	var gone []string
	for _, e := range removed {
		gone = append(gone, e.Name)
	}
	slices.Sort(gone)
	if err != nil || !slices.Equal(gone, []string{"sha256:c", "sha256:e"}) {
		t.Errorf("removed %v, %v; want what was used 40 days ago, and what was made 90 days ago and never used", gone, err)
	}
	for _, e := range mustList(t, s, dir) {
		if e.Name == "sha256:b" && time.Since(e.Used) > time.Hour {
			t.Errorf("used %s", e.Used)
		}
	}
}

// A run writes the use of an image once, and a later one writes it again.
func TestUseIsNotedOncePerRun(t *testing.T) {
	dir := t.TempDir()
	run := NewUses(dir, "daemon")
	must(t, run.Take("sha256:a"))
	old := time.Now().Add(-time.Hour)
	file := run.file("sha256:a", usedSuffix)
	must(t, os.Chtimes(file, old, old), run.Take("sha256:a"))
	at := func() time.Time {
		info, err := os.Stat(file)
		must(t, err)
		return info.ModTime()
	}
	if !at().Equal(old) {
		t.Error("the second attempt in an image writes, too")
	}
	next := NewUses(dir, "daemon")
	must(t, next.Take("sha256:a"))
	if time.Since(at()) > time.Minute {
		t.Error("the use of a second run is not noted")
	}
}

// What a run has taken stays until the run ends, or its process is killed.
func TestTakenStays(t *testing.T) {
	for what, end := range map[string]func(*Uses) error{
		"closed": func(u *Uses) error { u.Close(); return nil },
		"killed": func(u *Uses) error { return u.run.Close() }, // as the system does it
	} {
		s, dir := threeImages(t)
		run := NewUses(dir, "daemon")
		must(t, run.Take("sha256:b"), run.Take("sha256:c"))
		for range 2 { // looking does not loosen it
			removed, err := Rule{Most: 0}.Trim(t.Context(), mustList(t, s, dir), time.Now())
			if err != nil || len(removed) > 0 {
				t.Fatalf("%s: %v was removed while a run had taken it, %v", what, removed, err)
			}
		}
		must(t, end(run))
		removed, err := Rule{Most: 0}.Trim(t.Context(), mustList(t, s, dir), time.Now())
		if err != nil || len(removed) != 2 {
			t.Errorf("%s: removed %v, %v; want both", what, removed, err)
		}
		left, err := filepath.Glob(filepath.Join(run.dir, "*"+runSuffix))
		if err != nil || len(left) > 0 {
			t.Errorf("%s: %v is left", what, left)
		}
	}
}

// What is noted of images that are not there any more goes when the others are listed,
// but not what came meanwhile.
func TestGoneIsForgotten(t *testing.T) {
	s, dir := threeImages(t)
	noted := NewUses(dir, "daemon")
	must(t, noted.Pulled(Pull{Image: "sha256:x"}), noted.Pulled(Pull{Image: "sha256:y"}))
	late := lateStore{s, func() {
		later := time.Now().Add(time.Second)
		must(t, noted.Pulled(Pull{Image: "sha256:y"}), os.Chtimes(noted.file("sha256:y", pulledSuffix), later, later))
	}}
	_, err := InEngine(t.Context(), "docker", late, noted)
	must(t, err)
	known, err := noted.load()
	must(t, err)
	var left []string
	for name := range known {
		left = append(left, name)
	}
	slices.Sort(left)
	if want := []string{"sha256:c", "sha256:d", "sha256:y"}; !slices.Equal(left, want) {
		t.Errorf("noted are %v, want %v", left, want)
	}
}

// lateStore is one in which something happens when all was listed.
type lateStore struct {
	*store
	then func()
}

func (s lateStore) EachImage(ctx context.Context, known func(string) (time.Time, bool), f func(id, name, kind string, bytes int64, used time.Time)) error {
	defer s.then()
	return s.store.EachImage(ctx, known, f)
}

// Processes share the folder, and a crash while something is written leaves nothing that
// stays.
func TestUsesAreShared(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for range 4 {
		noted := NewUses(dir, "daemon")
		for i := range 8 {
			all.Go(func() {
				image := fmt.Sprintf("sha256:%d", i)
				if err := errors.Join(noted.Take(image), noted.Pulled(Pull{Image: image})); err != nil {
					t.Error(err)
				}
				if !NewUses(dir, "daemon").held(image) {
					t.Errorf("%s is not held", image)
				}
			})
		}
	}
	all.Wait()
	noted := NewUses(dir, "daemon")
	known, err := noted.load()
	must(t, err)
	for i := range 8 {
		if last, pulled := known.of(fmt.Sprintf("sha256:%d", i)); !pulled || time.Since(last) > time.Minute {
			t.Errorf("image %d: used %s, pulled %v", i, last, pulled)
		}
	}
	old := time.Now().Add(-2 * time.Hour)
	torn := filepath.Join(noted.dir, ".run.0123456789abcdef.tmp")
	must(t, os.WriteFile(torn, nil, 0o644), os.Chtimes(torn, old, old), noted.Take("sha256:0"))
	if _, err := os.Stat(torn); err == nil {
		t.Error("what a killed process was about to take is left")
	}
}

// The folder does not grow without bound where nobody ever lists what there is.
func TestUsesAreBounded(t *testing.T) {
	noted := NewUses(t.TempDir(), "daemon")
	must(t, os.MkdirAll(noted.dir, 0o755))
	for i := range mostUses + 1 {
		must(t, os.WriteFile(noted.file(fmt.Sprintf("sha256:%d", i), usedSuffix), nil, 0o644))
	}
	old := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(noted.file("sha256:7", usedSuffix), old, old), noted.Take("sha256:new"))
	known, err := noted.load()
	must(t, err)
	if _, oldest := known["sha256:7"]; len(known) > mostUses || oldest || known["sha256:new"] == nil {
		t.Errorf("%d are noted, of them the oldest: %v", len(known), oldest)
	}
}
