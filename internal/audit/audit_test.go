package audit

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// repository is a checkout with a base commit in the past, and what comes later.
type repository struct {
	t    *testing.T
	dir  string
	base string
}

func (r *repository) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org")
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (r *repository) commit(text, date string) string {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, "f"), []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
	r.t.Setenv("GIT_COMMITTER_DATE", date)
	r.git("add", "-A")
	r.git("commit", "-q", "--allow-empty", "-m", text)
	return r.git("rev-parse", "HEAD")
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	r := &repository{t: t, dir: t.TempDir()}
	r.git("init", "-q", "-b", "main", "--template=")
	r.git("config", "core.logAllRefUpdates", "false")
	if err := os.WriteFile(filepath.Join(r.dir, "lib"), []byte("stays as it is"), 0o644); err != nil {
		t.Fatal(err)
	}
	r.commit("one", "2020-01-01T00:00:00Z")
	r.base = r.commit("two", "2020-01-02T00:00:00Z")
	return r
}

// look runs the script on this machine, on one folder only.
func (r *repository) look() History {
	r.t.Helper()
	text := strings.Replace(script, "find / -xdev", "find '"+r.dir+"' -xdev", 1)
	if text == script {
		r.t.Fatal("the script does not look where this test thinks")
	}
	out, err := exec.Command("sh", "-c", text, "sh", "n0nce", r.base).CombinedOutput()
	if err != nil {
		r.t.Fatalf("%v\n%s", err, out)
	}
	h, err := parse("n0nce", string(out))
	if err != nil {
		r.t.Fatal(err)
	}
	return h
}

func TestLater(t *testing.T) {
	for name, hide := range map[string]func(r *repository){
		"branch": func(r *repository) {
			r.git("checkout", "-q", "-b", "x")
			r.commit("fix", "2020-02-01T00:00:00Z")
			r.git("checkout", "-q", r.base)
		},
		"dangling": func(r *repository) { r.commit("fix", "2020-02-01T00:00:00Z"); r.git("reset", "-q", "--hard", r.base) },
		"packed": func(r *repository) {
			r.commit("fix", "2020-02-01T00:00:00Z")
			r.git("tag", "v2")
			r.git("repack", "-adq")
			r.git("reset", "-q", "--hard", r.base)
		},
		"stash": func(r *repository) {
			os.WriteFile(filepath.Join(r.dir, "f"), []byte("fix"), 0o644)
			r.t.Setenv("GIT_COMMITTER_DATE", "2020-02-01T00:00:00Z")
			r.git("stash", "-q")
		},
		"HEAD ahead": func(r *repository) {
			for range 3 {
				r.commit("fix", "2020-02-01T00:00:00Z")
			}
		},
		"reflog": func(r *repository) {
			r.git("config", "core.logAllRefUpdates", "true")
			r.commit("fix", "2020-02-01T00:00:00Z")
			r.git("reset", "-q", "--hard", r.base)
		},
		"notes": func(r *repository) {
			r.t.Setenv("GIT_COMMITTER_DATE", "2020-02-01T00:00:00Z")
			r.git("notes", "add", "-m", "the fix is this")
		},
		"worktree": func(r *repository) {
			r.git("worktree", "add", "-q", "other")
			c := &repository{t: r.t, dir: filepath.Join(r.dir, "other"), base: r.base}
			c.commit("fix", "2020-02-01T00:00:00Z")
			r.git("branch", "-f", "none", r.base)
		},
		"alternates": func(r *repository) {
			later := r.commit("fix", "2020-02-01T00:00:00Z")
			r.git("reset", "-q", "--hard", r.base)
			name := later[:2] + "/" + later[2:]
			spare := filepath.Join(r.dir, "spare")
			err := errors.Join(
				os.MkdirAll(filepath.Join(spare, later[:2]), 0o755),
				os.Rename(filepath.Join(r.dir, ".git/objects", name), filepath.Join(spare, name)),
				os.WriteFile(filepath.Join(r.dir, ".git/objects/info/alternates"), []byte(spare+"\n"), 0o644))
			if err != nil {
				r.t.Fatal(err)
			}
		},
		"shallow": func(r *repository) {
			later := r.commit("fix", "2020-02-01T00:00:00Z")
			r.git("reset", "-q", "--hard", r.base)
			if err := os.WriteFile(filepath.Join(r.dir, ".git/shallow"), []byte(later+"\n"), 0o644); err != nil {
				r.t.Fatal(err)
			}
		},
		"shallow clone": func(r *repository) {
			r.git("checkout", "-q", "-b", "x")
			r.commit("fix", "2020-02-01T00:00:00Z")
			r.git("clone", "-q", "--depth", "1", "file://"+r.dir, "copy")
			r.git("checkout", "-q", "main")
			r.git("branch", "-q", "-D", "x")
			r.git("prune", "--expire=now")
			r.git("gc", "-q", "--prune=now")
		},
		"other repository": func(r *repository) {
			fixed := filepath.Join(r.dir, "hidden")
			r.git("clone", "-q", "--bare", ".", fixed)
			c := &repository{t: r.t, dir: filepath.Join(r.dir, "w"), base: r.base}
			r.git("clone", "-q", fixed, "w")
			c.commit("fix", "2020-02-01T00:00:00Z")
			c.git("push", "-q", "origin", "HEAD:refs/heads/fix")
			os.RemoveAll(c.dir)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepository(t)
			if h := r.look(); !h.Clean() || h.String() != "nothing after base_commit (audited)" {
				t.Fatalf("untouched: %s", h)
			}
			hide(r)
			if h := r.look(); h.Clean() || !strings.Contains(h.String(), "after base_commit") || strings.Contains(h.String(), "nothing") {
				t.Errorf("not found: %s %+v", h, h.Stores)
			}
		})
	}
}

