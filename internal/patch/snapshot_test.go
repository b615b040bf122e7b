package patch_test

import (
	"strings"
	"testing"
	"time"

	"os"
	"path/filepath"
	"slices"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/internal/patch"
)

func (c *checkout) snapshot(before string) patch.Result {
	c.t.Helper()
	script, err := patch.SnapshotTask(nonce, before)
	if err != nil {
		c.t.Fatal(err)
	}
	out, r, err := c.run(script)
	if err != nil || r.Tree == "" {
		c.t.Fatalf("%v\n%s", err, out)
	}
	return r
}

func TestSnapshot(t *testing.T) {
	c := newCheckout(t, files{"kept": "k", "patched": "1", "changed": "1", "gone": "g", "mode": "m", "kind": "f", "dir/with space é": "1", "tab\tname": "1"})
	status := c.git("status", "--porcelain")
	c.write(files{"patched": "of the patch", "new by patch": "untracked"})
	before := c.snapshot("")
	if len(before.Changed) > 0 {
		t.Errorf("changed before anything was: %v", before.Changed)
	}
	c.write(files{"changed": "2", "mode": "(exec) m", "kind": "-> kept", "dir/with space é": "2", "tab\tname": "2", "untracked": "not looked at"})
	c.remove("gone")
	got := c.snapshot(before.Tree).Changed
	want := []patch.ChangedPath{
		{Path: "changed", Status: "M"}, {Path: "dir/with space é", Status: "M"}, {Path: "gone", Status: "D"}, {Path: "kind", Status: "T"}, {Path: "mode", Status: "M"},
		{Path: `"tab\tname"`, Status: "M"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	if now := c.git("diff", "--cached"); now != "" || status != "" {
		t.Errorf("the index changed:\n%s", now)
	}
}

// What the patch had changed, and the tests change back, is a change too; and a
// file of the same size is told by its time.
func TestSnapshotOfPatchedFiles(t *testing.T) {
	c := newCheckout(t, files{"a": "1", "b": "1"})
	c.write(files{"a": "2"})
	before := c.snapshot("")
	c.write(files{"a": "1", "b": "3"})
	later := time.Now().Add(5 * time.Second)
	if err := os.Chtimes(filepath.Join(c.root, "b"), later, later); err != nil {
		t.Fatal(err)
	}
	want := []patch.ChangedPath{{Path: "a", Status: "M"}, {Path: "b", Status: "M"}}
	if diff := cmp.Diff(want, c.snapshot(before.Tree).Changed); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
}

func TestSnapshotErrors(t *testing.T) {
	if _, err := patch.SnapshotTask(nonce, "HEAD; rm -rf /"); err == nil {
		t.Error("anything passes for a tree")
	}
	c := newCheckout(t, files{"a": "1"})
	if err := os.RemoveAll(filepath.Join(c.root, ".git")); err != nil {
		t.Fatal(err)
	}
	script, err := patch.SnapshotTask(nonce, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.run(script); err == nil || !strings.Contains(err.Error(), "not a git repository") {
		t.Errorf("without a repository: %v", err)
	}
}

// Looking at the files runs nothing that the checkout names.
func TestSnapshotRunsNothing(t *testing.T) {
	c := newCheckout(t, files{"a": "1", "b": "1"})
	c.git("config", "filter.x.clean", "echo changed >b; cat")
	c.git("config", "core.fsmonitor", "echo changed >b; true")
	c.write(files{".git/info/attributes": "* filter=x\n", "a": "two"})
	c.snapshot("")
	if data, err := os.ReadFile(filepath.Join(c.root, "b")); err != nil || string(data) != "1" {
		t.Errorf("b is %q: %v", data, err)
	}
}

func TestTracked(t *testing.T) {
	c := newCheckout(t, files{"kept": "k", "dir/one": "1", "dir/with space é": "1", "dir/gone": "1", "[a]*": "1", "axx": "1"})
	c.write(files{"untracked": "u", "dir/new": "n"})
	c.remove("dir/gone")
	for _, tt := range []struct{ paths, want []string }{
		{[]string{"kept", "untracked", "dir/with space é", "nowhere"}, []string{"dir/with space é", "kept"}},
		{[]string{"dir"}, []string{"dir/gone", "dir/one", "dir/with space é"}},
		{[]string{"[a]*"}, []string{"[a]*"}},
		{[]string{"untracked"}, nil},
	} {
		script, err := patch.TrackedTask(nonce, tt.paths)
		if err != nil {
			t.Fatal(err)
		}
		out, r, err := c.run(script)
		if err != nil {
			t.Fatalf("%v: %v\n%s", tt.paths, err, out)
		}
		slices.Sort(r.Tracked)
		if diff := cmp.Diff(tt.want, r.Tracked); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.paths, diff)
		}
	}
	if _, err := patch.TrackedTask(nonce, []string{"a\nb"}); err == nil {
		t.Error("two lines pass for a name")
	}
}
