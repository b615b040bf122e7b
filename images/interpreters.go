package images

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"github.com/evalrun/evalrun/cache"
)

// InterpreterExcludes are left behind when an interpreter is copied into a
// layer: its own tests, caches, and what was installed into it on this machine.
var InterpreterExcludes = []string{
	"**/__pycache__", "lib/python*/test", "lib/python*/site-packages/*", "lib/python*/idlelib",
	"lib/python*/lib2to3/tests", "share", "bin/pip*", "lib/*.a", "lib/python*/config-*/*.a",
}

// Interpreter is one Python of a folder laid out as pyenv does: DIR/3.9.18/bin/python3.
type Interpreter struct {
	Version string // 3.9.18
	Path    string
}

var interpreterVersion = regexp.MustCompile(`^(\d+)\.(\d+)\.(\d+)$`)

// FindInterpreters lists the interpreters of a folder, newest first.
func FindInterpreters(dir string) []Interpreter {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var found []Interpreter
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if !interpreterVersion.MatchString(e.Name()) {
			continue
		}
		if _, err := os.Stat(filepath.Join(path, "bin", "python"+e.Name()[:1])); err != nil {
			continue
		}
		found = append(found, Interpreter{Version: e.Name(), Path: path})
	}
	sort.Slice(found, func(i, j int) bool { return CompareVersions(found[i].Version, found[j].Version) > 0 })
	return found
}

// DefaultInterpreters is the folder pyenv keeps its versions in on this machine, or "".
func DefaultInterpreters() string {
	var candidates []string
	if root := os.Getenv("PYENV_ROOT"); root != "" {
		candidates = append(candidates, filepath.Join(root, "versions"))
	}
	if home, err := os.UserHomeDir(); err == nil {
		candidates = append(candidates, filepath.Join(home, ".pyenv", "versions"))
	}
	for _, dir := range candidates {
		if len(FindInterpreters(dir)) > 0 {
			return dir
		}
	}
	return ""
}

// CompareVersions orders dotted versions by their numbers.
func CompareVersions(a, b string) int {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := 0; i < len(as) || i < len(bs); i++ {
		x, y := part(as, i), part(bs, i)
		if x != y {
			return x - y
		}
	}
	return 0
}

func part(parts []string, i int) int {
	if i >= len(parts) {
		return -1
	}
	n, err := strconv.Atoi(parts[i])
	if err != nil {
		return -1
	}
	return n
}

// DigestTree hashes the content of a folder as it will be copied: names, modes,
// link targets and bytes, without what is excluded.
func DigestTree(dir string) (string, error) {
	h := sha256.New()
	err := walkTree(dir, func(rel, path string, info fs.FileInfo) error {
		describeEntry(h, rel, path, info)
		if !info.Mode().IsRegular() {
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(h, f)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read interpreter %s: %w", filepath.Base(dir), err)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// DigestTreeOnce is DigestTree that reads the files only when their names,
// sizes and times of change are not those of an earlier call. What it found is
// kept in the folder memo; "" keeps nothing.
func DigestTreeOnce(memo, dir string) (string, error) {
	if memo == "" {
		return DigestTree(dir)
	}
	h := sha256.New()
	err := walkTree(dir, func(rel, path string, info fs.FileInfo) error {
		describeEntry(h, rel, path, info)
		fmt.Fprintf(h, "t %d\n", info.ModTime().UnixNano())
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("read interpreter %s: %w", filepath.Base(dir), err)
	}
	name := filepath.Join(memo, hex.EncodeToString(h.Sum(nil)))
	if data, err := os.ReadFile(name); err == nil && digestPattern.Match(data) {
		return string(data), nil
	}
	digest, err := DigestTree(dir)
	if err != nil {
		return "", err
	}
	return digest, cache.WriteFile(name, []byte(digest), 0o644)
}

var digestPattern = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// describeEntry writes what of an entry shows without reading it.
func describeEntry(h io.Writer, rel, path string, info fs.FileInfo) {
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := os.Readlink(path)
		fmt.Fprintf(h, "l %q %q %v\n", rel, target, err)
		return
	}
	fmt.Fprintf(h, "f %q %o %d\n", rel, info.Mode().Perm(), info.Size())
}

// walkTree calls f for the files and links of a folder that are not excluded,
// in order of their names.
func walkTree(dir string, f func(rel, path string, info fs.FileInfo) error) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if excluded(rel) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err != nil || !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0 {
			return err
		}
		return f(rel, path, info)
	})
}

func excluded(rel string) bool {
	rel = filepath.ToSlash(rel)
	base := rel[strings.LastIndex(rel, "/")+1:]
	if base == "__pycache__" || rel == "share" {
		return true
	}
	for _, pattern := range InterpreterExcludes {
		if ok, err := filepath.Match(pattern, rel); err == nil && ok {
			return true
		}
	}
	return false
}

// HostSuite is the Debian suite this machine runs, or "" on other systems.
func HostSuite() string {
	f, err := os.Open("/etc/os-release")
	if err != nil {
		return ""
	}
	defer f.Close()
	values := map[string]string{}
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if k, v, ok := strings.Cut(sc.Text(), "="); ok {
			values[k] = strings.Trim(v, `"`)
		}
	}
	if values["ID"] != "debian" {
		return ""
	}
	return values["VERSION_CODENAME"]
}
