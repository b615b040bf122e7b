package swebench

import (
	"slices"
	"strings"
	"testing"

	"github.com/evalrun/evalrun/datasets"
	"github.com/google/go-cmp/cmp"
)

const (
	base  = "0123456789abcdef0123456789abcdef01234567"
	setup = "fedcba9876543210fedcba9876543210fedcba98"
	patch = "diff --git a/tests/a/test_b.py b/tests/a/test_b.py\n--- a/tests/a/test_b.py\n+++ b/tests/a/test_b.py\n@@ -1 +1 @@\n-x\n+y\n" +
		"diff --git a/tests/data.json b/tests/data.json\nnew file mode 100644\n--- /dev/null\n+++ b/tests/data.json\n@@ -0,0 +1 @@\n+{}\n"
)

func TestFactsAreComplete(t *testing.T) {
	f, err := loadFacts()
	if err != nil {
		t.Fatal(err)
	}
	versions := 0
	for name, r := range f.repositories {
		vs := r.versions()
		versions += len(vs)
		slices.Sort(vs)
		if n := len(slices.Compact(vs)); n != len(r.versions()) {
			t.Errorf("%s: a version has two entries", name)
		}
		for _, s := range r.Specs {
			if s.Packages == "requirements.txt" && len(r.RequirementFiles) == 0 || s.Packages == "environment.yml" && len(r.EnvironmentFiles) == 0 {
				t.Errorf("%s %v: which file is its %s?", name, s.ForVersions, s.Packages)
			}
			if s.Version == "" && r.language != "c" {
				t.Errorf("%s %v: no interpreter version", name, s.ForVersions)
			}
			if _, found := f.cargoLocks[s.CargoLock]; s.CargoLock != "" && !found {
				t.Errorf("%s %v: no Cargo.lock %s", name, s.ForVersions, s.CargoLock)
			}
		}
	}
	if len(f.repositories) != 84 || versions != 1207 {
		t.Errorf("%d repositories with %d versions, want 84 with 1207", len(f.repositories), versions)
	}
	for _, file := range f.files {
		if file.Source.Repository == "" || len(file.Source.Commit) != 40 {
			t.Errorf("facts of %s do not say where they come from", file.Language)
		}
	}
}

