package results

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evalrun/evalrun/cache"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports"
)

// tree writes files below a new folder and returns it.
func tree(t testing.TB, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// ran writes a run of ours: outcomes by instance of each model; "" is not reached.
func ran(t testing.TB, root, run string, ids []string, models map[string]map[string]grading.Outcome, change func(*reports.RunRecord)) reports.Layout {
	t.Helper()
	record := reports.RunRecord{RunID: run, CreatedAt: time.Unix(0, 0), Instances: len(ids), InstanceIDs: ids, Rules: "swebench-5",
		Dataset: reports.DatasetRecord{Name: "d", SHA256: "abc"}}
	for model := range models {
		record.Models = append(record.Models, model)
	}
	if change != nil {
		change(&record)
	}
	layout := reports.Layout{Root: root}
	if err := reports.WriteRun(layout, record); err != nil {
		t.Fatal(err)
	}
	for model, outcomes := range models {
		for id, outcome := range outcomes {
			a := reports.Attempt{RunID: run, Model: model, InstanceID: id, Repo: "o/r", Outcome: outcome, Reason: "because\nof this", Seconds: 2}
			if outcome == grading.Resolved || outcome == grading.Unresolved {
				a.Verdict = &grading.Report{Resolved: outcome == grading.Resolved, Found: true, Tests: &grading.TestsStatus{
					FailToPass: grading.Split{Success: []string{"a"}, Failure: []string{}}, PassToPass: grading.Split{Success: []string{}, Failure: []string{"b"}},
				}}
			}
			if err := os.MkdirAll(layout.Instance(run, model, id).Dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := reports.WriteAttempt(layout, &a); err != nil {
				t.Fatal(err)
			}
		}
	}
	return layout
}

// outcomes are the items of a set as "id outcome", "-" in front of those without
// prediction.
func outcomes(s *Set) []string {
	var out []string
	for i := range s.Items {
		it := &s.Items[i]
		text := it.ID + " " + string(it.Outcome)
		if !it.Submitted {
			text = "-" + text
		}
		out = append(out, text)
	}
	return out
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one with %q", parts)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q lacks %q", err, part)
		}
	}
}

// hold takes the lock of a run, as a process that works on it does.
func hold(t *testing.T, path string) func() {
	t.Helper()
	unlock, err := cache.Lock(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	return unlock
}
