package submission

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports/results"
)

const (
	goodLog = "+ : '>>>>> Start Test Output'\nPASSED t.py::a\n=== 1 passed in 0.01s ===\n+ : '>>>>> End Test Output'\n>>>>> Test Exit Code: 0\n"
	badLog  = "+ : '>>>>> Start Test Output'\nFAILED t.py::a - no\n+ : '>>>>> End Test Output'\n>>>>> Test Exit Code: 1\n"
)

func dataset() *datasets.Dataset {
	var rows []datasets.Instance
	for n := range 3 {
		rows = append(rows, datasets.Instance{ID: fmt.Sprintf("o__r-%d", n+1), Repo: "o/r", FailToPass: []string{"t.py::a"}, LogParser: "parse_log_pytest"})
	}
	return datasets.NewDataset("mini", "test", rows)
}

// run is a run of the official harness: o__r-1 is resolved, o__r-2 not, o__r-3 has
// an empty patch.
func run(t testing.TB) *results.Set {
	t.Helper()
	dir := t.TempDir()
	s := &results.Set{Name: "m", Model: "m/one", Kind: results.KindLogs, Source: dir}
	for n, a := range []struct {
		outcome    grading.Outcome
		patch, log string
	}{{grading.Resolved, "diff 1\r\n", goodLog}, {grading.Unresolved, "diff 2", badLog}, {grading.EmptyPatch, "", ""}} {
		id := fmt.Sprintf("o__r-%d", n+1)
		for name, text := range map[string]string{"patch.diff": a.patch, "test_output.txt": a.log, "report.json": ""} {
			if name == "report.json" && a.log != "" {
				text = fmt.Sprintf(`{%q: {"resolved": %v}}`, id, a.outcome == grading.Resolved)
			}
			if text != "" {
				put(t, filepath.Join(dir, id, name), text)
			}
		}
		s.Items = append(s.Items, results.Item{ID: id, Outcome: a.outcome, Submitted: true, Dir: filepath.Join(dir, id)})
	}
	return s
}

