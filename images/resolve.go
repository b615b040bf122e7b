package images

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/internal/mirror"
)

// Resolver turns the recipe of an instance into layer specifications: it picks
// the base and the interpreter and reads requirement files out of the
// repository. It is safe for concurrent use.
type Resolver struct {
	Base       Source // the run's base
	BaseForced bool   // chosen by the user: never replaced for an interpreter's sake
	Platform   string

	// BaseDigest makes sure a base is at hand and returns the digest of its content.
	BaseDigest func(context.Context, Source) (string, error)

	Conda        string // installer of conda on this machine, or ""; goes before all other interpreters
	Interpreters string // folder of interpreters, or ""
	HostSuite    string // suite of this machine; interpreters only work on the same one
	Nearest      bool   // take the nearest interpreter when the pinned one cannot be had
	AsOfCommit   bool   // hold Python packages without a pinned version to the day of the commit
	Mirrors      mirror.Set
	Memo         string // folder that remembers digests of interpreters between runs, or ""

	mu      sync.Mutex
	digests map[string]string // interpreter path -> digest
}

// warmedUp are the languages whose tools fetch plug-ins and test libraries when
// tests run first: Maven, Gradle, Ant, Cargo.
var warmedUp = map[string]bool{"java": true, "rust": true}

// Resolve returns the specification of the instance's image.
func (r *Resolver) Resolve(ctx context.Context, inst *datasets.Instance, recipe *datasets.Recipe) (InstanceSpec, error) {
	spec := InstanceSpec{
		InstanceID: inst.ID, Repo: inst.Repo, BaseCommit: inst.BaseCommit,
		PreInstall: recipe.PreInstall, Install: recipe.Install, Build: recipe.Build, Dockerfile: inst.Dockerfile,
	}
	if len(spec.Build) > 0 {
		spec.Test = strings.TrimSpace(recipe.Evaluation.Prelude + "\n" + recipe.Evaluation.Test)
	}
	if warmedUp[recipe.Environment.Language] {
		e := recipe.Evaluation
		spec.Warmup = strings.TrimSpace(e.Prelude + "\n" + e.Build + "\n" + e.Test)
	}
	repository, err := r.Mirrors.Find(ctx, inst.Repo)
	if err != nil {
		return spec, err
	}
	if err := r.Mirrors.Refresh(ctx, repository, inst.BaseCommit); err != nil {
		return spec, err
	}
	spec.Mirror = repository
	if spec.Submodules, err = r.Mirrors.Submodules(ctx, inst.Repo, repository, inst.BaseCommit); err != nil {
		return spec, err
	}
	spec.Deviations = foldMissing(missingSubmodules("", spec.Submodules))
	if spec.Dockerfile != "" {
		return spec, nil
	}
	if r.AsOfCommit && recipe.Environment.Language == "py" && len(spec.Install) > 0 {
		if spec.AsOf, err = mirror.Date(ctx, repository, inst.BaseCommit); err != nil {
			return spec, err
		}
	}
	spec.Env, err = r.environment(ctx, repository, inst, recipe.Environment)
	return spec, err
}

// foldMissing makes one line of many: a project can have a hundred submodules its
// tests do not read.
func foldMissing(missing []string) []string {
	const single = 3
	if len(missing) <= single {
		return missing
	}
	return append(missing[:1:1], fmt.Sprintf("nor are %d more submodules", len(missing)-1))
}

func missingSubmodules(parent string, submodules []mirror.Submodule) []string {
	var missing []string
	for _, m := range submodules {
		at := path.Join(parent, m.Path)
		if m.Missing != "" {
			missing = append(missing, fmt.Sprintf("submodule %s is not checked out: %s", at, m.Missing))
		}
		missing = append(missing, missingSubmodules(at, m.Submodules)...)
	}
	return missing
}