func TestDeriveEnvironment(t *testing.T) {
	cases := []struct {
		repo, version       string
		want                datasets.Environment
		pre, install, build []string
	}{
		{repo: "astropy/astropy", version: "1.3",
			want: datasets.Environment{Language: "py", Version: "3.6", Pip: []string{"setuptools==38.2.4"}, PipLate: []string{"attrs==17.3.0"}},
			// (only the first of many)
			install: []string{"python -m pip install -e .[test] --verbose"}},
		{repo: "django/django", version: "3.1",
			want: datasets.Environment{Language: "py", Version: "3.6", Apt: []string{"locales"}, Commands: []string{makeLocale},
				RequirementFiles: []string{"tests/requirements/py3.txt"}, RequirementCommit: setup},
			install: []string{"python -m pip install -e ."}},
		{repo: "Django/Django", version: "2.2",
			want: datasets.Environment{Language: "py", Version: "3.5", Apt: []string{"locales"}, Commands: []string{makeLocale},
				PipLate: []string{"setuptools"}, RequirementFiles: []string{"tests/requirements/py3.txt"}, RequirementCommit: setup},
			install: []string{"python setup.py install"}},
		{repo: "matplotlib/matplotlib", version: "2.2",
			want:    datasets.Environment{Language: "py", Version: "3.5", Apt: []string{"imagemagick", "ffmpeg"}, PipLate: []string{"pytest"}},
			install: []string{"python setup.py build; python setup.py install"}},
		{repo: "sphinx-doc/sphinx", version: "7.2",
			want:    datasets.Environment{Language: "py", Version: "3.9", Apt: []string{"graphviz"}, PipLate: []string{"tox==4.16.0"}},
			pre:     []string{"sed -i 's/pytest/pytest -rA/' tox.ini"},
			install: []string{"python -m pip install -e .[test]"}},
		{repo: "scikit-learn/scikit-learn", version: "1.3",
			want: datasets.Environment{Language: "py", Version: "3.9", PipLate: []string{"cython"},
				Pip: []string{"numpy==1.19.3", "scipy==1.5.4", "cython==3.0.10", "pytest", "pandas<2.0.0", "matplotlib<3.9.0", "setuptools", "joblib", "threadpoolctl"}},
			install: []string{"python -m pip install -v --no-use-pep517 --no-build-isolation -e ."}},
		{repo: "gin-gonic/gin", version: "4003",
			want:    datasets.Environment{Language: "go", Version: "1.23.8"},
			install: []string{"go test -c ."}},
		{repo: "jqlang/jq", version: "2839",
			want: datasets.Environment{Language: "c", Apt: languageApt["c"]},
			build: []string{"git submodule update --init", "autoreconf -fi", "./configure --with-oniguruma=builtin", "make clean",
				"touch src/parser.y src/lexer.l", "make -j$(nproc)"}},
		{repo: "chartjs/Chart.js", version: "4.0",
			want: datasets.Environment{Language: "js", Version: "21.6.2", Commands: []string{"npm install --global pnpm@7.9.0"},
				Apt: []string{"python3", "python3-pip", "xvfb", "x11-xkb-utils", "xfonts-100dpi", "xfonts-75dpi", "xfonts-scalable",
					"xfonts-cyrillic", "x11-apps", "firefox", "libsass-dev", "sassc", "chromium"},
				Env:        []string{"CHROME_BIN=/usr/bin/chromium", "PUPPETEER_EXECUTABLE_PATH=/usr/bin/chromium"},
				Deviations: []string{"Debian's Chromium in place of Google Chrome"}},
			install: []string{"pnpm install", "pnpm run build"}},
		{repo: "vuejs/core", version: "11589",
			want:    datasets.Environment{Language: "js", Version: "20", Commands: []string{"npm install --global pnpm@9.5.0"}},
			install: []string{"pnpm i"}},
		{repo: "immutable-js/immutable-js", version: "2006",
			want:    datasets.Environment{Language: "js", Version: "20"},
			install: []string{"npm install"}, build: []string{"npm run build"}},
		{repo: "google/gson", version: "2311",
			want: datasets.Environment{Language: "java", Version: "11", Commands: []string{makeMvnd},
				Deviations: []string{"mvnd, Maven's daemon, is a script that calls Debian's mvn"}},
			install: []string{"mvn clean install -B -pl gson -DskipTests -am"}},
		{repo: "facebook/docusaurus", version: "10130",
			want:    datasets.Environment{Language: "js", Version: "20", Commands: []string{"npm install --global yarn@1.22.22"}},
			install: []string{"yarn install"}},
		{repo: "fastlane/fastlane", version: "20958",
			want:    datasets.Environment{Language: "ruby", Version: "3.3", Apt: []string{"jq"}},
			install: []string{"bundle install --jobs=$(nproc)"}},
	}
	for _, c := range cases {
		t.Run(c.repo+" "+c.version, func(t *testing.T) {
			got, err := Derive(&datasets.Instance{ID: "x", Repo: c.repo, Version: c.version, BaseCommit: base, EnvironmentSetupCommit: setup, TestPatch: patch})
			if err != nil {
				t.Fatal(err)
			}
			if len(c.want.PipLate) == 1 && len(got.Environment.PipLate) > 1 {
				got.Environment.PipLate = got.Environment.PipLate[:1]
			}
			if d := cmp.Diff(c.want, got.Environment); d != "" {
				t.Errorf("environment (-want +got):\n%s", d)
			}
			if d := cmp.Diff(c.pre, got.PreInstall); d != "" {
				t.Errorf("pre-install (-want +got):\n%s", d)
			}
			if d := cmp.Diff(c.install, got.Install); d != "" {
				t.Errorf("install (-want +got):\n%s", d)
			}
			if d := cmp.Diff(c.build, got.Build); d != "" {
				t.Errorf("build (-want +got):\n%s", d)
			}
		})
	}
}

