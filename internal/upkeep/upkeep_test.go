package upkeep

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// store is a daemon's; what stands on something keeps it. Those without a kind are
// evalrun's if it has pulled them.
type store struct {
	images []Entry
	stands map[string]string
}

func (s *store) EachImage(_ context.Context, known func(string) (time.Time, bool), f func(id, name, kind string, bytes int64, used time.Time)) error {
	for _, e := range s.images {
		used, pulled := known(e.Name)
		if used.IsZero() {
			used = e.Used
		}
		if e.Kind != "" || pulled {
			f(e.Name, e.Name, e.Kind, e.Bytes, used)
		}
	}
	return nil
}

func (s *store) RemoveImage(_ context.Context, id string) (bool, error) {
	for _, e := range s.images {
		if s.stands[e.Name] == id {
			return false, nil
		}
	}
	s.images = slices.DeleteFunc(s.images, func(e Entry) bool { return e.Name == id })
	return true, nil
}

func put(t *testing.T, path string, size int, used time.Time) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("x", size)), 0o644); err != nil {
		t.Fatal(err)
	}
	for p := path; strings.Contains(p, "cache/"); p = filepath.Dir(p) {
		if err := os.Chtimes(p, used, used); err != nil {
			t.Fatal(err)
		}
	}
}

func TestShowAndTrim(t *testing.T) {
	ctx := context.Background()
	now := time.Now().Truncate(time.Second)
	days := func(n int) time.Time { return now.Add(-time.Duration(n) * 24 * time.Hour) }
	setUp := func() (string, *store) {
		dir := filepath.Join(t.TempDir(), "cache")
		put(t, filepath.Join(dir, "verdicts", "ab", "abcd"), 10, days(40))
		put(t, filepath.Join(dir, "verdicts", "cd", "cdef"), 20, days(1))
		put(t, filepath.Join(dir, "verdicts", "tmp", ".x.0123456789abcdef.tmp"), 5, days(40))
		put(t, filepath.Join(dir, "repositories", "owner", "one.git", "objects", "x"), 100, days(2))
		put(t, filepath.Join(dir, "rootfs", "a.tar"), 1000, days(90))
		put(t, filepath.Join(dir, "somebody-else", "x"), 1, days(90))
		return dir, &store{
			images: []Entry{{Kind: "base", Name: "b", Bytes: 500, Used: days(50)}, {Kind: "env", Name: "e", Bytes: 300, Used: days(50)},
				{Kind: "instance", Name: "i1", Bytes: 30, Used: days(50)}, {Kind: "instance", Name: "i2", Bytes: 40, Used: days(3)}},
			stands: map[string]string{"e": "b", "i1": "e", "i2": "e"},
		}
	}
	list := func(dir string, s *store) []Entry {
		t.Helper()
		files, err := InCache(dir)
		if err != nil {
			t.Fatal(err)
		}
		images, err := InEngine(ctx, "docker", s, NewUses(dir, "daemon"))
		if err != nil {
			t.Fatal(err)
		}
		return append(files, images...)
	}
	dir, s := setUp()
	want := []Total{
		{"base", "docker", 1, 500, days(50), days(50)}, {"env", "docker", 1, 300, days(50), days(50)}, {"instance", "docker", 2, 70, days(50), days(3)},
		{"repositories", "cache", 1, 100, days(2), days(2)}, {"rootfs", "cache", 1, 1000, days(90), days(90)}, {"verdicts", "cache", 2, 30, days(40), days(1)},
	}
	if diff := cmp.Diff(want, Totals(list(dir, s))); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
	tests := []struct {
		name string
		rule Rule
		want []string // that are left
	}{
		{"no reason", Rule{Most: -1}, []string{"a.tar", "ab/abcd", "b", "cd/cdef", "e", "i1", "i2", "owner/one.git"}},
		{"age", Rule{Most: -1, Age: 30 * 24 * time.Hour}, []string{"b", "cd/cdef", "e", "i2", "owner/one.git"}}, // i2 stands on the others
		{"age of a kind", Rule{Most: -1, Age: 30 * 24 * time.Hour, Kinds: []string{"verdicts"}}, []string{"a.tar", "b", "cd/cdef", "e", "i1", "i2", "owner/one.git"}},
		{"size", Rule{Most: 970}, []string{"ab/abcd", "cd/cdef", "b", "e", "i2", "owner/one.git"}},
		{"size, and what nothing stands on any more", Rule{Most: 600}, []string{"b"}},
		{"size of a kind", Rule{Most: 40, Kinds: []string{"instance"}}, []string{"a.tar", "ab/abcd", "b", "cd/cdef", "e", "i2", "owner/one.git"}},
		{"everything", Rule{Most: 0}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir, s := setUp()
			removed, err := tt.rule.Trim(ctx, list(dir, s), now)
			if err != nil || len(removed)+len(tt.want) != 8 {
				t.Errorf("%d removed, %v", len(removed), err)
			}
			var left []string
			for _, e := range list(dir, s) {
				left = append(left, e.Name)
			}
			slices.Sort(left)
			slices.Sort(tt.want)
			if diff := cmp.Diff(tt.want, left); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
			if _, err := os.Stat(filepath.Join(dir, "somebody-else", "x")); err != nil {
				t.Error(err)
			}
		})
	}
}
