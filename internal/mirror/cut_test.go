package mirror

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// cut makes the cut of a commit and returns it as a repository.
func cut(t *testing.T, source *repo, commit string) (*repo, string) {
	t.Helper()
	dir := t.TempDir()
	tag, err := Cut(context.Background(), source.dir, commit, dir)
	if err != nil {
		t.Fatal(err)
	}
	return &repo{t, dir}, tag
}

func TestCutHoldsNothingLater(t *testing.T) {
	r := newRepo(t, t.TempDir())
	r.commit("one", map[string]string{"a.txt": "1\n"})
	parent := r.commit("two", map[string]string{"a.txt": "2\n"})
	base := r.commit("base", map[string]string{"a.txt": "3\n"})
	fix := r.commit("the fix", map[string]string{"a.txt": "fixed\n"})
	r.git("tag", "-a", "v2.0", "-m", "later")
	r.git("revert", "--no-edit", fix)
	r.git("checkout", "-q", "-b", "other", base)
	side := r.commit("a fix on a branch", map[string]string{"b.txt": "fixed too\n"})
	r.git("checkout", "-q", "main")
	r.git("merge", "-q", "--no-ff", "-m", "merge", "other")
	r.git("notes", "add", "-m", "see "+fix, base)
	r.git("update-ref", "refs/pull/1/head", fix)

	c, tag := cut(t, r.bare(filepath.Join(t.TempDir(), "m.git")), base)
	if tag != "" {
		t.Errorf("tag %q kept for a project that does not ask git for its version", tag)
	}
	got := c.commits()
	slices.Sort(got)
	want := []string{parent, base}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("commits in the cut: %v, want base_commit and its parent %v", got, want)
	}
	blob := strings.Fields(r.git("rev-parse", fix+":a.txt", side+":b.txt"))
	for _, id := range blob {
		if c.has(id) {
			t.Errorf("content of a later commit is in the cut: %s", id)
		}
	}
	if refs := c.git("for-each-ref"); refs != "" {
		t.Errorf("names left: %s", refs)
	}
	if head := c.git("rev-parse", "HEAD"); head != base {
		t.Errorf("HEAD %s, want %s", head, base)
	}
	if out := c.git("show", "--stat", "HEAD"); !strings.Contains(out, "1 file changed") {
		t.Errorf("git show prints the whole tree:\n%s", out)
	}
	for _, name := range []string{"logs", "FETCH_HEAD", "ORIG_HEAD", "hooks", "objects/info/alternates"} {
		if _, err := os.Lstat(filepath.Join(c.dir, ".git", name)); err == nil {
			t.Errorf(".git/%s is left", name)
		}
	}
	if out, err := c.try("fsck", "--full"); err != nil {
		t.Errorf("fsck: %s", out)
	}
}

func TestCutOfMergeKeepsBothParents(t *testing.T) {
	r := newRepo(t, t.TempDir())
	r.commit("one", map[string]string{"a.txt": "1\n"})
	r.git("checkout", "-q", "-b", "side")
	side := r.commit("side", map[string]string{"b.txt": "1\n"})
	r.git("checkout", "-q", "main")
	first := r.commit("main", map[string]string{"a.txt": "2\n"})
	r.git("merge", "-q", "--no-ff", "-m", "merge", "side")
	base := r.git("rev-parse", "HEAD")
	r.commit("later", nil)
	c, _ := cut(t, r, base)
	for _, p := range []string{side, first} {
		if !c.has(p) {
			t.Errorf("parent %s is missing", p)
		}
	}
}

const setuptoolsSCM = "[build-system]\nrequires = [\"setuptools\", \"setuptools_scm\"]\n"

