package lint

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading/logparse"
	"github.com/evalrun/evalrun/internal/reference"
)

const base = "0123456789012345678901234567890123456789"

// TestRefusedResets: whatever the script's words for it, a reset that git refuses
// or that takes the whole tree is found, and no other.
func TestRefusedResets(t *testing.T) {
	patch := "diff --git a/t/old.py b/t/old.py\n--- a/t/old.py\n+++ b/t/old.py\n@@ -1 +1 @@\n-a\n+b\n" +
		"diff --git a/t/new.py b/t/new.py\nnew file mode 100644\n--- /dev/null\n+++ b/t/new.py\n@@ -0,0 +1 @@\n+a\n"
	for script, want := range map[string]bool{
		"git checkout " + base + " t/old.py t/new.py":            true,
		"git checkout " + base + " t/new.py":                     true,
		"git checkout " + base + " -- t/new.py t/old.py":         true,
		"git checkout " + base:                                   true,
		"git checkout " + base + " t/old.py && rm -f t/new.py":   false,
		"git checkout " + base + " t/old.py\nrm -f t/new.py":     false,
		"git checkout main":                                      false,
		"cat <<'EOF'\ngit checkout " + base + " t/new.py\nEOF\n": false,
		"echo 'unclosed":                                         false,
		"":                                                       false,
	} {
		inst := datasets.Instance{ID: "o__r-1", LogParser: "parse_log_pytest", FailToPass: []string{"a"}, Patch: patch, TestPatch: patch,
			EvalScript: "#!/bin/bash\ncd /testbed\n" + script + "\n"}
		found := slices.ContainsFunc(Rows([]datasets.Instance{inst}), func(f Finding) bool { return f.Kind == RefusedReset })
		if found != want {
			t.Errorf("%q: found %v, want %v", script, found, want)
		}
	}
}

// TestMatchable: ids that logs really have are matchable, ids with what a parser
// drops are not.
func TestMatchable(t *testing.T) {
	logs, err := filepath.Glob(filepath.Join("..", "..", "grading", "logparse", "testdata", "logs", "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("no logs: %v", err)
	}
	for _, path := range logs {
		parser := filepath.Base(path[:len(path)-len(".log")])
		if _, known := shapes[parser]; !known {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for id := range logparse.Parse(parser, string(text), logparse.Context{}).Statuses.All() {
			if id != "" && !Cut(id) && !Matchable(parser, logparse.Context{}, id) {
				t.Errorf("%s gives %q, which is said to be impossible", parser, id)
			}
		}
	}
	for parser, id := range map[string]string{
		"parse_log_pytest": "t.py::a b", "parse_log_flask": " t.py::a", "parse_log_pydicom": "t.py::a[/n/fs/x/y]", "parse_log_astropy": "t.py::a  b",
		"parse_log_gotest": "TestA\n", "parse_log_cargo": "a b", "parse_log_jest": "a ", "parse_log_sympy": "not a test",
	} {
		if Matchable(parser, logparse.Context{}, id) {
			t.Errorf("%s is said to give %q", parser, id)
		}
	}
	if !Matchable("parse_log_p5js", logparse.Context{}, "anything") {
		t.Error("an id of a parser whose lines are not known is refused")
	}
}

// TestPublishedFaults finds in the published datasets what is known of them.
func TestPublishedFaults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		file, split string
		want        map[Kind]int
	}{
		{"SWE-bench_Verified.test.parquet", "test", map[Kind]int{CutID: 676, RefusedReset: 17}},
		{"SWE-bench_Multilingual.test.parquet", "test", map[Kind]int{EmptyFailToPass: 1}},
		// pydicom-866, -995, -1439 and -1458 want paths of their authors' machine.
		{"SWE-bench.dev.parquet", "dev", map[Kind]int{CutID: 532, RefusedReset: 21, UnmatchableID: 151}},
		{"SWE-bench_Multimodal.dev.parquet", "dev", map[Kind]int{BadPatch: 13}},
	} {
		path := reference.Path(t, "data/datasets/"+tt.file)
		ds, err := datasets.Load(context.Background(), path, datasets.LoadOptions{Split: tt.split})
		if err != nil {
			t.Fatal(err)
		}
		got := map[Kind]int{}
		for _, f := range Rows(ds.Instances) {
			got[f.Kind]++
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.file, diff)
		}
	}
}
