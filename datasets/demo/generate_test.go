package demo

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalrun/evalrun/datasets"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "write demo.jsonl, predictions and expected.json from src")

// testPaths tells the files of the hidden tests from those of the gold patch.
var testPaths = []string{"tests", "test", "*_test.go"}

// row is one line of demo.jsonl: the classic columns and "evalrun".
type row struct {
	ID               string           `json:"instance_id"`
	Repo             string           `json:"repo"`
	BaseCommit       string           `json:"base_commit"`
	SetupCommit      string           `json:"environment_setup_commit"`
	Version          string           `json:"version"`
	CreatedAt        string           `json:"created_at"`
	ProblemStatement string           `json:"problem_statement"`
	HintsText        string           `json:"hints_text"`
	Patch            string           `json:"patch"`
	TestPatch        string           `json:"test_patch"`
	FailToPass       []string         `json:"FAIL_TO_PASS"`
	PassToPass       []string         `json:"PASS_TO_PASS"`
	Recipe           *datasets.Recipe `json:"evalrun"`
}

type prediction struct {
	ID    string `json:"instance_id"`
	Model string `json:"model_name_or_path"`
	Patch string `json:"model_patch"`
}

// source is src/instances/ID.txtar: what is not in the repository's history.
type source struct {
	ID         string            `json:"-"`
	Repo       string            `json:"repo"`
	Base       string            `json:"base"` // tag of base_commit
	Fix        string            `json:"fix"`  // commit of the history that fixes it, and adds the tests
	Version    string            `json:"version"`
	CreatedAt  string            `json:"created_at"`
	FailToPass []string          `json:"fail_to_pass"`
	PassToPass []string          `json:"pass_to_pass"`
	Outcomes   map[string]string `json:"outcomes"` // by prediction file
	Recipe     *datasets.Recipe  `json:"recipe"`

	problem string
	diffs   map[string]string // by prediction file
}

func TestShippedFilesAreMadeFromTheirSources(t *testing.T) {
	made := generate(t)
	for name, want := range made {
		if *update {
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, want, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := shipped.ReadFile(name)
		if err != nil {
			t.Errorf("%v: run this test with -update", err)
			continue
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s differs from what src makes (-src +file), run this test with -update:\n%s", name, diff)
		}
	}
	if got, want := len(Predictions()), len(made)-2; got != want && !*update {
		t.Errorf("%d prediction files, src makes %d", got, want)
	}
}

// generate returns the shipped files, by name, as src has them.
func generate(t *testing.T) map[string][]byte {
	t.Helper()
	repos := materialized(t)
	var dataset bytes.Buffer
	predictions := map[string]*bytes.Buffer{}
	expected := map[string]map[string]string{"gold": {}, "empty": {}}

	for _, s := range readSources(t) {
		writeLine(t, &dataset, makeRow(t, repos, s))
		expected["gold"][s.ID] = "resolved"
		expected["empty"][s.ID] = "empty_patch"
		for file, diff := range s.diffs {
			model := Owner + "/" + file
			if predictions[file] == nil {
				predictions[file] = &bytes.Buffer{}
				expected[model] = map[string]string{}
			}
			writeLine(t, predictions[file], prediction{s.ID, model, diff})
			expected[model][s.ID] = s.Outcomes[file]
		}
	}

	outcomes, err := json.MarshalIndent(expected, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"demo.jsonl": dataset.Bytes(), "expected.json": append(outcomes, '\n')}
	for file, lines := range predictions {
		files["predictions/"+file+".jsonl"] = lines.Bytes()
	}
	return files
}

func readSources(t *testing.T) []source {
	t.Helper()
	names, err := filepath.Glob("src/instances/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("no sources in src/instances (%v)", err)
	}
	var sources []source
	for _, name := range names {
		archive, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		s := source{ID: strings.TrimSuffix(filepath.Base(name), ".txtar"), diffs: map[string]string{}}
		for _, section := range archive.Files {
			switch {
			case section.Name == "instance.json":
				decoder := json.NewDecoder(bytes.NewReader(section.Data))
				decoder.DisallowUnknownFields()
				if err := decoder.Decode(&s); err != nil {
					t.Fatalf("%s: instance.json: %v", name, err)
				}
			case section.Name == "problem.md":
				s.problem = string(section.Data)
			case strings.HasSuffix(section.Name, ".diff"):
				s.diffs[strings.TrimSuffix(section.Name, ".diff")] = string(section.Data)
			default:
				t.Fatalf("%s: unknown section %q", name, section.Name)
			}
		}
		sources = append(sources, s)
	}
	return sources
}

func makeRow(t *testing.T, repos string, s source) row {
	t.Helper()
	repo := filepath.Join(repos, s.Repo+".git")
	base := strings.TrimSpace(gitOutput(t, "", "--git-dir="+repo, "rev-parse", s.Base+"^{commit}"))
	fix := fixCommit(t, repo, s)
	diff := func(paths ...string) string {
		args := []string{"--git-dir=" + repo, "diff", "--no-color", "--no-ext-diff", "--no-renames",
			"--full-index", fix + "^", fix, "--"}
		return gitOutput(t, "", append(args, paths...)...)
	}
	var rest []string
	for _, path := range testPaths {
		rest = append(rest, ":(exclude)"+path)
	}
	return row{
		ID: s.ID, Repo: s.Repo, BaseCommit: base, SetupCommit: base,
		Version: s.Version, CreatedAt: s.CreatedAt, ProblemStatement: s.problem,
		Patch: diff(append([]string{"."}, rest...)...), TestPatch: diff(testPaths...),
		FailToPass: s.FailToPass, PassToPass: s.PassToPass, Recipe: s.Recipe,
	}
}

// fixCommit returns the id of the commit the source calls s.Fix.
func fixCommit(t *testing.T, repo string, s source) string {
	t.Helper()
	ids := strings.Fields(gitOutput(t, "", "--git-dir="+repo, "rev-list", "--reverse", "main"))
	all, err := readHistories()
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range all {
		if Owner+"/"+h.name != s.Repo {
			continue
		}
		for i, c := range h.commits {
			if c.key == s.Fix {
				return ids[i]
			}
		}
	}
	t.Fatalf("%s: no commit %q in %s", s.ID, s.Fix, s.Repo)
	return ""
}

func writeLine(t *testing.T, to *bytes.Buffer, value any) {
	t.Helper()
	encoder := json.NewEncoder(to)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		t.Fatal(err)
	}
}

// rows returns the shipped instances.
func rows(t *testing.T) []row {
	t.Helper()
	var all []row
	for line := range bytes.Lines(JSONL()) {
		var r row
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// patches returns the shipped predictions of every model, by model and instance.
func patches(t *testing.T) map[string]map[string]string {
	t.Helper()
	all := map[string]map[string]string{}
	for _, file := range Predictions() {
		for line := range bytes.Lines(file) {
			var p prediction
			if err := json.Unmarshal(line, &p); err != nil {
				t.Fatal(err)
			}
			if all[p.Model] == nil {
				all[p.Model] = map[string]string{}
			}
			all[p.Model][p.ID] = p.Patch
		}
	}
	return all
}

// materialized returns a folder with the repositories.
func materialized(t *testing.T) string {
	t.Helper()
	needGit(t)
	dir := t.TempDir()
	if err := Materialize(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func needGit(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skipf("git is needed: %v", err)
	}
}

// gitOutput runs git in dir with none of the user's configuration.
func gitOutput(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := tryGit(dir, "", args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func tryGit(dir, input string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env, cmd.Stdin = dir, gitEnv(), strings.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return string(out), nil
}
