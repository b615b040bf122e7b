package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/evalrun/evalrun/cache"
	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/datasets/hub"
	"github.com/evalrun/evalrun/datasets/swebench"
	"github.com/evalrun/evalrun/images"
	"github.com/evalrun/evalrun/images/builder"
	"github.com/evalrun/evalrun/internal/audit"
	"github.com/evalrun/evalrun/internal/engine"
	"github.com/evalrun/evalrun/internal/mirror"
	"github.com/evalrun/evalrun/internal/provision"
	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/toolchain"
	"github.com/evalrun/evalrun/reports"
)

// datasetFlags say which instances.
type datasetFlags struct {
	Dataset  string   `short:"d" required:"" placeholder:"NAME" help:"File (.json, .jsonl, .parquet, also .gz and .zst), folder with SPLIT.parquet, hub id, or full | lite | verified | multilingual | multimodal."`
	Split    string   `short:"s" default:"test" help:"Split of the dataset."`
	Instance []string `short:"i" placeholder:"ID" help:"Instance ids or globs, comma separated; may be repeated."`
	Repo     []string `placeholder:"OWNER/NAME" help:"Only instances of these repositories (globs allowed)."`
	IDsFile  string   `name:"ids-file" type:"existingfile" placeholder:"FILE" help:"File with one instance id or glob a line."`
	Slice    string   `placeholder:"A:B" help:"Part of the selected instances, as in Python."`
	Sample   int      `placeholder:"N" help:"Draw N of the selected instances at random."`
	Seed     int64    `default:"0" help:"Seed of --sample."`
}

func (f datasetFlags) load(e *env, cacheDir string) (*datasets.Dataset, []datasets.Instance, error) {
	ds, err := f.read(e, cacheDir)
	if err != nil {
		return nil, nil, fmt.Errorf("dataset %s:\n%w", f.Dataset, err)
	}
	showWarnings(e.stderr, ds.Warnings)
	selected, err := f.choose(ds)
	return ds, selected, err
}

// read reads the dataset; with faulty rows, it comes with the others.
func (f datasetFlags) read(e *env, cacheDir string) (*datasets.Dataset, error) {
	client := hub.New(hub.Options{CacheDir: filepath.Join(cacheDir, "hub"), Log: func(msg string) { fmt.Fprintln(e.stderr, msg) }})
	return datasets.Load(e.ctx, f.Dataset, datasets.LoadOptions{Split: f.Split, Hub: client})
}

func (f datasetFlags) choose(ds *datasets.Dataset) ([]datasets.Instance, error) {
	return datasets.Selection{
		IDs: f.Instance, Repos: f.Repo, IDsFile: f.IDsFile, Slice: f.Slice, Sample: f.Sample, Seed: f.Seed,
	}.Apply(ds.Instances)
}

// maxWarnings keeps a file with the same fault in every line from flooding the screen.
const maxWarnings = 20

func showWarnings(w io.Writer, warnings datasets.Problems) {
	for i, p := range warnings {
		if i == maxWarnings {
			fmt.Fprintf(w, "warning: … and %d more\n", len(warnings)-maxWarnings)
			return
		}
		fmt.Fprintln(w, reports.SafeText(p.String()))
	}
}

// engineFlags say where images are built and tests run.
type engineFlags struct {
	Engine     string `enum:"auto,docker,podman,embedded" default:"auto" help:"Where to build and run: docker, podman, embedded (no daemon), or auto: docker or podman if a socket answers, else embedded."`
	OCIRuntime string `name:"oci-runtime" placeholder:"NAME|PATH" help:"Runtime of the sandboxes: one the daemon knows, such as runsc or kata; for the embedded engine crun, runc, runsc or a path."`
	CacheSize  string `placeholder:"SIZE" help:"Disk the embedded engine's images and build cache may use; the least used go first (default all but a tenth of the disk)."`
	Cache      string `placeholder:"DIR" help:"Cache folder (default $EVALRUN_CACHE, else the user's cache folder)."`
}

func (f engineFlags) cacheDir() string {
	if f.Cache != "" {
		return f.Cache
	}
	return cache.Dir()
}

// needsNamespace reports whether the program has to be started again as root of a
// user namespace.
func (f engineFlags) needsNamespace(ctx context.Context) bool {
	return engine.NeedsNamespace(ctx, f.Engine)
}

// open connects to the engine.
func (f engineFlags) open(e *env) (*engine.Engine, error) {
	o := engine.Options{
		Name: f.Engine, CacheDir: f.cacheDir(), Runtime: f.OCIRuntime, Say: func(text string) { fmt.Fprintln(e.stderr, text) },
	}
	if f.CacheSize != "" {
		var err error
		if o.Budget, err = parseSize(f.CacheSize); err != nil {
			return nil, fmt.Errorf("--cache-size: %w", err)
		}
	}
	open := engine.Open
	if e.openEngine != nil {
		open = e.openEngine
	}
	eng, err := open(e.ctx, o)
	if err != nil {
		return nil, &exitError{code: exitNotEvaluated, err: err}
	}
	return eng, nil
}

