package images

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"sort"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/evalrun/evalrun/internal/mirror"
)

// Requirements reads a requirements file and what it includes with -r, and
// leaves out what has no place in a shared environment: installs of the project
// itself and comments. Included lines come before those of the file that
// includes them. The yanked types-pkg_resources becomes types-setuptools, as in
// the classic harness (4.1, test_spec/python.py).
func Requirements(show func(path string) ([]byte, error), file string) (string, error) {
	r := requirementReader{show: show, seen: map[string]bool{}}
	if err := r.read(file); err != nil {
		return "", err
	}
	return strings.Join(r.lines, "\n"), nil
}

type requirementReader struct {
	show  func(path string) ([]byte, error)
	seen  map[string]bool
	lines []string
}

var (
	includePattern    = regexp.MustCompile(`^(?:-r\s*|--requirement[=\s]\s*)(\S+)`)
	constraintPattern = regexp.MustCompile(`^(?:-c\s*|--constraint[=\s]\s*)(\S+)`)
	// projectPattern is the project itself: ".", "-e .[test]", "-e ./".
	projectPattern = regexp.MustCompile(`^(?:-e\s*|--editable[=\s]\s*)?\.(?:/|\.|\[|\s|;|$)`)
)

func (r *requirementReader) read(file string) error {
	if r.seen[file] {
		return nil
	}
	r.seen[file] = true
	data, err := r.show(file)
	if err != nil {
		return err
	}
	var own []string
	text := strings.TrimPrefix(string(data), "\ufeff")
	for i, line := range strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text), "\n") {
		line = strings.TrimSpace(line)
		include := includePattern.FindStringSubmatch(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#") || projectPattern.MatchString(line):
		case include != nil:
			included := path.Join(path.Dir(file), include[1])
			err := r.read(included)
			if errors.Is(err, mirror.ErrNoFile) {
				return fmt.Errorf("%s:%d includes %s, which does not exist", file, i+1, included)
			}
			if err != nil {
				return err
			}
		case constraintPattern.MatchString(line):
			return fmt.Errorf("%s:%d: constraint files (%s) are not supported", file, i+1, line)
		default:
			own = append(own, replaceYanked(line))
		}
	}
	r.lines = append(r.lines, own...)
	return nil
}

var yanked = regexp.MustCompile(`^types-pkg_resources(?:[^A-Za-z0-9._-].*)?$`)

func replaceYanked(line string) string { return yanked.ReplaceAllString(line, "types-setuptools") }

// condaToPip names packages whose conda name is not pip's; "" means pip has none.
var condaToPip = map[string]string{
	"matplotlib-base": "matplotlib", "dask-core": "dask", "pyqt": "PyQt5", "pytables": "tables", "pytorch": "torch", "iris": "scitools-iris",

	"conda": "", "mamba": "", "conda-build": "", "compilers": "", "c-compiler": "", "cxx-compiler": "", "fortran-compiler": "", "gcc": "", "gxx": "",
	"gtk3": "", "pygobject": "", "wxpython": "", "texlive-core": "", "pkg-config": "", "freetype": "", "libgdal": "", "hdf5": "", "libnetcdf": "",
	"esmpy": "", "eccodes": "", "pynio": "", "cdms2": "", "cdat_info": "", "cdutil": "", "rasterio": "", "cfgrib": "", "pseudonetcdf": "",
	"geos": "", "proj": "", "inkscape": "", "nodejs": "", "ffmpeg": "", "imagemagick": "", "make": "", "git": "", "openblas": "", "blas": "", "mkl": "",
}

type condaFile struct {
	Dependencies []any `yaml:"dependencies"`
}

// parseConda reads an environment.yml. The library panics on some malformed
// documents, and a repository may hold anything.
func parseConda(data []byte) (f condaFile, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("not YAML: %v", p)
		}
	}()
	err = yaml.Unmarshal(data, &f)
	return f, err
}

// CondaRequirements turns a conda environment.yml into pip requirements, for
// machines without conda. It returns the packages pip has no name for.
func CondaRequirements(data []byte) (text string, dropped []string, err error) {
	f, err := parseConda(data)
	if err != nil {
		return "", nil, err
	}
	var lines []string
	for _, dep := range f.Dependencies {
		switch d := dep.(type) {
		case string:
			line, ok := condaSpec(d)
			if !ok {
				dropped = append(dropped, strings.TrimSpace(d))
			} else if line != "" {
				lines = append(lines, line)
			}
		case map[string]any:
			list, ok := d["pip"].([]any)
			if !ok {
				continue
			}
			for _, p := range list {
				if s, ok := p.(string); ok && !strings.HasPrefix(s, "-") && !strings.HasPrefix(s, ".") {
					lines = append(lines, replaceYanked(strings.TrimSpace(s)))
				}
			}
		}
	}
	sort.Strings(dropped)
	return strings.Join(lines, "\n"), dropped, nil
}

var condaPattern = regexp.MustCompile(`^(?:[\w./-]+::)?([A-Za-z0-9_][A-Za-z0-9_.-]*)\s*(.*)$`)

// condaSpec turns "numpy=1.17" or "pandas >=1.2" into pip's form; ok is false
// for packages pip cannot give, and the line empty for those it must not.
func condaSpec(spec string) (line string, ok bool) {
	m := condaPattern.FindStringSubmatch(strings.TrimSpace(spec))
	if m == nil {
		return "", false
	}
	name := strings.ToLower(m[1])
	if name == "python" || name == "pip" {
		return "", true
	}
	if pip, known := condaToPip[name]; known {
		if pip == "" {
			return "", false
		}
		name = pip
	}
	constraint, ok := condaVersion(m[2])
	return replaceYanked(name + constraint), ok
}

// condaVersion turns a version of conda's into pip's; ok is false for what is
// no version.
func condaVersion(text string) (constraint string, ok bool) {
	// Any of the alternatives will do, so the first does.
	text, _, _ = strings.Cut(strings.TrimSpace(text), "|")
	text = strings.TrimSpace(text)
	if text == "" || text == "*" || text == "=*" {
		return "", true
	}
	var parts []string
	for part := range strings.SplitSeq(text, ",") {
		c, ok := condaClause(strings.TrimSpace(part))
		if !ok {
			return "", false
		}
		if c != "" {
			parts = append(parts, c)
		}
	}
	return strings.Join(parts, ","), true
}

var clausePattern = regexp.MustCompile(`^(==|>=|<=|!=|~=|=|>|<|)\s*([A-Za-z0-9][A-Za-z0-9.+!_-]*)(\*?)(?:[= ]\s*([A-Za-z0-9_.*]*))?$`)

// condaClause turns one clause. One equals sign means "this line of versions",
// none (after a space) or a build string the exact one.
func condaClause(text string) (string, bool) {
	if text == "*" {
		return "", true
	}
	m := clausePattern.FindStringSubmatch(text)
	if m == nil {
		return "", false
	}
	operator, version, star, build := m[1], m[2], m[3] != "", m[4]
	version = strings.TrimSuffix(version, ".")
	switch operator {
	case "", "==":
		if star {
			return "==" + version + ".*", true
		}
		return "==" + version, true
	case "=":
		if build != "" && !star {
			return "==" + version, true
		}
		return "==" + version + ".*", true
	case "!=":
		if star {
			version += ".*"
		}
	}
	// ">=1.2.*" is ">=1.2" to conda and an error to pip.
	return operator + version, true
}
