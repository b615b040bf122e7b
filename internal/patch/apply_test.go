package patch_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/internal/patch"
)

const (
	gitApply   = "git apply --verbose"
	gitThree   = "git apply --verbose --3way"
	gitReject  = "git apply --verbose --reject"
	gnuPatch   = "patch --batch --forward --fuzz=5 -p1 --unified --no-backup-if-mismatch -i"
	gitReverse = "git apply --check --reverse"
)

const fixB = "--- a/f.txt\n+++ b/f.txt\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"

func abc(changed string) files { return files{"f.txt": changed} }

// Each row is a patch on a tree, and which command is to apply it. The tree
// afterwards is the tree before with the changes in want.
func TestApply(t *testing.T) {
	abcTree := files{"f.txt": "a\nb\nc\n"}
	tests := []struct {
		name      string
		committed files
		image     files // uncommitted changes and untracked files of the image
		patch     string
		command   string // "" when it is not to apply
		variant   int
		want      files // changes; "" removes
	}{
		{name: "a dash in front", committed: files{"-f.txt": "a\nb\nc\n"}, patch: strings.ReplaceAll(fixB, "f.txt", "-f.txt"), command: gitApply, want: files{"-f.txt": "a\nB\nc\n"}},
		{name: "plain", committed: abcTree, patch: fixB, command: gitApply, want: abc("a\nB\nc\n")},
		{name: "no final newline (A1)", committed: abcTree, patch: strings.TrimSuffix(fixB, "\n"), command: gitApply, want: abc("a\nB\nc\n")},
		{
			name: "several new files and no final newline (A2)", committed: abcTree,
			patch:   "diff --git a/n/x.txt b/n/x.txt\nnew file mode 100644\n--- /dev/null\n+++ b/n/x.txt\n@@ -0,0 +1 @@\n+x\ndiff --git a/n/y.txt b/n/y.txt\nnew file mode 100755\n--- /dev/null\n+++ b/n/y.txt\n@@ -0,0 +1 @@\n+y",
			command: gitApply, want: files{"n/": "drwxr-xr-x", "n/x.txt": "x\n", "n/y.txt": "(exec) y\n"},
		},
		{
			name: "hunk one line short of its count, then the next file (A4)", committed: files{"f.txt": "a\nb\nc\nd\n", "g.txt": "1\n2\n3\n"},
			patch:   "diff --git a/f.txt b/f.txt\n--- a/f.txt\n+++ b/f.txt\n@@ -1,4 +1,4 @@\n a\n-b\n+B\n c\ndiff --git a/g.txt b/g.txt\n--- a/g.txt\n+++ b/g.txt\n@@ -1,3 +1,3 @@\n 1\n-2\n+22\n 3\n",
			command: gitApply, variant: 1, want: files{"f.txt": "a\nB\nc\nd\n", "g.txt": "1\n22\n3\n"},
		},
		{
			name: "new file that an untracked build artefact already is (A5)", committed: files{"f.txt": "a\nb\nc\n", ".gitignore": "build/\n"},
			image:   files{"build/lib/m.py": "old\n", "build/lib/other.py": "keep\n"},
			patch:   fixB + "diff --git a/build/lib/m.py b/build/lib/m.py\nnew file mode 100644\n--- /dev/null\n+++ b/build/lib/m.py\n@@ -0,0 +1 @@\n+new\n",
			command: gitThree, want: files{"f.txt": "a\nB\nc\n", "build/lib/m.py": "new\n"},
		},
		{
			name: "first file new, second does not match (A10)", committed: abcTree,
			patch: "diff --git a/new/n.txt b/new/n.txt\nnew file mode 100644\n--- /dev/null\n+++ b/new/n.txt\n@@ -0,0 +1 @@\n+n\ndiff --git a/f.txt b/f.txt\n--- a/f.txt\n+++ b/f.txt\n@@ -1,3 +1,3 @@\n q\n-r\n+R\n s\n",
		},
		{
			name: "nothing survives a failed command, not even in files of the image", committed: files{"f.txt": "a\nb\nc\n", "t/g.txt": "1\n2\n3\n"},
			image: files{"f.txt": "a\nb\nc\nset up\n", "f.txt.orig": "of the image\n", "build/x": "untracked\n", "build/gone.txt.rej": "of the image too\n"},
			patch: "diff --git a/t/g.txt b/t/g.txt\ndeleted file mode 100644\n--- a/t/g.txt\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-1\n-2\n-3\n" + fixB +
				"diff --git a/build/gone.txt b/build/gone.txt\n--- a/build/gone.txt\n+++ b/build/gone.txt\n@@ -1 +1 @@\n-x\n+y\n",
		},
		{
			name: "uncommitted changes of the image are kept (B: a clean tree is the image's)", committed: files{"f.txt": numbered(40)},
			image:   files{"f.txt": numbered(40) + "set up by the image\n", "built.so": "binary\n"},
			patch:   "--- a/f.txt\n+++ b/f.txt\n@@ -1,3 +1,3 @@\n line a\n-line xb\n+line B\n line xxc\n",
			command: gitApply,
			want:    files{"f.txt": strings.Replace(numbered(40), "line xb\n", "line B\n", 1) + "set up by the image\n"},
		},
		{
			name: "fuzz", committed: abcTree,
			patch:   "--- a/f.txt\n+++ b/f.txt\n@@ -1,3 +1,3 @@\n A\n-b\n+B\n c\n",
			command: gnuPatch, want: abc("a\nB\nc\n"),
		},
		{
			name: "fuzz and no final newline, in the second of two files (A13)", committed: files{"f.txt": "a\nb\nc\n", "g.txt": "1\n2\n3\n"},
			patch:   fixB + "--- a/g.txt\n+++ b/g.txt\n@@ -1,3 +1,3 @@\n one\n-2\n+22\n 3",
			command: gnuPatch, want: files{"f.txt": "a\nB\nc\n", "g.txt": "1\n22\n3\n"},
		},
		{
			name: "empty context lines stored as nothing (A16)", committed: abc("a\n\nb\nc\n"),
			patch: "--- a/f.txt\n+++ b/f.txt\n@@ -1,4 +1,4 @@\n a\n\n-b\n+B\n c\n", command: gitApply, want: abc("a\n\nB\nc\n"),
		},
		{
			name: "the same in CRLF, for an LF file (A16)", committed: abc("a\n\nb\nc\n"),
			patch:   "--- a/f.txt\r\n+++ b/f.txt\r\n@@ -1,4 +1,4 @@\r\n a\r\n\r\n-b\r\n+B\r\n c\r\n",
			command: gnuPatch, want: abc("a\n\nB\nc\n"),
		},
		{
			name: "a CRLF file, headers LF, empty context line bare (A16)", committed: abc("a\r\n\r\nb\r\nc\r\n"),
			patch:   "diff --git a/f.txt b/f.txt\n--- a/f.txt\n+++ b/f.txt\n@@ -1,4 +1,4 @@\n a\r\n\r\n-b\r\n+B\r\n c\r\n",
			command: gitApply, variant: 1, want: abc("a\r\n\r\nB\r\nc\r\n"),
		},
		{
			name: "all CRLF, the file too", committed: abc("a\r\nb\r\nc\r\n"),
			patch:   "diff --git a/f.txt b/f.txt\r\nindex 1c0bd67..6f28b96 100644\r\n--- a/f.txt\r\n+++ b/f.txt\r\n@@ -1,3 +1,3 @@\r\n a\r\n-b\r\n+B\r\n c\r\n",
			command: gitApply, want: abc("a\r\nB\r\nc\r\n"),
		},
		{
			name: "all CRLF, the file too, empty context line bare (A16)", committed: abc("a\r\n\r\nb\r\nc\r\n"),
			patch:   "diff --git a/f.txt b/f.txt\r\n--- a/f.txt\r\n+++ b/f.txt\r\n@@ -1,4 +1,4 @@\r\n a\r\n\r\n-b\r\n+B\r\n c\r\n",
			command: gitApply, variant: 2, want: abc("a\r\n\r\nB\r\nc\r\n"),
		},
		{
			name: "a CRLF file, as git writes it", committed: abc("a\r\nb\r\nc\r\n"),
			patch: "diff --git a/f.txt b/f.txt\n--- a/f.txt\n+++ b/f.txt\n@@ -1,3 +1,3 @@\n a\r\n-b\r\n+B\r\n c\r\n", command: gitApply, want: abc("a\r\nB\r\nc\r\n"),
		},
		{
			name: "fence, tags and prose", committed: abcTree,
			patch: "Here is the fix:\n\n<patch>\n```diff\n" + fixB + "```\n</patch>\n\nIt works.\n", command: gitApply, want: abc("a\nB\nc\n"),
		},
		{
			name: "already applied", committed: abc("a\nB\nc\n"), patch: fixB, command: patch.AlreadyApplied, want: files{},
		},
		{
			name: "never in reverse: one file is there already, the other is not", committed: files{"f.txt": "a\nB\nc\n", "g.txt": "a\nb\nc\n"},
			patch: fixB + strings.ReplaceAll(fixB, "f.txt", "g.txt"),
		},
		{
			// patch(1) takes the original, without its second hunk, and so does the
			// official harness: the problem is said, the verdict is the same.
			name: "blank line between two hunks that patch accepts", committed: abc(numbered(30)),
			patch:   "--- a/f.txt\n+++ b/f.txt\n@@ -1,2 +1,2 @@\n line a\n-line xb\n+line B\n\n@@ -9,2 +9,2 @@\n line xi\n-line xxj\n+line J\n",
			command: gnuPatch, want: abc(strings.Replace(numbered(30), "line xb\n", "line B\n", 1)),
		},
		{
			name: "blank line between two hunks that nothing accepts", committed: abc(numbered(30)),
			patch:   "--- a/f.txt\n+++ b/f.txt\n@@ -1,5 +1,5 @@\n line a\n-line xb\n+line B\n line xxc\n\n@@ -9,3 +9,3 @@\n line xi\n-line xxj\n+line J\n line xxxk\n",
			command: gitApply, variant: 1,
			want: abc(strings.Replace(strings.Replace(numbered(30), "line xb\n", "line B\n", 1), "line xxj\n", "line J\n", 1)),
		},
		{
			name: "file and folder change places", committed: files{"a": "file\n", "b/x": "in folder\n"},
			patch: "diff --git a/a b/a\ndeleted file mode 100644\n--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-file\n" +
				"diff --git a/a/x b/a/x\nnew file mode 100644\n--- /dev/null\n+++ b/a/x\n@@ -0,0 +1 @@\n+file\n",
			command: gitApply, want: files{"a": "", "a/": "drwxr-xr-x", "a/x": "file\n"},
		},
		{
			name: "odd names", committed: files{"it's \"odd\" $(x)/ö -n.txt": "a\nb\nc\n"},
			patch:   "diff --git \"a/it's \\\"odd\\\" $(x)/\\303\\266 -n.txt\" \"b/it's \\\"odd\\\" $(x)/\\303\\266 -n.txt\"\n--- \"a/it's \\\"odd\\\" $(x)/\\303\\266 -n.txt\"\n+++ \"b/it's \\\"odd\\\" $(x)/\\303\\266 -n.txt\"\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n",
			command: gitApply, want: files{"it's \"odd\" $(x)/ö -n.txt": "a\nB\nc\n"},
		},
		{
			name: "binary file without its content: patch makes an empty file, as for the official harness", committed: abcTree,
			patch:   "diff --git a/db b/db\nnew file mode 100644\nindex 0000000..2ed0317\nBinary files /dev/null and b/db differ\ndiff --git a/f.txt b/f.txt\n" + fixB,
			command: gnuPatch, want: files{"f.txt": "a\nB\nc\n", "db": "\x00empty"},
		},
		{
			name: "a link out of the tree is made, and nothing else", committed: abcTree,
			patch: link("l", "/nonexistent/x") + "diff --git a/f.txt b/f.txt\n" + fixB, command: gitApply, want: files{"f.txt": "a\nB\nc\n", "l": "-> /nonexistent/x"},
		},
		{
			name: "an ed script is not a diff", committed: abcTree,
			patch: "Index: f.txt\n1d\n" + strings.ReplaceAll(fixB, " c\n", " q\n") + ".\nw\n", command: gnuPatch, want: abc("a\nB\nc\n"),
		},
		{
			name: "lost lines are not made up for by applying the rest", committed: abcTree,
			patch: "--- a/f.txt\n+++ b/f.txt\n@@ -1,3 +1,4 @@\n a\n-b\n+B\nnot a diff line\n+C\n c\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCheckout(t, tt.committed)
			c.write(tt.image)
			before := c.tree()
			index := c.git("ls-files", "-s")
			r := c.apply(tt.patch)
			if r.Command != tt.command || r.Variant != tt.variant || r.Applied != (tt.command != "") {
				t.Errorf("applied %v by %q as variant %d, want %q, %d", r.Applied, r.Command, r.Variant, tt.command, tt.variant)
				for _, try := range r.Tries {
					t.Logf("%d %s: %d\n%s", try.Variant, try.Command, try.ExitCode, try.Output)
				}
			}
			want := before.with(tt.want)
			for k, v := range want {
				if v == "\x00empty" {
					want[k] = ""
				}
			}
			c.same(want, "tree afterwards")
			if got := c.git("ls-files", "-s"); got != index {
				t.Errorf("the index is not as before:\n%s\nwas:\n%s", got, index)
			}
		})
	}
}

