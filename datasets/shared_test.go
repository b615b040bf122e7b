package datasets

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/evalrun/evalrun/internal/reference"
)

// sharedData is the folder of published datasets and predictions.
func sharedData(t testing.TB) string {
	t.Helper()
	return reference.Path(t, "data")
}

func loadShared(t testing.TB, name string) *Dataset {
	t.Helper()
	ds, err := Load(context.Background(), filepath.Join(sharedData(t), "datasets", name), LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ds
}

// publishedSets are the files and what is known of them: rows, and the sums of
// the lengths of the two lists where the counts are published.
var publishedSets = []struct {
	file           string
	rows, f2p, p2p int
}{
	{"SWE-bench_Verified.test.parquet", 500, 1516, 60136},
	{"SWE-bench_Verified.test.jsonl", 500, 1516, 60136},
	{"SWE-bench_Lite.test.parquet", 300, 0, 0},
	{"SWE-bench_Lite.dev.parquet", 23, 0, 0},
	{"SWE-bench_Lite.dev.jsonl", 23, 0, 0},
	{"SWE-bench.dev.parquet", 225, 0, 0},
	{"SWE-bench_Multilingual.test.parquet", 300, 426, 10214},
	{"SWE-bench_Multilingual.test.jsonl", 300, 426, 10214},
	{"SWE-bench_Multimodal.dev.parquet", 102, 0, 0},
}

func TestPublishedDatasets(t *testing.T) {
	for _, tc := range publishedSets {
		t.Run(tc.file, func(t *testing.T) {
			ds := loadShared(t, tc.file)
			f2p, p2p := 0, 0
			for i := range ds.Instances {
				inst := &ds.Instances[i]
				f2p, p2p = f2p+len(inst.FailToPass), p2p+len(inst.PassToPass)
				if inst.Patch == "" || inst.TestPatch == "" || inst.Repo == "" || inst.Image == "" || inst.EvalScript == "" || inst.LogParser == "" || inst.Source.Line != i+1 {
					t.Errorf("%s: %s lacks a column", inst.Source, inst.ID)
				}
			}
			if len(ds.Instances) != tc.rows {
				t.Errorf("%d rows, want %d", len(ds.Instances), tc.rows)
			}
			if tc.f2p > 0 && (f2p != tc.f2p || p2p != tc.p2p) {
				t.Errorf("%d F2P and %d P2P, want %d and %d", f2p, p2p, tc.f2p, tc.p2p)
			}
			if len(ds.Warnings) > 0 {
				t.Errorf("unexpected warnings: %v", ds.Warnings)
			}
		})
	}
}

// No file of a dataset goes untested.
func TestPublishedDatasetsAreAllKnown(t *testing.T) {
	known := map[string]bool{multimodalTest: true}
	for _, s := range publishedSets {
		known[s.file] = true
	}
	files, err := os.ReadDir(filepath.Join(sharedData(t), "datasets"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !known[f.Name()] {
			t.Errorf("%s is not in the table", f.Name())
		}
	}
}

const multimodalTest = "SWE-bench_Multimodal.test.jsonl.gz"

// Multimodal test has 480 rows (and 32 deprecated ones). A copy of the file
// whose start is overwritten with NUL bytes must be refused, not read as one row.
func TestPublishedMultimodalTest(t *testing.T) {
	path := filepath.Join(sharedData(t), "datasets", multimodalTest)
	in, err := openText(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	head, err := bufio.NewReader(in).Peek(1)
	if err != nil {
		t.Fatal(err)
	}
	ds, err := Load(context.Background(), path, LoadOptions{})
	if head[0] == 0 {
		if err == nil || !strings.Contains(err.Error(), "NUL bytes: the file is damaged") || len(ds.Instances) != 0 {
			t.Errorf("a damaged file gives %d rows and %v", len(ds.Instances), err)
		}
		t.Skip("the copy of " + multimodalTest + " is damaged (it starts with NUL bytes); its rows cannot be counted")
	}
	if err != nil {
		t.Fatal(err)
	}
	if n := len(ds.Instances); n != 480 && n != 512 {
		t.Errorf("%d rows, want 480, or 512 with the deprecated", n)
	}
}

// The Parquet and the JSONL file of a set hold the same instances.
func TestPublishedFormatsAgree(t *testing.T) {
	for _, set := range []string{"SWE-bench_Verified.test", "SWE-bench_Lite.dev", "SWE-bench_Multilingual.test"} {
		pq, lines := loadShared(t, set+".parquet"), loadShared(t, set+".jsonl")
		if diff := cmp.Diff(pq.Instances, lines.Instances, cmpopts.IgnoreFields(Instance{}, "Source")); diff != "" {
			t.Errorf("%s (-parquet +jsonl):\n%.2000s", set, diff)
		}
		if pq.SHA256 != lines.SHA256 {
			t.Errorf("%s: hashes differ: %s, %s", set, pq.SHA256, lines.SHA256)
		}
	}
}

func TestPublishedPredictions(t *testing.T) {
	loaded := map[string]*Dataset{"": nil}
	verified, lite, dev := "SWE-bench_Verified.test.parquet", "SWE-bench_Lite.test.parquet", "SWE-bench_Lite.dev.jsonl"
	for _, tc := range []struct {
		path, dataset, model string
		predictions          int
		duplicates           int
	}{
		{"autocoderover-lite.json", lite, "gpt-4-0125-preview", 249, 0},
		{"autocoderover-val.json", lite, "gpt-4-0125-preview", 254, 0},
		{"swe-agent-lite.all_preds.json", lite, "gpt4-0125__SWE-bench_Lite__default__t-0.20__p-0.95__c-2.00__install-1", 271, 0},
		{"swe-agent-lite.all_preds.jsonl", lite, "gpt4-0125__SWE-bench_Lite__default__t-0.20__p-0.95__c-2.00__install-1", 271, 0},
		{"moatless-lite.all_preds.jsonl", lite, "20240623_moatless_claude-3.5-sonnet", 291, 0},
		// Named verified, but all of it is of Lite.
		{"moatless-verified.all_preds.jsonl", lite, "20241117_moatless_tools_0_4_claude_3_5_sonnet_20241022", 299, 0},
		{"polydev-verified.all_preds.jsonl", verified, "hybrid-ensemble-haiku", 500, 0},
		{"ra-aid.all_preds.jsonl", lite, "ra-aid-model", 11, 0},
		{"hyperagent.preds.json", lite, "repopilot", 38, 2},
		{"mini-swe-agent.preds.json", dev, "deepseek/deepseek-chat", 23, 0},
		{"mini-swe-agent-2.preds.json", dev, "deepseek/deepseek-chat", 23, 0},
		{"one-json-per-instance", lite, "aider--gpt-4o--openrouter-anthropic-claude-3-opus", 40, 0},
		{"diff-folder", "", "fail", 120, 0},
		{"diff-folder/fail", "", "fail", 120, 0},
	} {
		t.Run(tc.path, func(t *testing.T) {
			path := filepath.Join(sharedData(t), "predictions", tc.path)
			ds, ok := loaded[tc.dataset]
			if !ok {
				ds = loadShared(t, tc.dataset)
				loaded[tc.dataset] = ds
			}
			sets, problems, err := LoadPredictions(path, ds, PredictionOptions{})
			if fatal := problems.Fatal(); len(fatal) != tc.duplicates || (err != nil) != (tc.duplicates > 0) {
				t.Fatal(err)
			}
			if len(sets) != 1 || sets[0].Model != tc.model || sets[0].Predictions.Len() != tc.predictions || sets[0].Unknown.Len() != 0 {
				t.Errorf("%d sets, the first of %q with %d predictions and %d unknown; want 1, %q, %d, 0", len(sets), sets[0].Model, sets[0].Predictions.Len(), sets[0].Unknown.Len(), tc.model, tc.predictions)
			}
			for _, p := range problems {
				if p.Fatal != strings.HasPrefix(p.Reason, "a second prediction of model") || !p.Fatal && !strings.HasPrefix(p.Reason, "the patch is ") {
					t.Errorf("unexpected problem: %s", p)
				}
			}
		})
	}
}

// Predictions with peculiar patches keep every byte, and only what is missing
// or empty is remarked on.
func TestPublishedPeculiarPredictions(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(sharedData(t), "predictions", "peculiar.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for line := range bytes.Lines(data) {
		var row struct {
			Peculiarity string
			Prediction  json.RawMessage
		}
		if err := json.Unmarshal(line, &row); err != nil {
			t.Fatal(err)
		}
		var want struct {
			InstanceID string  `json:"instance_id"`
			Model      string  `json:"model_name_or_path"`
			Patch      *string `json:"model_patch"`
		}
		if err := json.Unmarshal(row.Prediction, &want); err != nil {
			t.Fatal(err)
		}
		path := write(t, filepath.Join(t.TempDir(), "preds.jsonl"), row.Prediction)
		sets, problems, err := LoadPredictions(path, nil, PredictionOptions{Model: "nameless"})
		if err != nil || len(sets) != 1 || sets[0].Predictions.Len() != 1 {
			t.Errorf("%s: %s: %d sets, %v", row.Peculiarity, want.InstanceID, len(sets), err)
			continue
		}
		got := listed(&sets[0].Predictions)[0]
		if got.InstanceID != want.InstanceID || got.Model != or(want.Model, "nameless") || !cmp.Equal(got.Patch, want.Patch) {
			t.Errorf("%s: %s: the prediction is not the one of the file", row.Peculiarity, want.InstanceID)
		}
		bare := row.Peculiarity == "null" || row.Peculiarity == "empty" || row.Peculiarity == "blank"
		if got.Empty() != bare || (len(problems) == 1) != bare || len(problems) > 1 {
			t.Errorf("%s: %s: empty is %v, remarks: %v", row.Peculiarity, want.InstanceID, got.Empty(), problems)
		}
		total++
	}
	if total != 126 {
		t.Errorf("%d predictions, want 126", total)
	}
}

// Asking for the wrong dataset names every unknown id, and quickly.
func TestPublishedPredictionsOfAnotherDataset(t *testing.T) {
	path := filepath.Join(sharedData(t), "predictions", "polydev-verified.all_preds.jsonl")
	lite := loadShared(t, "SWE-bench_Lite.test.parquet")
	sets, problems, err := LoadPredictions(path, lite, PredictionOptions{})
	if err == nil || len(sets) != 1 {
		t.Fatalf("%d sets, %v", len(sets), err)
	}
	unknown := sets[0].Unknown.Len()
	if unknown == 0 || len(problems.Fatal()) != unknown || sets[0].Predictions.Len()+unknown != 500 {
		t.Errorf("%d known, %d unknown, %d fatal problems", sets[0].Predictions.Len(), unknown, len(problems.Fatal()))
	}
}

func BenchmarkLoad(b *testing.B) {
	for _, name := range []string{"SWE-bench_Verified.test.parquet", "SWE-bench_Verified.test.jsonl"} {
		path := filepath.Join(sharedData(b), "datasets", name)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Load(context.Background(), path, LoadOptions{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
