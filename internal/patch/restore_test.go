package patch_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/internal/patch"
)

const testFix = "diff --git a/tests/test_a.py b/tests/test_a.py\n--- a/tests/test_a.py\n+++ b/tests/test_a.py\n@@ -1,3 +1,3 @@\n a\n-b\n+tested\n c\n" +
	"diff --git a/tests/new dir/test_n.py b/tests/new dir/test_n.py\nnew file mode 100644\n--- /dev/null\n+++ b/tests/new dir/test_n.py\n@@ -0,0 +1 @@\n+new test\n"

func states(r patch.Result) map[string]string {
	out := map[string]string{}
	for _, p := range r.Restored {
		out[p.Path] = p.State
	}
	return out
}

// Whatever the model did to test files, they are the base commit's before the
// test patch comes, and everything else stays as the model left it.
func TestRestore(t *testing.T) {
	committed := files{"src.py": "source\n", "tests/test_a.py": "a\nb\nc\n", "tests/data.txt": "data\n", "tox.ini": "-rA\n"}
	after := files{"tests/test_a.py": "a\ntested\nc\n", "tests/new dir/test_n.py": "new test\n"}
	tests := []struct {
		name    string
		model   func(c *checkout)
		states  map[string]string
		cleared []string
		extra   files // left by the model
	}{
		{"nothing", func(*checkout) {}, map[string]string{"tests/test_a.py": "kept", "tests/new dir/test_n.py": "absent"}, nil, nil},
		{"edited, and the new one planted (A14, B20)", func(c *checkout) {
			c.write(files{"tests/test_a.py": "assert True\n", "tests/new dir/test_n.py": "planted\n", "src.py": "fixed\n"})
		}, map[string]string{"tests/test_a.py": "restored", "tests/new dir/test_n.py": "deleted"}, nil, files{"src.py": "fixed\n"}},
		{"deleted", func(c *checkout) { c.remove("tests/test_a.py") },
			map[string]string{"tests/test_a.py": "restored", "tests/new dir/test_n.py": "absent"}, nil, nil},
		{"executable", func(c *checkout) { c.write(files{"tests/test_a.py": "(exec) a\nb\nc\n"}) },
			map[string]string{"tests/test_a.py": "restored", "tests/new dir/test_n.py": "absent"}, nil, nil},
		{"a link to a file of the model's", func(c *checkout) {
			c.write(files{"mine.py": "a\nb\nc\n", "tests/test_a.py": "-> ../mine.py"})
		}, map[string]string{"tests/test_a.py": "restored", "tests/new dir/test_n.py": "absent"}, nil, files{"mine.py": "a\nb\nc\n"}},
		{"a folder in its place (B19)", func(c *checkout) {
			c.remove("tests/test_a.py")
			c.write(files{"tests/test_a.py/__init__.py": "planted\n", "tests/new dir/test_n.py/x": "planted\n"})
		}, map[string]string{"tests/test_a.py": "restored", "tests/new dir/test_n.py": "deleted"}, nil, nil},
		{"the folder above is a link", func(c *checkout) {
			c.git("mv", "tests", "elsewhere")
			c.git("reset", "-q")
			c.write(files{"tests": "-> elsewhere", "elsewhere/test_a.py": "planted\n", "elsewhere/new dir/test_n.py": "planted\n"})
		}, map[string]string{"tests/test_a.py": "restored", "tests/new dir/test_n.py": "absent"}, []string{"tests"},
			files{"elsewhere/": "drwxr-xr-x", "elsewhere/new dir/": "drwxr-xr-x", "elsewhere/new dir/test_n.py": "planted\n", "elsewhere/test_a.py": "planted\n", "elsewhere/data.txt": "data\n", "tests/data.txt": ""}},
		{"the folder of the new file is a link out of the tree", func(c *checkout) {
			c.write(files{"tests/new dir": "-> " + c.t.TempDir()})
		}, map[string]string{"tests/test_a.py": "kept", "tests/new dir/test_n.py": "absent"}, []string{"tests/new dir"}, nil},
		{"a file where the folder of the new file belongs", func(c *checkout) { c.write(files{"tests/new dir": "planted\n"}) },
			map[string]string{"tests/test_a.py": "kept", "tests/new dir/test_n.py": "absent"}, []string{"tests/new dir"}, nil},
		{"line ends by .gitattributes", func(c *checkout) {
			c.write(files{".gitattributes": "*.py text eol=crlf\n", "tests/.gitattributes": "*.py working-tree-encoding=UTF-16\n", "tests/test_a.py": "x\n"})
		}, map[string]string{"tests/test_a.py": "restored", "tests/new dir/test_n.py": "absent"}, nil,
			files{".gitattributes": "*.py text eol=crlf\n", "tests/.gitattributes": "*.py working-tree-encoding=UTF-16\n"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCheckout(t, committed)
			base := c.base()
			c.write(files{"tox.ini": "-rA # set up by the image\n", "build.so": "artefact\n"})
			before := c.tree()
			tt.model(c)
			reset, created := patch.TestFiles(testFix)
			r := c.restore(patch.Restore{Base: base, Paths: append(reset, created...)}, testFix)
			if r.Command != gitApply {
				t.Errorf("test patch applied by %q: %+v", r.Command, r.Tries)
			}
			if d := cmp.Diff(tt.states, states(r)); d != "" {
				t.Errorf("states (-want +got):\n%s", d)
			}
			if d := cmp.Diff(tt.cleared, r.Cleared); d != "" {
				t.Errorf("cleared (-want +got):\n%s", d)
			}
			c.same(before.with(files{"tests/new dir/": "drwxr-xr-x"}).with(after).with(tt.extra), "tree")
		})
	}
}

