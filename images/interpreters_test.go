package images

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// write makes files below dir; a text that starts with "-> " is a link.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			err = os.Symlink(target, path)
		} else {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// interpreters makes a folder as pyenv lays it out.
func interpreters(t *testing.T, versions ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, v := range versions {
		write(t, dir, map[string]string{v + "/bin/python" + v[:1]: "#!" + v})
	}
	return dir
}

func TestFindInterpreters(t *testing.T) {
	dir := interpreters(t, "3.9.18", "3.10.2", "2.7.18", "3.9.9", "3.13.0")
	write(t, dir, map[string]string{
		"3.8.1/lib/x": "", "3.7/bin/python3": "", "pypy3.9-7.3/bin/python3": "", "miniconda3/bin/python3": "", "3.6.1": "a file",
		"3.5.4/bin/python2": "", "3.12.0rc1/bin/python3": "", "3.11.0/bin/python3": "-> nowhere",
	})
	var got []string
	for _, i := range FindInterpreters(dir) {
		got = append(got, i.Version)
		if i.Path != filepath.Join(dir, i.Version) {
			t.Errorf("%s is at %s", i.Version, i.Path)
		}
	}
	if want := "3.13.0 3.10.2 3.9.18 3.9.9 2.7.18"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
	if got := FindInterpreters(filepath.Join(dir, "missing")); got != nil {
		t.Errorf("missing folder: %v", got)
	}
}

func TestDefaultInterpreters(t *testing.T) {
	home, root := t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("PYENV_ROOT", root)
	if got := DefaultInterpreters(); got != "" {
		t.Errorf("nothing installed: %q", got)
	}
	write(t, home, map[string]string{".pyenv/versions/3.9.1/bin/python3": ""})
	if got := DefaultInterpreters(); got != filepath.Join(home, ".pyenv/versions") {
		t.Errorf("home: %q", got)
	}
	write(t, root, map[string]string{"versions/3.9.1/bin/python3": ""})
	if got := DefaultInterpreters(); got != filepath.Join(root, "versions") {
		t.Errorf("PYENV_ROOT goes first: %q", got)
	}
}

func TestCompareVersions(t *testing.T) {
	ascending := []string{"", "x", "2.7.18", "3", "3.6", "3.6.0", "3.6.9", "3.6.15", "3.9.18", "3.10", "3.10.1", "3.10.1.1", "10.0"}
	for i, a := range ascending {
		for j, b := range ascending {
			got := CompareVersions(a, b)
			if i > 1 && j > 1 && (got < 0) != (i < j) || i == j && got != 0 {
				t.Errorf("%q against %q: %d", a, b, got)
			}
		}
	}
}

func TestDigestTree(t *testing.T) {
	plain := map[string]string{"bin/python3": "binary", "lib/python3.9/os.py": "import sys", "lib/libpython.so": "-> libpython.so.1"}
	digest := func(change func(dir string)) string {
		dir := t.TempDir()
		write(t, dir, plain)
		if change != nil {
			change(dir)
		}
		d, err := DigestTree(dir)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	want := digest(nil)
	if !digestPattern.MatchString(want) {
		t.Errorf("digest %q", want)
	}
	same := map[string]func(string){
		"made elsewhere, at another time": nil,
		"time of change":                  func(dir string) { os.Chtimes(filepath.Join(dir, "bin/python3"), time.Time{}, time.Unix(1, 0)) },
		"excluded parts": func(dir string) {
			write(t, dir, map[string]string{
				"share/man/x": "1", "lib/python3.9/__pycache__/os.pyc": "1", "lib/python3.9/test/test_os.py": "1", "bin/pip3.9": "1", "bin/pip": "1",
				"lib/python3.9/site-packages/six.py": "1", "lib/python3.9/site-packages/six-1.0.dist-info/METADATA": "1", "lib/libpython3.9.a": "1",
				"lib/python3.9/idlelib/idle.py": "1", "lib/python3.9/lib2to3/tests/x.py": "1", "lib/python3.9/config-3.9-linux/libpython3.9.a": "1",
			})
		},
		"empty folder": func(dir string) { os.Mkdir(filepath.Join(dir, "empty"), 0o755) },
	}
	for name, change := range same {
		if got := digest(change); got != want {
			t.Errorf("%s: another digest", name)
		}
	}
	other := map[string]func(string){
		"content":   func(dir string) { os.WriteFile(filepath.Join(dir, "bin/python3"), []byte("Binary"), 0o644) },
		"mode":      func(dir string) { os.Chmod(filepath.Join(dir, "bin/python3"), 0o755) },
		"name":      func(dir string) { os.Rename(filepath.Join(dir, "bin/python3"), filepath.Join(dir, "bin/python2")) },
		"new file":  func(dir string) { write(t, dir, map[string]string{"lib/python3.9/new.py": ""}) },
		"lost file": func(dir string) { os.Remove(filepath.Join(dir, "bin/python3")) },
		"link target": func(dir string) {
			os.Remove(filepath.Join(dir, "lib/libpython.so"))
			os.Symlink("x", filepath.Join(dir, "lib/libpython.so"))
		},
		"link or file": func(dir string) {
			os.Remove(filepath.Join(dir, "lib/libpython.so"))
			os.WriteFile(filepath.Join(dir, "lib/libpython.so"), nil, 0o644)
		},
		"share elsewhere": func(dir string) { write(t, dir, map[string]string{"lib/share/x": ""}) },
	}
	for name, change := range other {
		if digest(change) == want {
			t.Errorf("%s: same digest", name)
		}
	}
	if _, err := DigestTree(filepath.Join(t.TempDir(), "3.9.18")); err == nil || !strings.Contains(err.Error(), "interpreter 3.9.18") {
		t.Errorf("missing folder: %v", err)
	}
}

func TestDigestTreeOnce(t *testing.T) {
	dir, memo := t.TempDir(), filepath.Join(t.TempDir(), "memo")
	write(t, dir, map[string]string{"bin/python3": "one"})
	python := filepath.Join(dir, "bin/python3")
	when := time.Unix(1700000000, 0)
	if err := os.Chtimes(python, when, when); err != nil {
		t.Fatal(err)
	}
	digest := func(memo string) string {
		t.Helper()
		d, err := DigestTreeOnce(memo, dir)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	first := digest(memo)
	if first != digest("") {
		t.Error("another digest than DigestTree's")
	}
	// A change that shows in neither size nor time is not seen: the file was not read.
	if err := os.WriteFile(python, []byte("two"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(python, when, when); err != nil {
		t.Fatal(err)
	}
	if digest(memo) != first {
		t.Error("the files were read again")
	}
	later := when.Add(time.Second)
	if err := os.Chtimes(python, later, later); err != nil {
		t.Fatal(err)
	}
	if got := digest(memo); got == first || got != digest("") {
		t.Error("a changed file was not read again")
	}
	// What is kept is only a hint: a damaged one is made anew.
	entries, err := os.ReadDir(memo)
	if err != nil || len(entries) != 2 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	for _, e := range entries {
		if err := os.WriteFile(filepath.Join(memo, e.Name()), []byte("sha256:short"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := digest(memo); got != digest("") {
		t.Errorf("from a damaged entry: %s", got)
	}
}

func TestHostSuite(t *testing.T) {
	data, err := os.ReadFile("/etc/os-release")
	if err != nil {
		t.Skip("no /etc/os-release on this system")
	}
	suite := HostSuite()
	if strings.Contains(string(data), "\nID=debian\n") != (suite != "") || suite != "" && !strings.Contains(string(data), suite) {
		t.Errorf("suite %q of\n%s", suite, data)
	}
}