func (r *Resolver) environment(ctx context.Context, repository string, inst *datasets.Instance, e datasets.Environment) (EnvSpec, error) {
	spec := EnvSpec{
		Language: e.Language, Version: e.Version, Apt: e.Apt, Pip: e.Pip, PipLate: e.PipLate, Commands: e.Commands,
		Vars: e.Env, Deviations: slices.Clone(e.Deviations),
	}
	source := r.Base
	if e.Base != "" && !r.BaseForced {
		var err error
		if source, err = ParseSource(e.Base); err != nil {
			return spec, err
		}
	}
	if e.Language == "py" {
		var err error
		if spec.Python, source, err = r.python(source, e); err != nil {
			return spec, err
		}
		if spec.Python.Want != "" && !sameMinor(spec.Python.Want, spec.Python.Have) {
			spec.Deviations = append(spec.Deviations, fmt.Sprintf("python %s in place of the pinned %s", spec.Python.Have, spec.Python.Want))
		}
	}
	source, packages, deviation, err := r.debianTool(source, e)
	if err != nil {
		return spec, err
	}
	spec.Apt = append(append([]string{}, packages...), spec.Apt...)
	if deviation != "" {
		spec.Deviations = append(spec.Deviations, deviation)
	}
	digest, err := r.BaseDigest(ctx, source)
	if err != nil {
		return spec, fmt.Errorf("base %s: %w", source, err)
	}
	spec.Base = BaseSpec{Source: source, Digest: digest, Platform: r.Platform}
	return spec, r.requirements(ctx, repository, inst, e, &spec)
}

// python chooses the interpreter, and the base if that decides which there is.
func (r *Resolver) python(source Source, e datasets.Environment) (PythonSpec, Source, error) {
	want := e.Version
	if r.Conda != "" && want != "" {
		digest, err := r.digest(r.Conda)
		return PythonSpec{Want: want, Have: want, From: "conda", Digest: digest, Path: r.Conda}, source, err
	}
	debian := PythonSpec{Want: want, Have: debianPython[source.suite()], From: "debian"}
	if want == "" {
		return debian, source, nil
	}
	usable := r.Interpreters != "" && source.Kind == "debian" && source.Ref == r.HostSuite
	if usable {
		for _, i := range FindInterpreters(r.Interpreters) {
			if sameMinor(want, i.Version) {
				p, err := r.interpreter(want, i)
				return p, source, err
			}
		}
	}
	if sameMinor(want, debian.Have) {
		return debian, source, nil
	}
	free := !r.BaseForced && e.Base == ""
	if free {
		for suite, version := range debianPython {
			if sameMinor(want, version) {
				return PythonSpec{Want: want, Have: version, From: "debian"}, Source{"debian", suite}, nil
			}
		}
	}
	if r.Nearest {
		return r.nearest(want, usable, source, free)
	}
	return PythonSpec{}, source, r.noPython(want, source)
}

// nearest prefers the next newer interpreter: code of old releases more often
// runs there than it does on one older than it was written for.
func (r *Resolver) nearest(want string, usable bool, source Source, free bool) (PythonSpec, Source, error) {
	type candidate struct {
		Interpreter
		source Source
	}
	var candidates []candidate
	if usable {
		for _, i := range FindInterpreters(r.Interpreters) {
			candidates = append(candidates, candidate{i, source})
		}
	}
	for suite, version := range debianPython {
		if debian := (Source{"debian", suite}); free || debian == source {
			candidates = append(candidates, candidate{Interpreter{Version: version}, debian})
		}
	}
	var best *candidate
	for i := range candidates {
		c := &candidates[i]
		major, _, _ := strings.Cut(want, ".")
		if sameMinor(major, c.Version) && (best == nil || nearer(c.Version, best.Version, want)) {
			best = c
		}
	}
	if best == nil {
		return PythonSpec{}, source, r.noPython(want, source)
	}
	if best.Path == "" {
		return PythonSpec{Want: want, Have: best.Version, From: "debian"}, best.source, nil
	}
	p, err := r.interpreter(want, best.Interpreter)
	return p, best.source, err
}