// imageFlags say where images come from.
type imageFlags struct {
	engineFlags
	Images       string   `enum:"auto,build,pull" default:"auto" help:"Build images, pull prebuilt ones, or auto: pull what rows name unless --repo-mirror is given."`
	Namespace    string   `placeholder:"NAME" help:"Pull prebuilt images under this registry namespace, for example registry.example/swebench."`
	Tag          string   `default:"latest" help:"Tag of prebuilt images."`
	Base         string   `placeholder:"SOURCE" help:"Base: debian:SUITE, image:REF, oci-layout:DIR or rootfs:TAR (default debian:bookworm, or what an environment asks for)."`
	RepoMirror   []string `placeholder:"DIR" sep:"none" help:"Folder of bare repositories, or OWNER/NAME=PATH; may be repeated."`
	CloneFrom    string   `placeholder:"URL" help:"Clone repositories no mirror has from URL/OWNER/NAME into the cache."`
	Interpreters string   `placeholder:"DIR" help:"Folder of Python interpreters laid out as pyenv does (default $PYENV_ROOT/versions or ~/.pyenv/versions)."`
	Conda        string   `placeholder:"FILE|URL" env:"EVALRUN_CONDA" help:"Installer script of conda; when it can be had, pinned interpreters come from conda."`
	Python       string   `enum:"pinned,nearest" default:"pinned" help:"When the pinned interpreter cannot be had: refuse (pinned), or take the nearest and say so."`
	PackagesAsOf string   `enum:"today,base-commit" default:"today" help:"Python packages without a pinned version: the newest (today), or those of the day of base_commit (reported)."`
	AptMirror    string   `placeholder:"URL" help:"Package mirror for debian: bases."`
	LockFile     string   `default:"images.lock" placeholder:"FILE" help:"File that records which image each key became."`
	Frozen       bool     `help:"Use only images the lock file has, by digest."`
	ForceBuild   bool     `help:"Build images anew even when they are there."`
	Audit        string   `enum:"yes,no" default:"yes" help:"Look into images that were not built here for commits after base_commit: yes, no."`
	ScrubHistory bool     `help:"Make clean images of those in which the audit found something."`
	Builders     int      `default:"2" help:"Images built at a time."`
	Pulls        int      `default:"3" help:"Images pulled at a time, beside those that are built."`
}

// provider wires what gives the images of a run, and shows what it does.
func (f imageFlags) provider(e *env, eng *engine.Engine, selected []datasets.Instance, ui *display) (*provision.Provider, error) {
	if _, err := exec.LookPath("git"); err != nil {
		return nil, &exitError{exitNotEvaluated, errors.New("git is not on the path; see `evalrun doctor`")}
	}
	mirrors, err := mirror.Parse(f.RepoMirror)
	if err != nil {
		return nil, err
	}
	mirrors.Clones, mirrors.CloneFrom = filepath.Join(f.cacheDir(), "repositories"), f.CloneFrom
	lock, err := images.OpenLock(f.LockFile, f.Frozen)
	if err != nil {
		return nil, err
	}
	base := images.Source{Kind: "debian", Ref: "bookworm"}
	if f.Base != "" {
		if base, err = images.ParseSource(f.Base); err != nil {
			return nil, err
		}
	}
	interpreters := f.Interpreters
	if interpreters == "" {
		interpreters = images.DefaultInterpreters()
	} else if len(images.FindInterpreters(interpreters)) == 0 {
		return nil, fmt.Errorf("--interpreters %s: no interpreter there; want folders such as 3.9.18/bin/python3", interpreters)
	}
	conda, err := toolchain.Conda(e.ctx, f.Conda, filepath.Join(f.cacheDir(), "toolchains"))
	if err != nil {
		fmt.Fprintf(e.stderr, "warning: %v; pinned interpreters come from elsewhere\n", err)
	}
	recipes, err := recipesOf(selected)
	if err != nil {
		return nil, err
	}
	toolchains := func(ctx context.Context, language, version string) (string, error) {
		return toolchain.Fetch(ctx, language, version, filepath.Join(f.cacheDir(), "toolchains"))
	}
	uses := &imageUses{noted: f.usesOf(eng), say: func(text string) { ui.note(e.stderr, text) }}
	store := noting(eng, uses)
	b := builder.New(builder.Options{
		Engine: store, CacheDir: f.cacheDir(), Lock: lock, Settings: builder.HostSettings(), AptMirror: f.AptMirror,
		Parallel: f.Builders, Progress: ui.built, Toolchain: toolchains, Force: f.ForceBuild,
	})
	var look func(ctx context.Context, digest, base string) (provision.History, error)
	if f.Audit == "yes" || f.ScrubHistory {
		look = auditor(eng, filepath.Join(f.cacheDir(), "audits"))
	}
	return &provision.Provider{
		Audit: look, Scrub: f.ScrubHistory,
		Mode: provision.Mode(f.Images), Namespace: f.Namespace, Tag: f.Tag, HasRepos: len(f.RepoMirror) > 0 || f.CloneFrom != "",
		Resolver: &images.Resolver{
			Base: base, BaseForced: f.Base != "", Platform: eng.Platform(), Memo: filepath.Join(f.cacheDir(), "digests"), BaseDigest: b.BaseDigest,
			Conda: conda, Interpreters: interpreters, HostSuite: images.HostSuite(), Nearest: f.Python == "nearest", AsOfCommit: f.PackagesAsOf == "base-commit", Mirrors: mirrors,
		},
		Builder: b, Store: store, Lock: lock, Recipes: recipes, Uses: uses,
	}, nil
}

