package patch_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/internal/patch"
)

const (
	gitFix   = "diff --git a/src/m.py b/src/m.py\nindex 1111111..2222222 100644\n--- a/src/m.py\n+++ b/src/m.py\n@@ -1,3 +1,4 @@ def f():\n a\n-b\n+B\n+C\n \n"
	linkHead = "new file mode 120000\nindex 0000000..1111111\n--- /dev/null\n"
)

func link(name, target string) string {
	return "diff --git a/" + name + " b/" + name + "\n" + linkHead + "+++ b/" + name + "\n@@ -0,0 +1 @@\n+" + target + "\n\\ No newline at end of file\n"
}

func TestParseFiles(t *testing.T) {
	tests := []struct {
		name, text string
		want       []patch.File
		paths      []string
	}{
		{"modify", gitFix, []patch.File{{Old: "src/m.py", New: "src/m.py", OldMode: "100644", Kind: patch.Modify, Added: 2, Deleted: 1, Line: 1}}, []string{"src/m.py"}},
		{"no git header", "--- a/src/m.py\t2024-01-01 00:00:00 +0000\n+++ b/src/m.py\n@@ -1 +1 @@\n-a\n+b\n", []patch.File{{Old: "src/m.py", New: "src/m.py", Kind: patch.Modify, Added: 1, Deleted: 1, Line: 1}}, []string{"src/m.py"}},
		{"no folder and no prefix", "--- m.py\n+++ m.py\n@@ -1 +1 @@\n-a\n+b\n", []patch.File{{Old: "m.py", New: "m.py", Kind: patch.Modify, Added: 1, Deleted: 1, Line: 1}}, []string{"m.py"}},
		{"create", "diff --git a/x b/x\nnew file mode 100755\n--- /dev/null\n+++ b/x\n@@ -0,0 +1,2 @@\n+1\n+2\n", []patch.File{{New: "x", NewMode: "100755", Kind: patch.Create, Added: 2, Line: 1}}, []string{"x"}},
		{"create, empty", "diff --git a/x b/x\nnew file mode 100644\nindex 0000000..e69de29\n", []patch.File{{New: "x", NewMode: "100644", Kind: patch.Create, Line: 1}}, []string{"x"}},
		{"create without git header", "--- /dev/null\n+++ b/d/x\n@@ -0,0 +1 @@\n+1\n", []patch.File{{New: "d/x", Kind: patch.Create, Added: 1, Line: 1}}, []string{"d/x"}},
		{"create told by the hunk alone", "--- a/d/x\n+++ b/d/x\n@@ -0,0 +1 @@\n+1\n", []patch.File{{New: "d/x", Kind: patch.Create, Added: 1, Line: 1}}, []string{"d/x"}},
		{"create told by the time stamp", "--- a/x\t1970-01-01 00:00:00.000000000 +0000\n+++ b/x\t2024-01-01 00:00:00 +0000\n@@ -0,0 +1 @@\n+1\n", []patch.File{{New: "x", Kind: patch.Create, Added: 1, Line: 1}}, []string{"x"}},
		{"delete", "diff --git a/x b/x\ndeleted file mode 100644\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n", []patch.File{{Old: "x", OldMode: "100644", Kind: patch.Delete, Deleted: 1, Line: 1}}, []string{"x"}},
		{"delete without git header", "--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n", []patch.File{{Old: "x", Kind: patch.Delete, Deleted: 1, Line: 1}}, []string{"x"}},
		{"rename", "diff --git a/x b/d/y\nsimilarity index 100%\nrename from x\nrename to d/y\n", []patch.File{{Old: "x", New: "d/y", Kind: patch.Rename, Line: 1}}, []string{"x", "d/y"}},
		{"copy", "diff --git a/x b/y\nsimilarity index 100%\ncopy from x\ncopy to y\n", []patch.File{{Old: "x", New: "y", Kind: patch.Copy, Line: 1}}, []string{"y"}},
		{"mode", "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n", []patch.File{{Old: "x", New: "x", OldMode: "100644", NewMode: "100755", Kind: patch.ModeChange, Line: 1}}, []string{"x"}},
		{"symbolic link", link("l", "src/m.py"), []patch.File{{New: "l", NewMode: "120000", Kind: patch.Create, Symlink: true, Target: "src/m.py", Added: 1, Line: 1}}, []string{"l"}},
		{"submodule", "diff --git a/s b/s\nindex 1111111..2222222 160000\n--- a/s\n+++ b/s\n@@ -1 +1 @@\n-Subproject commit 1\n+Subproject commit 2\n", []patch.File{{Old: "s", New: "s", OldMode: "160000", Kind: patch.Modify, Submodule: true, Added: 1, Deleted: 1, Line: 1}}, []string{"s"}},
		{"binary", "diff --git a/b b/b\nindex 1111111..2222222 100644\nGIT binary patch\nliteral 1\nIcmZQz00IC2\n\nliteral 0\nHcmV?d00001\n\n", []patch.File{{Old: "b", New: "b", OldMode: "100644", Kind: patch.Modify, Binary: true, Line: 1}}, []string{"b"}},
		{"quoted name", "diff --git \"a/\\303\\266 \\\"x\\\"\" \"b/\\303\\266 \\\"x\\\"\"\nold mode 100644\nnew mode 100755\n", []patch.File{{Old: "ö \"x\"", New: "ö \"x\"", OldMode: "100644", NewMode: "100755", Kind: patch.ModeChange, Line: 1}}, []string{"ö \"x\""}},
		{"a removed line that looks like a header", "--- a/q.sql\n+++ b/q.sql\n@@ -1,2 +1,2 @@\n--- old comment\n+++ new comment\n x\n", []patch.File{{Old: "q.sql", New: "q.sql", Kind: patch.Modify, Added: 1, Deleted: 1, Line: 1}}, []string{"q.sql"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, problems := patch.Parse(tt.text)
			if len(problems) > 0 {
				t.Errorf("problems: %v", problems)
			}
			if d := cmp.Diff(tt.want, p.Files); d != "" {
				t.Errorf("files (-want +got):\n%s", d)
			}
			if d := cmp.Diff(tt.paths, p.Paths); d != "" {
				t.Errorf("paths (-want +got):\n%s", d)
			}
			if p.Bytes != len(tt.text) {
				t.Errorf("%d bytes, want %d", p.Bytes, len(tt.text))
			}
			// What is well formed is not changed by one byte.
			prep, err := patch.Prepare(tt.text)
			if err != nil || prep.Text != tt.text || len(prep.Repairs) > 0 || len(prep.Variants) != 1 {
				t.Errorf("Prepare: %v, repairs %v", err, prep.Repairs)
			}
		})
	}
}

