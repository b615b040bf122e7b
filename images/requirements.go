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
// leaves out what has no place in a shared environment: editable installs of
// the project itself and comments. The yanked types-pkg_resources becomes
// types-setuptools, as in the classic harness (4.1, test_spec/python.py).
func Requirements(show func(path string) ([]byte, error), file string) (string, error) {
	var lines []string
	seen := map[string]bool{}
	var read func(file string) error
	read = func(file string) error {
		if seen[file] {
			return nil
		}
		seen[file] = true
		data, err := show(file)
		if err != nil {
			return err
		}
		var included, own []string
		for _, line := range strings.Split(strings.ReplaceAll(string(data), "\r\n", "\n"), "\n") {
			line = strings.TrimSpace(line)
			switch {
			case line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "-e .") || strings.HasPrefix(line, ".["):
			case strings.HasPrefix(line, "-r"):
				included = append(included, path.Join(path.Dir(file), strings.TrimSpace(strings.TrimPrefix(line, "-r"))))
			default:
				own = append(own, replaceYanked(line))
			}
		}
		for _, f := range included {
			if err := read(f); err != nil && !errors.Is(err, mirror.ErrNoFile) {
				return err
			} else if err != nil {
				return fmt.Errorf("%s includes %s, which does not exist", file, f)
			}
		}
		lines = append(lines, own...)
		return nil
	}
	if err := read(file); err != nil {
		return "", err
	}
	return strings.Join(lines, "\n"), nil
}

var yanked = regexp.MustCompile(`^types-pkg_resources\b.*`)

func replaceYanked(line string) string { return yanked.ReplaceAllString(line, "types-setuptools") }

// condaToPip names packages whose conda name is not pip's; "" means pip has none.
var condaToPip = map[string]string{
	"python": "", "pip": "", "conda": "", "mamba": "", "compilers": "", "c-compiler": "", "cxx-compiler": "", "fortran-compiler": "",
	"gtk3": "", "pygobject": "", "pyqt": "PyQt5", "wxpython": "", "texlive-core": "", "pkg-config": "", "freetype": "", "libgdal": "",
	"esmpy": "", "eccodes": "", "pynio": "", "cdms2": "", "cdat_info": "", "cdutil": "", "pre-commit": "pre-commit", "graphviz": "graphviz",
	"matplotlib-base": "matplotlib", "netcdf4": "netCDF4", "pytables": "tables", "iris": "scitools-iris", "importlib_metadata": "importlib-metadata",
	"typing_extensions": "typing-extensions", "nc-time-axis": "nc-time-axis", "build": "build", "aiobotocore": "aiobotocore", "sphinx-gallery": "sphinx-gallery",
	"pytorch": "torch", "numpydoc": "numpydoc", "hdf5": "", "lxml": "lxml", "rasterio": "", "cfgrib": "", "pseudonetcdf": "", "pydap": "pydap", "h5netcdf": "h5netcdf",
	"geos": "", "proj": "", "ninja": "ninja", "meson": "meson", "inkscape": "", "nodejs": "", "ffmpeg": "", "imagemagick": "",
}

type condaFile struct {
	Dependencies []any `yaml:"dependencies"`
}

// CondaRequirements turns a conda environment.yml into pip requirements, for
// machines without conda. It returns the packages pip has no name for.
func CondaRequirements(data []byte) (text string, dropped []string, err error) {
	var f condaFile
	if err := yaml.Unmarshal(data, &f); err != nil {
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
					lines = append(lines, replaceYanked(s))
				}
			}
		}
	}
	sort.Strings(dropped)
	return strings.Join(lines, "\n"), dropped, nil
}

var condaPattern = regexp.MustCompile(`^(?:[\w.-]+::)?([A-Za-z0-9_.-]+)\s*(.*)$`)

// condaSpec turns "numpy=1.17" or "pandas >=1.2" into pip's form; ok is false
// for packages pip cannot give, and the line empty for those it must not.
func condaSpec(spec string) (line string, ok bool) {
	m := condaPattern.FindStringSubmatch(strings.TrimSpace(spec))
	if m == nil {
		return "", false
	}
	name, constraint := strings.ToLower(m[1]), strings.ReplaceAll(m[2], " ", "")
	if name == "python" || name == "pip" {
		return "", true
	}
	if pip, known := condaToPip[name]; known {
		if pip == "" {
			return "", false
		}
		name = pip
	}
	switch {
	case constraint == "":
	case strings.HasPrefix(constraint, "=="), strings.ContainsAny(constraint[:1], "<>!~"):
		name += constraint
	case strings.HasPrefix(constraint, "="):
		// One equals sign means "this line of versions"; a third field is a build string.
		version, _, _ := strings.Cut(constraint[1:], "=")
		version = strings.TrimSuffix(version, ".*")
		if strings.HasSuffix(version, "*") {
			version = strings.TrimSuffix(version, "*")
		}
		name += "==" + strings.TrimSuffix(version, ".") + ".*"
	}
	return name, true
}
