package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalrun/evalrun/cache"
	"github.com/evalrun/evalrun/datasets/demo"
	"github.com/evalrun/evalrun/grading"
)

// With nothing but the checkout to write to, and as another user than root, rows that
// need no more come out as ever, on every engine. Of one that does, it is said that
// the flag is to blame and not the patch.
func TestRestricted(t *testing.T) {
	engines := differentialEngines(t)
	dir := t.TempDir()
	repositories := filepath.Join(dir, "repositories")
	if err := demo.WriteTo(dir); err != nil {
		t.Fatal(err)
	}
	if err := demo.Materialize(t.Context(), repositories); err != nil {
		t.Fatal(err)
	}
	rows := filepath.Join(dir, "demo.jsonl")
	needy := filepath.Join(dir, "needy.jsonl")
	want, got := []byte("python3 -m pytest -rA tests/test_ini.py"), []byte("mkdir -p /opt/cache && python3 -m pytest -rA tests/test_ini.py")
	text, err := os.ReadFile(rows)
	if err != nil || !bytes.Contains(text, want) {
		t.Fatalf("%s has no row with %q: %v", rows, want, err)
	}
	if err := cache.WriteFile(needy, bytes.ReplaceAll(text, want, got), 0o644); err != nil {
		t.Fatal(err)
	}
	const one, c = "evalrun-demo__textkit-1", "evalrun-demo__csvline-1"
	for _, engine := range engines {
		for name, flags := range map[string][]string{"read-only": {"--read-only"}, "user": {"--user", "1000"}, "both": {"--read-only", "--user", "1000:100"}} {
			t.Run(engine+" "+name, func(t *testing.T) {
				run := func(rows, ids string, code int) map[string]graded {
					args := []string{"run", "-d", rows, "-i", ids, "-p", "gold", "--run-id", name, "--no-cache", "--images", "build", "--repo-mirror", repositories, "--lock-file", filepath.Join(dir, "images.lock")}
					return gradedWith(t, code, engine, name, append(args, flags...)...)
				}
				for id, g := range run(rows, one+","+c, exitFine) {
					if g.Outcome != grading.Resolved {
						t.Errorf("%s: %s %s", id, g.Outcome, g.Reason)
					}
				}
				g := run(needy, one, exitNotEvaluated)["gold "+one]
				if g.Outcome != grading.Ungradeable || !strings.Contains(g.Reason, "the row does not work with "+flags[0]) || !strings.Contains(g.Reason, "/opt/cache") {
					t.Errorf("a row that needs more: %s %q", g.Outcome, g.Reason)
				}
			})
		}
	}
}
