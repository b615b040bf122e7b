package mirror

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// library makes DIR/owner/name.git with two commits and returns their ids.
func library(t *testing.T, dir, name, file string) (pinned, later string) {
	t.Helper()
	r := newRepo(t, t.TempDir())
	r.commit("first", map[string]string{file: "0\n"})
	pinned = r.commit("pinned", map[string]string{file: "1\n"})
	later = r.commit("later", map[string]string{file: "2\n"})
	if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
		t.Fatal(err)
	}
	r.bare(filepath.Join(dir, name+".git"))
	return pinned, later
}

// pin commits submodules: name -> path, url, commit.
func (r *repo) pin(modules map[string][3]string) string {
	r.t.Helper()
	text := ""
	for name, m := range modules {
		text += "[submodule \"" + name + "\"]\n\tpath = " + m[0] + "\n\turl = " + m[1] + "\n"
		if m[2] != "" {
			r.git("update-index", "--add", "--cacheinfo", "160000,"+m[2]+","+m[0])
		}
	}
	if err := os.WriteFile(filepath.Join(r.dir, ".gitmodules"), []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
	r.git("add", ".gitmodules")
	r.git("commit", "-q", "-m", "pin")
	return r.git("rev-parse", "HEAD")
}

func TestSubmodulesOffline(t *testing.T) {
	dir := t.TempDir()
	ctx := context.Background()
	inner, _ := library(t, dir, "deep/inner", "inner.c")
	oniguruma, later := library(t, dir, "kkos/oniguruma", "regex.c")

	// A submodule with a submodule of its own, by a relative URL.
	nested := newRepo(t, t.TempDir())
	nested.commit("one", map[string]string{"nested.c": "1\n"})
	nestedCommit := nested.pin(map[string][3]string{"inner": {"third party/inner", "../inner.git", inner}})
	if err := os.MkdirAll(filepath.Join(dir, "deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	nested.bare(filepath.Join(dir, "deep", "nested.git"))

	r := newRepo(t, t.TempDir())
	r.commit("one", map[string]string{"main.c": "1\n"})
	base := r.pin(map[string][3]string{
		"modules/oniguruma": {"modules/oniguruma", "https://forge.example/kkos/oniguruma.git", oniguruma},
		"nested":            {"vendor/nested", "git@forge.example:deep/nested", nestedCommit},
		"absent":            {"vendor/absent", "https://forge.example/no/where.git", oniguruma},
		"moved":             {"vendor/moved", "https://forge.example/kkos/oniguruma", strings.Repeat("3", 40)},
		"not pinned":        {"vendor/unpinned", "https://forge.example/kkos/oniguruma", ""},
	})
	mirrors := Set{Dirs: []string{dir}}
	subs, err := mirrors.Submodules(ctx, "jqlang/jq", r.dir, base)
	if err != nil {
		t.Fatal(err)
	}
	missing := map[string]string{
		"modules/oniguruma": "", "vendor/nested": "", "vendor/absent": "no local copy of no/where",
		"vendor/moved": "the local copy of kkos/oniguruma does not have commit " + strings.Repeat("3", 40),
	}
	if len(subs) != len(missing) {
		t.Errorf("submodules %+v", subs)
	}
	for _, m := range subs {
		if want, ok := missing[m.Path]; !ok || m.Missing != want {
			t.Errorf("%s: missing %q, want %q", m.Path, m.Missing, want)
		}
	}

	c, _ := cut(t, r, base)
	if err := AddSubmodules(ctx, c.dir, subs); err != nil {
		t.Fatal(err)
	}
	// From here on there is nothing to fetch from.
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	c.git("checkout", "-q", "--force", "--detach", base)
	c.git("submodule", "update", "--init", "--recursive", "--", "modules/oniguruma", "vendor/nested")
	for name, want := range map[string]string{"modules/oniguruma/regex.c": "1\n", "vendor/nested/nested.c": "1\n", "vendor/nested/third party/inner/inner.c": "1\n"} {
		if got, err := os.ReadFile(filepath.Join(c.dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if out := c.git("status", "--porcelain"); out != "" {
		t.Errorf("not clean: %s", out)
	}
	module := &repo{t, filepath.Join(c.dir, "modules/oniguruma")}
	if got := module.commits(); len(got) != 1 || got[0] != oniguruma || module.has(later) {
		t.Errorf("the submodule holds %v, want %s alone", got, oniguruma)
	}
	if refs := module.git("for-each-ref"); refs != "" {
		t.Errorf("names left in the submodule: %s", refs)
	}
}

func TestHostileSubmodulesAreLeftOut(t *testing.T) {
	dir := t.TempDir()
	commit, _ := library(t, dir, "o/lib", "a")
	r := newRepo(t, t.TempDir())
	r.commit("one", nil)
	base := r.pin(map[string][3]string{
		"../../outside": {"one", "https://forge.example/o/lib", commit},
		"fine":          {"two", "https://forge.example/o/lib", commit},
		"-option":       {"three", "https://forge.example/o/lib", commit},
		"climbs":        {"four", "https://forge.example/../../etc", commit},
	})
	subs, err := Set{Dirs: []string{dir}}.Submodules(context.Background(), "a/b", r.dir, base)
	if err != nil {
		t.Fatal(err)
	}
	c, _ := cut(t, r, base)
	if err := AddSubmodules(context.Background(), c.dir, subs); err != nil {
		t.Fatal(err)
	}
	onlyEntry(t, filepath.Join(c.dir, ".git", "modules"), "fine")
	onlyEntry(t, c.dir, ".git")
}

func TestSubmodulesOfARepositoryWithout(t *testing.T) {
	r := newRepo(t, t.TempDir())
	base := r.commit("one", map[string]string{"a": "1"})
	if subs, err := (Set{}).Submodules(context.Background(), "a/b", r.dir, base); err != nil || subs != nil {
		t.Errorf("%v, %v", subs, err)
	}
	broken := r.commit("two", map[string]string{".gitmodules": "[submodule \"x\nnonsense"})
	if _, err := (Set{}).Submodules(context.Background(), "a/b", r.dir, broken); err == nil || !strings.Contains(err.Error(), ".gitmodules at "+broken) {
		t.Errorf("broken .gitmodules: %v", err)
	}
}

func TestRepoOf(t *testing.T) {
	for url, want := range map[string]string{
		"https://github.com/kkos/oniguruma.git": "kkos/oniguruma", "https://github.com/kkos/oniguruma/": "kkos/oniguruma",
		"git@github.com:kkos/oniguruma.git": "kkos/oniguruma", "ssh://git@forge.example:22/a/kkos/oniguruma": "kkos/oniguruma",
		"git://forge.example/x.git": "", "https://forge.example": "", "oniguruma": "", "": "", "https://forge.example/../x": "",
	} {
		if got := repoOf(url); got != want {
			t.Errorf("%q: %q, want %q", url, got, want)
		}
	}
	for _, test := range [][3]string{
		{"https://github.com/a/b", "../c.git", "https://github.com/a/c.git"},
		{"https://github.com/a/b", "./c", "https://github.com/a/b/c"},
		{"https://github.com/a/b", "../../c/d", "https://github.com/c/d"},
		{"git@github.com:a/b", "../c", "git@github.com:a/c"},
		{"https://github.com/a/b", "https://x.example/c", "https://x.example/c"},
	} {
		if got := resolveURL(test[0], test[1]); got != test[2] {
			t.Errorf("%s from %s: %q, want %q", test[1], test[0], got, test[2])
		}
	}
}