// A failed patch has been given to every command, each said with its exit status
// and words.
func TestTriesAreRecorded(t *testing.T) {
	c := newCheckout(t, files{"f.txt": "1\n2\n3\n"})
	r := c.apply(fixB)
	want := []string{gitApply, gitThree, gitReject, gnuPatch, gitReverse}
	if d := cmp.Diff(want, commands(r)); d != "" {
		t.Errorf("commands (-want +got):\n%s", d)
	}
	for _, try := range r.Tries {
		if try.ExitCode == 0 || try.Output == "" {
			t.Errorf("%s: exit %d, output %q", try.Command, try.ExitCode, try.Output)
		}
	}
	if r.Applied {
		t.Error("applied")
	}
}

// The three-way merge finds its base by the blob in the index line. It leaves the
// change unstaged, and a conflict leaves nothing.
func TestThreeWay(t *testing.T) {
	old := numbered(30)
	c := newCheckout(t, files{"f.txt": old})
	diff := c.diffOf(files{"f.txt": strings.Replace(old, "line xb\n", "line B\n", 1), "new.txt": "n\n"})
	t.Run("merges", func(t *testing.T) {
		c2 := &checkout{t, c.root}
		moved := strings.Replace(old, "line xxxd\n", "another line\n", 1)
		c2.write(files{"f.txt": moved})
		c2.commit("context changed")
		c2.write(files{"other.txt": "staged by the image\n"})
		c2.git("add", "other.txt")
		r := c2.apply(diff)
		if r.Command != gitThree {
			t.Errorf("applied by %q: %+v", r.Command, r.Tries)
		}
		c2.same(files{"f.txt": strings.Replace(moved, "line xb\n", "line B\n", 1), "new.txt": "n\n", "other.txt": "staged by the image\n"}, "tree")
		if got, want := c2.git("status", "--porcelain"), " M f.txt\nA  other.txt\n?? new.txt\n"; got != want {
			t.Errorf("status:\n%swant:\n%s", got, want)
		}
	})
	t.Run("conflict", func(t *testing.T) {
		c2 := &checkout{t, c.root}
		c2.git("reset", "-q", "--hard")
		c2.git("clean", "-fdq")
		c2.write(files{"f.txt": strings.Replace(old, "line xb\n", "line Q\n", 1)})
		c2.commit("conflicting")
		before := c2.tree()
		r := c2.apply(diff)
		if r.Applied {
			t.Errorf("applied by %s", r.Command)
		}
		c2.same(before, "after a conflict")
		if s := c2.git("status", "--porcelain"); s != "" {
			t.Errorf("status: %s", s)
		}
	})
}