// Every problem is found in one go, with its line.
func TestParseProblems(t *testing.T) {
	head := "--- a/x\n+++ b/x\n"
	tests := []struct {
		name, text string
		want       []string // "line: part of the reason"
	}{
		{"empty", "", []string{"0: empty"}},
		{"prose", "I could not fix it.\n", []string{"0: no diff found"}},
		{"too few lines", head + "@@ -1,3 +1,3 @@\n a\n-b\n+B\ndiff --git a/y b/y\nold mode 100644\nnew mode 100755\n", []string{"3: says 3 old and 3 new lines, the body has 2 and 2"}},
		{"cut off", head + "@@ -1,3 +1,3 @@\n a\n-b\n", []string{"3: cut off"}},
		{"too many lines", head + "@@ -1,2 +1,2 @@\n a\n-b\n+B\n c\n+D\n", []string{"3: leave out what is beyond the count"}},
		{"damaged line", head + "@@ -1,3 +1,3 @@\n a\noops\n-b\n+B\n c\n", []string{"5: \"oops\" inside a hunk"}},
		{"malformed header", head + "@@ -304, def f():\n+a\n", []string{"3: malformed hunk header"}},
		{"header without numbers", head + "@@ ... @@\n+a\n", []string{"3: malformed hunk header", "0: no diff found"}},
		{"no change", head + "@@ -1,2 +1,2 @@\n a\n b\n", []string{"3: changes nothing"}},
		{"no file header", "@@ -1 +1 @@\n-a\n+b\n", []string{"1: without a file header", "0: no diff found"}},
		{"bare git header", "diff --git a/x b/x\n@@ -1 +1 @@\n-a\n+b\n", []string{"1: git ignores it", "2: without a file header", "0: no diff"}},
		{"hunks apart", head + "@@ -1 +1 @@\n-a\n+b\n\n@@ -9 +9 @@\n-c\n+d\n", []string{"7: other text stands between"}},
		{"binary without content", "diff --git a/x b/x\nindex 1..2 100644\nBinary files a/x and b/x differ\n", []string{"3: without its content"}},
		{"binary cut off", "diff --git a/x b/x\nindex 1..2 100644\nGIT binary patch\nliteral 1\nIcmZQz00IC2\n", []string{"5: not ended by a blank line"}},
		{"binary with nothing", "diff --git a/x b/x\nindex 1..2 100644\nGIT binary patch\n", []string{"3: without data"}},
		{"not UTF-8, NUL, no newline", head + "@@ -1 +1 @@\n-\xff\n+\x00", []string{"5: NUL", "4: not UTF-8", "5: no newline"}},
		{"merge", "diff --cc x\nindex 1,2..3\n--- a/x\n+++ b/x\n@@@ -1,1 -1,1 +1,1 @@@\n--a\n++b\n", []string{"1: combined diff", "5: malformed", "0: no diff"}},
		{"context diff", "*** a/x\n--- b/x\n***************\n*** 1 ****\n! a\n--- 1 ----\n! b\n", []string{"1: context diff", "0: no diff"}},
		{"bare context line with CRLF", head + "@@ -1,2 +1,2 @@\n\r\n-a\r\n+b\r\n", []string{"4: leading space"}},
		{"names that differ", "diff --git a/x b/x\nrename from x\nrename to y\n--- a/x\n+++ b/z\n@@ -1 +1 @@\n-a\n+b\n", []string{"1: file header: "}},
		{"several", "--- a/../x\n+++ b/../x\n@@ -1,5 +1,5 @@\n-a\n+b\n--- a/.git/y\n+++ b/.git/y\n@@ -1,2 +1 @@\n-a\n+b\n", []string{"1: leaves the tree", "6: inside .git", "3: says 5", "8: says 2"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, problems := patch.Parse(tt.text)
			if len(problems) != len(tt.want) {
				t.Fatalf("%d problems, want %d: %v", len(problems), len(tt.want), problems)
			}
			for i, want := range tt.want {
				line, reason, _ := strings.Cut(want, ": ")
				if got := problems[i]; fmt.Sprint(got.Line) != line || !strings.Contains(got.String(), reason) {
					t.Errorf("problem %d: %+v, want %q", i, got, want)
				}
			}
		})
	}
}

