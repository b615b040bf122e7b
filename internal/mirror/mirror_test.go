package mirror

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestParse(t *testing.T) {
	r := newRepo(t, t.TempDir())
	git := filepath.Join(r.dir, ".git")
	dir := t.TempDir()
	s, err := Parse([]string{dir, "Owner/Name=" + git})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Dirs) != 1 || s.Dirs[0] != dir || s.Exact["owner/name"] != git {
		t.Errorf("got %+v", s)
	}
	for _, bad := range []string{"owner/name=" + dir, filepath.Join(dir, "missing"), filepath.Join(git, "HEAD")} {
		if _, err := Parse([]string{bad}); err == nil || !strings.Contains(err.Error(), "--repo-mirror "+bad) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestFindLayouts(t *testing.T) {
	r := newRepo(t, t.TempDir())
	r.commit("one", nil)
	for _, layout := range []string{
		"psf/requests.git", "psf/requests", "psf__requests.git", "psf__requests", "psf+requests/repo", "psf-requests.git",
		"swe-bench/psf__requests.git", "swe-bench+psf__requests/repo", "requests.git", "requests/.git", "PSF/Requests.git", "PSF+requests/repo",
	} {
		t.Run(layout, func(t *testing.T) {
			dir := t.TempDir()
			want := filepath.Join(dir, layout)
			if err := os.MkdirAll(filepath.Dir(want), 0o755); err != nil {
				t.Fatal(err)
			}
			r.bare(want)
			for _, name := range []string{"psf/requests", "PSF/Requests"} {
				got, err := Set{Dirs: []string{t.TempDir(), dir}}.Find(context.Background(), name)
				if err != nil || got != want {
					t.Errorf("%s: %q, %v; want %q", name, got, err, want)
				}
			}
		})
	}
}

func TestFindPrefersTheOwnersCopy(t *testing.T) {
	r := newRepo(t, t.TempDir())
	r.commit("one", nil)
	dir := t.TempDir()
	other := r.bare(filepath.Join(dir, "redis.git"))
	right := r.bare(filepath.Join(dir, "redis__redis.git"))
	s := Set{Dirs: []string{dir}, Exact: map[string]string{"me/redis": other.dir}}
	for repo, want := range map[string]string{"redis/redis": right.dir, "ME/Redis": other.dir} {
		if got, err := s.Find(context.Background(), repo); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", repo, got, err, want)
		}
	}
}

func TestFindRefuses(t *testing.T) {
	s := Set{Dirs: []string{t.TempDir()}}
	for _, repo := range []string{"", "name", "a/b/c", "../x", "a/..", "/etc/passwd", "a/", "/b"} {
		_, err := s.Find(context.Background(), repo)
		if err == nil || !strings.Contains(err.Error(), "want owner/name") {
			t.Errorf("%q: %v", repo, err)
		}
	}
	_, err := s.Find(context.Background(), "psf/requests")
	var missing *NotFoundError
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "--repo-mirror psf/requests=PATH") {
		t.Errorf("got %v", err)
	}
}