func (c *checkout) remove(name string) {
	c.t.Helper()
	if err := os.RemoveAll(filepath.Join(c.root, name)); err != nil {
		c.t.Fatal(err)
	}
}

// A list of new files alone does not reset the tree (B17), and one unknown path
// does not keep the others from being restored.
func TestRestoreNewFilesOnly(t *testing.T) {
	c := newCheckout(t, files{"tox.ini": "a\n", "t/a.txt": "a\n", "t/it's $(b) \\ \"q\".txt": "b\n", "-n": "n\n"})
	base := c.base()
	c.write(files{"tox.ini": "-rA\n", "t/new.txt": "planted\n", "t/a.txt": "x\n", "t/it's $(b) \\ \"q\".txt": "x\n", "-n": "x\n"})
	r := c.restore(patch.Restore{Base: base, Paths: []string{"t/new.txt"}}, "")
	if d := cmp.Diff(map[string]string{"t/new.txt": "deleted"}, states(r)); d != "" || r.Applied {
		t.Errorf("%+v", r)
	}
	c.restore(patch.Restore{Base: base, Paths: []string{"t/none", "t/a.txt", "t/it's $(b) \\ \"q\".txt", "-n"}}, "")
	c.same(files{"tox.ini": "-rA\n", "t/": "drwxr-xr-x", "t/a.txt": "a\n", "t/it's $(b) \\ \"q\".txt": "b\n", "-n": "n\n"}, "tree")
	if s := c.git("diff", "--name-only", "HEAD"); s != "tox.ini\n" {
		t.Errorf("changed: %q", s)
	}
}

// A file of base becomes a folder, links and modes come back as they were.
func TestRestoreKinds(t *testing.T) {
	c := newCheckout(t, files{"link": "-> run.sh", "run.sh": "(exec) #!/bin/sh\n", "a": "file\n", "d/x": "x\n", "win.txt": "crlf\n", ".gitattributes": "win.txt text eol=crlf\n"})
	base := c.base()
	want := c.tree().with(files{"win.txt": "crlf\r\n"})
	for _, gone := range []string{"link", "run.sh", "a", "d", "win.txt"} {
		c.remove(gone)
	}
	c.write(files{"link": "not a link\n", "run.sh": "no\n", "a/b": "planted\n", "d": "a file\n", ".gitattributes": "win.txt -text\n"})
	r := c.restore(patch.Restore{Base: base, Paths: []string{"link", "run.sh", "a", "a/b", "d/x", "win.txt", ".gitattributes"}}, "")
	c.same(want, "tree")
	if got := states(r)["a/b"]; got != "deleted" {
		t.Errorf("a/b was %s", got)
	}
}

// When the test patch does not apply at once, it goes through the same commands,
// with an index that knows what was restored; when none works the files are the
// base commit's.
func TestRestoreFallbacks(t *testing.T) {
	old := numbered(30)
	c := newCheckout(t, files{"t/a.txt": old})
	base := c.base()
	other := strings.Replace(old, "line xxxd\n", "other\n", 1)
	c.write(files{"t/a.txt": other})
	c.commit("a set-up commit that changes the test")
	head := c.base()
	diff := c.diffOf(files{"t/a.txt": strings.Replace(other, "line xb\n", "line B\n", 1)})

	c.write(files{"t/a.txt": "model\n"})
	r := c.restore(patch.Restore{Base: base, Paths: []string{"t/a.txt"}}, diff)
	if r.Command != gitThree {
		t.Errorf("applied by %q: %+v", r.Command, r.Tries)
	}
	c.same(files{"t/": "drwxr-xr-x", "t/a.txt": strings.Replace(old, "line xb\n", "line B\n", 1)}, "merged")

	c.write(files{"t/a.txt": "model\n"})
	r = c.restore(patch.Restore{Base: head, Paths: []string{"t/a.txt"}}, "--- a/t/a.txt\n+++ b/t/a.txt\n@@ -1,2 +1,2 @@\n no\n-such\n+line\n")
	if r.Applied || len(r.Tries) != 4 {
		t.Errorf("%+v", r)
	}
	c.same(files{"t/": "drwxr-xr-x", "t/a.txt": strings.Replace(old, "line xxxd\n", "other\n", 1)}, "not applied")
}

