package runner_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/runner"
)

// TestPatchReadAgain: patches that are not in memory are run as they were given. One
// that is not there any more as it was is told of its attempt alone, and is no result
// of the model's.
func TestPatchReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "preds.jsonl")
	line := func(id, patch string) string {
		return fmt.Sprintf(`{"instance_id":%q,"model_name_or_path":"model","model_patch":%q}`+"\n", id, patch)
	}
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(line("a", goodPatch) + line("b", goodPatch))
	sets, _, err := datasets.LoadPredictions(path, nil, datasets.PredictionOptions{Spool: datasets.NewSpool(t.TempDir())})
	if err != nil {
		t.Fatal(err)
	}
	write(line("a", goodPatch) + line("b", strings.ReplaceAll(goodPatch, "new", "NEW")))
	k := newKit(t)
	var jobs []runner.Job
	for i, id := range []string{"a", "b"} {
		p, err := sets[0].Predictions.At(i)
		if err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, job(id, func(j *runner.Job) { j.Prediction = p }))
	}
	attempts, _, err := k.run(t, nil, jobs...)
	if err != nil {
		t.Fatal(err)
	}
	if a := attempts[0]; a.Outcome != grading.Resolved || a.Patch.SHA256 != (&datasets.Prediction{Patch: new(goodPatch)}).SHA256() {
		t.Errorf("a: %s %s, patch %+v", a.Outcome, a.Reason, a.Patch)
	}
	patch, err := os.ReadFile(k.options.Layout.Instance("run", "model", "a").Patch)
	if err != nil || string(patch) != goodPatch {
		t.Errorf("patch.diff is %q, %v", patch, err)
	}
	if b := attempts[1]; b.Outcome != grading.InfraFailed || !strings.Contains(b.Reason, "preds.jsonl:2: it was changed since it was read") {
		t.Errorf("b: %s %s", b.Outcome, b.Reason)
	}
	if text, err := os.ReadFile(k.options.Layout.Instance("run", "model", "b").Patch); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("patch.diff of a patch that is not there is %q, %v", text, err)
	}
	for _, ran := range k.ran {
		if strings.HasPrefix(ran, "b/") {
			t.Errorf("%s was run", ran)
		}
	}
}