// TestDeriveCargoLock: a lock file the repository does not have is written first.
func TestDeriveCargoLock(t *testing.T) {
	got, err := Derive(&datasets.Instance{ID: "x", Repo: "tokio-rs/tokio", Version: "6724", BaseCommit: base, TestPatch: patch})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.PreInstall) != 1 || !strings.HasPrefix(got.PreInstall[0], "cat > Cargo.lock <<'EOF_CARGO_LOCK'\n") || !strings.HasSuffix(got.PreInstall[0], "\nEOF_CARGO_LOCK") {
		t.Errorf("pre-install: %.80q", got.PreInstall)
	}
	if lines, ok := logicalLines(got.PreInstall[0]); !ok || len(lines) != 1 {
		t.Errorf("it is not one command")
	}
}

func TestPipRequirements(t *testing.T) {
	cases := []struct {
		packages, python string
		want             []string
	}{
		{"", "3.9", nil},
		{"pytest", "3.9", []string{"pytest"}},
		{"numpy scipy cython", "3.6", []string{"numpy", "scipy", "cython<3"}},
		{"numpy scipy cython", "3.9", []string{"numpy", "scipy", "cython"}},
		{`'pandas<2.0.0' "six>=1.9" pandas<2.0.0`, "3.9", []string{"pandas<2.0.0", "six>=1.9"}},
		{"-c conda-forge --yes python=3.9 pip conda-forge::attrs=23.1 numpy=1.19.* scipy==1.5.2", "3.8",
			[]string{"attrs==23.1.*", "numpy==1.19.*", "scipy==1.5.2"}},
	}
	for _, c := range cases {
		if d := cmp.Diff(c.want, pipRequirements(c.packages, c.python)); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.packages, d)
		}
	}
}

func TestLiftSystem(t *testing.T) {
	cases := []struct {
		command  string
		rest     []string
		packages []string
		locale   bool
	}{
		{"apt-get update && apt-get install -y locales", nil, []string{"locales"}, false},
		{"apt-get -y update && apt-get -y upgrade && && apt-get install -y imagemagick ffmpeg", nil, []string{"imagemagick", "ffmpeg"}, false},
		{"apt-get -y update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends dvipng", nil, []string{"dvipng"}, false},
		{"sudo apt install -y -t bookworm-backports git && make", []string{"make"}, []string{"git"}, false},
		{"apt-get install -y $(cat packages.txt)", []string{"apt-get install -y $(cat packages.txt)"}, nil, false},
		{"apt-get remove -y git", []string{"apt-get remove -y git"}, nil, false},
		{"echo 'en_US UTF-8' > /etc/locale.gen", nil, nil, true},
		{"locale-gen en_US.UTF-8", nil, nil, true},
		{"sed -i '/en_US.UTF-8/s/^# //g' /etc/locale.gen && locale-gen", nil, nil, true},
		{"grep -q x setup.py && sed -i s/x/y/ setup.py || true", []string{"grep -q x setup.py && sed -i s/x/y/ setup.py || true"}, nil, false},
		{"cat > f <<'E'\napt-get install -y x\nE", []string{"cat > f <<'E'\napt-get install -y x\nE"}, nil, false},
	}
	for _, c := range cases {
		rest, packages, locale := liftSystem([]string{c.command})
		if !slices.Equal(rest, c.rest) || !slices.Equal(packages, c.packages) || locale != c.locale {
			t.Errorf("%s:\nrest %q, packages %q, locale %v", c.command, rest, packages, locale)
		}
	}
}