func put(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// bundle makes the submission of run, with trajectories.
func bundle(t testing.TB) string {
	t.Helper()
	trajs := t.TempDir()
	put(t, filepath.Join(trajs, "o__r-1.traj"), "{}")
	put(t, filepath.Join(trajs, "o__r-2.json.gz"), "")
	dir := filepath.Join(t.TempDir(), "20260102_one")
	made, err := Write(t.Context(), dir, Bundle{Set: run(t), Trajs: trajs, Meta: Meta{Name: "One", Org: "Acme", Models: []string{"large"}},
		Facts: map[string]results.Facts{"o__r-1": {Created: "2020-01-02"}}})
	if err != nil {
		t.Fatal(err)
	}
	if want := (Made{Instances: 3, Predictions: 3, Logs: 2, Resolved: 1, Trajs: 2}); made != want {
		t.Fatalf("made %+v, want %+v", made, want)
	}
	return dir
}

func look(t testing.TB, dir string) []string {
	t.Helper()
	r, err := Look(context.Background(), dir, dataset(), grading.SWEBench5)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range r.Findings {
		level := "error"
		if f.Warning {
			level = "warning"
		}
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s: %s", level, f.Check, f.InstanceID, f.Detail)))
	}
	return out
}

// TestBundle: what is made is fit to be sent, patches are as they were given.
func TestBundle(t *testing.T) {
	dir := bundle(t)
	if got := look(t, dir); len(got) > 0 {
		t.Errorf("its own check finds %q", got)
	}
	sets, err := results.Load(t.Context(), dir, results.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := sets[0].Info; got.Title != "One" || got.Org != "Acme" || got.Attempts != "1" || got.Date != "2026-01-02" || !slices.Equal(got.Models, []string{"large"}) {
		t.Errorf("metadata is read back as %+v", got)
	}
	predictions, _, err := datasets.LoadPredictions(filepath.Join(dir, "all_preds.jsonl"), dataset(), datasets.PredictionOptions{})
	if err != nil || len(predictions) != 1 || predictions[0].Model != "m/one" {
		t.Fatalf("predictions %+v, %v", predictions, err)
	}
	if p, err := predictions[0].Predictions.At(0); err != nil || *p.Patch != "diff 1\r\n" {
		t.Errorf("predictions %+v, %v", predictions, err)
	}
	if _, err := Write(t.Context(), dir, Bundle{Set: run(t)}); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("a second time: %v", err)
	}
}

// TestBundleRefuses: a run whose files are gone, or lead elsewhere, is no
// submission.
func TestBundleRefuses(t *testing.T) {
	gone := run(t)
	if err := os.Remove(filepath.Join(gone.Items[0].Dir, "patch.diff")); err != nil {
		t.Fatal(err)
	}
	linked := run(t)
	log := filepath.Join(linked.Items[1].Dir, "test_output.txt")
	if err := os.Remove(log); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/hostname", log); err != nil {
		t.Fatal(err)
	}
	for want, s := range map[string]*results.Set{"instance o__r-1: its attempt has no patch.diff": gone, "is not a regular file": linked} {
		refused(t, t.Context(), s, want)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	refused(t, ended, run(t), "canceled")
}

// refused: what cannot be made whole leaves nothing.
func refused(t *testing.T, ctx context.Context, s *results.Set, want string) {
	t.Helper()
	dir := t.TempDir()
	if _, err := Write(ctx, filepath.Join(dir, "new"), Bundle{Set: s}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%s: left are %v (%v)", want, left, err)
	}
}

// TestLook spoils a good submission in one way after the other.
func TestLook(t *testing.T) {
	for what, c := range map[string]struct {
		file, text string // "" removes the file
		want       string
	}{
		"no metadata":             {"metadata.yaml", "", "error metadata : metadata.yaml is missing"},
		"torn metadata":           {"metadata.yaml", "info: [", "error metadata"},
		"several attempts":        {"metadata.yaml", "info: {name: x}\ntags: {org: y, model: [z], system: {attempts: 2+}}", "error attempts : metadata.yaml says that the system made 2+ attempts"},
		"no number of attempts":   {"metadata.yaml", "info: {name: x}\ntags: {org: y, model: [z]}", "error attempts : metadata.yaml does not say"},
		"no predictions":          {"all_preds.jsonl", "", "error predictions : all_preds.jsonl is missing"},
		"two for one instance":    {"all_preds.jsonl", pred("o__r-1", "m", "diff 1\r\n") + pred("o__r-1", "m", "other"), "error predictions o__r-1"},
		"two models":              {"all_preds.jsonl", pred("o__r-1", "m", "diff 1\r\n") + pred("o__r-1", "n", "other"), "error attempts o__r-1: has a prediction of model m and one of model n"},
		"another split":           {"all_preds.jsonl", pred("o__r-1", "m", "diff 1\r\n") + pred("x__y-1", "m", "d"), "error split : 1 predictions are of instances that mini (test) does not have: x__y-1"},
		"other logs":              {"logs/x__y-1/report.json", "{}", "error split : 1 folders in logs are of instances"},
		"no results":              {"results/results.json", "", "error results : results/results.json cannot be read"},
		"torn results":            {"results/results.json", "{", "error results : results/results.json: unexpected end"},
		"twice":                   {"results/results.json", `{"resolved": ["o__r-1", "o__r-1"]}`, "error results o__r-1: is twice in resolved"},
		"resolved without patch":  {"results/results.json", `{"resolved": ["o__r-1", "o__r-3"]}`, "error results o__r-3: is said to be resolved and has an empty patch"},
		"claimed, log says no":    {"results/results.json", `{"resolved": ["o__r-1", "o__r-2"]}`, "error verdict o__r-2: is said to be resolved, and its log says unresolved"},
		"not claimed":             {"results/results.json", `{"resolved": []}`, "error verdict o__r-1: its log says resolved, and results.json does not"},
		"another log":             {"logs/o__r-1/test_output.txt", badLog, "error verdict o__r-1: report.json says resolved true, the log says unresolved"},
		"another patch":           {"logs/o__r-1/patch.diff", "else", "error verdict o__r-1: patch.diff is not the prediction's patch"},
		"no log of a claim":       {"logs/o__r-1/test_output.txt", "", "error logs o__r-1: is said to be resolved, and logs/o__r-1 lacks test_output.txt"},
		"no log":                  {"logs/o__r-2/test_output.txt", "", "error logs o__r-2: logs/o__r-2 lacks test_output.txt, and results.json does not list it"},
		"no trajectory":           {"trajs/o__r-2.json.gz", "", "warning trajs o__r-2: 1 predictions have no trajectory"},
		"a record that is praise": {"logs/o__r-2/attempt.json", `{"schema_version":1,"instance_id":"o__r-2","outcome":"resolved"}`, ""},
	} {
		t.Run(what, func(t *testing.T) {
			dir := bundle(t)
			path := filepath.Join(dir, filepath.FromSlash(c.file))
			if c.text != "" {
				put(t, path, c.text)
			} else if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			got := look(t, dir)
			if c.want == "" {
				if len(got) > 0 {
					t.Errorf("found %q, want nothing: what is said of oneself does not count", got)
				}
				return
			}
			if !slices.ContainsFunc(got, func(f string) bool { return strings.HasPrefix(f, c.want) }) {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
	dir := bundle(t)
	if err := os.RemoveAll(filepath.Join(dir, "logs")); err != nil {
		t.Fatal(err)
	}
	if got := look(t, dir); len(got) != 1 || got[0] != "error logs : the folder logs is missing: nothing shows that the 1 claims are so" {
		t.Errorf("without logs: %q, want it said once", got)
	}
	if _, err := Look(context.Background(), filepath.Join(t.TempDir(), "none"), dataset(), grading.SWEBench5); err == nil {
		t.Error("a folder that is not there is no submission")
	}
}

func pred(id, model, patch string) string {
	return fmt.Sprintf("{\"instance_id\": %q, \"model_name_or_path\": %q, \"model_patch\": %q}\n", id, model, patch)
}

// FuzzLook: whatever the files hold, there are findings or there is nothing wrong,
// and what is resolved never exceeds what was graded.
func FuzzLook(f *testing.F) {
	f.Add([]byte("tags: {system: {attempts: 1}}"), []byte(pred("o__r-1", "m", "d")), []byte(`{"resolved": ["o__r-1"]}`), []byte(goodLog))
	f.Add([]byte("- ["), []byte("{"), []byte(`{"resolved": {}}`), []byte(badLog))
	f.Fuzz(func(t *testing.T, metadata, predictions, claims, log []byte) {
		dir := t.TempDir()
		for name, data := range map[string][]byte{"metadata.yaml": metadata, "all_preds.jsonl": predictions, "results/results.json": claims, "logs/o__r-1/test_output.txt": log} {
			put(t, filepath.Join(dir, name), string(data))
		}
		r, err := Look(context.Background(), dir, dataset(), grading.SWEBench5)
		if err != nil {
			t.Fatal(err)
		}
		if r.Resolved > r.Graded || r.Graded > 1 || r.Errors() > len(r.Findings) {
			t.Errorf("%+v", r)
		}
		for _, f := range r.Findings {
			if f.Check == "" || f.Detail == "" {
				t.Errorf("a finding that says nothing: %+v", f)
			}
		}
	})
}