// A version from git must come out as it does in the whole repository.
func TestCutKeepsTheVersion(t *testing.T) {
	scm := map[string]string{"pyproject.toml": setuptoolsSCM}
	tests := []struct {
		name  string
		build func(r *repo) (base string)
		tag   string
	}{
		{"annotated tag", func(r *repo) string {
			r.commit("one", scm)
			r.git("tag", "-a", "v1.0", "-m", "v1.0")
			r.commit("two", map[string]string{"a": "2"})
			r.commit("three", map[string]string{"a": "3"})
			return r.commit("four", map[string]string{"a": "4"})
		}, "v1.0"},
		{"lightweight tag with dashes", func(r *repo) string {
			r.commit("one", scm)
			r.git("tag", "rel-1-g2")
			return r.commit("two", nil)
		}, "rel-1-g2"},
		{"tag on the commit itself", func(r *repo) string {
			base := r.commit("one", scm)
			r.git("tag", "1.0")
			return base
		}, "1.0"},
		{"names without a number do not count", func(r *repo) string {
			r.commit("one", scm)
			r.git("tag", "v1.0")
			r.commit("two", nil)
			r.git("tag", "stable")
			return r.commit("three", nil)
		}, "v1.0"},
		{"branch from before the tag, merged after it", func(r *repo) string {
			r.commit("one", scm)
			r.git("branch", "old")
			for i := range 30 {
				r.commit("more", map[string]string{"a": strings.Repeat("x", i)})
			}
			r.git("tag", "-a", "v1.0", "-m", "v1.0")
			r.git("checkout", "-q", "old")
			r.commit("side", map[string]string{"b": "1"})
			r.git("checkout", "-q", "main")
			r.git("merge", "-q", "--no-ff", "-m", "merge", "old")
			return r.git("rev-parse", "HEAD")
		}, "v1.0"},
		{"tag of a tag", func(r *repo) string {
			r.commit("one", scm)
			r.git("tag", "-a", "inner", "-m", "inner")
			r.git("tag", "-a", "v1.0", "-m", "outer", "inner")
			return r.commit("two", nil)
		}, "v1.0"},
		{"no tag at all", func(r *repo) string { r.commit("one", scm); return r.commit("two", nil) }, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := newRepo(t, t.TempDir())
			base := test.build(r)
			want, _ := r.try("describe", "--tags", "--long", "--match", "*[0-9]*", base)
			later := r.commit("later", map[string]string{"pyproject.toml": setuptoolsSCM + "# fixed\n"})
			r.git("tag", "-a", "v9.9", "-m", "later")
			c, tag := cut(t, r.bare(filepath.Join(t.TempDir(), "m.git")), base)
			if tag != test.tag {
				t.Errorf("tag %q, want %q", tag, test.tag)
			}
			if got, _ := c.try("describe", "--tags", "--long", "--match", "*[0-9]*"); tag != "" && got != want {
				t.Errorf("described as %q, in the whole repository as %q", got, want)
			}
			if tags := c.git("tag"); tags != test.tag {
				t.Errorf("tags %q, want %q alone", tags, test.tag)
			}
			if c.has(later) {
				t.Error("the later commit is in the cut")
			}
			ancestors := strings.Fields(r.git("rev-list", base))
			for _, id := range c.commits() {
				if !slices.Contains(ancestors, id) {
					t.Errorf("%s is no ancestor of base_commit", id)
				}
			}
			c.git("checkout", "-q", "--force", "--detach", base)
			if out := c.git("status", "--porcelain"); out != "" {
				t.Errorf("not clean after checkout: %s", out)
			}
		})
	}
}

func TestCutFromShallowMirror(t *testing.T) {
	for _, files := range []map[string]string{nil, {"setup.py": "use_scm_version=True  # setuptools_scm\n"}} {
		r := newRepo(t, t.TempDir())
		r.commit("one", map[string]string{"a": "1"})
		r.git("tag", "v0.1")
		r.commit("two", map[string]string{"a": "2"})
		r.git("tag", "v0.2")
		r.commit("three", map[string]string{"a": "3"})
		base := r.commit("base", map[string]string{"a": "4"})
		if files != nil {
			base = r.commit("base", files)
		}
		for _, depth := range []string{"1", "2", "5"} {
			m := r.bare(filepath.Join(t.TempDir(), "m.git"), "--depth", depth)
			c, _ := cut(t, m, base)
			if head := c.git("rev-parse", "HEAD"); head != base {
				t.Errorf("depth %s: HEAD %s", depth, head)
			}
			c.git("checkout", "-q", "--force", "--detach", base)
			c.git("log", "--oneline")
		}
	}
}

func TestCutFromMirrorThatBorrowsObjects(t *testing.T) {
	r := newRepo(t, t.TempDir())
	r.commit("one", map[string]string{"a": "1"})
	base := r.commit("two", map[string]string{"a": "2"})
	dir := filepath.Join(t.TempDir(), "m.git")
	r.git("clone", "-q", "--mirror", "--shared", r.dir, dir)
	c, _ := cut(t, &repo{t, dir}, base)
	if _, err := os.Stat(filepath.Join(c.dir, ".git/objects/info/alternates")); err == nil {
		t.Error("the cut borrows objects from another repository")
	}
	c.git("checkout", "-q", "--detach", base)
}

// A mirror of another user, as on a shared machine, is no reason to refuse.
func TestCutFromMirrorOfAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("giving files away needs root")
	}
	r := newRepo(t, t.TempDir())
	r.commit("one", map[string]string{"setup.cfg": "setuptools_scm"})
	r.git("tag", "v1")
	base := r.commit("two", map[string]string{"a": "2"})
	m := r.bare(filepath.Join(t.TempDir(), "m.git"))
	err := filepath.WalkDir(m.dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, 12345, 12345)
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, tag := cut(t, m, base); tag != "v1" {
		t.Errorf("tag %q", tag)
	}
}

func TestCutErrors(t *testing.T) {
	r := newRepo(t, filepath.Join(t.TempDir(), "owner", "name.git"))
	blob := r.git("rev-parse", r.commit("one", map[string]string{"a": "1"})+":a")
	for _, commit := range []string{strings.Repeat("0", 40), blob, "no-such-branch", "--all"} {
		_, err := Cut(context.Background(), r.dir, commit, t.TempDir())
		if err == nil || !strings.Contains(err.Error(), "is not in the local copy owner/name.git") || !strings.Contains(err.Error(), "--repo-mirror") {
			t.Errorf("commit %s: %v", commit, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Cut(ctx, r.dir, r.git("rev-parse", "HEAD"), t.TempDir()); err != context.Canceled {
		t.Errorf("cancelled: %v", err)
	}
}