func TestDeriveFromScript(t *testing.T) {
	script := "#!/bin/bash\nset -uxo pipefail\ncd /testbed\nsed -i '/en_US.UTF-8/s/^# //g' /etc/locale.gen && locale-gen\n" +
		"git apply - <<'EOF'\n" + patch + "EOF\n: '>>>>> Start Test Output'\nmake check\n: '>>>>> End Test Output'\n"
	inst := &datasets.Instance{ID: "x", Repo: "someone/something", Language: "Python", EvalScript: script, LogParser: "parse_log_pytest"}
	got, err := Derive(inst)
	if err != nil {
		t.Fatal(err)
	}
	want := datasets.Recipe{
		Environment: datasets.Environment{Language: "py", Apt: []string{"locales"}, Commands: []string{makeLocale}},
		Evaluation: datasets.Evaluation{Script: script, Prelude: "cd /testbed",
			Setup:      "sed -i '/en_US.UTF-8/s/^# //g' /etc/locale.gen && locale-gen",
			ResetFiles: []string{"tests/a/test_b.py", "tests/data.json"}, TestPatch: patch, Test: "make check",
			LogParser: "parse_log_pytest", EvalType: "pass_and_fail"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("recipe (-want +got):\n%s", d)
	}

	// The facts know the repository, though not this version: its language, how
	// its logs are read and what counts.
	inst.Repo, inst.Version, inst.LogParser = "eslint/eslint", "99", ""
	if got, err = Derive(inst); err != nil {
		t.Fatal(err)
	}
	if got.Environment.Language != "js" || got.Evaluation.LogParser != "parse_log_eslint" || got.Evaluation.EvalType != "fail_only" {
		t.Errorf("language %q, parser %q, type %q", got.Environment.Language, got.Evaluation.LogParser, got.Evaluation.EvalType)
	}

	// What is not understood is run whole.
	inst.EvalScript = "pytest\n"
	if got, err = Derive(inst); err != nil || !got.Evaluation.Whole || got.Evaluation.Script != "pytest\n" {
		t.Errorf("%+v, %v", got.Evaluation, err)
	}
}

func TestDeriveOwnRecipe(t *testing.T) {
	own := &datasets.Recipe{
		Environment: datasets.Environment{Language: "sh"},
		Install:     []string{"make"},
		Evaluation: datasets.Evaluation{Prelude: "export A=1", Setup: "make deps", Build: "make", Test: "./run-tests", LogParser: "tap",
			ResetFiles: []string{"Makefile"}, TimeoutSeconds: 7},
	}
	before := *own
	inst := &datasets.Instance{ID: "x", Repo: "me/mine", BaseCommit: base, TestPatch: strings.TrimSuffix(patch, "\n"), Recipe: own}
	got, err := Derive(inst)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(before, *own); d != "" {
		t.Errorf("the row's recipe was changed:\n%s", d)
	}
	eval := got.Evaluation
	if eval.TestPatch != patch || !slices.Equal(eval.ResetFiles, []string{"Makefile", "tests/a/test_b.py", "tests/data.json"}) ||
		eval.EvalType != "pass_and_fail" || eval.LogParser != "tap" || eval.TimeoutSeconds != 7 || eval.Whole {
		t.Errorf("%+v", eval)
	}
	// The script says the same, in the official format.
	split, ok := Split(eval.Script)
	if !ok || split.Prelude != "cd /testbed\nexport A=1" || split.Setup != "git config --global --add safe.directory /testbed\nmake deps" ||
		split.Build != "make" || split.Test != "./run-tests" || split.TestPatch != patch {
		t.Errorf("understood %v: %+v", ok, split)
	}

	// A recipe for the images only, with a script for the tests.
	inst.Recipe = &datasets.Recipe{Environment: datasets.Environment{Language: "sh"}, Evaluation: datasets.Evaluation{MemoryMiB: 64}}
	inst.EvalScript = eval.Script
	if got, err = Derive(inst); err != nil || got.Evaluation.Test != "./run-tests" || got.Evaluation.MemoryMiB != 64 {
		t.Errorf("%+v, %v", got.Evaluation, err)
	}
}

func TestDeriveErrors(t *testing.T) {
	cases := map[string]struct {
		inst datasets.Instance
		want []string
	}{
		"unknown repository": {datasets.Instance{Repo: "me/mine", Version: "7"}, []string{"me/mine", `"7"`, "eval_script", "evalrun"}},
		"unknown version":    {datasets.Instance{Repo: "psf/requests", Version: "9.9"}, []string{"psf/requests", `"9.9"`, "2.31", "eval_script"}},
		"no repository":      {datasets.Instance{}, []string{"names no repository", "eval_script"}},
		"no test command":    {datasets.Instance{Repo: "dbt-labs/dbt-core", Version: "1.0"}, []string{"dbt-labs/dbt-core", "no test command"}},
		"empty recipe":       {datasets.Instance{Repo: "me/mine", Recipe: &datasets.Recipe{}}, []string{"no test command", "evaluation.test"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.inst.ID = "some__thing-1"
			c.inst.Source = datasets.Position{File: "rows.jsonl", Line: 3}
			_, err := Derive(&c.inst)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range append(c.want, "some__thing-1", "rows.jsonl:3") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}

func TestDirectives(t *testing.T) {
	names := "diff --git a/tests/a/test_b.py b/tests/a/test_b.py\ndiff --git a/x.toml b/x.toml\ndiff --git a/notes.csv b/notes.csv\n" +
		"diff --git a/old.py b/sub/new test.py\n"
	cases := map[string][]string{
		"psf/requests":        {"tests/a/test_b.py", "sub/new test.py"},
		"django/django":       {"a.test_b", "sub.new test"},
		"swe-bench/humaneval": {"test.py"},
	}
	for repo, want := range cases {
		if got := Directives(&datasets.Instance{Repo: repo, TestPatch: names}); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", repo, got, want)
		}
	}
	got := TestCommand(&datasets.Instance{Repo: "psf/requests", Version: "2.31", TestPatch: names})
	if want := []string{"pytest -rA tests/a/test_b.py 'sub/new test.py'"}; !slices.Equal(got, want) {
		t.Errorf("command %q, want %q", got, want)
	}
}

func TestCalypsoCommands(t *testing.T) {
	files := "diff --git a/client/a/test/x.js b/client/a/test/x.js\nindex 1..2 100644\n" +
		"diff --git a/client/b/test/__snapshots__/i.js.snap b/client/b/test/__snapshots__/i.js.snap\nindex 1..2 100644\n" +
		"diff --git a/server/c.js b/server/c.js\nindex 1..2 100644\n"
	cases := map[string][]string{
		"10.15.2": {"./node_modules/.bin/jest --verbose -c=test/client/jest.config.js 'client/a/test/x.js'",
			"./node_modules/.bin/jest --verbose -c=test/client/jest.config.js 'client/b/test'"},
		"8.9.3": {"./node_modules/.bin/jest --verbose -c=test/client/jest.config.json 'client/a/test/x.js'",
			"./node_modules/.bin/jest --verbose -c=test/client/jest.config.json 'client/b/test'"},
		"6.9.0": {"npm run test-client"},
	}
	for version, want := range cases {
		if got := TestCommand(&datasets.Instance{Repo: "Automattic/wp-calypso", Version: version, TestPatch: files}); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", version, got, want)
		}
	}
}

func TestImageName(t *testing.T) {
	inst := &datasets.Instance{ID: "Automattic__wp-calypso-23377"}
	cases := []struct{ namespace, tag, want string }{
		{"", "", "sweb.eval.x86_64.automattic__wp-calypso-23377:latest"},
		{"", "v1", "sweb.eval.x86_64.automattic__wp-calypso-23377:v1"},
		{"swebench", "", "swebench/sweb.eval.x86_64.automattic_1776_wp-calypso-23377:latest"},
		{"127.0.0.1:5000/a", "b", "127.0.0.1:5000/a/sweb.eval.x86_64.automattic_1776_wp-calypso-23377:b"},
	}
	for _, c := range cases {
		if got := ImageName(inst, c.namespace, c.tag); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

func TestCapabilities(t *testing.T) {
	if got := Capabilities(&datasets.Instance{Repo: "chartjs/Chart.js", Version: "4.0"}); !slices.Equal(got, []string{"SYS_ADMIN"}) {
		t.Errorf("Chart.js: %q", got)
	}
	if got := Capabilities(&datasets.Instance{Repo: "psf/requests", Version: "2.31"}); got != nil {
		t.Errorf("requests: %q", got)
	}
}

// TestPatchedFilesOfDamagedPatch: which files are touched is known even of a
// patch git would refuse.
func TestPatchedFilesOfDamagedPatch(t *testing.T) {
	damaged := "diff --git a/one.py b/one.py\n--- a/one.py\n+++ b/one.py\n@@ -1,9 +1,9 @@\n-x\ndiff --git a/two.py b/two.py\nnew file mode 100644\n"
	want := []patchedFile{{"one.py", "one.py"}, {"", "two.py"}}
	if got := patchedFiles(damaged); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
