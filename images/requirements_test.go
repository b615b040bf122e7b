package images

import (
	"errors"
	"strings"
	"testing"

	"github.com/evalrun/evalrun/internal/mirror"
)

// tree shows files as a repository does.
func tree(files map[string]string) func(string) ([]byte, error) {
	return func(path string) ([]byte, error) {
		text, ok := files[path]
		if !ok {
			return nil, mirror.ErrNoFile
		}
		return []byte(text), nil
	}
}

func TestRequirements(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"included lines come first, comments and blanks go": {
			map[string]string{"requirements/dev.txt": "# tools\n\nblack==22.1\n-r tests.txt\nmypy\n", "requirements/tests.txt": "pytest>=7  # runner\n"},
			"pytest>=7  # runner\nblack==22.1\nmypy"},
		"includes in includes, in other folders, each once": {
			map[string]string{
				"requirements/dev.txt": "-r ../base.txt\n--requirement=lint/all.txt\n-rtests.txt\ndev", "base.txt": "base",
				"requirements/lint/all.txt": "-r ../tests.txt\nlint", "requirements/tests.txt": "tests"},
			"base\ntests\nlint\ndev"},
		"cycle": {
			map[string]string{"requirements/dev.txt": "-r other.txt\na", "requirements/other.txt": "-r dev.txt\nb"}, "b\na"},
		"the project itself goes": {
			map[string]string{"requirements/dev.txt": "-e .\n-e .[test]\n.[test]\n.\n-e .; python_version < '3'\n--editable ./\n-e ../plugin\n./here\nkept"}, "kept"},
		"other editables and options stay": {
			map[string]string{"requirements/dev.txt": "-e git+https://forge.example/a/b#egg=b\n--pre\n-i https://index.example\n.venv-tool==1"},
			"-e git+https://forge.example/a/b#egg=b\n--pre\n-i https://index.example\n.venv-tool==1"},
		"CRLF, byte order mark, no final newline": {
			map[string]string{"requirements/dev.txt": "\ufeffa==1\r\nb==2\r\n-r c.txt\r\n", "requirements/c.txt": "c\rd"}, "c\nd\na==1\nb==2"},
		"comment behind an include": {
			map[string]string{"requirements/dev.txt": "-r c.txt # more\n", "requirements/c.txt": "c"}, "c"},
		"hashes over several lines stay together": {
			map[string]string{"requirements/dev.txt": "a==1 \\\n    --hash=sha256:00\nb"}, "a==1 \\\n--hash=sha256:00\nb"},
		"yanked package": {
			map[string]string{"requirements/dev.txt": "types-pkg_resources==0.1.3 ; python_version > '3'\ntypes-pkg_resources-extra"},
			"types-setuptools\ntypes-pkg_resources-extra"},
		"empty": {map[string]string{"requirements/dev.txt": "# nothing\n"}, ""},
	} {
		got, err := Requirements(tree(test.files), "requirements/dev.txt")
		if err != nil || got != test.want {
			t.Errorf("%s:\ngot  %q, %v\nwant %q", name, got, err, test.want)
		}
	}
}

