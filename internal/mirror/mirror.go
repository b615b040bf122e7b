// Package mirror finds bare copies of public repositories on this machine and
// cuts from them the history one instance may see.
//
// It runs git on the host and nothing else: no containers, no network but an
// explicit clone.
package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
	if !ok || strings.Contains(name, "/") || strings.Contains(repo, "..") {
		return "", fmt.Errorf("repository %q: want owner/name", repo)
	}
	// The layouts people have: a forge's own, flattened names, and the forks
	// benchmarks keep under an organisation of their own.
	flat := owner + "__" + name
	names := []string{
		filepath.Join(owner, name), flat, owner + "+" + name, owner + "-" + name,
		filepath.Join("swe-bench", flat), "swe-bench+" + flat, name,
	}
	for _, dir := range append(append([]string{}, s.Dirs...), s.Clones) {
		if dir == "" {
			continue
		}
		for _, n := range names {
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

func (s Set) clone(ctx context.Context, repo string) (string, error) {
	final := filepath.Join(s.Clones, repo) + ".git"
	if err := os.MkdirAll(filepath.Dir(final), 0o755); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(final), ".clone-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	url := strings.TrimSuffix(s.CloneFrom, "/") + "/" + repo
	if _, err := Git(ctx, "", "clone", "--quiet", "--mirror", url, tmp); err != nil {
		return "", fmt.Errorf("clone %s (give a local copy with --repo-mirror if this machine cannot reach it): %w", repo, err)
	}
	if err := os.Rename(tmp, final); err != nil && !isRepository(final) {
		return "", err
	}
	return final, nil
}

func isRepository(path string) bool {
	_, err := os.Stat(filepath.Join(path, "objects"))
	if err != nil {
		return false
	}
	_, err = os.Stat(filepath.Join(path, "HEAD"))
	return err == nil
}

// ErrNoFile is returned by Show for a path that does not exist at the commit.
var ErrNoFile = errors.New("no such file at that commit")

// Show returns a file's content at a commit.
func Show(ctx context.Context, repository, commit, path string) ([]byte, error) {
	out, err := Git(ctx, repository, "cat-file", "blob", commit+":"+path)
	if err != nil {
		if _, commitErr := Git(ctx, repository, "cat-file", "-e", commit+"^{commit}"); commitErr != nil {
			return nil, fmt.Errorf("commit %s is not in %s", commit, filepath.Base(repository))
		}
		return nil, ErrNoFile
	}
	return out, nil
}

// Git runs git in a repository with the user's own configuration shut out, so
// that the result depends on the repository alone.
func Git(ctx context.Context, repository string, args ...string) ([]byte, error) {
	full := args
	if repository != "" {
		full = append([]string{"-C", repository}, args...)
	}
	cmd := exec.CommandContext(ctx, "git", full...)
	cmd.Env = gitEnv()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		text := strings.TrimSpace(stderr.String())
		if text == "" {
			text = err.Error()
		}
		return nil, fmt.Errorf("git %s: %s", args[0], text)
	}
	return stdout.Bytes(), nil
}

func gitEnv() []string {
	var env []string
	for _, kv := range os.Environ() {
		// GIT_SSL_* and the like say how to reach a server; the rest would change results.
		if strings.HasPrefix(kv, "GIT_") && !strings.HasPrefix(kv, "GIT_SSL_") {
			continue
		}
		env = append(env, kv)
	}
	return append(env,
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C",
		"GIT_CONFIG_COUNT=4",
		"GIT_CONFIG_KEY_0=uploadpack.allowAnySHA1InWant", "GIT_CONFIG_VALUE_0=true",
		"GIT_CONFIG_KEY_1=safe.directory", "GIT_CONFIG_VALUE_1=*",
		"GIT_CONFIG_KEY_2=pack.threads", "GIT_CONFIG_VALUE_2=1",
		"GIT_CONFIG_KEY_3=protocol.file.allow", "GIT_CONFIG_VALUE_3=always",
	)
}
