package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/reference"
	"github.com/evalrun/evalrun/reports"
)

// differentialEngines are those whose verdicts have to be the same. Engines that
// are not on this machine are named in EVALRUN_ENGINES to be missed.
func differentialEngines(t *testing.T) []string {
	t.Helper()
	if names := os.Getenv("EVALRUN_ENGINES"); names != "" {
		return strings.Split(names, ",")
	}
	needDocker(t)
	if os.Geteuid() != 0 {
		t.Skip("the embedded engine is root in a user namespace otherwise, which a test cannot enter: EVALRUN_ENGINES names the engines to compare")
	}
	return []string{"docker", "embedded"}
}

// graded is the part of an attempt that has to be the same on every engine.
type graded struct {
	Outcome grading.Outcome
	Reason  string
	Tests   *grading.TestsStatus
}

// gradedBy runs a command with one engine and reads what it left.
func gradedBy(t *testing.T, engine, run string, args ...string) map[string]graded {
	t.Helper()
	return gradedWith(t, exitFine, engine, run, args...)
}

// gradedWith is the same for one that ends with another exit code.
func gradedWith(t *testing.T, want int, engine, run string, args ...string) map[string]graded {
	t.Helper()
	dir := t.TempDir()
	var out, errs strings.Builder
	args = append(args, "--engine", engine, "--out", dir)
	if code := realMain(args, &out, &errs); code != want {
		t.Fatalf("%s: exit code %d, want %d\n%s\n%s", strings.Join(args, " "), code, want, out.String(), errs.String())
	}
	found := map[string]graded{}
	layout := reports.Layout{Root: dir}
	record, err := reports.LoadRun(layout, run)
	if err != nil {
		t.Fatal(err)
	}
	for _, model := range record.Models {
		attempts, problems := reports.LoadAttempts(layout, run, model)
		for _, p := range problems {
			t.Error(p)
		}
		for _, a := range attempts {
			f := graded{Outcome: a.Outcome, Reason: a.Reason}
			if a.Verdict != nil {
				f.Tests = a.Verdict.Tests
			}
			found[model+" "+a.InstanceID] = f
		}
	}
	return found
}

// same compares what the engines found, and returns what the first did.
func same(t *testing.T, run string, args ...string) map[string]graded {
	t.Helper()
	engines := differentialEngines(t)
	first := gradedBy(t, engines[0], run, args...)
	for _, engine := range engines[1:] {
		sorted := cmpopts.SortSlices(func(a, b string) bool { return a < b })
		if diff := cmp.Diff(first, gradedBy(t, engine, run, args...), sorted); diff != "" {
			t.Errorf("-%s +%s:\n%s", engines[0], engine, diff)
		}
	}
	return first
}

// The demo has an instance for every outcome there is.
func TestDemoOnEveryEngine(t *testing.T) {
	if found := same(t, "demo", "demo", "--check", "--fresh"); len(found) != 32 {
		t.Errorf("%d attempts, want 32", len(found))
	}
}

// realInstances are instances of five languages whose gold patches are known to be
// resolved with images built from repositories.
var realInstances = map[string][]string{
	"SWE-bench_Verified.test.parquet": {
		"django__django-11066", "django__django-14351", "django__django-16819", "pallets__flask-5014", "psf__requests-1142",
		"pylint-dev__pylint-7080", "pytest-dev__pytest-5809", "pytest-dev__pytest-7982", "sympy__sympy-20590", "sympy__sympy-24213",
	},
	"SWE-bench_Multilingual.test.parquet": {
		"caddyserver__caddy-5404", "gin-gonic__gin-3741", "gin-gonic__gin-4003", "jqlang__jq-2598", "preactjs__preact-4182",
	},
}

// Real instances, whose images take an hour and gigabytes to build the first time.
func TestRealInstancesOnEveryEngine(t *testing.T) {
	mirror := os.Getenv("EVALRUN_REPO_MIRROR")
	if mirror == "" {
		t.Skip("EVALRUN_REPO_MIRROR names a folder with copies of the repositories, as --repo-mirror; without it real instances are not run")
	}
	for dataset, ids := range realInstances {
		file := reference.Path(t, "data/datasets/"+dataset)
		wrong := filepath.Join(t.TempDir(), "wrong.jsonl")
		var lines strings.Builder
		for _, id := range ids {
			fmt.Fprintf(&lines, `{"instance_id": %q, "model_name_or_path": "wrong", "model_patch": "--- /dev/null\n+++ b/NOTES.evalrun\n@@ -0,0 +1 @@\n+x\n"}`+"\n", id)
		}
		if err := os.WriteFile(wrong, []byte(lines.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		found := same(t, "differential", "run", "-d", file, "-i", strings.Join(ids, ","), "-p", "gold", "-p", wrong, "--run-id", "differential", "--no-cache", "--repo-mirror", mirror, "--lock-file", filepath.Join(t.TempDir(), "images.lock"))
		for _, id := range ids {
			if gold, wrong := found["gold "+id].Outcome, found["wrong "+id].Outcome; gold != grading.Resolved || wrong != grading.Unresolved {
				t.Errorf("%s: gold %s, wrong %s", id, gold, wrong)
			}
		}
		if want := 2 * len(ids); len(found) != want {
			t.Errorf("%s: %d attempts, want %d", dataset, len(found), want)
		}
	}
}
