package patch_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalrun/evalrun/internal/patch"
)

func BenchmarkPrepare(b *testing.B) {
	text := strings.Repeat(gitFix, 2000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if p, err := patch.Prepare(text); err != nil || len(p.Files) != 2000 {
			b.Fatalf("%v, %d files", err, len(p.Files))
		}
	}
}

// BenchmarkApplyScript measures what applying costs beyond the sandbox.
func BenchmarkApplyScript(b *testing.B) {
	root, file := b.TempDir(), filepath.Join(b.TempDir(), "p.diff")
	p, err := patch.Prepare("--- /dev/null\n+++ b/f.txt\n@@ -0,0 +1 @@\n+x\n")
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(p.Text), 0o644); err != nil {
		b.Fatal(err)
	}
	script, err := p.ApplyScript(root, nonce, []string{file})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		out := shell(b, script)
		if r, err := patch.ParseResult(nonce, out); err != nil || r.Command != gitApply {
			b.Fatalf("%v, %+v", err, r)
		}
		if err := os.Remove(filepath.Join(root, "f.txt")); err != nil {
			b.Fatal(err)
		}
	}
}