func TestRestoreErrors(t *testing.T) {
	for _, r := range []patch.Restore{
		{Nonce: nonce, Base: "HEAD", Paths: []string{"../x"}},
		{Nonce: nonce, Base: "HEAD", Paths: []string{"/x"}},
		{Nonce: nonce, Base: "HEAD", Paths: []string{"."}},
		{Nonce: nonce, Base: "HEAD", Paths: []string{"a\nb"}},
		{Nonce: nonce, Base: "--all"},
		{Nonce: nonce, Base: ""},
		{Nonce: "", Base: "HEAD"},
	} {
		if s, err := patch.RestoreTask(r); err == nil {
			t.Errorf("%+v gave a script: %.60s", r, s)
		}
	}
	c := newCheckout(t, files{"f": "x\n"})
	script, err := patch.RestoreTask(patch.Restore{Nonce: nonce, Base: strings.Repeat("a", 40), Paths: []string{"f"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.run(script); err == nil || !strings.Contains(err.Error(), "is not in the repository") {
		t.Errorf("a commit that does not exist: %v", err)
	}
}

// Code of the model may have run before the tests are restored. What it wrote for
// git to run or to read instead counts no more.
func TestRestoreFromHostileRepository(t *testing.T) {
	good := files{"src.py": "source\n", "tests/test_a.py": "a\nb\nc\n"}
	reset, created := patch.TestFiles(testFix)
	paths := append(reset, created...)
	for _, tt := range []struct {
		name  string
		model func(c *checkout)
	}{
		{"smudge filter in .git/config", func(c *checkout) {
			c.git("config", "filter.x.smudge", "cat >/dev/null; echo planted")
			c.write(files{".git/info/attributes": "*.py filter=x\n"})
		}},
		{"attributes in .git/info", func(c *checkout) { c.write(files{".git/info/attributes": "*.py text eol=crlf\n"}) }},
		{"line ends in .git/config", func(c *checkout) { c.git("config", "core.autocrlf", "true") }},
		{"the index says it is unchanged", func(c *checkout) { c.git("update-index", "--assume-unchanged", "tests/test_a.py") }},
		{"replaced commit", func(c *checkout) {
			base := strings.TrimSpace(c.git("rev-parse", "HEAD"))
			c.write(files{"tests/test_a.py": "planted\n"})
			c.commit("x")
			c.git("replace", base, "HEAD")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCheckout(t, good)
			base := c.base()
			tt.model(c)
			c.write(files{"tests/test_a.py": "planted\n"})
			if r := c.restore(patch.Restore{Base: base, Paths: paths}, testFix); r.Command != gitApply {
				t.Errorf("test patch applied by %q: %+v", r.Command, r.Tries)
			}
			c.same(good.with(files{"tests/": "drwxr-xr-x", "tests/test_a.py": "a\ntested\nc\n", "tests/new dir/": "drwxr-xr-x", "tests/new dir/test_n.py": "new test\n"}), "tree")
		})
	}
}

// An object of the base commit that another was put in the place of is noticed.
func TestRestoreFromForgedObjects(t *testing.T) {
	for _, name := range []string{"HEAD:tests/test_a.py", "HEAD:tests", "HEAD^{tree}"} {
		c := newCheckout(t, files{"src.py": "source\n", "tests/test_a.py": "a\nb\nc\n"})
		base := c.base()
		forged := strings.TrimSpace(c.git("rev-parse", name))
		c.write(files{"tests/test_a.py": "a\nb\nc\nplanted\n"})
		c.commit("x")
		other := strings.TrimSpace(c.git("rev-parse", name))
		at := func(id string) string { return filepath.Join(c.root, ".git/objects", id[:2], id[2:]) }
		data, err := os.ReadFile(at(other))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(at(forged)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at(forged), data, 0o644); err != nil {
			t.Fatal(err)
		}
		script, err := patch.RestoreTask(patch.Restore{Nonce: nonce, Base: base, Paths: []string{"tests/test_a.py"}})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.run(script); err == nil || !strings.Contains(err.Error(), "replaced by another") {
			t.Errorf("%s forged: %v", name, err)
		}
	}
}
