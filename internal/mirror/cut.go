package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// versionFromGit matches build files of projects that ask git for their version.
const versionFromGit = `setuptools_scm|setuptools-scm|hatch-vcs|versioneer|setuptools-git|pbr|git describe|vcversioner|dunamai|versioningit`

// Cut makes, in the empty folder dir, a git directory that holds base_commit,
// its parent, and nothing that came later. Where the project takes its version
// from git, the nearest earlier tag is kept too, alone, with the commits it is
// counted from: the commits, not their trees, which can be a hundred times as
// large. It returns the tag, or "".
func Cut(ctx context.Context, repository, commit, dir string) (tag string, err error) {
	if _, err := Git(ctx, repository, "cat-file", "-e", commit+"^{commit}"); err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		return "", noCommit(repository, commit)
	}
	if err := fetch(ctx, repository, commit, dir, 2); err != nil {
		return "", err
	}
	if usesGitVersion(ctx, repository, commit) {
		if tag, err = addVersion(ctx, repository, commit, dir); err != nil {
			return "", fmt.Errorf("keep the version of %s: %w", commit, err)
		}
	}
	return tag, settle(ctx, dir, commit)
}

// fetch makes a repository with the last commits of a history.
func fetch(ctx context.Context, repository, commit, dir string, depth int) error {
	absolute, err := filepath.Abs(repository)
	if err != nil {
		return err
	}
	if _, err := Git(ctx, "", "init", "--quiet", "--initial-branch=main", "--template=", dir); err != nil {
		return err
	}
	// A file URL makes git honour --depth for a local repository.
	_, err = Git(ctx, dir, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules",
		"--upload-pack", uploadPack, "--depth", strconv.Itoa(depth), "file://"+absolute, commit)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("cut history of %s: %w", commit, err)
	}
	return err
}

// addVersion adds what `git describe` reads: every earlier commit, and one tag.
func addVersion(ctx context.Context, repository, commit, dir string) (tag string, err error) {
	tag = describe(ctx, repository, commit)
	if tag == "" {
		return "", nil
	}
	commits, err := Git(ctx, repository, "rev-list", commit)
	if err != nil {
		return "", err
	}
	object, err := tagObject(ctx, repository, tag)
	if err != nil {
		return "", err
	}
	pack, err := filepath.Abs(filepath.Join(dir, ".git", "objects", "pack", "pack"))
	if err != nil {
		return "", err
	}
	list := append(commits, object+"\n"...)
	if _, err := run(ctx, repository, list, localEnv, "pack-objects", "--quiet", "--window=0", pack); err != nil {
		return "", err
	}
	if err := keepShallow(ctx, repository, commits, dir); err != nil {
		return "", err
	}
	_, err = Git(ctx, dir, "update-ref", "refs/tags/"+tag, object)
	return tag, err
}

// tagObject is the id a tag's name stands for: the tag object of an annotated
// one. A tag of a tag is cut short to its commit.
func tagObject(ctx context.Context, repository, tag string) (string, error) {
	name := "refs/tags/" + tag
	text, err := Git(ctx, repository, "cat-file", "-p", name)
	if err != nil {
		return "", err
	}
	if head, _, _ := bytes.Cut(text, []byte("\n\n")); bytes.Contains(head, []byte("\ntype tag\n")) {
		name += "^{commit}"
	}
	out, err := Git(ctx, repository, "rev-parse", "--verify", name)
	return strings.TrimSpace(string(out)), err
}

// keepShallow says where the history ends: where the mirror's own does, which
// usually is nowhere.
func keepShallow(ctx context.Context, repository string, commits []byte, dir string) error {
	ours := filepath.Join(dir, ".git", "shallow")
	if err := os.Remove(ours); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	out, err := Git(ctx, repository, "rev-parse", "--git-path", "shallow")
	if err != nil {
		return err
	}
	name := strings.TrimSpace(string(out))
	if !filepath.IsAbs(name) {
		name = filepath.Join(repository, name)
	}
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	have := map[string]bool{}
	for _, id := range strings.Fields(string(commits)) {
		have[id] = true
	}
	var ends strings.Builder
	for _, id := range strings.Fields(string(data)) {
		if have[id] {
			ends.WriteString(id + "\n")
		}
	}
	if ends.Len() == 0 {
		return nil
	}
	return os.WriteFile(ours, []byte(ends.String()), 0o644)
}

// settle points HEAD at the commit and removes what else names commits.
func settle(ctx context.Context, dir, commit string) error {
	if _, err := Git(ctx, dir, "update-ref", "--no-deref", "HEAD", commit); err != nil {
		return err
	}
	for _, trace := range []string{"logs", "FETCH_HEAD", "ORIG_HEAD"} {
		if err := os.RemoveAll(filepath.Join(dir, ".git", trace)); err != nil {
			return err
		}
	}
	return nil
}

func usesGitVersion(ctx context.Context, repository, commit string) bool {
	// git grep exits 1 for "not found", which Git reports as an error.
	_, err := Git(ctx, repository, "grep", "-q", "-E", versionFromGit, commit, "--",
		"setup.py", "setup.cfg", "pyproject.toml", "version.py", "setup_build.py")
	return err == nil
}

// describe finds the nearest earlier tag that looks like a version, as the
// tools that ask for one do; "" when there is none.
func describe(ctx context.Context, repository, commit string) string {
	out, err := Git(ctx, repository, "describe", "--tags", "--abbrev=0", "--match", "*[0-9]*", commit)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
