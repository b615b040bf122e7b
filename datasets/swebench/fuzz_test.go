package swebench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzSplit: no script makes Split fail, and one that is understood loses
// nothing: its phases, put together again, hold its commands.
func FuzzSplit(f *testing.F) {
	for _, path := range glob(f, filepath.Join("testdata", "split"), "*.sh") {
		script, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(script))
	}
	f.Add("x=$((1<<2)) `a\\`` ${b:-'}'} $(c \"$(d)\") <<-E\n\tE\n")
	f.Fuzz(func(t *testing.T, script string) {
		eval, ok := Split(script)
		if !ok {
			if !eval.Whole || eval.Script != script {
				t.Fatalf("not run whole as it is: %+v", eval)
			}
			return
		}
		if eval.Whole || strings.TrimSpace(eval.Test) == "" {
			t.Fatalf("understood, and yet %+v", eval)
		}
		text := strings.ReplaceAll(script, "\r\n", "\n")
		for _, phase := range []string{eval.Setup, eval.Prelude, eval.Build} {
			for _, line := range strings.Split(phase, "\n") {
				if !strings.Contains(text, line) {
					t.Fatalf("%q is not in the script", line)
				}
			}
		}
		if !strings.Contains(text, eval.TestPatch) {
			t.Fatalf("the test patch is not in the script")
		}
		// A second look at the same phases sees the same.
		again, ok := Split(script)
		if !ok || again.Test != eval.Test || again.Setup != eval.Setup {
			t.Fatalf("Split differs from itself")
		}
	})
}

// FuzzPatchedFiles: the readers of test patches take any text.
func FuzzPatchedFiles(f *testing.F) {
	f.Add(patch)
	f.Add("diff --git \"a/\\303\\251\" \"b/\\303\\251\"\nnew file mode 100644\n@@ -1 +1 @@\n")
	f.Fuzz(func(t *testing.T, text string) {
		files := patchedFiles(text)
		modified, created := splitReset(files)
		paths := allPaths(files)
		for _, p := range append(modified, created...) {
			found := false
			for _, q := range paths {
				found = found || p == q
			}
			if !found || p == "" {
				t.Fatalf("%q is reset and not touched: %q", p, paths)
			}
		}
	})
}