func TestUnsafe(t *testing.T) {
	change := func(name string) string { return "--- a/" + name + "\n+++ b/" + name + "\n@@ -1 +1 @@\n-a\n+b\n" }
	tests := []struct {
		name, text, reason string // reason "" when it is safe
	}{
		{"up", change("../x"), "leaves the tree"},
		{"up later", change("d/../../x"), "leaves the tree"},
		{"up in the git header", "diff --git a/../x b/../x\nold mode 100644\nnew mode 100755\n", "leaves the tree"},
		{"rename out", "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to ../y\n", "leaves the tree"},
		{"quoted", "--- \"a/../\\170\"\n+++ \"b/../\\170\"\n@@ -1 +1 @@\n-a\n+b\n", "leaves the tree"},
		{"absolute", "--- /etc/passwd\n+++ /etc/passwd\n@@ -1 +1 @@\n-a\n+b\n", "absolute"},
		{"absolute rename", "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to /elsewhere/y\n", "absolute"},
		{"git", change(".git/hooks/post-checkout"), ".git"},
		{"git, capitals", change("sub/.GiT/config"), ".git"},
		{"git, HFS", change(".g\u200cit/config"), ".git"},
		{"git, NTFS short name", change("GIT~1/config"), ".git"},
		{"git, NTFS stream", change(".git::$INDEX_ALLOCATION/config"), ".git"},
		{"git, trailing dot", change(".git. /config"), ".git"},
		{"git, backslash", change(".git\\config"), ".git"},
		{"line break in a name", "--- \"a/x\\ny\"\n+++ \"b/x\\ny\"\n@@ -1 +1 @@\n-a\n+b\n", "line break"},
		{"indented, which patch accepts", "Fix:\n  --- a/../x\n  +++ b/../x\n  @@ -1 +1 @@\n  -a\n  +b\n" + gitFix, "leaves the tree"},
		{"through a link of the patch", link("l", "d") + change("l/x"), "goes through"},
		{"over a link of the patch", link("l", "d") + change("l"), "changes a symbolic link"},
		{"only in the mended text", "    --- a/../x\n    +++ b/../x\n    @@ -1 +1 @@\n    -a\n    +b\n", "leaves the tree"},

		{"link inside", link("d/l", "../x"), ""},
		{"file becomes link", "diff --git a/l b/l\ndeleted file mode 100644\n--- a/l\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n" + link("l", "d"), ""},
		{"dots in names", change("a..b/...x/.github/.gitignore"), ""},
		{"git elsewhere in a name", change("git/x.git/y"), ""},
		{"content about paths", "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n--- ../../etc\n+++ /etc/passwd .git/config\n  rename to ../x\n", ""},
		{"prose about paths", "I changed:\n--- see .git/config and ../x\n" + gitFix, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := patch.Prepare(tt.text)
			if tt.reason == "" {
				if err != nil || len(p.Unsafe) > 0 {
					t.Errorf("refused: %v %v", err, p.Unsafe)
				}
				return
			}
			var unsafe *patch.UnsafeError
			if !errors.As(err, &unsafe) || len(p.Unsafe) == 0 {
				t.Fatalf("error %v, unsafe %v", err, p.Unsafe)
			}
			if !strings.Contains(err.Error(), tt.reason) || p.Unsafe[0].Line == 0 {
				t.Errorf("%v, want %q and a line", err, tt.reason)
			}
		})
	}
}

