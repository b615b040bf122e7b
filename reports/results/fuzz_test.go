package results

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzFile: whatever a file holds, it is results with distinct ids in order, or an
// error.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{
		`{"resolved_ids": ["a"], "error_ids": ["b"], "failure_reasons": {"b": "build_failed"}}`,
		`{"baseline": 1, "outcomes": {"a": "resolved"}}`,
		`{"summary": {}, "instances": [{"instance_id": "a", "outcome": "resolved"}]} {"summary": {}}`,
		`{"a": {"resolved": true}}`, ``, `{`, `null`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "m.r.json")
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		sets, err := Load(t.Context(), path, Options{})
		if err != nil {
			return
		}
		for _, s := range sets {
			ordered(t, s)
		}
	})
}

// FuzzSubmission does the same for the files of a submission.
func FuzzSubmission(f *testing.F) {
	f.Add([]byte("info:\n  name: x\ntags:\n  model: [a]\n"), []byte(`{"resolved": ["a"], "no_logs": null}`), []byte(`{"instance_id": "a", "model_patch": ""}`), []byte(`{"a": {"resolved": true}}`))
	f.Add([]byte("- ["), []byte(`{"resolved": {}}`), []byte("\n{}"), []byte(`{"b": 1}`))
	f.Fuzz(func(t *testing.T, metadata, result, predictions, report []byte) {
		dir := tree(t, map[string]string{
			"s/metadata.yaml": string(metadata), "s/results/results.json": string(result),
			"s/all_preds.jsonl": string(predictions), "s/logs/a/report.json": string(report),
		})
		sets, err := Load(t.Context(), filepath.Join(dir, "s"), Options{})
		if err != nil {
			return
		}
		sets[0].Complete([]string{"a", "b", "a"})
		ordered(t, sets[0])
		if n := len(sets[0].Items); n != 2 {
			t.Errorf("%d items, want 2", n)
		}
	})
}

func ordered(t *testing.T, s *Set) {
	t.Helper()
	for i := 1; i < len(s.Items); i++ {
		if s.Items[i-1].ID >= s.Items[i].ID {
			t.Errorf("%q before %q", s.Items[i-1].ID, s.Items[i].ID)
		}
	}
}
