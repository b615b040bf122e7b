package images

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/internal/mirror"
)

func TestPythonChoice(t *testing.T) {
	dir := interpreters(t, "2.7.18", "3.6.15", "3.7.16", "3.9.18", "3.9.2", "3.12.1")
	bookworm, bullseye, trixie := Source{"debian", "bookworm"}, Source{"debian", "bullseye"}, Source{"debian", "trixie"}
	image := Source{"image", "example/base:1"}
	for _, test := range []struct {
		name   string
		r      *Resolver
		want   string
		base   string // of the environment
		have   string
		from   string
		source Source
		refuse []string
	}{
		{name: "any will do", r: &Resolver{Base: bookworm}, have: "3.11", from: "debian", source: bookworm},
		{name: "Debian's own", r: &Resolver{Base: bookworm, Interpreters: dir, HostSuite: "bookworm"}, want: "3.11", have: "3.11", from: "debian", source: bookworm},
		{name: "newest patch of the folder", r: &Resolver{Base: bookworm, Interpreters: dir, HostSuite: "bookworm"}, want: "3.9", have: "3.9.18", from: "interpreters", source: bookworm},
		{name: "a full version", r: &Resolver{Base: bookworm, Interpreters: dir, HostSuite: "bookworm"}, want: "3.9.2", have: "3.9.2", from: "interpreters", source: bookworm},
		{name: "python 2", r: &Resolver{Base: bookworm, Interpreters: dir, HostSuite: "bookworm"}, want: "2.7", have: "2.7.18", from: "interpreters", source: bookworm},
		{name: "3.1 is not 3.12", r: &Resolver{Base: bookworm, Interpreters: dir, HostSuite: "bookworm"}, want: "3.1", refuse: []string{"python 3.1 cannot be had"}},
		{name: "another suite's own", r: &Resolver{Base: bookworm}, want: "3.9", have: "3.9", from: "debian", source: bullseye},
		{name: "another suite's own, newer", r: &Resolver{Base: bookworm}, want: "3.13", have: "3.13", from: "debian", source: trixie},
		{name: "folder built for another suite", r: &Resolver{Base: trixie, Interpreters: dir, HostSuite: "bookworm"}, want: "3.7",
			refuse: []string{"python 3.7 cannot be had", "debian:trixie has 3.13", "3.7.16", "built for \"bookworm\" and not usable on debian:trixie", "--python nearest"}},
		{name: "forced base", r: &Resolver{Base: bookworm, BaseForced: true}, want: "3.9",
			refuse: []string{"debian:bookworm has 3.11", "no folder of interpreters is given (--interpreters DIR)"}},
		{name: "the environment's base", r: &Resolver{Base: trixie}, base: "debian:bookworm", want: "3.9", refuse: []string{"debian:bookworm has 3.11"}},
		{name: "image of unknown content", r: &Resolver{Base: image, BaseForced: true}, want: "3.9", refuse: []string{"image:example/base:1 has none known"}},
		{name: "image, any version", r: &Resolver{Base: image, BaseForced: true}, have: "", from: "debian", source: image},
		{name: "not in the folder", r: &Resolver{Base: bookworm, Interpreters: dir, HostSuite: "bookworm"}, want: "3.8", refuse: []string{"the folder of interpreters has 3.12.1, 3.9.18"}},

		{name: "nearest: next newer", r: &Resolver{Base: bookworm, Interpreters: dir, HostSuite: "bookworm", Nearest: true}, want: "3.8", have: "3.9", from: "debian", source: bullseye},
		{name: "nearest: next newer, forced base", r: &Resolver{Base: bookworm, BaseForced: true, Interpreters: dir, HostSuite: "bookworm", Nearest: true}, want: "3.8", have: "3.9.2", from: "interpreters", source: bookworm},
		{name: "nearest: newer beats a closer older one", r: &Resolver{Base: bookworm, BaseForced: true, Interpreters: dir, HostSuite: "bookworm", Nearest: true}, want: "3.10", have: "3.11", from: "debian", source: bookworm},
		{name: "nearest: only older ones", r: &Resolver{Base: bookworm, Nearest: true}, want: "3.14", have: "3.13", from: "debian", source: trixie},
		{name: "nearest: no folder", r: &Resolver{Base: bookworm, Nearest: true}, want: "3.6", have: "3.9", from: "debian", source: bullseye},
		{name: "nearest: no folder, forced base", r: &Resolver{Base: bookworm, BaseForced: true, Nearest: true}, want: "3.6", have: "3.11", from: "debian", source: bookworm},
		{name: "nearest: the pinned one if there is one", r: &Resolver{Base: bookworm, Interpreters: dir, HostSuite: "bookworm", Nearest: true}, want: "3.6", have: "3.6.15", from: "interpreters", source: bookworm},
		{name: "nearest: never another major version", r: &Resolver{Base: bookworm, Nearest: true}, want: "2.7", refuse: []string{"python 2.7 cannot be had"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := datasets.Environment{Language: "py", Version: test.want, Base: test.base}
			source := test.r.Base
			if test.base != "" {
				source = bookworm
			}
			got, from, err := test.r.python(source, e)
			if test.refuse != nil {
				for _, text := range test.refuse {
					if err == nil || !strings.Contains(err.Error(), text) {
						t.Errorf("got %v, want %q in it", err, text)
					}
				}
				return
			}
			if err != nil || got.Have != test.have || got.From != test.from || from != test.source || got.Want != test.want {
				t.Errorf("got %+v on %s, %v; want %s from %s on %s", got, from, err, test.have, test.from, test.source)
			}
			if (got.Path != "") != (test.from == "interpreters") || (got.Digest != "") != (test.from == "interpreters") {
				t.Errorf("path %q, digest %q", got.Path, got.Digest)
			}
		})
	}
}