// Neither the past nor what an official image commits on top is a leak.
func TestHarmless(t *testing.T) {
	r := newRepository(t)
	r.git("checkout", "-q", "-b", "old", "HEAD^")
	r.commit("another way", "2019-12-01T00:00:00Z")
	r.git("checkout", "-q", "main")
	r.commit("SWE-bench", "2024-01-01T00:00:00Z")
	if h := r.look(); !h.Clean() || len(h.Stores) != 1 || h.Stores[0].Ahead != 1 || h.Stores[0].Others != 1 {
		t.Errorf("%s %+v", h, h.Stores)
	}
}

// An older copy of the project is none either, nor somebody else's repository.
func TestHarmlessRepositories(t *testing.T) {
	r := newRepository(t)
	r.git("clone", "-q", ".", "older")
	older := &repository{t: t, dir: filepath.Join(r.dir, "older"), base: r.base}
	older.git("reset", "-q", "--hard", "HEAD^")
	older.git("update-ref", "-d", "refs/remotes/origin/main")
	older.git("gc", "-q", "--prune=now")
	r.git("init", "-q", "--template=", "stranger")
	(&repository{t: t, dir: filepath.Join(r.dir, "stranger")}).commit("another project", "2021-01-01T00:00:00Z")
	if h := r.look(); !h.Clean() || len(h.Stores) < 2 {
		t.Errorf("%s %+v", h, h.Stores)
	}
}

func TestParse(t *testing.T) {
	for _, bad := range []string{"", "n store x\n", "n store aGk= yes h 1 2 3 x -\nn done\n", "n what\nn done\n", "x done\n"} {
		if _, err := parse("n", bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
	if h, err := parse("n", "n nogit\n"); err != nil || h.Clean() || !strings.Contains(h.String(), "no git") {
		t.Errorf("%v %v", h, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("n store aGk= yes h 1 2 3 4 a,b,-\nn done\n")
	f.Fuzz(func(t *testing.T, s string) { parse("n", s) })
}