func TestBinaryPatch(t *testing.T) {
	blob := "\x00\x01\x02" + strings.Repeat("\xfe\xff binary \x00", 40)
	c := newCheckout(t, files{"f.txt": "a\nb\nc\n", "old.bin": blob})
	before := c.tree()
	diff := c.diffOf(files{"new.bin": blob + "n", "old.bin": "\x00changed" + blob})
	for _, tt := range []struct {
		name, text string
		variant    int
	}{{"as git writes it", diff, 0}, {"its last blank line stripped", strings.TrimRight(diff, "\n"), 0}} {
		t.Run(tt.name, func(t *testing.T) {
			c2 := &checkout{t, c.root}
			r := c2.apply(tt.text)
			if r.Command != gitApply || r.Variant != tt.variant {
				t.Errorf("applied by %q as variant %d", r.Command, r.Variant)
			}
			c2.same(before.with(files{"new.bin": blob + "n", "old.bin": "\x00changed" + blob}), "tree")
			c2.git("reset", "-q", "--hard")
			c2.git("clean", "-fdq")
		})
	}
}

// What git diff writes for any kind of change applies at once and gives the same
// tree, in every shell that may be sh.
func TestRoundTrip(t *testing.T) {
	base := files{"mod.txt": numbered(30), "gone.txt": "gone\n", "sub/moved.txt": numbered(20), "run.sh": "#!/bin/sh\n", "link": "-> mod.txt", "empty": "", "no newline": "end"}
	for _, shell := range []string{"sh", "bash", "dash"} {
		t.Run(shell, func(t *testing.T) {
			if _, err := exec.LookPath(shell); err != nil {
				t.Skip(err)
			}
			c := newCheckout(t, base)
			c.write(files{"mod.txt": "first\n" + numbered(30), "sub/deep/er/moved.txt": numbered(20), "run.sh": "(exec) #!/bin/sh\n", "link": "-> run.sh", "new/link": "-> ../mod.txt", "ñ \"q\"": "x\n", "no newline": "end\nof file"})
			for _, gone := range []string{"gone.txt", "sub/moved.txt", "empty"} {
				if err := os.Remove(filepath.Join(c.root, gone)); err != nil {
					t.Fatal(err)
				}
			}
			want := c.tree()
			diff := c.diffOf(nil)
			if diff == "" {
				t.Fatal("no diff")
			}
			p, err := patch.Prepare(diff)
			if err != nil || p.Text != diff || len(p.Repairs) > 0 || len(p.Problems) > 0 {
				t.Fatalf("Prepare: %v, repairs %v, problems %v", err, p.Repairs, p.Problems)
			}
			r := c.applyPrepared(p, shell)
			if r.Command != gitApply {
				t.Errorf("applied by %q: %+v", r.Command, r.Tries)
			}
			c.same(want, "tree")
		})
	}
}

