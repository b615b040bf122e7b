package instance

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// testbed is a checkout as the image has it: base_commit and its parent.
type testbed struct {
	t    *testing.T
	dir  string
	base string
}

func run(t *testing.T, dir string, env []string, name string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "LC_ALL=C",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=c", "GIT_COMMITTER_EMAIL=c@example.org",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=protocol.file.allow", "GIT_CONFIG_VALUE_0=always")
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (b *testbed) git(args ...string) string {
	b.t.Helper()
	out, err := run(b.t, b.dir, nil, "git", args...)
	if err != nil {
		b.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (b *testbed) write(name, text string) {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// later makes a commit after base_commit and goes back; only its id names it.
func (b *testbed) later() string {
	b.t.Helper()
	b.write("a.txt", "fixed\n")
	b.git("commit", "-q", "-a", "-m", "the fix")
	id := b.git("rev-parse", "HEAD")
	b.git("checkout", "-q", "--detach", b.base)
	return id
}

func newTestbed(t *testing.T) *testbed {
	t.Helper()
	b := &testbed{t: t, dir: t.TempDir()}
	b.git("init", "-q", "--template=")
	b.git("config", "core.logAllRefUpdates", "false")
	for _, text := range []string{"1\n", "2\n"} {
		b.write("a.txt", text)
		b.git("add", "-A")
		b.git("commit", "-q", "-m", text)
	}
	b.base = b.git("rev-parse", "HEAD")
	b.git("checkout", "-q", "--detach", b.base)
	b.git("update-ref", "-d", b.git("for-each-ref", "--format=%(refname)"))
	return b
}

// check runs the script as a build step does.
func (b *testbed) check() (string, error) {
	b.t.Helper()
	return run(b.t, b.dir, []string{"TESTBED=" + b.dir, "BASE=" + b.base}, "bash", "-c", "set -euo pipefail\n"+history)
}

func (b *testbed) pass(what string) {
	b.t.Helper()
	if out, err := b.check(); err != nil {
		b.t.Errorf("%s: refused: %s", what, out)
	}
}

// Every place where a later commit can hide fails the build.
func TestHistoryCheckFindsLaterCommits(t *testing.T) {
	for name, hide := range map[string]func(b *testbed){
		"branch":        func(b *testbed) { b.git("branch", "x", b.later()) },
		"tag":           func(b *testbed) { b.git("tag", "-a", "v2", "-m", "v2", b.later()) },
		"packed refs":   func(b *testbed) { b.git("tag", "v2", b.later()); b.git("pack-refs", "--all") },
		"remote branch": func(b *testbed) { b.git("update-ref", "refs/remotes/origin/main", b.later()) },
		"dangling":      func(b *testbed) { b.later() },
		"dangling, old": func(b *testbed) {
			b.git("tag", "x", b.later())
			b.git("repack", "-a", "-d", "-q")
			b.git("tag", "-d", "x")
		},
		"dangling, kept": func(b *testbed) { b.later(); b.git("repack", "-a", "-d", "-q", "-k") },
		"HEAD":           func(b *testbed) { b.git("checkout", "-q", b.later()) },
		"stash": func(b *testbed) {
			b.write("a.txt", "fixed\n")
			b.git("stash", "-q")
		},
		"notes": func(b *testbed) { b.git("notes", "add", "-m", "the fix is ...", b.base) },
		"reflog": func(b *testbed) {
			b.git("config", "core.logAllRefUpdates", "true")
			b.later()
		},
		"FETCH_HEAD": func(b *testbed) {
			o := newTestbed(b.t)
			o.write("b.txt", "fixed\n")
			o.git("add", "-A")
			o.git("commit", "-q", "-m", "the fix")
			b.git("fetch", "-q", o.dir, "HEAD")
		},
		"alternates": func(b *testbed) {
			o := newTestbed(b.t)
			o.later()
			b.write(".git/objects/info/alternates", filepath.Join(o.dir, ".git/objects")+"\n")
		},
		"alternates to a bare store": func(b *testbed) { b.write(".git/objects/info/alternates", b.t.TempDir()+"\n") },
		"worktree": func(b *testbed) {
			b.git("worktree", "add", "-q", "--detach", filepath.Join(b.t.TempDir(), "w"), b.later())
		},
		"replacement of the parent": func(b *testbed) { b.git("replace", b.git("rev-parse", "HEAD^"), b.later()) },
		"graft as a parent":         func(b *testbed) { b.write(".git/info/grafts", b.base+" "+b.later()+"\n") },
		"remote":                    func(b *testbed) { b.git("remote", "add", "origin", "https://forge.example/o/n") },
		"content in a pack": func(b *testbed) {
			fix := b.later()
			pack := filepath.Join(b.dir, ".git/objects/pack/pack")
			out, err := run(b.t, b.dir, nil, "bash", "-c", "git rev-parse "+fix+":a.txt | git pack-objects -q "+pack)
			if err != nil {
				b.t.Fatal(out)
			}
			// The commit itself is gone; what it changed is not.
			if err := os.Remove(filepath.Join(b.dir, ".git/objects", fix[:2], fix[2:])); err != nil {
				b.t.Fatal(err)
			}
		},
		"tag of content": func(b *testbed) {
			out, err := run(b.t, b.dir, nil, "bash", "-c", "git tag fix $(echo fixed | git hash-object -w --stdin)")
			if err != nil {
				b.t.Fatal(out)
			}
		},
		"alternates of a submodule": func(b *testbed) {
			b.submodule()
			b.write(".git/modules/lib/objects/info/alternates", b.t.TempDir()+"\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newTestbed(t)
			b.pass("untouched")
			hide(b)
			out, err := b.check()
			if err == nil || !strings.Contains(out, "evalrun: history check failed: ") {
				t.Errorf("not found: %v %s", err, out)
			}
			if left, _ := filepath.Glob(filepath.Join(b.dir, "reachable")); left != nil {
				t.Error("the check leaves files in the checkout")
			}
		})
	}
}

// submodule adds a submodule whose history was cloned whole, later commits included.
func (b *testbed) submodule() (dir string) {
	b.t.Helper()
	lib := newTestbed(b.t)
	lib.git("branch", "main")
	fix := lib.later()
	lib.git("branch", "later", fix)
	lib.git("checkout", "-q", "main")
	if err := os.MkdirAll(filepath.Join(b.dir, ".git/modules"), 0o755); err != nil {
		b.t.Fatal(err)
	}
	b.git("clone", "-q", "--no-checkout", "--separate-git-dir", filepath.Join(b.dir, ".git/modules/lib"), "file://"+lib.dir, filepath.Join(b.t.TempDir(), "w"))
	b.git("--git-dir", ".git/modules/lib", "update-ref", "--no-deref", "HEAD", lib.base)
	return filepath.Join(b.dir, ".git/modules/lib")
}

func TestHistoryCheckAcceptsWhatInstallsLeave(t *testing.T) {
	for name, leave := range map[string]func(b *testbed){
		"nothing":               func(*testbed) {},
		"changed files":         func(b *testbed) { b.write("a.txt", "configured\n"); b.write("new file", "") },
		"staged files":          func(b *testbed) { b.write("new", "1"); b.git("add", "new") },
		"staged, then dropped":  func(b *testbed) { b.write("new", "1"); b.git("add", "new"); b.git("reset", "-q") },
		"branch at base_commit": func(b *testbed) { b.git("branch", "main", b.base) },
		"tag before it":         func(b *testbed) { b.git("tag", "-a", "v1", "-m", "v1", "HEAD^") },
		"reflog of itself":      func(b *testbed) { b.git("config", "core.logAllRefUpdates", "true"); b.git("checkout", "-q", "HEAD") },
		"stale FETCH_HEAD":      func(b *testbed) { b.write(".git/FETCH_HEAD", b.base+"\n") },
		"packed":                func(b *testbed) { b.git("repack", "-a", "-d", "-q") },
	} {
		t.Run(name, func(t *testing.T) {
			b := newTestbed(t)
			leave(b)
			b.pass(name)
			for _, trace := range []string{"logs", "FETCH_HEAD", "ORIG_HEAD"} {
				if _, err := os.Stat(filepath.Join(b.dir, ".git", trace)); err == nil {
					t.Errorf(".git/%s is left", trace)
				}
			}
			if out := b.git("show", "--stat"); !strings.Contains(out, "1 file changed") {
				t.Errorf("git show: %s", out)
			}
		})
	}
}

// A submodule that an install step cloned whole is cut to the pinned commit.
func TestHistoryCheckTrimsSubmodules(t *testing.T) {
	b := newTestbed(t)
	dir := b.submodule()
	b.pass("cloned submodule")
	lib := &testbed{t: t, dir: dir}
	stored := lib.git("--git-dir", ".", "cat-file", "--batch-all-objects", "--batch-check=%(objecttype) %(objectname)")
	if n := strings.Count(stored, "commit "); n != 1 {
		t.Errorf("%d commits are left in the submodule:\n%s", n, stored)
	}
	if out := lib.git("--git-dir", ".", "for-each-ref"); out != "" {
		t.Errorf("names left: %s", out)
	}
	if out := lib.git("--git-dir", ".", "show", "HEAD:a.txt"); out != "2" {
		t.Errorf("content: %q", out)
	}
	b.pass("again")
}