func TestPythonFromConda(t *testing.T) {
	installer := filepath.Join(t.TempDir(), "installer.sh")
	write(t, filepath.Dir(installer), map[string]string{"installer.sh": "#!/bin/sh"})
	r := &Resolver{Base: Source{"debian", "bookworm"}, Conda: installer}
	got, _, err := r.python(r.Base, datasets.Environment{Language: "py", Version: "3.6"})
	if err != nil || got.From != "conda" || got.Have != "3.6" || got.Digest == "" {
		t.Errorf("%+v, %v", got, err)
	}
}

// repository makes a mirror of o/n with the files, and returns its set and commit.
func repository(t *testing.T, files map[string]string) (mirror.Set, string) {
	t.Helper()
	dir := t.TempDir()
	work := filepath.Join(dir, "o", "n")
	write(t, work, files)
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", work, "-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q", "--template=")
	git("add", "-A")
	if _, ok := files[".gitmodules"]; ok {
		git("update-index", "--add", "--cacheinfo", "160000,"+strings.Repeat("1", 40)+",vendor/lib")
	}
	git("commit", "-q", "--allow-empty", "-m", "one")
	return mirror.Set{Dirs: []string{dir}}, git("rev-parse", "HEAD")
}

func digestOf(context.Context, Source) (string, error) { return "sha256:base", nil }

