package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
)

// maxSubmoduleDepth bounds submodules of submodules.
const maxSubmoduleDepth = 8

// Submodule is another repository that a commit pins inside its own tree.
type Submodule struct {
	Name   string
	Path   string // in the tree of the repository that pins it
	URL    string // absolute where it can be
	Commit string

	Repository string // the mirror to take it from; never part of a key
	Missing    string // why it cannot be had, in words; "" when it can
	Submodules []Submodule
}

// Submodules lists the submodules of a commit, and of these. One whose
// repository or commit is on none of the mirrors is listed with the reason.
func (s Set) Submodules(ctx context.Context, repo, repository, commit string) ([]Submodule, error) {
	return s.submodules(ctx, "https://github.com/"+repo, repository, commit, 0)
}

func (s Set) submodules(ctx context.Context, parentURL, repository, commit string, depth int) ([]Submodule, error) {
	found, err := listSubmodules(ctx, repository, commit)
	if err != nil || depth == maxSubmoduleDepth {
		return nil, err
	}
	for i := range found {
		m := &found[i]
		m.URL = resolveURL(parentURL, m.URL)
		if err := s.locate(ctx, m); err != nil {
			return nil, err
		}
		if m.Missing != "" {
			continue
		}
		if m.Submodules, err = s.submodules(ctx, m.URL, m.Repository, m.Commit, depth+1); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// locate finds the mirror of a submodule.
func (s Set) locate(ctx context.Context, m *Submodule) error {
	repo := repoOf(m.URL)
	if repo == "" {
		m.Missing = fmt.Sprintf("its URL %q names no owner and repository", m.URL)
		return nil
	}
	repository, err := s.Find(ctx, repo)
	var notFound *NotFoundError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &notFound):
		m.Missing = "no local copy of " + repo
		return nil
	case err != nil:
		m.Missing = err.Error()
		return nil
	}
	if _, err := Git(ctx, repository, "cat-file", "-e", m.Commit+"^{commit}"); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		m.Missing = "the local copy of " + repo + " does not have commit " + m.Commit
		return nil
	}
	m.Repository = repository
	return nil
}

// listSubmodules reads which commits a tree pins, and what .gitmodules says of
// each. An entry of .gitmodules without a pinned commit does not count.
func listSubmodules(ctx context.Context, repository, commit string) ([]Submodule, error) {
	if _, err := Show(ctx, repository, commit, ".gitmodules"); errors.Is(err, ErrNoFile) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	out, err := Git(ctx, repository, "config", "--blob", commit+":.gitmodules", "--null", "--list")
	if err != nil {
		return nil, fmt.Errorf("read .gitmodules at %s: %w", commit, err)
	}
	byName := map[string]*Submodule{}
	for _, entry := range bytes.Split(out, []byte{0}) {
		key, value, _ := strings.Cut(string(entry), "\n")
		rest, ok := strings.CutPrefix(key, "submodule.")
		i := strings.LastIndex(rest, ".")
		if !ok || i < 0 {
			continue
		}
		name := rest[:i]
		if byName[name] == nil {
			byName[name] = &Submodule{Name: name}
		}
		switch rest[i+1:] {
		case "path":
			byName[name].Path = value
		case "url":
			byName[name].URL = value
		}
	}
	var found []Submodule
	for _, m := range byName {
		if !safeName(m.Name) || !safeName(m.Path) {
			continue
		}
		if m.Commit, err = pinned(ctx, repository, commit, m.Path); err != nil {
			return nil, err
		}
		if m.Commit != "" {
			found = append(found, *m)
		}
	}
	sort.Slice(found, func(i, j int) bool { return found[i].Path < found[j].Path })
	return found, nil
}

// pinned is the commit a tree pins at a path, or "".
func pinned(ctx context.Context, repository, commit, file string) (string, error) {
	out, err := Git(ctx, repository, "ls-tree", "-z", commit, "--", file)
	if err != nil {
		return "", err
	}
	entry, _, _ := strings.Cut(string(out), "\x00")
	meta, name, _ := strings.Cut(entry, "\t")
	fields := strings.Fields(meta)
	if len(fields) != 3 || fields[0] != "160000" || name != file {
		return "", nil
	}
	return fields[2], nil
}

// safeName reports whether a name or path of .gitmodules stays below where it
// belongs, and is no option to git.
func safeName(name string) bool {
	if name == "" || strings.HasPrefix(name, "-") || strings.ContainsAny(name, "\\\n\x00") {
		return false
	}
	return filepath.IsLocal(name) && path.Clean(name) == name && name != "." && !strings.EqualFold(strings.SplitN(name, "/", 2)[0], ".git")
}

// resolveURL makes a relative URL of .gitmodules absolute, as git does.
func resolveURL(parent, text string) string {
	if !strings.HasPrefix(text, "./") && !strings.HasPrefix(text, "../") {
		return text
	}
	if host, file, ok := strings.Cut(parent, ":"); ok && !strings.HasPrefix(file, "//") {
		return host + ":" + path.Join(file, text) // user@host:owner/name
	}
	u, err := url.Parse(parent)
	if err != nil {
		return text
	}
	u.Path = path.Join(u.Path, text)
	return u.String()
}

// repoOf is the owner/name at the end of a repository's URL, or "".
func repoOf(text string) string {
	text = strings.TrimSuffix(strings.TrimRight(text, "/"), ".git")
	if _, rest, ok := strings.Cut(text, "://"); ok {
		_, text, _ = strings.Cut(rest, "/")
	} else if _, rest, ok := strings.Cut(text, ":"); ok {
		text = rest // user@host:owner/name
	}
	parts := strings.Split(strings.Trim(text, "/"), "/")
	if len(parts) < 2 {
		return ""
	}
	owner, name := parts[len(parts)-2], parts[len(parts)-1]
	if owner == "" || name == "" || owner == ".." || name == ".." {
		return ""
	}
	return owner + "/" + name
}

// AddSubmodules puts the submodules that can be had into the repository dir
// that Cut made: one commit each, where `git submodule update --init` looks
// before it would clone.
func AddSubmodules(ctx context.Context, dir string, submodules []Submodule) error {
	return addSubmodules(ctx, filepath.Join(dir, ".git"), submodules)
}

func addSubmodules(ctx context.Context, gitDir string, submodules []Submodule) error {
	for _, m := range submodules {
		if m.Missing != "" {
			continue
		}
		if err := addSubmodule(ctx, gitDir, m); err != nil {
			return fmt.Errorf("submodule %s at %s: %w", m.Path, m.Commit, err)
		}
	}
	return nil
}

func addSubmodule(ctx context.Context, gitDir string, m Submodule) error {
	work, err := os.MkdirTemp(filepath.Dir(gitDir), ".submodule-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := fetch(ctx, m.Repository, m.Commit, work, 1); err != nil {
		return err
	}
	if err := settle(ctx, work, m.Commit); err != nil {
		return err
	}
	target := filepath.Join(gitDir, "modules", filepath.FromSlash(m.Name))
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(work, ".git"), target); err != nil {
		return err
	}
	for _, kv := range [][2]string{{"submodule." + m.Name + ".url", m.URL}, {"submodule." + m.Name + ".active", "true"}} {
		if _, err := Git(ctx, "", "config", "--file", filepath.Join(gitDir, "config"), kv[0], kv[1]); err != nil {
			return err
		}
	}
	return addSubmodules(ctx, target, m.Submodules)
}
