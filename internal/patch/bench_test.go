package patch_test

import (
	"os"
	"os/exec"
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

// BenchmarkTasks measures what applying a patch, bringing back a test file, applying
// the test patch and the snapshot cost beyond the sandbox.
func BenchmarkTasks(b *testing.B) {
	dir := b.TempDir()
	root := filepath.Join(dir, "root")
	script, err := patch.Tasks(root)
	if err != nil {
		b.Fatal(err)
	}
	p, err := patch.Prepare("--- /dev/null\n+++ b/f.txt\n@@ -0,0 +1 @@\n+x\n")
	if err != nil {
		b.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	apply, err := p.ApplyTask(nonce, []string{at("patch")})
	if err != nil {
		b.Fatal(err)
	}
	setUp := exec.Command("sh", "-c", `git init -q "$0" && cd "$0" && echo old >t && git add t && git -c user.name=t -c user.email=t commit -qm t && git rev-parse HEAD`, root)
	base, err := setUp.Output()
	if err != nil {
		b.Fatal(err)
	}
	restore, err := patch.RestoreTask(patch.Restore{Base: strings.TrimSpace(string(base)), Nonce: nonce, Paths: []string{"t"}, TestPatch: at("test"), Trusted: true})
	if err != nil {
		b.Fatal(err)
	}
	snapshot, err := patch.SnapshotTask(nonce, "")
	if err != nil {
		b.Fatal(err)
	}
	for name, text := range map[string]string{
		"tasks": script, "apply": apply, "restore": restore, "snapshot": snapshot, "patch": p.Text, "test": "--- a/t\n+++ b/t\n@@ -1 +1 @@\n-old\n+new\n",
	} {
		if err := os.WriteFile(at(name), []byte(text), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		out, err := exec.Command("sh", at("tasks"), at("apply"), at("restore"), at("snapshot")).Output()
		if n := strings.Count(string(out), nonce+" applied 1 1\n"); err != nil || n != 2 || !strings.Contains(string(out), nonce+" tree ") {
			b.Fatalf("%v, %s", err, out)
		}
		if err := os.Remove(filepath.Join(root, "f.txt")); err != nil {
			b.Fatal(err)
		}
	}
}