// A folder of the checkout that is a link out of it is never written through.
func TestLinkInCheckout(t *testing.T) {
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "f.txt"), []byte("a\nb\nc\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := newCheckout(t, files{"real/f.txt": "a\nb\nc\n", "inside": "-> real", "dangling": "-> nowhere"})
	c.write(files{"out": "-> " + outside})
	for _, dir := range []string{"out", "dangling"} {
		before := c.tree()
		r := c.apply(strings.ReplaceAll(fixB, "f.txt", dir+"/f.txt"))
		if r.Applied || r.Refused == "" || len(r.Tries) > 0 {
			t.Errorf("%s: %+v", dir, r)
		}
		c.same(before, dir)
	}
	if b, _ := os.ReadFile(filepath.Join(outside, "f.txt")); string(b) != "a\nb\nc\n" {
		t.Errorf("the file outside was changed: %q", b)
	}
	// A link inside may fail or succeed, but a failure leaves the real file alone.
	before := c.tree()
	if r := c.apply(strings.ReplaceAll(fixB, "f.txt", "inside/f.txt") + strings.ReplaceAll(fixB, "f.txt", "none.txt")); r.Applied || r.Refused != "" {
		t.Errorf("%+v", r)
	}
	c.same(before, "link inside")
}

func TestScriptErrors(t *testing.T) {
	c := newCheckout(t, files{"sub/f.txt": "a\nb\nc\n"})
	p, err := patch.Prepare(fixB)
	if err != nil {
		t.Fatal(err)
	}
	for root, want := range map[string]string{
		filepath.Join(c.root, "sub"):     "not the root",
		filepath.Join(c.root, "missing"): "cannot enter",
	} {
		task, err := p.ApplyTask(nonce, []string{"/patch"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := patch.ParseResult(nonce, c.runAll(root, []string{task})); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", root, err, want)
		}
	}
	for _, bad := range []string{"short", "with space in it"} {
		if s, err := p.ApplyTask(bad, []string{"/patch"}); err == nil {
			t.Errorf("%q gave a task: %.80s", bad, s)
		}
	}
	for _, bad := range []string{"relative", "/a\nb", `/a"b`} {
		if s, err := patch.Tasks(bad); err == nil {
			t.Errorf("%q gave a script: %.80s", bad, s)
		}
	}
	if _, err := p.ApplyTask(nonce, nil); err == nil {
		t.Error("a script without files")
	}
	unsafe, _ := patch.Prepare(strings.ReplaceAll(fixB, "f.txt", "../f.txt"))
	if _, err := unsafe.ApplyTask(nonce, []string{"/patch"}); err == nil {
		t.Error("a script for an unsafe patch")
	}
}

// A checkout need not be a repository.
func TestWithoutRepository(t *testing.T) {
	c := newCheckout(t, files{"f.txt": "a\nb\nc\n"})
	if err := os.RemoveAll(filepath.Join(c.root, ".git")); err != nil {
		t.Fatal(err)
	}
	if r := c.apply(fixB); r.Command != gitApply {
		t.Errorf("applied by %q: %+v", r.Command, r.Tries)
	}
	c.same(abc("a\nB\nc\n"), "tree")
	if r := c.apply(strings.ReplaceAll(fixB, " a\n", " A\n") + strings.ReplaceAll(fixB, "f.txt", "g.txt")); r.Applied {
		t.Errorf("applied by %q", r.Command)
	}
	c.same(abc("a\nB\nc\n"), "tree after a failure")
}

func TestParseResult(t *testing.T) {
	ok := nonce + " try 1 1 1 -\n" + nonce + " try 1 2 0 aGk=\n" + nonce + " applied 1 2\n"
	r, err := patch.ParseResult(nonce, "noise\n"+ok+"noise\n")
	want := patch.Result{Applied: true, Command: gitThree, Tries: []patch.Try{{Command: gitApply, ExitCode: 1}, {Command: gitThree, Output: "hi"}}}
	if d := cmp.Diff(want, r); err != nil || d != "" {
		t.Errorf("%v\n%s", err, d)
	}
	for _, bad := range []string{
		"", "nothing of ours\n", nonce + " try 1 1 1 -\n", nonce + " try 1 9 1 -\n" + nonce + " failed\n", nonce + " try 0 1 1 -\n",
		nonce + " applied 1\n", nonce + " error bm8=\n", nonce + " failed\n" + nonce + " applied 1 1\n", nonce + " displaced !\n", nonce + " \n",
		"x" + ok,
	} {
		if bad == "x"+ok {
			bad = strings.ReplaceAll(ok, nonce, "another-nonce")
		}
		if r, err := patch.ParseResult(nonce, bad); err == nil {
			t.Errorf("%q was read as %+v", bad, r)
		}
	}
}

// Scripts and variants keep line ends as given, whatever the host (A7, A8).
func TestNoCarriageReturns(t *testing.T) {
	p, err := patch.Prepare(fixB)
	if err != nil {
		t.Fatal(err)
	}
	script, err := p.ApplyTask(nonce, []string{"/patch.diff"})
	if err != nil {
		t.Fatal(err)
	}
	restore, err := patch.RestoreTask(patch.Restore{Nonce: nonce, Base: "HEAD", Paths: []string{"t/x"}, TestPatch: "/test.diff"})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"apply": script, "restore": restore, "variant": p.Variants[0].Text} {
		if strings.Contains(text, "\r") || !strings.HasSuffix(text, "\n") {
			t.Errorf("%s: carriage returns, or no newline at the end", name)
		}
	}
}

// The checkout may belong to somebody else than who applies the patch.
func TestForeignCheckout(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a folder away")
	}
	c := newCheckout(t, files{"f.txt": numbered(30)})
	diff := c.diffOf(files{"f.txt": strings.Replace(numbered(30), "line xb\n", "line B\n", 1)})
	c.write(files{"f.txt": strings.Replace(numbered(30), "line xxxd\n", "other\n", 1)})
	c.commit("context changed")
	base := c.base()
	if err := os.Chown(c.root, 65534, 65534); err != nil {
		t.Skip(err)
	}
	if r := c.apply(diff); r.Command != gitThree {
		t.Errorf("applied by %q: %+v", r.Command, r.Tries)
	}
	if r := c.restore(patch.Restore{Base: base, Paths: []string{"f.txt"}}, ""); states(r)["f.txt"] != "restored" {
		t.Errorf("%+v", r)
	}
}
