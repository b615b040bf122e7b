// Package mirror finds bare copies of public repositories on this machine and
// cuts from them the history one instance may see.
//
// It runs git on the host and nothing else: no containers, no network but an
// explicit clone.
package mirror

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/evalrun/evalrun/cache"
)

// Set is where repositories are looked for, in order.
type Set struct {
	Dirs  []string          // folders of bare repositories
	Exact map[string]string // owner/name -> repository, case-insensitive; keys are lower case
	// Clones is where a repository found nowhere else is cloned to, from
	// CloneFrom + "/owner/name"; no cloning when CloneFrom is empty.
	Clones    string
	CloneFrom string
}

// Parse reads --repo-mirror values: DIR, or OWNER/NAME=REPOSITORY.
func Parse(values []string) (Set, error) {
	s := Set{Exact: map[string]string{}}
	for _, v := range values {
		if name, path, ok := strings.Cut(v, "="); ok {
			if !isRepository(path) {
				return s, fmt.Errorf("--repo-mirror %s: %s is not a git repository", v, path)
			}
			s.Exact[strings.ToLower(name)] = path
			continue
		}
		if info, err := os.Stat(v); err != nil || !info.IsDir() {
			return s, fmt.Errorf("--repo-mirror %s: not a folder", v)
		}
		s.Dirs = append(s.Dirs, v)
	}
	return s, nil
}

// NotFoundError says a repository is on none of the mirrors.
type NotFoundError struct{ Repo string }

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("no local copy of %s: give one with --repo-mirror DIR (bare repositories as DIR/%s.git) or --repo-mirror %s=PATH",
		e.Repo, e.Repo, e.Repo)
}

// Find returns the bare repository of owner/name, cloning it if the set allows.
func (s Set) Find(ctx context.Context, repo string) (string, error) {
	if p, ok := s.Exact[strings.ToLower(repo)]; ok {
		return p, nil
	}
	owner, name, ok := strings.Cut(repo, "/")
	if !ok || owner == "" || name == "" || !filepath.IsLocal(repo) || strings.Contains(name, "/") || strings.Contains(repo, "..") {
		return "", fmt.Errorf("repository %q: want owner/name", repo)
	}
	for _, dir := range append(append([]string{}, s.Dirs...), s.Clones) {
		if dir == "" {
			continue
		}
		for _, n := range append(layouts(owner, name), layouts(strings.ToLower(owner), strings.ToLower(name))...) {
			for _, suffix := range []string{".git", "", "/repo", "/.git"} {
				if p := filepath.Join(dir, n) + suffix; isRepository(p) {
					return p, nil
				}
			}
		}
	}
	if s.CloneFrom == "" || s.Clones == "" {
		return "", &NotFoundError{Repo: repo}
	}
	return s.clone(ctx, repo)
}

// layouts are the names people keep a repository under: a forge's own,
// flattened ones, and the forks benchmarks keep under an organisation of their
// own. The name alone comes last, since it could be another owner's.
func layouts(owner, name string) []string {
	flat := owner + "__" + name
	return []string{
		filepath.Join(owner, name), flat, owner + "+" + name, owner + "-" + name,
		filepath.Join("swe-bench", flat), "swe-bench+" + flat, name,
	}
}

func (s Set) clone(ctx context.Context, repo string) (string, error) {
	final := filepath.Join(s.Clones, repo) + ".git"
	// Workers that want the same repository must not all download it.
	unlock, err := cache.Lock(ctx, filepath.Join(s.Clones, ".locks", strings.ReplaceAll(repo, "/", "__")))
	if err != nil {
		return "", err
	}
	defer unlock()
	if isRepository(final) {
		return final, nil
	}
	if err := os.MkdirAll(filepath.Dir(final), 0o755); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(final), ".clone-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	url := strings.TrimSuffix(s.CloneFrom, "/") + "/" + repo
	if _, err := run(ctx, "", nil, cloneEnv, "clone", "--quiet", "--mirror", "--template=", url, tmp); err != nil {
		if ctx.Err() != nil {
			return "", err
		}
		return "", fmt.Errorf("clone %s (give a local copy with --repo-mirror if this machine cannot reach it): %w", repo, err)
	}
	return final, os.Rename(tmp, final)
}

func isRepository(path string) bool {
	_, err := os.Stat(filepath.Join(path, "objects"))
	if err != nil {
		return false
	}
	_, err = os.Stat(filepath.Join(path, "HEAD"))
	return err == nil
}

// shortName names a repository in a message: the last folder alone is "repo" or
// ".git" in some layouts, and the whole path is no business of a report.
func shortName(repository string) string {
	return filepath.Join(filepath.Base(filepath.Dir(repository)), filepath.Base(repository))
}

func noCommit(repository, commit string) error {
	return fmt.Errorf("commit %s is not in the local copy %s; fetch it or give another with --repo-mirror", commit, shortName(repository))
}

// Refresh fetches anew a repository that was cloned here and lacks a commit: it
// was cloned before the commit was published. Others are their owner's.
func (s Set) Refresh(ctx context.Context, repository, commit string) error {
	if s.CloneFrom == "" || !strings.HasPrefix(repository, filepath.Clean(s.Clones)+string(filepath.Separator)) {
		return nil
	}
	if _, err := Git(ctx, repository, "cat-file", "-e", commit+"^{commit}"); err == nil {
		return nil
	}
	unlock, err := cache.Lock(ctx, repository+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := run(ctx, repository, nil, cloneEnv, "fetch", "--quiet", "origin"); err != nil {
		return fmt.Errorf("fetch %s anew: %w", filepath.Base(repository), err)
	}
	return nil
}

// ErrNoFile is returned by Show for a path that does not exist at the commit.
var ErrNoFile = errors.New("no such file at that commit")

// Show returns a file's content at a commit.
func Show(ctx context.Context, repository, commit, path string) ([]byte, error) {
	out, err := Git(ctx, repository, "cat-file", "blob", commit+":"+path)
	if err != nil {
		if _, commitErr := Git(ctx, repository, "cat-file", "-e", commit+"^{commit}"); commitErr != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, noCommit(repository, commit)
		}
		return nil, ErrNoFile
	}
	return out, nil
}