// A link that leads out of the tree is said, but does not keep a patch from being
// graded: only writing through it does.
func TestLinksOut(t *testing.T) {
	for _, tt := range []struct{ name, text, reason string }{
		{"link, absolute", link("l", "/etc"), "absolute path"},
		{"link, up", link("d/l", "../../x"), "out of the tree"},
		{"link into .git", link("l", ".git/hooks"), "out of the tree"},
		{"link, up through a name", link("l", "d/../x"), "\"..\" after a name"},
		{"link, changed", "diff --git a/l b/l\nindex 1..2 120000\n--- a/l\n+++ b/l\n@@ -1 +1 @@\n-x\n\\ No newline at end of file\n+/etc\n\\ No newline at end of file\n", "absolute path"},
		{"link, binary", "diff --git a/l b/l\nnew file mode 120000\nindex 0..1\nGIT binary patch\nliteral 1\nIcmZQz00IC2\n\n", "binary"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := patch.Prepare(tt.text)
			if err != nil || len(p.Problems) != 1 || !strings.Contains(p.Problems[0].Reason, tt.reason) || p.Problems[0].Path == "" {
				t.Errorf("%v, problems %v, want %q", err, p.Problems, tt.reason)
			}
			if _, err := patch.Prepare(tt.text + "--- /dev/null\n+++ b/" + p.Paths[0] + "/x\n@@ -0,0 +1 @@\n+x\n"); err == nil {
				t.Error("written through, and not refused")
			}
		})
	}
}