func TestRequirementsErrors(t *testing.T) {
	if _, err := Requirements(tree(nil), "dev.txt"); !errors.Is(err, mirror.ErrNoFile) {
		t.Errorf("missing file: %v; want ErrNoFile, so that the next name is tried", err)
	}
	_, err := Requirements(tree(map[string]string{"r/dev.txt": "a\n-r gone.txt\n"}), "r/dev.txt")
	if err == nil || errors.Is(err, mirror.ErrNoFile) || err.Error() != "r/dev.txt:2 includes r/gone.txt, which does not exist" {
		t.Errorf("missing include: %v", err)
	}
	_, err = Requirements(tree(map[string]string{"dev.txt": "\n-c constraints.txt\n"}), "dev.txt")
	if err == nil || !strings.Contains(err.Error(), "dev.txt:2: constraint files") {
		t.Errorf("constraints: %v", err)
	}
	broken := errors.New("disk on fire")
	_, err = Requirements(func(path string) ([]byte, error) {
		if path == "dev.txt" {
			return []byte("-r other.txt"), nil
		}
		return nil, broken
	}, "dev.txt")
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestCondaRequirements(t *testing.T) {
	for name, test := range map[string]struct{ yaml, want, dropped string }{
		"a scientific project": {`
# conda env create -f environment.yml
name: project-dev
channels:
  - conda-forge
dependencies:
  - cairocffi
  - contourpy>=1.0.1
  - cycler>=0.10.0
  - numpy>=1.21,<1.24
  - pygobject
  - pyqt # a comment
  - python-dateutil>=2.1
  - pip
  - pip:
    - mpl-sphinx-theme
    - sphinxcontrib-svg2pdfconverter>=1.1.0
    - -r more.txt
    - -e .
    - types-pkg_resources==0.1.3
  - black<24
  - pytest!=4.6.0,!=5.4.0
  - make
`, "cairocffi\ncontourpy>=1.0.1\ncycler>=0.10.0\nnumpy>=1.21,<1.24\nPyQt5\npython-dateutil>=2.1\nmpl-sphinx-theme\n" +
			"sphinxcontrib-svg2pdfconverter>=1.1.0\ntypes-setuptools\nblack<24\npytest!=4.6.0,!=5.4.0", "make,pygobject"},
		"a labelled-arrays project": {`
name: tests
channels: [conda-forge, nodefaults]
dependencies:
  - python=3.8
  - boto3
  - netcdf4
  - iris >=2.4
  - matplotlib-base
  - cdms2
  - numba=0.50
  - pandas =1.1.*
  - scipy==1.5.2
  - zarr 2.4.*
  - dask-core 2.30
  - typing_extensions=3.7.4.3=py_0
`, "boto3\nnetcdf4\nscitools-iris>=2.4\nmatplotlib\nnumba==0.50.*\npandas==1.1.*\nscipy==1.5.2\nzarr==2.4.*\ndask==2.30\ntyping_extensions==3.7.4.3", "cdms2"},
		"channel, build, wildcards, alternatives": {`
dependencies:
  - conda-forge::numpy=1.17.*
  - conda-forge/linux-64::scipy >= 1.2.*, < 2
  - six=1.16.0=pyhd3eb1b0_0
  - attrs=*
  - cython *
  - lxml=4.6|4.7
  - toolz=0.1*
  - packaging ~=20.0
  - jinja2!=3.0.*
`, "numpy==1.17.*\nscipy>=1.2,<2\nsix==1.16.0\nattrs\ncython\nlxml==4.6.*\ntoolz==0.1.*\npackaging~=20.0\njinja2!=3.0.*", ""},
		"what is no version is reported":       {"dependencies: ['numpy[version=1.2]', '@weird', 'pandas = ']", "", "@weird,numpy[version=1.2],pandas ="},
		"markers in the pip section":           {"dependencies: [{pip: [\"backports.zoneinfo; python_version<'3.9'\", 'git+https://forge.example/a/b', './local']}]", "backports.zoneinfo; python_version<'3.9'\ngit+https://forge.example/a/b", ""},
		"shapes that are none of ours":         {"dependencies: [1, null, {npm: [x]}, {pip: text}, [nested]]", "", ""},
		"no dependencies":                      {"name: x", "", ""},
		"names differ in case from conda's":    {"dependencies: [PyYAML, Pip, PYTHON=3]", "pyyaml", ""},
		"python with a range is no dependency": {"dependencies: ['python>=3.8, <3.11', six]", "six", ""},
	} {
		got, dropped, err := CondaRequirements([]byte(test.yaml))
		if err != nil || got != test.want || strings.Join(dropped, ",") != test.dropped {
			t.Errorf("%s: %v\ngot  %q, without %q\nwant %q, without %q", name, err, got, dropped, test.want, test.dropped)
		}
	}
	if _, _, err := CondaRequirements([]byte("dependencies: [unclosed")); err == nil {
		t.Error("broken YAML: no error")
	}
}

func TestCondaToPipHasNoUselessEntry(t *testing.T) {
	for conda, pip := range condaToPip {
		if conda == pip || conda != strings.ToLower(conda) {
			t.Errorf("%s: %s changes nothing or is never looked up", conda, pip)
		}
	}
}

func FuzzRequirements(f *testing.F) {
	f.Add("-r other.txt\na==1\r\n# c\n-e .[test]\n", "-r main.txt\nb\n")
	f.Add("--requirement=./other.txt", "\ufeff-c x")
	f.Fuzz(func(t *testing.T, main, other string) {
		got, err := Requirements(tree(map[string]string{"main.txt": main, "other.txt": other}), "main.txt")
		if err != nil {
			return
		}
		for line := range strings.SplitSeq(got, "\n") {
			if strings.HasPrefix(line, "#") || includePattern.MatchString(line) || projectPattern.MatchString(line) || strings.Contains(line, "\r") {
				t.Errorf("line %q is left of %q and %q", line, main, other)
			}
		}
		if again, err := Requirements(tree(map[string]string{"main.txt": got}), "main.txt"); err != nil || again != got {
			t.Errorf("normalising twice: %q, then %q, %v", got, again, err)
		}
	})
}

func FuzzCondaRequirements(f *testing.F) {
	f.Add("name: x\ndependencies:\n  - python=3.9\n  - numpy=1.17=build\n  - c::x>=1\n  - pip:\n    - y==1\n")
	f.Add("dependencies: [a|b, 'c 1.2', 'd>=1.*,<2']")
	f.Fuzz(func(t *testing.T, text string) {
		got, _, err := CondaRequirements([]byte(text))
		if err != nil {
			return
		}
		for line := range strings.SplitSeq(got, "\n") {
			if strings.HasPrefix(line, "-") {
				t.Errorf("%q became an option of pip in %q", line, text)
			}
		}
	})
}
