package patch_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/internal/patch"
)

func fuzzSeeds(f *testing.F) {
	for _, s := range []string{
		gitFix, link("l", "/etc"), "```diff\n" + gitFix + "```", strings.ReplaceAll(gitFix, "\n", "\r\n"), "\ufeff" + gitFix,
		"--- a/x\n+++ b/x\n@@ -1,2 +1 @@\n-a\n\n@@ -3 +3 @@\n-b\n\\ No newline at end of file\n+c\n",
		"diff --git a/b b/b\nindex 1..2\nGIT binary patch\nliteral 1\nIcmZQz00IC2\n\nliteral 0\nHcmV?d00001\n\n",
		"  --- a/x\n  +++ b/x\n  @@ -1 +1 @@\n  -a\n  +b\n", "\x1b[1m--- a/x\x1b[m\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n",
		"diff --git \"a/\\303\" \"b/x\"\nrename from x\nrename to y\n", "@@ -1 +1 @@", "--- /dev/null\n+++ /dev/null\n@@ -0,0 +1 @@\n+\n",
		"--- a/x\r\n+++ b/x\r\n@@ -1,4 +1,4 @@\r\n a\r\n\r\r\n-b\r\n+B\r\n c\r\n",
	} {
		f.Add(s)
	}
}

func FuzzParse(f *testing.F) {
	fuzzSeeds(f)
	f.Fuzz(func(t *testing.T, text string) {
		p, problems := patch.Parse(text)
		if p.Bytes != len(text) {
			t.Errorf("%d bytes of %d", p.Bytes, len(text))
		}
		if len(p.Files) == 0 && len(problems) == 0 {
			t.Error("nothing found, and nothing said about it")
		}
		lines := strings.Count(text, "\n") + 1
		for _, pr := range problems {
			if pr.Reason == "" || pr.Line < 0 || pr.Line > lines {
				t.Errorf("problem %+v of %d lines", pr, lines)
			}
		}
		added, deleted := 0, 0
		for _, file := range p.Files {
			if file.Path() == "" || file.Kind == "" || file.Line < 1 || file.Line > lines {
				t.Errorf("file %+v", file)
			}
			added, deleted = added+file.Added, deleted+file.Deleted
		}
		if added != p.Added || deleted != p.Deleted || added+deleted > lines {
			t.Errorf("+%d -%d in all, +%d -%d in files", p.Added, p.Deleted, added, deleted)
		}
	})
}

func FuzzPrepare(f *testing.F) {
	fuzzSeeds(f)
	f.Fuzz(prepareHolds)
}

// prepareHolds checks what must be true of Prepare for any text.
func prepareHolds(t *testing.T, text string) {
	t.Helper()
	p, err := patch.Prepare(text)
	if p.Original != text {
		t.Fatal("the original is lost")
	}
	if (len(p.Repairs) == 0) != (p.Text == text) {
		t.Errorf("repairs %q, %q became %q", p.Repairs, text, p.Text)
	}
	again, err2 := patch.Prepare(p.Text)
	if again.Text != p.Text || len(again.Repairs) > 0 {
		t.Errorf("not settled: %q became %q (%q)", p.Text, again.Text, again.Repairs)
	}
	var unsafe *patch.UnsafeError
	if err == nil && errors.As(err2, &unsafe) {
		t.Errorf("safe as given, not when mended: %v", err2)
	}
	if err == nil {
		if !strings.HasPrefix(p.Variants[0].Text, text) {
			t.Error("the first variant is not the original")
		}
		if _, err := p.ApplyTask(nonce, make([]string, len(p.Variants))); err != nil {
			t.Error(err)
		}
	}
	// A patch without problems is changed around the diff at most.
	if _, problems := patch.Parse(text); len(problems) == 0 && !strings.Contains(text, p.Text) {
		t.Errorf("well formed, but %q became %q", text, p.Text)
	}
}

// pieces are what TestRandomPatches makes patches of.
var pieces = []string{
	"diff --git a/x b/x\n", "diff --git a/d/y b/d/y\n", "--- a/x\n+++ b/x\n", "--- a/d/y\n+++ b/d/y\n", "--- /dev/null\n+++ b/z\n",
	"new file mode 100644\n", "index 1..2 100644\n", "@@ -1 +1 @@\n", "@@ -1,2 +1,2 @@\n", "@@ -1,3 +1,3 @@ f\n", "@@ -0,0 +1,2 @@\n",
	" a\n", "-b\n", "+c\n", "-b\n+c\n", " a\n-b\n+c\n", "\n", "\r\n", " a\r\n", "-b\r\n+c\r\n", "\\ No newline at end of file\n",
	"```\n", "```diff\n", "<patch>\n", "prose\n", "- item\n", "-- \n2.39\n", "--- b\n", "+++ c\n", "@@ ... @@\n", "\ufeff", "  ",
	"GIT binary patch\n", "literal 1\nIcmZQz00IC2\n", "literal 0\nHcmV?d00001\n", "Binary files a/x and b/x differ\n",
	"--- a/x\r\n+++ b/x\r\n@@ -1 +1 @@\r\n-b\r\n+c\r\n", "+", "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n",
	"diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -5,3 +5,4 @@\n a\n+b\n \n c\n",
}

// Patches put together at random keep the promises, and where ours finds nothing
// wrong git reads the same files with the same counts.
func TestRandomPatches(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	asked := 0
	for range 4000 {
		var b strings.Builder
		for range 1 + rnd.IntN(14) {
			b.WriteString(pieces[rnd.IntN(len(pieces))])
		}
		text := b.String()
		prepareHolds(t, text)
		if t.Failed() {
			t.Fatalf("for %q", text)
		}
		if p, problems := patch.Parse(text); len(problems) == 0 && asked < 150 {
			asked++
			sameAsGit(t, text, p)
		}
	}
	if asked < 30 {
		t.Errorf("git was asked about %d patches only", asked)
	}
}

func sameAsGit(t *testing.T, text string, p *patch.Patch) {
	t.Helper()
	cmd := exec.Command("git", "apply", "--numstat", "-")
	cmd.Dir = t.TempDir()
	cmd.Stdin = strings.NewReader(text)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%q: git: %v %s", text, err, &said)
		return
	}
	var want strings.Builder
	for _, f := range p.Files {
		if f.Binary {
			fmt.Fprintf(&want, "-\t-\t%s\n", f.Path())
		} else {
			fmt.Fprintf(&want, "%d\t%d\t%s\n", f.Added, f.Deleted, f.Path())
		}
	}
	if d := cmp.Diff(want.String(), string(out)); d != "" {
		t.Errorf("%q: git apply --numstat (-ours +git):\n%s", text, d)
	}
}