func TestResolve(t *testing.T) {
	mirrors, commit := repository(t, map[string]string{
		"reqs/dev.txt": "-r base.txt\npytest\n", "reqs/base.txt": "six\n",
		"environment.yml": "dependencies: [numpy=1.2, cdms2]\n", "broken.yml": "[",
		".gitmodules": "[submodule \"lib\"]\n\tpath = vendor/lib\n\turl = https://forge.example/x/lib.git\n",
	})
	r := &Resolver{Base: Source{"debian", "bookworm"}, Platform: "linux/amd64", BaseDigest: digestOf, Mirrors: mirrors, Nearest: true}
	inst := &datasets.Instance{ID: "o__n-1", Repo: "o/n", BaseCommit: commit}
	resolve := func(e datasets.Environment) (InstanceSpec, error) {
		return r.Resolve(context.Background(), inst, &datasets.Recipe{Environment: e, PreInstall: []string{"p"}, Install: []string{"i"}})
	}
	s, err := resolve(datasets.Environment{Language: "py", Version: "3.6", RequirementFiles: []string{"gone.txt", "reqs/dev.txt"}, Pip: []string{"x"}})
	if err != nil {
		t.Fatal(err)
	}
	if s.InstanceID != "o__n-1" || s.Repo != "o/n" || s.BaseCommit != commit || s.PreInstall[0] != "p" || s.Install[0] != "i" || s.Mirror == "" {
		t.Errorf("instance: %+v", s)
	}
	if s.Env.Requirements != "six\npytest" || s.Env.Base.Digest != "sha256:base" || s.Env.Base.Platform != "linux/amd64" || s.Env.Pip[0] != "x" {
		t.Errorf("env: %+v", s.Env)
	}
	if len(s.Env.Deviations) != 1 || s.Env.Deviations[0] != "python 3.9 in place of the pinned 3.6" {
		t.Errorf("deviations: %q", s.Env.Deviations)
	}
	if len(s.Deviations) != 1 || s.Deviations[0] != "submodule vendor/lib is not checked out: no local copy of x/lib" {
		t.Errorf("deviations of the checkout: %q", s.Deviations)
	}

	if s.AsOf != "" || s.Env.AsOf != "" {
		t.Errorf("held to %q, %q unasked", s.AsOf, s.Env.AsOf)
	}
	r.AsOfCommit = true
	held, err := resolve(datasets.Environment{Language: "py", RequirementFiles: []string{"reqs/dev.txt"}})
	if err != nil || !strings.HasSuffix(held.AsOf, "Z") || held.Env.AsOf != held.AsOf {
		t.Errorf("held to %q, %q: %v", held.AsOf, held.Env.AsOf, err)
	}
	if held, err := resolve(datasets.Environment{Language: "py", Pip: []string{"x==1"}}); err != nil || held.Env.AsOf != "" {
		t.Errorf("an environment of pins is held to %q: %v", held.Env.AsOf, err)
	}
	r.AsOfCommit = false
	if s.Build != nil || s.Test != "" {
		t.Errorf("no build step, yet %q and the test command %q", s.Build, s.Test)
	}
	built, err := r.Resolve(context.Background(), inst, &datasets.Recipe{
		Environment: datasets.Environment{Language: "js"}, Build: []string{"b"}, Evaluation: datasets.Evaluation{Prelude: "cd /testbed", Test: "jest"}})
	if err != nil || len(built.Build) != 1 || built.Test != "cd /testbed\njest" {
		t.Errorf("build %q, test %q: %v", built.Build, built.Test, err)
	}

	s, err = resolve(datasets.Environment{Language: "py", EnvironmentFiles: []string{"environment.yml"}})
	if err != nil || s.Env.Requirements != "numpy==1.2.*" || len(s.Env.Deviations) != 2 || !strings.HasSuffix(s.Env.Deviations[1], ": cdms2") || !s.Env.FromConda {
		t.Errorf("conda file: %+v, %v", s.Env, err)
	}

	for name, test := range map[string]struct {
		e   datasets.Environment
		say string
	}{
		"no requirement file": {datasets.Environment{Language: "py", RequirementFiles: []string{"a.txt", "b.txt"}}, "none of a.txt, b.txt exists at " + commit},
		"no conda file":       {datasets.Environment{Language: "py", EnvironmentFiles: []string{"a.yml"}}, "none of a.yml exists at " + commit},
		"broken conda file":   {datasets.Environment{Language: "py", EnvironmentFiles: []string{"broken.yml"}}, "environment broken.yml"},
		"other commit":        {datasets.Environment{Language: "py", RequirementFiles: []string{"a.txt"}, RequirementCommit: strings.Repeat("2", 40)}, "commit " + strings.Repeat("2", 40) + " is not in"},
		"unknown base":        {datasets.Environment{Language: "py", Base: "debian:potato"}, "unknown Debian suite"},
	} {
		if _, err := resolve(test.e); err == nil || !strings.Contains(err.Error(), test.say) {
			t.Errorf("%s: %v", name, err)
		}
	}

	// A row with a Dockerfile needs no environment.
	inst.Dockerfile = "FROM scratch"
	if s, err := resolve(datasets.Environment{Language: "py", Version: "1.0"}); err != nil || s.Dockerfile != "FROM scratch" {
		t.Errorf("Dockerfile: %+v, %v", s, err)
	}
	inst.Dockerfile = ""
	inst.Repo = "no/where"
	var missing *mirror.NotFoundError
	if _, err := resolve(datasets.Environment{}); !errors.As(err, &missing) {
		t.Errorf("no mirror: %v", err)
	}
	inst.Repo, inst.BaseCommit = "o/n", strings.Repeat("3", 40)
	if _, err := resolve(datasets.Environment{}); err == nil || !strings.Contains(err.Error(), "--repo-mirror") {
		t.Errorf("no commit: %v", err)
	}
	inst.BaseCommit = commit
	r.BaseDigest = func(context.Context, Source) (string, error) { return "", errors.New("no room") }
	if _, err := resolve(datasets.Environment{}); err == nil || err.Error() != "base debian:bookworm: no room" {
		t.Errorf("no base: %v", err)
	}
}