func TestRepairs(t *testing.T) {
	wrong := strings.Replace(gitFix, "-1,3 +1,4", "-1,9 +1,7", 1)
	tests := []struct {
		name, text, want string
		repairs          []string // parts of what is said, in order
		variants         int
	}{
		{"fence", "```diff\n" + gitFix + "```\n", gitFix, []string{"fence"}, 1},
		{"fence without language, tags, prose", "Fix:\n<patch>\n```\n" + gitFix + "```\n</patch>\nDone.\n", gitFix, []string{"fence", "tags", "1 lines of text before", "1 lines of text after"}, 1},
		{"fence and wrong counts", "```diff\n" + wrong + "```\n", strings.Replace(gitFix, "+C\n \n", "+C\n \n", 1), []string{"line 6 counted again: 3 old and 4 new lines, not 9 and 7", "fence"}, 2},
		{"byte order mark", "\ufeff" + gitFix, gitFix, []string{"byte order mark"}, 2},
		{"colours", "Changes:\n\x1b[1mdiff --git a/x b/x\x1b[m\n\x1b[1m--- a/x\x1b[m\n\x1b[1m+++ b/x\x1b[m\n\x1b[36m@@ -1 +1 @@\x1b[m\n\x1b[31m-a\x1b[m\n\x1b[32m+\x1b[m\x1b[32mb\x1b[m\n", "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", []string{"colour", "text before"}, 2},
		{"indented", "  " + strings.ReplaceAll(strings.TrimSuffix(gitFix, "\n"), "\n", "\n  ") + "\n", gitFix, []string{"indentation"}, 2},
		{"CRLF", strings.ReplaceAll(gitFix, "\n", "\r\n"), gitFix, []string{"CRLF"}, 3},
		{"CRLF, no newline", strings.TrimSuffix(strings.ReplaceAll(gitFix, "\n", "\r\n"), "\r\n"), gitFix, []string{"newline", "CRLF"}, 3},
		{"no newline", strings.TrimSuffix(gitFix, "\n"), gitFix, []string{"newline"}, 1},
		{"stripped", strings.TrimSpace(gitFix), strings.Replace(strings.TrimSuffix(gitFix, " \n"), "-1,3 +1,4", "-1,2 +1,3", 1), []string{"newline", "counted again"}, 2},
		{"blank lines at the end are not context", strings.TrimSuffix(gitFix, " \n") + "\n\n\n", gitFix[:len(gitFix)-2] + "\n\n\n", nil, 1},
		{"patch mail", "From 1234 Mon Sep 17 00:00:00 2001\nSubject: [PATCH] x\n---\n src/m.py | 3 ++-\n\n" + gitFix + "-- \n2.39.5\n", gitFix, []string{"4 lines of text before", "2 lines of text after"}, 1},
		{"only a blank line before", "\n" + gitFix, "\n" + gitFix, nil, 1},
		{"a lost hunk before is not left out", "diff --git a/y b/y\n@@ -1 +1 @@\n-a\n+b\n" + gitFix, "diff --git a/y b/y\n@@ -1 +1 @@\n-a\n+b\n" + gitFix, nil, 1},
		{"a damaged hunk is left as it is", "--- a/x\n+++ b/x\n@@ -1,5 +1,5 @@\n a\noops\n-b\n+B\n c\n", "--- a/x\n+++ b/x\n@@ -1,5 +1,5 @@\n a\noops\n-b\n+B\n c\n", nil, 1},
		{"too many lines", strings.Replace(gitFix, "-1,3 +1,4", "-1,2 +1,2", 1), gitFix, []string{"3 old and 4 new lines, not 2 and 2"}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := patch.Prepare(tt.text)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, p.Text); d != "" {
				t.Errorf("text (-want +got):\n%s", d)
			}
			if len(p.Repairs) != len(tt.repairs) {
				t.Fatalf("repairs %q, want %q", p.Repairs, tt.repairs)
			}
			for i, want := range tt.repairs {
				if !strings.Contains(p.Repairs[i], want) {
					t.Errorf("repair %d: %q, want %q", i, p.Repairs[i], want)
				}
			}
			if len(p.Variants) != tt.variants {
				t.Errorf("%d variants, want %d: %q", len(p.Variants), tt.variants, p.Variants)
			}
			if p.Original != tt.text || strings.TrimRight(p.Variants[0].Text, "\n") != strings.TrimRight(tt.text, "\n") {
				t.Error("the original is not kept")
			}
			for _, v := range p.Variants[1:] {
				if len(v.Repairs) == 0 {
					t.Error("a variant differs without a word")
				}
			}
		})
	}
}

func TestNothingToApply(t *testing.T) {
	for text, want := range map[string]error{
		"": patch.ErrEmpty, "\n\n": patch.ErrEmpty, " \r\n\t": patch.ErrEmpty, "\ufeff": patch.ErrEmpty,
		"Working tree changes:\n\n": patch.ErrNoDiff, "diff --git a/x b/x\n": patch.ErrNoDiff,
	} {
		if p, err := patch.Prepare(text); !errors.Is(err, want) || len(p.Problems) == 0 || p.Original != text {
			t.Errorf("%q: %v, problems %v; want %v", text, err, p.Problems, want)
		}
	}
}

// A patch of 50 MB is read in one piece.
func TestLargePatch(t *testing.T) {
	if testing.Short() {
		t.Skip("large")
	}
	n := 50 << 20 / 64
	line := "+" + strings.Repeat("x", 62) + "\n"
	text := fmt.Sprintf("diff --git a/big b/big\nnew file mode 100644\n--- /dev/null\n+++ b/big\n@@ -0,0 +1,%d @@\n%s", n, strings.Repeat(line, n))
	p, err := patch.Prepare(text)
	if err != nil || p.Added != n || p.Text != text || len(p.Problems) > 0 {
		t.Errorf("%v, %d lines, problems %v", err, p.Added, p.Problems)
	}
	c := newCheckout(t, files{"f.txt": "x\n"})
	if r := c.applyPrepared(p); r.Command != gitApply {
		t.Errorf("applied by %q: %+v", r.Command, r.Tries)
	}
}

func TestHostileText(t *testing.T) {
	p, problems := patch.Parse("--- a/x\n+++ b/x\n" + strings.Repeat("@@ -1,9 +1,9 @@\n-a\n", 5000))
	if len(problems) == 0 || len(problems) > 201 || len(p.Files) != 1 {
		t.Errorf("%d problems, %d files", len(problems), len(p.Files))
	}
}

