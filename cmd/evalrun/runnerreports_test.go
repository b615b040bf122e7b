package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/evalrun/evalrun/cache"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports"
)

// toolRow is a small repository, its fix, its hidden tests, and a patch that forges
// the log, as testdata/reports has them.
type toolRow struct {
	name   string
	Recipe json.RawMessage `json:"recipe"`
	F2P    []string        `json:"fail_to_pass"`
	P2P    []string        `json:"pass_to_pass"`
	// Report is the kind of report that the runner writes; Warning says why none is
	// asked for.
	Report  string                  `json:"report"`
	Warning string                  `json:"warning"`
	files   map[string][]txtar.File // by folder
}

// TestRunnerReports grades with real tool chains what has a second opinion: the fix is
// confirmed by the runner's own report, and what forges the log is contradicted by it.
// EVALRUN_TOOLCHAINS is an expression for the names of those to be graded.
func TestRunnerReports(t *testing.T) {
	wanted := os.Getenv("EVALRUN_TOOLCHAINS")
	if wanted == "" {
		t.Skip("images with Java and Rust are large and take minutes to build: EVALRUN_TOOLCHAINS=. grades with them")
	}
	needDocker(t)
	dir := t.TempDir()
	predictions := map[string]*bytes.Buffer{"fix": {}, "forged": {}}
	rows := map[string]toolRow{}
	var dataset bytes.Buffer
	for _, row := range toolRows(t, wanted) {
		rows["tools__"+row.name] = row
		base, patches := row.materialize(t, filepath.Join(dir, "repositories"))
		line(t, &dataset, map[string]any{
			"instance_id": "tools__" + row.name, "repo": "tools/" + row.name, "base_commit": base, "version": "1", "problem_statement": "add subtracts",
			"patch": patches["gold"], "test_patch": patches["tests"], "FAIL_TO_PASS": row.F2P, "PASS_TO_PASS": row.P2P, "evalrun": row.Recipe,
		})
		for model, folder := range map[string]string{"fix": "gold", "forged": "forged"} {
			if patches[folder] != "" {
				line(t, predictions[model], map[string]string{"instance_id": "tools__" + row.name, "model_name_or_path": model, "model_patch": patches[folder]})
			}
		}
	}
	args := []string{"run", "-d", filepath.Join(dir, "rows.jsonl"), "--run-id", "tools", "--verify", "all", "--images", "build", "--no-cache",
		"--repo-mirror", filepath.Join(dir, "repositories"), "--lock-file", filepath.Join(dir, "images.lock"), "--out", dir}
	write(t, filepath.Join(dir, "rows.jsonl"), dataset.Bytes())
	for model, text := range predictions {
		write(t, filepath.Join(dir, model+".jsonl"), text.Bytes())
		args = append(args, "-p", filepath.Join(dir, model+".jsonl"))
	}
	var out, errs strings.Builder
	if code := realMain(args, &out, &errs); code != exitFine {
		t.Fatalf("exit code %d\n%s\n%s", code, out.String(), errs.String())
	}
	for model := range predictions {
		attempts, problems := reports.LoadAttempts(reports.Layout{Root: dir}, "tools", model)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		for _, a := range attempts {
			if row, ok := rows[a.InstanceID]; ok && a.Outcome != grading.NotRun {
				t.Run(row.name+"/"+model, func(t *testing.T) {
					defer logs(t, filepath.Join(dir, "logs/run_evaluation/tools", model, a.InstanceID))
					row.check(t, model, a)
				})
			}
		}
	}
}

// logs shows what the tests of a failed attempt printed.
func logs(t *testing.T, dir string) {
	if !t.Failed() {
		return
	}
	for _, name := range []string{"test_output.txt", "second_opinion_output.txt"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
			t.Logf("%s:\n%s", name, text[max(0, len(text)-4096):])
		}
	}
}

func (row *toolRow) check(t *testing.T, model string, a reports.Attempt) {
	opinion := a.Trust.SecondOpinion
	if opinion == nil {
		t.Fatalf("no second opinion: %s %s, flagged %q", a.Outcome, a.Reason, a.Trust.Flagged)
	}
	if opinion.Report != row.Report {
		t.Errorf("the report read is %q, want %q; flagged %q", opinion.Report, row.Report, a.Trust.Flagged)
	}
	if model == "forged" {
		if a.Outcome != grading.Inconsistent || !strings.Contains(a.Reason, "in the runner's report") {
			t.Errorf("forged: %s %s", a.Outcome, a.Reason)
		}
		return
	}
	if a.Outcome != grading.Resolved || !opinion.Resolved || len(a.Trust.Flagged)+len(a.Trust.Doubts) > 0 {
		t.Errorf("the fix: %s %s, second %+v, flagged %q, doubts %v", a.Outcome, a.Reason, opinion, a.Trust.Flagged, a.Trust.Doubts)
	}
	if warnings := fmt.Sprint(a.Warnings); !strings.Contains(warnings, row.Warning) {
		t.Errorf("warnings %s, want %q", warnings, row.Warning)
	}
}

func toolRows(t *testing.T, wanted string) []toolRow {
	t.Helper()
	names, err := filepath.Glob("testdata/reports/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	var rows []toolRow
	for _, name := range names {
		row := toolRow{name: strings.TrimSuffix(filepath.Base(name), ".txtar"), files: map[string][]txtar.File{}}
		if wanted != "." && !strings.Contains(" "+wanted+" ", " "+row.name+" ") {
			continue
		}
		archive, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.Files {
			folder, file, ok := strings.Cut(f.Name, "/")
			if ok {
				row.files[folder] = append(row.files[folder], txtar.File{Name: file, Data: f.Data})
				continue
			}
			if err := json.Unmarshal(f.Data, &row); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// materialize makes the bare repository, and the patch of each other folder.
func (row *toolRow) materialize(t *testing.T, repositories string) (base string, patches map[string]string) {
	t.Helper()
	dir := t.TempDir()
	git := func(args ...string) string {
		cmd := exec.Command("git", append([]string{"-c", "user.name=Demo", "-c", "user.email=demo@example.com", "-C", dir}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_DATE=2024-01-01T00:00:00Z", "GIT_COMMITTER_DATE=2024-01-01T00:00:00Z")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %v: %v", args, err)
		}
		return string(out)
	}
	put := func(folder string) {
		for _, f := range row.files[folder] {
			write(t, filepath.Join(dir, f.Name), f.Data)
		}
		git("add", "-A")
	}
	git("init", "-q", "-b", "main")
	put("base")
	git("commit", "-q", "-m", "base")
	base, patches = strings.TrimSpace(git("rev-parse", "HEAD")), map[string]string{}
	for folder := range row.files {
		if folder != "base" {
			put(folder)
			patches[folder] = git("diff", "--cached")
			git("reset", "-q", "--hard")
		}
	}
	git("clone", "-q", "--bare", dir, filepath.Join(repositories, "tools", row.name+".git"))
	return base, patches
}

func line(t *testing.T, to *bytes.Buffer, v any) {
	t.Helper()
	if err := json.NewEncoder(to).Encode(v); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, file string, text []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := cache.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
}