// nearer reports whether version a is to be preferred to b.
func nearer(a, b, want string) bool {
	newerA, newerB := CompareVersions(a, want) > 0, CompareVersions(b, want) > 0
	if newerA != newerB {
		return newerA
	}
	if newerA {
		return CompareVersions(a, b) < 0
	}
	return CompareVersions(a, b) > 0
}

func (r *Resolver) noPython(want string, source Source) error {
	var have []string
	for _, i := range FindInterpreters(r.Interpreters) {
		have = append(have, i.Version)
	}
	where := "no folder of interpreters is given (--interpreters DIR)"
	if len(have) > 0 {
		where = "the folder of interpreters has " + strings.Join(have, ", ")
		if source.Ref != r.HostSuite {
			where += fmt.Sprintf(", built for %q and not usable on %s", r.HostSuite, source)
		}
	}
	return fmt.Errorf("python %s cannot be had: %s has %s, %s; add it there, or accept the nearest with --python nearest (reported)",
		want, source, orNone(debianPython[source.suite()]), where)
}

func orNone(s string) string {
	if s == "" {
		return "none known"
	}
	return s
}

func (r *Resolver) interpreter(want string, i Interpreter) (PythonSpec, error) {
	digest, err := r.digest(i.Path)
	return PythonSpec{Want: want, Have: i.Version, From: "interpreters", Digest: digest, Path: i.Path}, err
}

// digest is DigestTreeOnce, once per path.
func (r *Resolver) digest(path string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if digest, ok := r.digests[path]; ok {
		return digest, nil
	}
	digest, err := DigestTreeOnce(r.Memo, path)
	if err != nil {
		return "", err
	}
	if r.digests == nil {
		r.digests = map[string]string{}
	}
	r.digests[path] = digest
	return digest, nil
}

// sameMinor reports whether a version is of the wanted line: 3.9 matches 3.9.18.
func sameMinor(want, have string) bool {
	return have != "" && (want == have || strings.HasPrefix(have, want+"."))
}

// requirements reads the first requirement file that exists.
func (r *Resolver) requirements(ctx context.Context, repository string, inst *datasets.Instance, e datasets.Environment, spec *EnvSpec) error {
	commit := e.RequirementCommit
	if commit == "" {
		commit = inst.BaseCommit
	}
	if r.AsOfCommit && len(e.RequirementFiles)+len(e.EnvironmentFiles) > 0 {
		var err error
		if spec.AsOf, err = mirror.Date(ctx, repository, commit); err != nil {
			return err
		}
	}
	show := func(path string) ([]byte, error) { return mirror.Show(ctx, repository, commit, path) }
	for _, path := range e.RequirementFiles {
		text, err := Requirements(show, path)
		if errors.Is(err, mirror.ErrNoFile) {
			continue
		}
		if err != nil {
			return fmt.Errorf("requirements %s: %w", path, err)
		}
		spec.Requirements = text
		return nil
	}
	if len(e.RequirementFiles) > 0 {
		return fmt.Errorf("none of %s exists at %s", strings.Join(e.RequirementFiles, ", "), commit)
	}
	for _, path := range e.EnvironmentFiles {
		data, err := show(path)
		if errors.Is(err, mirror.ErrNoFile) {
			continue
		}
		if err != nil {
			return fmt.Errorf("environment %s: %w", path, err)
		}
		text, dropped, err := CondaRequirements(data)
		if err != nil {
			return fmt.Errorf("environment %s: %w", path, err)
		}
		spec.Requirements, spec.FromConda = text, true
		spec.Deviations = append(spec.Deviations, path+" is installed with pip in place of conda")
		if len(dropped) > 0 {
			spec.Deviations = append(spec.Deviations, "without the conda packages pip has no name for: "+strings.Join(dropped, ", "))
		}
		return nil
	}
	if len(e.EnvironmentFiles) > 0 {
		return fmt.Errorf("none of %s exists at %s", strings.Join(e.EnvironmentFiles, ", "), commit)
	}
	return nil
}