func TestCloneOnce(t *testing.T) {
	from := t.TempDir()
	r := newRepo(t, t.TempDir())
	base := r.commit("one", map[string]string{"a": "1"})
	if err := os.Mkdir(filepath.Join(from, "psf"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.bare(filepath.Join(from, "psf", "requests"))
	s := Set{Clones: t.TempDir(), CloneFrom: "file://" + from + "/"}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			got, err := s.Find(context.Background(), "psf/requests")
			if err != nil || got != filepath.Join(s.Clones, "psf", "requests.git") {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	wg.Wait()
	if data, err := Show(context.Background(), filepath.Join(s.Clones, "psf/requests.git"), base, "a"); err != nil || string(data) != "1" {
		t.Errorf("%q, %v", data, err)
	}
	// The clone is used from then on, whatever became of its source.
	if err := os.RemoveAll(from); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Find(context.Background(), "psf/requests"); err != nil {
		t.Error(err)
	}
	onlyEntry(t, filepath.Join(s.Clones, "psf"), "requests.git")
}

func TestCloneThatFailsLeavesNothing(t *testing.T) {
	s := Set{Clones: t.TempDir(), CloneFrom: "file://" + t.TempDir()}
	_, err := s.Find(context.Background(), "psf/requests")
	if err == nil || !strings.Contains(err.Error(), "clone psf/requests") || !strings.Contains(err.Error(), "--repo-mirror") {
		t.Errorf("got %v", err)
	}
	onlyEntry(t, filepath.Join(s.Clones, "psf"))

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Find(ctx, "psf/other"); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	onlyEntry(t, filepath.Join(s.Clones, "psf"))
}

// ext:: runs a command; a URL must never become one.
func TestCloneRunsNoCommand(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "ran")
	s := Set{Clones: t.TempDir(), CloneFrom: "ext::touch " + marker + " #"}
	if _, err := s.Find(context.Background(), "psf/requests"); err == nil {
		t.Error("no error")
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("the command ran")
	}
}

func onlyEntry(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%s holds %v, want %v", filepath.Base(dir), got, want)
	}
}

func TestShow(t *testing.T) {
	r := newRepo(t, filepath.Join(t.TempDir(), "psf", "requests"))
	base := r.commit("one", map[string]string{"d/a b.txt": "text\r\n"})
	ctx := context.Background()
	if data, err := Show(ctx, r.dir, base, "d/a b.txt"); err != nil || string(data) != "text\r\n" {
		t.Errorf("%q, %v", data, err)
	}
	for _, path := range []string{"missing", "d", "../x", "/etc/passwd", ""} {
		if _, err := Show(ctx, r.dir, base, path); !errors.Is(err, ErrNoFile) {
			t.Errorf("%q: %v", path, err)
		}
	}
	_, err := Show(ctx, r.dir, strings.Repeat("1", 40), "d/a b.txt")
	if err == nil || errors.Is(err, ErrNoFile) || !strings.Contains(err.Error(), "psf/requests") {
		t.Errorf("missing commit: %v", err)
	}
}

// Nothing a mirror's configuration or hooks name may run on this machine.
func TestNothingInAMirrorRuns(t *testing.T) {
	scratch := t.TempDir()
	marker := filepath.Join(scratch, "ran")
	evil := filepath.Join(scratch, "evil.sh")
	if err := os.WriteFile(evil, []byte("#!/bin/sh\necho \"$0 $*\" >> "+marker+"\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	r := newRepo(t, filepath.Join(scratch, "origin"))
	r.commit("one", map[string]string{
		"setup.py": "use_scm_version=True", ".gitattributes": "* filter=evil diff=evil merge=evil\n", "requirements.txt": "pytest\n",
		".gitmodules": "[submodule \"s\"]\n\tpath = s\n\turl = ext::" + evil + "\n\tupdate = !" + evil + "\n",
	})
	r.git("tag", "v1.0")
	r.git("update-index", "--add", "--cacheinfo", "160000,"+r.git("rev-parse", "HEAD")+",s")
	r.git("commit", "-q", "-m", "pin")
	base := r.git("rev-parse", "HEAD")

	// A work tree as mirror reads more of its configuration than a bare one.
	for name, dir := range map[string]string{"bare": r.bare(filepath.Join(scratch, "m.git")).dir, "work tree": filepath.Join(r.dir, ".git")} {
		t.Run(name, func(t *testing.T) {
			config := ""
			for _, key := range []string{
				"core.fsmonitor", "core.sshCommand", "core.gitProxy", "core.alternateRefsCommand", "core.editor", "core.pager", "core.askPass",
				"uploadpack.packObjectsHook", "credential.helper", "diff.external", "diff.evil.textconv", "diff.evil.command", "filter.evil.smudge",
				"filter.evil.clean", "filter.evil.process", "merge.evil.driver", "gpg.program", "pager.grep", "pager.describe", "remote.origin.uploadpack",
				"sequence.editor", "remote.origin.vcs",
			} {
				i := strings.LastIndex(key, ".")
				section, rest, _ := strings.Cut(key[:i], ".")
				if rest != "" {
					section += " \"" + rest + "\""
				}
				config += "[" + section + "]\n\t" + key[i+1:] + " = " + evil + "\n"
			}
			config += "[core]\n\thooksPath = " + filepath.Join(dir, "hooks") + "\n[protocol]\n\tallow = always\n[protocol \"ext\"]\n\tallow = always\n" +
				"[alias]\n\tcat-file = !" + evil + "\n\tgrep = !" + evil + "\n" +
				"[remote \"origin\"]\n\turl = ext::" + evil + "\n\tpromisor = true\n\tpartialclonefilter = blob:none\n[extensions]\n\tpartialClone = origin\n"
			f, err := os.OpenFile(filepath.Join(dir, "config"), os.O_APPEND|os.O_WRONLY, 0o644)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteString(strings.Replace(config, "[core]", "[extensions]\n[core]\n\trepositoryformatversion = 1", 1)); err != nil {
				t.Fatal(err)
			}
			f.Close()
			if err := os.MkdirAll(filepath.Join(dir, "hooks"), 0o755); err != nil {
				t.Fatal(err)
			}
			for _, hook := range []string{"reference-transaction", "post-checkout", "pre-auto-gc", "post-index-change", "update", "pre-receive", "fsmonitor-watchman"} {
				if err := os.Symlink(evil, filepath.Join(dir, "hooks", hook)); err != nil {
					t.Fatal(err)
				}
			}
			ctx := context.Background()
			if _, err := Cut(ctx, dir, base, t.TempDir()); err != nil {
				t.Errorf("cut: %v", err)
			}
			if _, err := Show(ctx, dir, base, "requirements.txt"); err != nil {
				t.Errorf("show: %v", err)
			}
			if subs, err := (Set{}).Submodules(ctx, "o/n", dir, base); err != nil || len(subs) != 1 || subs[0].Missing == "" {
				t.Errorf("submodules: %+v, %v", subs, err)
			}
			// What is missing must not be fetched through the promisor remote.
			absent := strings.Repeat("1", 40)
			if _, err := Show(ctx, dir, absent, "a"); err == nil {
				t.Error("show of a missing commit: no error")
			}
			if _, err := Cut(ctx, dir, absent, t.TempDir()); err == nil {
				t.Error("cut of a missing commit: no error")
			}
			if ran, err := os.ReadFile(marker); err == nil {
				t.Errorf("it ran:\n%s", ran)
				os.Remove(marker)
			}
		})
	}
}

func TestRefresh(t *testing.T) {
	ctx := context.Background()
	r := newRepo(t, filepath.Join(t.TempDir(), "psf", "requests"))
	r.commit("one", nil)
	s := Set{Clones: t.TempDir(), CloneFrom: "file://" + filepath.Dir(filepath.Dir(r.dir))}
	clone, err := s.Find(ctx, "psf/requests")
	if err != nil {
		t.Fatal(err)
	}
	published := r.commit("published since", nil)
	if err := s.Refresh(ctx, clone, published); err != nil {
		t.Fatal(err)
	}
	if c := (&repo{t, clone}); !c.has(published) {
		t.Error("the clone does not have the commit")
	}
	// A mirror somebody gave is left as it is.
	given := r.bare(filepath.Join(t.TempDir(), "m.git"))
	later := r.commit("later", nil)
	if err := s.Refresh(ctx, given.dir, later); err != nil || given.has(later) {
		t.Errorf("%v; the given mirror has the commit: %v", err, given.has(later))
	}
	if err := os.RemoveAll(r.dir); err != nil {
		t.Fatal(err)
	}
	if err := s.Refresh(ctx, clone, published); err != nil {
		t.Errorf("nothing to fetch: %v", err)
	}
	if err := s.Refresh(ctx, clone, later); err == nil || !strings.Contains(err.Error(), "fetch requests.git anew") {
		t.Errorf("source gone: %v", err)
	}
}
