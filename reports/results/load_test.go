package results

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports"
)

func one(t *testing.T, source string, o Options) *Set {
	t.Helper()
	sets, err := Load(t.Context(), source, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(sets) != 1 {
		t.Fatalf("%d sets, want 1", len(sets))
	}
	return sets[0]
}

func TestRunOfOurs(t *testing.T) {
	root := t.TempDir()
	ran(t, root, "nightly", []string{"z", "a", "b", "c", "d"}, map[string]map[string]grading.Outcome{
		"org/m": {"a": grading.Resolved, "b": grading.Unresolved, "z": grading.BuildFailed, "c": grading.Resolved}, // c of an earlier call
	}, func(r *reports.RunRecord) { r.NoPrediction = map[string][]string{"org/m": {"c"}} })
	s := one(t, "nightly", Options{Root: root})
	if diff := cmp.Diff([]string{"a resolved", "b unresolved", "-c not_run", "d not_run", "z build_failed"}, outcomes(s)); diff != "" {
		t.Error(diff)
	}
	if s.Kind != KindRun || s.Model != "org/m" || s.Run != "nightly" || s.Dataset != "abc" || s.Rules != "swebench-5" || s.Open {
		t.Errorf("got %+v", s)
	}
	a := s.Find("a")
	if a.Reason != "because" || a.Repo != "o/r" || a.Record == nil || a.Seconds != 2 || len(a.PassToPass.Failed) != 1 {
		t.Errorf("item %+v", a)
	}
	// What the system did is scored against it; what befell it is not.
	for id, want := range map[string]bool{"a": true, "b": true, "c": true, "d": false, "z": false} {
		if got := s.Find(id).Scored(); got != want {
			t.Errorf("%s scored: %v, want %v", id, got, want)
		}
	}
	// The folder is the same run, wherever it was moved.
	moved := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.Rename(filepath.Join(root, "logs", "run_evaluation", "nightly"), moved); err != nil {
		t.Fatal(err)
	}
	light := one(t, moved, Options{Light: true})
	if diff := cmp.Diff(outcomes(s), outcomes(light)); diff != "" {
		t.Error(diff)
	}
	if light.Items[0].FailToPass != nil || light.Items[0].Record != nil {
		t.Error("light items have tests")
	}
}

func TestOneModelOfSeveral(t *testing.T) {
	root := t.TempDir()
	ran(t, root, "r", []string{"a"}, map[string]map[string]grading.Outcome{"m1": {"a": grading.Resolved}, "m2": {}}, nil)
	if s := one(t, "r::m2", Options{Root: root}); s.Model != "m2" || s.Resolved() != 0 {
		t.Errorf("got %s with %d resolved", s.Model, s.Resolved())
	}
	_, err := Load(t.Context(), "r::m3", Options{Root: root})
	wantError(t, err, `no model "m3"`, "m1", "m2")
	sets, err := LoadAll(t.Context(), []string{"r::m1", "r::m2"}, Options{Root: root})
	if err != nil || len(sets) != 2 {
		t.Fatalf("%d sets, %v", len(sets), err)
	}
	_, err = Load(t.Context(), "missing", Options{Root: root})
	wantError(t, err, "missing", "no run of this name", "--out")
}

func TestNamesAreToldApart(t *testing.T) {
	root := t.TempDir()
	for _, run := range []string{"r1", "r2"} {
		ran(t, root, run, []string{"a"}, map[string]map[string]grading.Outcome{"m": {}}, nil)
	}
	sets, err := LoadAll(t.Context(), []string{"r1", "r2"}, Options{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	if sets[0].Name != "m (r1)" || sets[1].Name != "m (r2)" {
		t.Errorf("names %q and %q", sets[0].Name, sets[1].Name)
	}
}

func TestOfficialSummary(t *testing.T) {
	dir := tree(t, map[string]string{"gpt-4.1.base.json": `{
  "total_instances": 8, "resolved_instances": 1,
  "completed_ids": ["r", "u"], "resolved_ids": ["r"], "unresolved_ids": ["u"],
  "incomplete_ids": ["i"], "empty_patch_ids": ["e"],
  "error_ids": ["x", "b", "n", "t"],
  "failure_reasons": {"b": "build_failed", "n": "not_run", "t": "tests_timed_out", "u": "missing_module"},
  "schema_version": 2
}`})
	s := one(t, filepath.Join(dir, "gpt-4.1.base.json"), Options{})
	want := []string{"b build_failed", "e empty_patch", "-i not_run", "n not_run", "r resolved", "t error", "u unresolved", "x error"}
	if diff := cmp.Diff(want, outcomes(s)); diff != "" {
		t.Error(diff)
	}
	if s.Model != "gpt-4.1" || s.Run != "base" || len(s.Warnings) != 0 {
		t.Errorf("model %q, run %q, warnings %q", s.Model, s.Run, s.Warnings)
	}
	if it := s.Find("t"); it.Reason != "tests_timed_out" || it.Outcome.Evaluated() || !it.Scored() {
		t.Errorf("an error is %+v", it)
	}
}

func TestOldSummaryHasOnlyTheUnion(t *testing.T) {
	dir := tree(t, map[string]string{"m.r.json": `{"total_instances": 5, "resolved_instances": 2, "completed_ids": ["a", "b"], "resolved_ids": ["a"]}`})
	s := one(t, filepath.Join(dir, "m.r.json"), Options{})
	if diff := cmp.Diff([]string{"a resolved", "b unresolved"}, outcomes(s)); diff != "" {
		t.Error(diff)
	}
	if len(s.Warnings) != 2 || !strings.Contains(s.Warnings[0], "resolved_instances is 2") || !strings.Contains(s.Warnings[1], "total_instances is 5") {
		t.Errorf("warnings %q", s.Warnings)
	}
}

func TestFilesThatCannotBeUsed(t *testing.T) {
	dir := tree(t, map[string]string{
		"twice.r.json":             "{\"resolved_ids\": [\"a\"],\n\"unresolved_ids\": [\n\"a\"]}",
		"torn.r.json":              "{\"resolved_ids\": [\"a\"],\n\"unresolved_ids\": [",
		"kind.r.json":              "{\"total_instances\": 1,\n\"resolved_ids\":\n \"a\"}",
		"empty.json":               "",
		"other.json":               `{"a": 1}`,
		"list.json":                `[]`,
		"run.json":                 `{"run_id": "r", "models": []}`,
		"sub/results/results.json": `{"resolved": {}}`,
		"base.json":                "{\"baseline\": 7,\n\"outcomes\": {}}",
		"odd.json":                 "{\"baseline\": 1, \"outcomes\": {\"a\": \"resolved\",\n\"b\": \"solved\"}}",
		"many.json":                "{\"baseline\": 1, \"outcomes\": {\"a\": \"resolved\",\n\"a\": \"unresolved\"}}",
		"again.json":               "{\"baseline\": 1, \"outcomes\": {},\n\"outcomes\": {}}",
		"stray.json":               "{\"baseline\": 1, \"outcomes\": {},\n\"no_prediction\": [\"a\"]}",
		"next.json":                "{\"schema_version\": 9,\n\"summary\": {}, \"instances\": []}",
		"oddly.json":               "{\"schema_version\": 1, \"summary\": {}, \"instances\": [\n{\"instance_id\": \"a\", \"outcome\": \"solved\"}]}",
		"nameless.json":            "{\"schema_version\": 1, \"summary\": {}, \"instances\": [\n{\"instance_id\": \"\", \"outcome\": \"resolved\"}]}",
		"newer.r.json":             "{\"resolved_ids\": [\"a\"],\n\"schema_version\": 9}",
		"hole.json":                "{\"baseline\": 1, \"outcomes\": {\n\"a\": \"\"}}",
		"doc.json":                 `{"schema_version": 1, "summary": {}, "instances": [{"instance_id": "a", "outcome": "resolved"},` + "\n" + `{"instance_id": "a", "outcome": "resolved"}]}`,
		"nothing/here/a.txt":       "",
	})
	for name, want := range map[string][]string{
		"twice.r.json":             {"twice.r.json:3:", "instance a is resolved and unresolved"},
		"torn.r.json":              {"torn.r.json:2:", "unexpected"},
		"kind.r.json":              {"kind.r.json:3:", "resolved_ids is a string, want a list"},
		"empty.json":               {"empty.json", "is empty"},
		"other.json":               {"no results here", "resolved_ids"},
		"list.json":                {"list.json:1:", "array"},
		"run.json":                 {"give the run's folder"},
		"sub/results/results.json": {"give the submission's folder"},
		"sub":                      {"results.json:1:", "resolved: is not a list"},
		"base.json":                {"base.json:1:", "schema 7"},
		"odd.json":                 {"odd.json:2:", `instance "b"`, `"solved"`, "resolved, unresolved"},
		"many.json":                {"many.json:2:", `"a" is there twice`},
		"again.json":               {"again.json:2:", `"outcomes" is there twice`},
		"stray.json":               {"stray.json:2:", `no_prediction names "a"`},
		"next.json":                {"next.json", "schema_version 9", "reads 1"},
		"oddly.json":               {"oddly.json:2:", `instance "a"`, `"solved"`},
		"nameless.json":            {"nameless.json:2:", "without a name"},
		"newer.r.json":             {"newer.r.json:2:", "schema_version 9", "up to 2"},
		"hole.json":                {"hole.json:2:", `instance "a"`},
		"doc.json":                 {"doc.json:2:", "there twice"},
		"nothing":                  {"no results here", "run.json"},
	} {
		_, err := Load(t.Context(), filepath.Join(dir, name), Options{})
		if name == "nothing" && !errors.Is(err, ErrNothing) {
			t.Errorf("%s: %v is no ErrNothing", name, err)
		}
		wantError(t, err, want...)
	}
}

func TestOfficialLogs(t *testing.T) {
	report := func(id, rest string) string {
		return `{"` + id + `": {"patch_is_None": false, "patch_exists": true, ` + rest + `}}`
	}
	files := map[string]string{
		"a/report.json": report("a", `"patch_successfully_applied": true, "resolved": true, "tests_status": {"FAIL_TO_PASS": {"success": ["x"], "failure": []}, "PASS_TO_PASS": {"success": ["y"], "failure": ["z"]}}`),
		"b/report.json": report("b", `"patch_successfully_applied": true, "resolved": false`),
		"c/report.json": report("c", `"patch_successfully_applied": false, "resolved": false`),
		"d/report.json": report("d", `"patch_successfully_applied": false, "resolved": false, "infra_failure": true, "infra_failure_reason": "out_of_memory"`),
		"e/report.json": `{"e": {"patch_is_None": true, "patch_exists": false, "patch_successfully_applied": false, "resolved": false}}`,
		"f/patch.diff":  "x", "f/run_instance.log": "…\n>>>>> Patch Apply Failed:\nerror",
		"g/patch.diff": "x", "g/run_instance.log": "Test timed out after 1800 seconds.",
		"h/patch.diff": "x", "h/run_instance.log": "Error building image",
		"i/patch.diff": "", "stray.txt": "", "j/other": "",
	}
	placed := map[string]string{}
	for name, text := range files {
		placed["logs/run_evaluation/run1/org__model/"+name] = text
	}
	root := tree(t, placed)
	want := []string{"a resolved", "b unresolved", "c unresolved", "d infra_failed", "e empty_patch", "f apply_failed", "g timed_out", "h error", "i empty_patch"}
	for _, source := range []string{root, "run1", filepath.Join(root, "logs", "run_evaluation"), filepath.Join(root, "logs/run_evaluation/run1/org__model")} {
		s := one(t, source, Options{Root: root})
		if diff := cmp.Diff(want, outcomes(s)); diff != "" {
			t.Errorf("%s: %s", source, diff)
		}
		if s.Kind != KindLogs || s.Model != "org/model" || s.Run != "run1" {
			t.Errorf("%s: kind %s, model %q, run %q", source, s.Kind, s.Model, s.Run)
		}
		if a := s.Find("a"); a.FailToPass.Total() != 1 || len(a.PassToPass.Failed) != 1 || a.Dir == "" {
			t.Errorf("%s: tests of a: %+v", source, a)
		}
	}
}

func TestReportsThatCannotBeUsed(t *testing.T) {
	for text, want := range map[string][]string{
		"{\n\"b\": {}}":                  {"report.json:2:", `is of instance "b"`, `"a"`},
		"{}":                             {"report.json", "empty object"},
		"{\"a\": \n{\n\"resolved\": 3}}": {"report.json:3:", "resolved is a number, want true or false"},
		"{\"a\":":                        {"report.json:1:"},
	} {
		root := tree(t, map[string]string{"r/m/a/report.json": text})
		_, err := Load(t.Context(), filepath.Join(root, "r", "m"), Options{})
		wantError(t, err, want...)
	}
}

func TestSubmission(t *testing.T) {
	root := tree(t, map[string]string{
		"verified/20250807_x/metadata.yaml":        "info:\n  name: X + Y\n  site: https://example.org\ntags:\n  checked: true\n  model:\n  - m/1\n  org: O\n  system:\n    attempts: 2+\n",
		"verified/20250807_x/results/results.json": `{"no_generation": ["n", "n"], "no_logs": ["l"], "resolved": ["a", "b"]}`,
	})
	s := one(t, filepath.Join(root, "verified", "20250807_x"), Options{})
	if diff := cmp.Diff([]string{"a resolved", "b resolved", "l error", "-n empty_patch"}, outcomes(s)); diff != "" {
		t.Error(diff)
	}
	want := SubmissionInfo{Split: "verified", Date: "2025-08-07", Title: "X + Y", Org: "O", Site: "https://example.org", Models: []string{"m/1"}, Attempts: "2+", Checked: true}
	if diff := cmp.Diff(want, s.Info); diff != "" {
		t.Error(diff)
	}
	if !s.Open {
		t.Error("the submission names all its instances, says the set")
	}
	if out := s.Complete([]string{"a", "n", "q"}); strings.Join(out, " ") != "b l" {
		t.Errorf("left out: %v", out)
	}
	if diff := cmp.Diff([]string{"a resolved", "-n empty_patch", "q unresolved"}, outcomes(s)); diff != "" {
		t.Error(diff)
	}
	// A folder of submissions is all of them.
	if s := one(t, filepath.Join(root, "verified"), Options{}); s.Name != "20250807_x" {
		t.Errorf("got %s", s.Name)
	}
}

func TestSubmissionWithLogsAndPredictions(t *testing.T) {
	root := tree(t, map[string]string{
		"s/metadata.yml": "name: old\nverified: true\n",
		"s/all_preds.jsonl": `{"instance_id": "a", "model_name_or_path": "m", "model_patch": "x"}` + "\n\n" + `{"instance_id": "b", "model_name_or_path": "m", "model_patch": null}` +
			"\n" + `{"instance_id": "c", "model_name_or_path": "m", "model_patch": "x"}` + "\n" + `{"instance_id": "a", "model_name_or_path": "m", "model_patch": "x"}`,
		"s/logs/a/report.json":   `{"a": {"patch_successfully_applied": true, "resolved": false}}`,
		"s/logs/c/report.json":   `{"c": {"patch_successfully_applied": true, "resolved": true}}`,
		"s/results/results.json": `{"resolved": ["a", "b"], "no_apply": []}`,
	})
	s := one(t, filepath.Join(root, "s"), Options{})
	// Logs say more than lists; that they differ is told.
	if diff := cmp.Diff([]string{"a unresolved", "b resolved", "c resolved"}, outcomes(s)); diff != "" {
		t.Error(diff)
	}
	told := strings.Join(s.Warnings, "\n")
	for _, part := range []string{"all_preds.jsonl:5: a second prediction for a", "a is resolved in results.json and unresolved in its log", "c is resolved in its log and not in results.json", "b is resolved and has no patch"} {
		if !strings.Contains(told, part) {
			t.Errorf("warnings lack %q:\n%s", part, told)
		}
	}
	if s.Model != "m" || !s.Info.Checked || s.Info.Title != "old" {
		t.Errorf("model %q, info %+v", s.Model, s.Info)
	}
}

func TestOlderSubmission(t *testing.T) {
	root := tree(t, map[string]string{"s/metadata.yaml": "", "s/results/results.json": `{"no_generation": ["g"], "generated": ["a", "b", "c", "d", "e"], "with_logs": ["a", "b", "c", "d", "e"],
		"install_fail": ["e"], "reset_failed": [], "no_apply": ["b"], "applied": ["a", "c", "d", "e"], "test_errored": [], "test_timeout": ["c"], "resolved": ["a"]}`})
	s := one(t, filepath.Join(root, "s"), Options{})
	if diff := cmp.Diff([]string{"a resolved", "b apply_failed", "c timed_out", "d unresolved", "e error", "-g empty_patch"}, outcomes(s)); diff != "" {
		t.Error(diff)
	}
}

func TestSubmissionsThatCannotBeUsed(t *testing.T) {
	for what, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"no results": {map[string]string{"s/metadata.yaml": "name: x"}, []string{"nothing says what was resolved"}},
		"bad yaml":   {map[string]string{"s/metadata.yaml": "name: x\nsite: [", "s/results/results.json": `{"resolved": []}`}, []string{"metadata.yaml:2:"}},
		"no list":    {map[string]string{"s/results/results.json": `{"no_logs": []}`}, []string{"has no list resolved"}},
		"number":     {map[string]string{"s/results/results.json": "{\"no_logs\": [],\n\"resolved\": [1]}"}, []string{"results.json:2:", "entry 1 is not an instance id"}},
		"bad line":   {map[string]string{"s/all_preds.jsonl": "{\"instance_id\": \"a\"}\n{", "s/results/results.json": `{"resolved": []}`}, []string{"all_preds.jsonl:2:"}},
		"nameless":   {map[string]string{"s/all_preds.jsonl": "{}", "s/results/results.json": `{"resolved": []}`}, []string{"all_preds.jsonl:1:", "without instance_id"}},
	} {
		t.Run(what, func(t *testing.T) {
			_, err := Load(t.Context(), filepath.Join(tree(t, c.files), "s"), Options{})
			wantError(t, err, c.want...)
		})
	}
}

func TestBaselineComesBack(t *testing.T) {
	root := t.TempDir()
	ran(t, root, "r", []string{"a", "b", "c", "d"}, map[string]map[string]grading.Outcome{"m": {"a": grading.Resolved, "b": grading.InfraFailed}},
		func(r *reports.RunRecord) { r.NoPrediction = map[string][]string{"m": {"d"}} })
	s := one(t, "r", Options{Root: root})
	path := filepath.Join(root, "baseline.json")
	if err := WriteBaseline(path, s); err != nil {
		t.Fatal(err)
	}
	back := one(t, path, Options{})
	if diff := cmp.Diff(outcomes(s), outcomes(back)); diff != "" {
		t.Error(diff)
	}
	if back.Model != "m" || back.Run != "r" || back.Dataset != "abc" || back.Rules != "swebench-5" || back.Kind != KindBaseline {
		t.Errorf("got %+v", back)
	}
	data, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(data), "\n    \"a\": \"resolved\",\n    \"b\": \"infra_failed\",\n") {
		t.Errorf("not one line an instance (%v):\n%s", err, data)
	}
}

func TestDocumentsOfJSON(t *testing.T) {
	doc := `{"schema_version": 1, "run": {"dataset": {"sha256": "h"}, "rules": "strict"}, "summary": {"run_id": "r", "model_name_or_path": "m"}, "instances": [{"instance_id": "b", "outcome": "unresolved"}, {"instance_id": "a", "outcome": "resolved"}]}`
	root := tree(t, map[string]string{"two.json": doc + "\n" + strings.ReplaceAll(doc, `"m"`, `"n"`)})
	sets, err := Load(t.Context(), filepath.Join(root, "two.json"), Options{})
	if err != nil || len(sets) != 2 {
		t.Fatalf("%d sets, %v", len(sets), err)
	}
	if diff := cmp.Diff([]string{"a resolved", "b unresolved"}, outcomes(sets[1])); diff != "" {
		t.Error(diff)
	}
	if sets[1].Model != "n" || sets[0].Rules != "strict" || sets[0].Dataset != "h" {
		t.Errorf("got %+v", sets[1])
	}
}

func TestRunning(t *testing.T) {
	root := t.TempDir()
	layout := ran(t, root, "r", []string{"a", "b"}, map[string]map[string]grading.Outcome{"m": {"a": grading.Resolved}}, nil)
	before, err := Progress("r", root)
	if err != nil {
		t.Fatal(err)
	}
	if on, err := Running("r", root); on || err != nil {
		t.Errorf("nobody works on it: %v, %v", on, err)
	}
	unlock := hold(t, filepath.Join(layout.RunDir("r"), ".lock"))
	if on, err := Running("r", root); !on || err != nil {
		t.Errorf("it is held: %v, %v", on, err)
	}
	unlock()
	if on, _ := Running("r", root); on {
		t.Error("it is held no longer")
	}
	ran(t, root, "r", []string{"a", "b"}, map[string]map[string]grading.Outcome{"m": {"b": grading.Resolved}}, nil)
	if after, _ := Progress("r", root); after == before {
		t.Error("another attempt is no progress")
	}
	_, err = Running(root, root)
	wantError(t, err, "no run of evalrun")
}

// TestWhetherThereWasAPredictionIsKept: of what was not run it decides whose doing
// that is, in whatever form the results are kept.
func TestWhetherThereWasAPredictionIsKept(t *testing.T) {
	const run = `"run": {"no_prediction": {"m": ["a"]}}, `
	for what, c := range map[string]struct{ file, want string }{
		"a baseline":              {`{"baseline": 1, "no_prediction": ["a"], "outcomes": {"a": "not_run", "b": "not_run"}}`, "-a not_run, b not_run"},
		"a baseline, empty patch": {`{"baseline": 1, "no_prediction": ["a"], "outcomes": {"a": "empty_patch", "b": "empty_patch"}}`, "-a empty_patch, b empty_patch"},
		"one that does not say":   {`{"baseline": 1, "outcomes": {"a": "not_run"}}`, "a not_run"},
		"--json": {`{"schema_version": 1, "summary": {"model_name_or_path": "m"}, "instances": [
			{"instance_id": "a", "outcome": "not_run", "submitted": false}, {"instance_id": "b", "outcome": "not_run", "submitted": true}]}`, "-a not_run, b not_run"},
		"--json that has it in the run": {`{"schema_version": 1, ` + run + `"summary": {"model_name_or_path": "m"}, "instances": [
			{"instance_id": "a", "outcome": "not_run"}, {"instance_id": "b", "outcome": "not_run"}]}`, "-a not_run, b not_run"},
		"--json that does not know": {`{"schema_version": 1, "summary": {"model_name_or_path": "m"}, "instances": [{"instance_id": "a", "outcome": "not_run", "submitted": null}]}`, "a not_run"},
	} {
		t.Run(what, func(t *testing.T) {
			s := one(t, filepath.Join(tree(t, map[string]string{"f.json": c.file}), "f.json"), Options{})
			if got := strings.Join(outcomes(s), ", "); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestTheSameIsNotTwo: results that are given twice are no second run.
func TestTheSameIsNotTwo(t *testing.T) {
	root := t.TempDir()
	for _, run := range []string{"r", "r2"} {
		ran(t, root, run, []string{"a"}, map[string]map[string]grading.Outcome{"m": {"a": grading.Resolved}, "m2": {"a": grading.Resolved}}, nil)
	}
	runs := filepath.Join(root, "logs", "run_evaluation")
	if err := os.Symlink(filepath.Join(runs, "r"), filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(root, "copy"), os.DirFS(filepath.Join(runs, "r"))); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"m.s.json": `{"total_instances": 1, "resolved_instances": 1, "resolved_ids": ["a"]}`, "m.s2.json": `{"total_instances": 1, "resolved_instances": 1, "resolved_ids": ["a"]}`,
		"doc.json": `{"schema_version": 1, "run": {"created_at": "1970-01-01T00:00:00Z"}, "summary": {"run_id": "r", "model_name_or_path": "m"},
			"instances": [{"instance_id": "a", "outcome": "resolved", "seconds": 2}]}`,
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		sources string
		same    bool
	}{
		{"r r", true}, {"r r::m", true}, {"r::m r::m2", false}, {"r r2", false}, {"r2 LOGS/r2", true},
		{"r ROOT/link", true}, {"r ROOT/copy", true}, {"r::m ROOT/doc.json", true}, {"r2::m ROOT/doc.json", false},
		{"ROOT/m.s.json ROOT/../ROOT/m.s.json", true}, {"ROOT/m.s.json ROOT/m.s2.json", false},
	} {
		sources := strings.Fields(strings.NewReplacer("ROOT/../ROOT", root+"/../"+filepath.Base(root), "ROOT", root, "LOGS", runs).Replace(c.sources))
		_, err := LoadAll(t.Context(), sources, Options{Root: root})
		if c.same {
			wantError(t, err, "leave one out")
		} else if err != nil {
			t.Errorf("%s: %v", c.sources, err)
		}
	}
}

func TestWhoIsInterruptedReadsNothing(t *testing.T) {
	root := t.TempDir()
	ran(t, root, "r", []string{"a"}, map[string]map[string]grading.Outcome{"m": {"a": grading.Resolved}}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if sets, err := LoadAll(ctx, []string{"r"}, Options{Root: root}); !errors.Is(err, context.Canceled) || sets != nil {
		t.Errorf("%d sets, %v", len(sets), err)
	}
}

// TestListsAreSharedAndTheSame: equal lists are one in memory, others are not touched.
func TestListsAreSharedAndTheSame(t *testing.T) {
	s := newShared()
	a, b, c := s.list([]string{"x", "y"}), s.list([]string{"x", "y"}), s.list([]string{"y", "x"})
	if &a[0] != &b[0] || &a[0] == &c[0] {
		t.Error("equal lists are two, or others one")
	}
	if diff := cmp.Diff([][]string{{"x", "y"}, {"x", "y"}, {"y", "x"}}, [][]string{a, b, c}); diff != "" {
		t.Error(diff)
	}
	if odd := s.list([]string{"x\x00y"}); len(odd) != 1 || odd[0] != "x\x00y" {
		t.Errorf("a name like two became %q", odd)
	}
	if (*shared)(nil).list(a)[0] != "x" {
		t.Error("no sharing changes a list")
	}
}

// TestNothingHangs: pipes in the place of files are no files, and what takes a YAML
// reader minutes is refused.
func TestNothingHangs(t *testing.T) {
	for _, name := range []string{"all_preds.jsonl", "results/results.json", "logs/a/report.json"} {
		root := tree(t, map[string]string{"s/metadata.yaml": "", "s/results/results.json": `{"resolved": []}`, "s/logs/a/patch.diff": "x"})
		path := filepath.Join(root, "s", name)
		os.Remove(path)
		if err := syscall.Mkfifo(path, 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := Load(t.Context(), filepath.Join(root, "s"), Options{})
		if name != "logs/a/report.json" { // there it is an attempt without a report
			wantError(t, err, name, "not a regular file")
		}
	}
	for _, deep := range []string{strings.Repeat("[", 100_000), strings.Repeat(`{"a":`, 20_000), strings.Repeat("- ", 50_000), strings.Repeat("? ", 50_000)} {
		root := tree(t, map[string]string{"s/metadata.yaml": deep, "s/results/results.json": `{"resolved": []}`})
		_, err := Load(t.Context(), filepath.Join(root, "s"), Options{})
		wantError(t, err, "metadata.yaml", "nested deeper")
	}
}