func TestDebianTools(t *testing.T) {
	bookworm := Source{"debian", "bookworm"}
	for _, test := range []struct {
		name, language, version string
		r                       *Resolver
		source                  string
		packages                string // the first
		deviation, refuse       string
	}{
		{"the base's own", "java", "17", &Resolver{}, "bookworm", "openjdk-17-jdk-headless", "", ""},
		{"another suite's", "java", "11", &Resolver{}, "bullseye", "openjdk-11-jdk-headless", "", ""},
		{"any", "rust", "", &Resolver{}, "bookworm", "cargo", "", ""},
		{"a full version of a line", "rust", "1.85.0", &Resolver{}, "trixie", "cargo", "", ""},
		{"forced base", "java", "11", &Resolver{BaseForced: true}, "", "", "", "java 11 cannot be had"},
		{"nowhere", "rust", "1.70", &Resolver{}, "", "", "", "--python nearest"},
		{"nearest", "rust", "1.70", &Resolver{Nearest: true}, "trixie", "cargo", "rust 1.85 in place of the pinned 1.70", ""},
		{"nearest, forced", "rust", "1.70", &Resolver{Nearest: true, BaseForced: true}, "bookworm", "cargo", "rust 1.63 in place of the pinned 1.70", ""},
		{"nearest of only older", "ruby", "4.0", &Resolver{Nearest: true}, "trixie", "ruby-full", "ruby 3.3 in place of the pinned 4.0", ""},
		{"not from Debian", "go", "1.23", &Resolver{}, "bookworm", "", "", ""},
	} {
		source, packages, deviation, err := test.r.debianTool(bookworm, datasets.Environment{Language: test.language, Version: test.version})
		if test.refuse != "" {
			if err == nil || !strings.Contains(err.Error(), test.refuse) {
				t.Errorf("%s: %v", test.name, err)
			}
			continue
		}
		first := ""
		if len(packages) > 0 {
			first = packages[0]
		}
		if err != nil || source.Ref != test.source || first != test.packages || deviation != test.deviation {
			t.Errorf("%s: %s %v %q, %v", test.name, source, packages, deviation, err)
		}
	}
}

func TestFoldMissing(t *testing.T) {
	for n, want := range map[int][]string{
		0: {}, 1: {"a"}, 3: {"a", "b", "c"}, 5: {"a", "nor are 4 more submodules"},
	} {
		if got := foldMissing(strings.Split("abcdefgh", "")[:n]); !slices.Equal(got, want) {
			t.Errorf("of %d: %q, want %q", n, got, want)
		}
	}
}
