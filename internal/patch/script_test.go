package patch_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/internal/patch"
)

const nonce = "n0nce-for-tests"

// checkout is a git repository in a temporary folder.
type checkout struct {
	t    *testing.T
	root string
}

// files maps a path to content; "-> x" is a link to x, "(exec) x" an executable
// file with x in it.
type files map[string]string

func newCheckout(t *testing.T, committed files) *checkout {
	t.Helper()
	for _, tool := range []string{"git", "patch", "sh"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is needed: %v", tool, err)
		}
	}
	c := &checkout{t, t.TempDir()}
	c.git("init", "-q", "-b", "main")
	c.write(committed)
	c.commit("base")
	return c
}

func (c *checkout) git(args ...string) string {
	c.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", c.root, "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "core.autocrlf=false"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			c.t.Fatalf("git %v: %v\n%s", args, err, exit.Stderr)
		}
		c.t.Fatal(err)
	}
	return string(out)
}

func (c *checkout) commit(msg string) {
	c.t.Helper()
	c.git("add", "-A", "-f")
	c.git("commit", "-q", "--allow-empty", "-m", msg)
}

func (c *checkout) write(fs files) {
	c.t.Helper()
	for name, content := range fs {
		file := filepath.Join(c.root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			c.t.Fatal(err)
		}
		_ = os.Remove(file)
		var err error
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			err = os.Symlink(target, file)
		} else if text, ok := strings.CutPrefix(content, "(exec) "); ok {
			err = os.WriteFile(file, []byte(text), 0o755)
		} else {
			err = os.WriteFile(file, []byte(content), 0o644)
		}
		if err != nil {
			c.t.Fatal(err)
		}
	}
}

// tree reads the whole checkout but .git; folders end in "/".
func (c *checkout) tree() files {
	c.t.Helper()
	out := files{}
	err := filepath.WalkDir(c.root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || file == c.root {
			return err
		}
		name, _ := filepath.Rel(c.root, file)
		info, err := d.Info()
		switch {
		case err != nil:
			return err
		case name == ".git":
			return filepath.SkipDir
		case d.IsDir():
			out[name+"/"] = info.Mode().String()
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(file)
			out[name] = "-> " + target
			return err
		default:
			b, err := os.ReadFile(file)
			out[name] = string(b)
			if info.Mode()&0o100 != 0 {
				out[name] = "(exec) " + out[name]
			}
			return err
		}
		return nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

// diff is what git diff makes of the changes between two states of the tree.
func (c *checkout) diffOf(changed files, args ...string) string {
	c.t.Helper()
	c.write(changed)
	c.git("add", "-A", "-f")
	out := c.git(append([]string{"diff", "--cached", "--binary", "-M"}, args...)...)
	c.git("reset", "-q", "--hard")
	return out
}

func (c *checkout) run(task string, shell ...string) (string, patch.Result, error) {
	c.t.Helper()
	out := c.runAll(c.root, []string{task}, shell...)
	r, err := patch.ParseResult(nonce, out)
	return out, r, err
}

// runAll runs tasks in the checkout at root.
func (c *checkout) runAll(root string, tasks []string, shell ...string) string {
	c.t.Helper()
	if len(shell) == 0 {
		shell = []string{"sh"}
	}
	script, err := patch.Tasks(root)
	if err != nil {
		c.t.Fatal(err)
	}
	dir := c.t.TempDir()
	words := shell[1:]
	for i, text := range append([]string{script}, tasks...) {
		file := filepath.Join(dir, fmt.Sprintf("%d.sh", i))
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			c.t.Fatal(err)
		}
		words = append(words, file)
	}
	tmp := c.t.TempDir()
	cmd := exec.Command(shell[0], words...)
	cmd.Dir = c.root
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.t.Fatal(err)
	}
	if left, _ := os.ReadDir(tmp); len(left) > 0 {
		c.t.Errorf("the script left %v in the temporary folder", left)
	}
	return string(out)
}

// apply prepares a patch and applies it with the real script.
func (c *checkout) apply(text string, shell ...string) patch.Result {
	c.t.Helper()
	p, err := patch.Prepare(text)
	if err != nil {
		c.t.Fatalf("Prepare: %v", err)
	}
	return c.applyPrepared(p, shell...)
}

