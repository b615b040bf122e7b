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
	"slices"
	"strconv"
	"strings"
	"time"

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
		for _, n := range layouts(owner, name) {
			for _, suffix := range []string{".git", "", "/repo", "/.git"} {
				if p := inAnyCase(dir, n+suffix); p != "" && isRepository(p) {
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

// inAnyCase is the path below dir whatever case its names are in, or "". Forges
// do not tell cases apart: a copy fetched as BurntSushi/ripgrep is that of
// burntsushi/ripgrep.
func inAnyCase(dir, path string) string {
	at := dir
	for part := range strings.SplitSeq(path, string(filepath.Separator)) {
		next := filepath.Join(at, part)
		if _, err := os.Stat(next); err != nil {
			entries, err := os.ReadDir(at)
			i := slices.IndexFunc(entries, func(e os.DirEntry) bool { return strings.EqualFold(e.Name(), part) })
			if err != nil || i < 0 {
				return ""
			}
			next = filepath.Join(at, entries[i].Name())
		}
		at = next
	}
	return at
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

// Date is when a commit was made, in UTC, as in 2020-05-30T12:00:00Z.
func Date(ctx context.Context, repository, commit string) (string, error) {
	out, err := Git(ctx, repository, "show", "--no-patch", "--format=%ct", commit)
	if err != nil {
		return "", err
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil {
		return "", fmt.Errorf("date of commit %s: %w", commit, err)
	}
	return time.Unix(seconds, 0).UTC().Format(time.RFC3339), nil
}
