package swebench

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
)

//go:embed facts
var factFiles embed.FS

// factFile is one file of facts/.
type factFile struct {
	Source struct {
		Repository string `json:"repository"`
		Commit     string `json:"commit"`
		Version    string `json:"version"`
		Date       string `json:"date"`
	} `json:"source"`
	Language     string                 `json:"language"`
	Repositories map[string]*repository `json:"repositories"`
}

// repository holds the facts of one repository.
type repository struct {
	LogParser        string   `json:"log_parser"`
	FailOnly         bool     `json:"fail_only"`
	RequirementFiles []string `json:"requirement_files"`
	EnvironmentFiles []string `json:"environment_files"`
	Specs            []*spec  `json:"specs"`

	language string
}

// spec holds the facts of one or more versions of a repository.
type spec struct {
	ForVersions  []string `json:"for_versions"`
	Version      string   `json:"version"`
	Pnpm         string   `json:"pnpm"`
	CapAdd       []string `json:"cap_add"`
	Apt          []string `json:"apt"`
	Packages     string   `json:"packages"`
	PipPackages  []string `json:"pip_packages"`
	PreInstall   []string `json:"pre_install"`
	Install      []string `json:"install"`
	Build        []string `json:"build"`
	EvalCommands []string `json:"eval_commands"`
	Test         []string `json:"test"`
	CargoLock    string   `json:"cargo_lock"`
}

// facts is everything embedded. It is read once and never changed.
type facts struct {
	files        []*factFile
	repositories map[string]*repository // by lower-case owner/name
	cargoLocks   map[string]string
}

var loadFacts = sync.OnceValues(readFacts)

func readFacts() (*facts, error) {
	entries, err := factFiles.ReadDir("facts")
	if err != nil {
		return nil, fmt.Errorf("embedded facts: %w", err)
	}
	all := &facts{repositories: map[string]*repository{}}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		f, err := readFactFile(e.Name())
		if err != nil {
			return nil, err
		}
		all.files = append(all.files, f)
		for name, r := range f.Repositories {
			r.language = f.Language
			all.repositories[strings.ToLower(name)] = r
		}
	}
	if all.cargoLocks, err = readCargoLocks(); err != nil {
		return nil, err
	}
	return all, nil
}

func readFactFile(name string) (*factFile, error) {
	data, err := factFiles.ReadFile("facts/" + name)
	if err != nil {
		return nil, fmt.Errorf("embedded facts: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var f factFile
	if err := dec.Decode(&f); err != nil {
		return nil, fmt.Errorf("embedded facts/%s: %w", name, err)
	}
	return &f, nil
}

func readCargoLocks() (map[string]string, error) {
	const name = "facts/cargo-locks.json.gz"
	data, err := factFiles.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("embedded facts: %w", err)
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("embedded %s: %w", name, err)
	}
	locks := map[string]string{}
	if err := json.NewDecoder(z).Decode(&locks); err != nil {
		return nil, fmt.Errorf("embedded %s: %w", name, err)
	}
	return locks, nil
}

// repository finds a repository's facts; nil if there are none. Names on GitHub
// are case-insensitive, and rows are not consistent about them.
func (f *facts) repository(name string) *repository {
	return f.repositories[strings.ToLower(name)]
}

// spec finds the facts of one version; nil if there are none.
func (r *repository) spec(version string) *spec {
	if r == nil {
		return nil
	}
	for _, s := range r.Specs {
		if slices.Contains(s.ForVersions, version) {
			return s
		}
	}
	return nil
}

// versions lists the versions there are facts for.
func (r *repository) versions() []string {
	var vs []string
	for _, s := range r.Specs {
		vs = append(vs, s.ForVersions...)
	}
	return vs
}

// lookup returns what is known about an instance; either result may be nil.
func lookup(repo, version string) (*repository, *spec, error) {
	f, err := loadFacts()
	if err != nil {
		return nil, nil, err
	}
	r := f.repository(repo)
	return r, r.spec(version), nil
}