// auditor looks into each image once; what was found is kept in dir.
func auditor(eng *engine.Engine, dir string) func(ctx context.Context, digest, base string) (provision.History, error) {
	return func(ctx context.Context, digest, base string) (provision.History, error) {
		var found provision.History
		memo := filepath.Join(dir, cache.NewKey("audit-1").String("image", digest).String("base", base).Sum()+".json")
		if data, err := os.ReadFile(memo); err == nil && json.Unmarshal(data, &found) == nil {
			return found, nil
		}
		h, err := audit.Look(ctx, eng.Sandbox, digest, base)
		if err != nil {
			return found, err
		}
		found = provision.History{Text: h.String(), Clean: h.Clean()}
		return found, cache.WriteJSON(memo, found, 0)
	}
}

func recipesOf(selected []datasets.Instance) (map[string]*datasets.Recipe, error) {
	recipes := map[string]*datasets.Recipe{}
	var errs []error
	for i := range selected {
		r, err := swebench.Derive(&selected[i])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		recipes[selected[i].ID] = &r
	}
	return recipes, errors.Join(errs...)
}

// limitFlags bound one attempt.
type limitFlags struct {
	Timeout          duration `short:"t" default:"30m" help:"Wall clock of one instance's commands. A number alone is seconds."`
	Silence          duration `default:"0" help:"Longest time without output; 0 is no limit. A number alone is seconds."`
	Memory           string   `default:"4GiB" help:"Memory of one sandbox, swap included."`
	CPUs             float64  `name:"cpus" default:"0" help:"Processors of one sandbox; 0 shares all of them evenly."`
	CPUsGuaranteed   float64  `name:"cpus-guaranteed" default:"0" help:"Processors a sandbox is sure of when all want some; 0 is an even share of all, at most --cpus."`
	MemoryGuaranteed string   `placeholder:"SIZE" help:"Memory of a sandbox that is taken away last when memory is short."`
	Pids             int64    `default:"2048" help:"Processes and threads of one sandbox."`
	Disk             string   `default:"10GiB" help:"What one sandbox may write to its disk."`
	ReadOnly         bool     `help:"Keep what runs from writing anywhere but to the checkout, /root, and folders in memory: /tmp, /var/tmp, /run, /dev/shm."`
	User             string   `placeholder:"UID[:GID]" help:"Run everything as this user and not as root; the checkout belongs to it."`
	Output           string   `default:"256MiB" help:"Test output kept; of more, the middle is left out."`
}

// duration is a time.Duration that also takes a number of seconds.
type duration time.Duration

// UnmarshalText reads "30m", "1h30m" or "1800".
func (d *duration) UnmarshalText(text []byte) error {
	if seconds, err := strconv.ParseFloat(string(text), 64); err == nil && seconds < math.MaxInt64/1e9 {
		*d = duration(seconds * float64(time.Second))
		return nil
	}
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q: want a time such as 30m, 1h30m, or a number of seconds", text)
	}
	*d = duration(parsed)
	return nil
}

// parseUser reads UID or UID:GID, of which the former is of the group of the same
// number, and root is no user to be named.
func parseUser(text string) (string, error) {
	uid, gid, err := sandbox.ParseUser(text)
	if err != nil {
		return "", fmt.Errorf("--user: %w", err)
	}
	if !strings.Contains(text, ":") {
		gid = uid
	}
	if uid == 0 && gid == 0 {
		return "", nil
	}
	if uid == 0 {
		return "", errors.New("--user: root has group 0 only")
	}
	return fmt.Sprintf("%d:%d", uid, gid), nil
}

// parseSize reads "4GiB", "512m", "1e9".
func parseSize(text string) (int64, error) {
	s := strings.TrimSpace(strings.ToLower(text))
	units := []struct {
		suffix string
		factor float64
	}{
		{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", 1 << 40},
		{"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"tb", 1e12},
		{"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}, {"t", 1 << 40}, {"b", 1},
	}
	factor := 1.0
	for _, u := range units {
		if strings.HasSuffix(s, u.suffix) {
			s, factor = strings.TrimSpace(strings.TrimSuffix(s, u.suffix)), u.factor
			break
		}
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || n <= 0 || math.IsInf(n*factor, 0) || n*factor > math.MaxInt64 {
		return 0, fmt.Errorf("size %q: want a number with a unit, for example 4GiB or 512MiB", text)
	}
	return int64(n * factor), nil
}

// terminalOf says whether a writer is a terminal, and how wide.
func terminalOf(w io.Writer) (isTerminal bool, width int) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return false, 100
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width <= 0 {
		width = 100
	}
	return true, width
}