func (c *checkout) applyPrepared(p patch.Prepared, shell ...string) patch.Result {
	c.t.Helper()
	dir := c.t.TempDir()
	var names []string
	for i, v := range p.Variants {
		name := filepath.Join(dir, "it's "+string(rune('a'+i))+".diff")
		if err := os.WriteFile(name, []byte(v.Text), 0o644); err != nil {
			c.t.Fatal(err)
		}
		names = append(names, name)
	}
	script, err := p.ApplyTask(nonce, names)
	if err != nil {
		c.t.Fatal(err)
	}
	out, r, err := c.run(script, shell...)
	if err != nil {
		c.t.Fatalf("ParseResult: %v\n%s", err, out)
	}
	return r
}

func (c *checkout) restore(r patch.Restore, testPatch string) patch.Result {
	c.t.Helper()
	r.Nonce = nonce
	if testPatch != "" {
		r.TestPatch = filepath.Join(c.t.TempDir(), "test patch.diff")
		if err := os.WriteFile(r.TestPatch, []byte(testPatch), 0o644); err != nil {
			c.t.Fatal(err)
		}
	}
	script, err := patch.RestoreTask(r)
	if err != nil {
		c.t.Fatal(err)
	}
	out, res, err := c.run(script)
	if err != nil {
		c.t.Fatalf("ParseResult: %v\n%s", err, out)
	}
	return res
}

func (c *checkout) base() string {
	return strings.TrimSpace(c.git("rev-parse", "HEAD"))
}

// same fails the test when the tree is not as wanted.
func (c *checkout) same(want files, what string) {
	c.t.Helper()
	if d := cmp.Diff(want, c.tree()); d != "" {
		c.t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// with is a tree with changes; "" removes a path.
func (f files) with(changes files) files {
	out := files{}
	for k, v := range f {
		out[k] = v
	}
	for k, v := range changes {
		if v == "" {
			delete(out, k)
		} else {
			out[k] = v
		}
	}
	return out
}

func commands(r patch.Result) []string {
	var out []string
	for _, try := range r.Tries {
		out = append(out, try.Command)
	}
	return out
}

// numbered is a file of n lines.
func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("line ")
		b.WriteString(strings.Repeat("x", i%7))
		b.WriteByte(byte('a' + i%26))
		b.WriteByte('\n')
	}
	return b.String()
}

// Each task has its own result, whatever became of those before it.
func TestTasksAreOnTheirOwn(t *testing.T) {
	c := newCheckout(t, files{"f.txt": "a\nb\nc\n", "t.txt": "1\n"})
	base := c.base()
	nonces := []string{"nonce-of-the-first", "nonce-of-the-second", "nonce-of-the-third", "nonce-of-the-fourth"}
	p, err := patch.Prepare(fixB)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "patch.diff")
	if err := os.WriteFile(file, []byte(fixB), 0o644); err != nil {
		t.Fatal(err)
	}
	c.write(files{"t.txt": "2\n"})
	var tasks []string
	for i, make := range []func(nonce string) (string, error){
		func(nonce string) (string, error) { return p.ApplyTask(nonce, []string{file}) },
		func(nonce string) (string, error) {
			return patch.RestoreTask(patch.Restore{Base: strings.Repeat("a", 40), Nonce: nonce, Paths: []string{"t.txt"}, Trusted: true})
		},
		func(nonce string) (string, error) {
			return patch.RestoreTask(patch.Restore{Base: base, Nonce: nonce, Paths: []string{"t.txt"}, Trusted: true})
		},
		func(nonce string) (string, error) { return patch.SnapshotTask(nonce, "") },
	} {
		text, err := make(nonces[i])
		if err != nil {
			t.Fatal(err)
		}
		tasks = append(tasks, text)
	}
	out := c.runAll(c.root, tasks)
	var results []patch.Result
	for i, nonce := range nonces {
		r, err := patch.ParseResult(nonce, out)
		if wrong := err != nil; wrong != (i == 1) {
			t.Errorf("task %d: %v\n%s", i+1, err, out)
		}
		results = append(results, r)
	}
	c.same(abc("a\nB\nc\n").with(files{"t.txt": "1\n"}), "tree")
	c.git("add", "-A")
	if want := strings.TrimSpace(c.git("write-tree")); results[0].Command != gitApply || states(results[2])["t.txt"] != "restored" || results[3].Tree != want {
		t.Errorf("%+v, want tree %s", results, want)
	}
}
