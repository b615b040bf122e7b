package mirror

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// maxTagDistance bounds how much history is kept for the sake of `git describe`.
const maxTagDistance = 3000

// versionFromGit matches build files of projects that ask git for their version.
const versionFromGit = `setuptools_scm|setuptools-scm|hatch-vcs|versioneer|setuptools-git|pbr|git describe|vcversioner|dunamai|versioningit`

// Cut makes, in the empty folder dir, a git directory that holds base_commit,
// its parent, and nothing that came later. Where the project takes its version
// from git, the history back to the nearest earlier tag is kept too, with that
// tag alone. It returns the tag, or "".
func Cut(ctx context.Context, repository, commit, dir string) (tag string, err error) {
	if _, err := Git(ctx, repository, "cat-file", "-e", commit+"^{commit}"); err != nil {
		return "", fmt.Errorf("base_commit %s is not in the local copy %s; fetch it or give another with --repo-mirror",
			commit, filepath.Base(repository))
	}
	depth := 2
	if usesGitVersion(ctx, repository, commit) {
		if t, distance, ok := nearestTag(ctx, repository, commit); ok && distance <= maxTagDistance {
			tag, depth = t, max(2, distance+2)
		}
	}
	if _, err := Git(ctx, "", "init", "--quiet", "--initial-branch=main", "--template=", dir); err != nil {
		return "", err
	}
	absolute, err := filepath.Abs(repository)
	if err != nil {
		return "", err
	}
	// A file URL makes git honour --depth for a local repository.
	fetch := []string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--depth", strconv.Itoa(depth), "file://" + absolute, commit}
	if tag != "" {
		fetch = append(fetch, "refs/tags/"+tag+":refs/tags/"+tag)
	}
	if _, err := Git(ctx, dir, fetch...); err != nil {
		return "", fmt.Errorf("cut history of %s: %w", commit, err)
	}
	if _, err := Git(ctx, dir, "update-ref", "--no-deref", "HEAD", commit); err != nil {
		return "", err
	}
	git := filepath.Join(dir, ".git")
	for _, trace := range []string{"logs", "FETCH_HEAD", "ORIG_HEAD"} {
		if err := os.RemoveAll(filepath.Join(git, trace)); err != nil {
			return "", err
		}
	}
	return tag, nil
}

func usesGitVersion(ctx context.Context, repository, commit string) bool {
	// git grep exits 1 for "not found", which Git reports as an error.
	_, err := Git(ctx, repository, "grep", "-q", "-E", versionFromGit, commit, "--",
		"setup.py", "setup.cfg", "pyproject.toml", "version.py", "setup_build.py")
	return err == nil
}

func nearestTag(ctx context.Context, repository, commit string) (tag string, distance int, ok bool) {
	out, err := Git(ctx, repository, "describe", "--tags", "--long", "--abbrev=40", commit)
	if err != nil {
		return "", 0, false
	}
	// TAG-DISTANCE-gCOMMIT; the tag itself may hold dashes.
	text := strings.TrimSpace(string(out))
	i := strings.LastIndex(text, "-g")
	if i < 0 {
		return "", 0, false
	}
	j := strings.LastIndex(text[:i], "-")
	if j < 0 {
		return "", 0, false
	}
	distance, err = strconv.Atoi(text[j+1 : i])
	return text[:j], distance, err == nil
}