// Real predictions with something odd about them: each is read for what it is.
func TestPeculiar(t *testing.T) {
	seen := map[string]int{}
	eachLine(t, shared(t, "data/predictions/peculiar.jsonl"), func(n int, line []byte) {
		var row struct {
			Peculiarity string
			Prediction  struct {
				Instance string  `json:"instance_id"`
				Patch    *string `json:"model_patch"`
			}
		}
		if err := json.Unmarshal(line, &row); err != nil {
			t.Fatal(err)
		}
		text := ""
		if row.Prediction.Patch != nil {
			text = *row.Prediction.Patch
		}
		p, err := patch.Prepare(text)
		seen[row.Peculiarity]++
		if p.Original != text {
			t.Errorf("row %d: the original is lost", n)
		}
		again, _ := patch.Prepare(p.Text)
		if again.Text != p.Text || len(again.Repairs) > 0 {
			t.Errorf("row %d (%s): not settled after one Prepare: %v", n, row.Peculiarity, again.Repairs)
		}
		has := func(f func(patch.File) bool) bool {
			for _, file := range p.Files {
				if f(file) {
					return true
				}
			}
			return false
		}
		said := func(word string) bool { return strings.Contains(strings.Join(p.Repairs, "\n"), word) }
		ok := true
		switch row.Peculiarity {
		case "null", "empty", "blank":
			ok = errors.Is(err, patch.ErrEmpty)
		case "symlink":
			ok = has(func(f patch.File) bool { return f.Symlink })
		case "rename":
			ok = has(func(f patch.File) bool { return f.Kind == patch.Rename })
		case "delete-file":
			ok = has(func(f patch.File) bool { return f.Kind == patch.Delete })
		case "mode-change":
			ok = has(func(f patch.File) bool { return f.OldMode != "" && f.NewMode != "" && f.OldMode != f.NewMode })
		case "binary":
			ok = has(func(f patch.File) bool { return f.Binary })
		case "no-final-newline":
			ok = said("newline")
		case "xml-patch-tag":
			ok = said("tags")
		case "crlf": // of the patch, or of files
			ok = said("CRLF") || strings.Contains(p.Text, "\r\n")
		case "no-diff-header":
			ok = errors.Is(err, patch.ErrNoDiff) || said("colour") || err == nil
		default:
			ok = err == nil
		}
		if !ok {
			t.Errorf("row %d (%s, %s): %v, repairs %q, problems %v", n, row.Peculiarity, row.Prediction.Instance, err, p.Repairs, p.Problems)
		}
	})
	if len(seen) < 15 {
		t.Errorf("only %v seen", seen)
	}
}

func TestTestFiles(t *testing.T) {
	text := gitFix +
		"diff --git a/t/new.py b/t/new.py\nnew file mode 100644\n--- /dev/null\n+++ b/t/new.py\n@@ -0,0 +1 @@\n+x\n" +
		"diff --git a/t/gone.py b/t/gone.py\ndeleted file mode 100644\n--- a/t/gone.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n" +
		"diff --git a/t/a.py b/t/b.py\nsimilarity index 100%\nrename from t/a.py\nrename to t/b.py\n" +
		"diff --git a/t/c.py b/t/d.py\nsimilarity index 100%\ncopy from t/c.py\ncopy to t/d.py\n" +
		"diff --git a/s b/s\nindex 1111111..2222222 160000\n--- a/s\n+++ b/s\n@@ -1 +1 @@\n-Subproject commit 1\n+Subproject commit 2\n"
	reset, created := patch.TestFiles(text)
	if d := cmp.Diff([]string{"src/m.py", "t/gone.py", "t/a.py", "t/c.py"}, reset); d != "" {
		t.Errorf("reset (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"t/new.py", "t/b.py", "t/d.py"}, created); d != "" {
		t.Errorf("created (-want +got):\n%s", d)
	}
	// A test patch of new files alone resets nothing (B17).
	reset, created = patch.TestFiles("diff --git a/t/n b/t/n\nnew file mode 100644\n--- /dev/null\n+++ b/t/n\n@@ -0,0 +1 @@\n+x\n")
	if d := cmp.Diff([]string{"t/n"}, created); d != "" || len(reset) > 0 {
		t.Errorf("reset %v, created %v", reset, created)
	}
	if reset, created = patch.TestFiles(""); len(reset)+len(created) > 0 {
		t.Errorf("an empty test patch touches %v %v", reset, created)
	}
}
