package reports

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evalrun/evalrun/grading"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func sampleAttempt(id string, o grading.Outcome) Attempt {
	return Attempt{
		SchemaVersion: AttemptSchema, InstanceID: id, Model: "org/m", Repo: "a/b", RunID: "r", Key: "00ff", Outcome: o,
		Reason: "because", Verdict: graded([]string{"t <1>"}, nil, []string{}, nil), Rules: "5.0.2", LogParser: "parse_log_flask",
		Image: "x:y", ImageDigest: "sha256:0", Network: "none (verified)",
		Patch:  PatchRecord{SHA256: "ab", Bytes: 3, Files: []string{"a.py"}, Applied: "git apply", Tries: []ApplyTry{{Command: "git apply"}}},
		Phases: []PhaseRecord{{Name: "test", ExitCode: 1, Seconds: 1.5, OutputBytes: 10, TimedOut: true}},
		Usage:  UsageRecord{PeakMemoryBytes: 1, CPUSeconds: 2}, Warnings: []string{"w"}, Env: []string{"TZ=UTC"},
		Limits: LimitsRecord{CPUs: 2, MemoryBytes: 4 << 30, Pids: 100, OutputBytes: 1 << 20, TimeoutSeconds: 1800},
		Start:  time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC), Seconds: 12.5,
	}
}

// stored leaves out what is not stored.
var stored = cmpopts.IgnoreFields(grading.Report{}, "Statuses")

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestAttemptsComeBackAsWritten(t *testing.T) {
	l := Layout{Root: t.TempDir()}.WithNames([]string{"org/m"}, []string{"ID-1", "id-1", "z\n1"})
	var want []Attempt
	for _, id := range []string{"ID-1", "id-1", "z\n1"} {
		a := sampleAttempt(id, grading.Resolved)
		if err := WriteAttempt(l, &a); err != nil {
			t.Fatal(err)
		}
		want = append(want, a)
	}
	got, bad := LoadAttempts(l, "r", "org/m")
	if len(bad) > 0 {
		t.Errorf("could not read %v", bad)
	}
	if diff := cmp.Diff(want, got, stored); diff != "" {
		t.Error(diff)
	}
	// Without the names of the run the folders still tell whose they are.
	if got, bad := LoadAttempts(Layout{Root: l.Root}, "r", "org/m"); len(got) != 3 || len(bad) != 0 {
		t.Errorf("without names: %d attempts, errors %v", len(got), bad)
	}
	if got, bad := LoadAttempts(l, "other", "org/m"); got != nil || bad != nil {
		t.Errorf("a run that is not there: %v, %v", got, bad)
	}
}

func TestReportExistsOnlyWhereGradingWasReached(t *testing.T) {
	l := Layout{Root: t.TempDir()}
	for _, o := range Outcomes() {
		a := sampleAttempt("i", o)
		files := l.Instance("r", "org/m", "i")
		write(t, files.Report, "of an earlier attempt")
		if err := WriteAttempt(l, &a); err != nil {
			t.Fatal(err)
		}
		if exists(files.Report) != GradingReached(&a) {
			t.Errorf("%s: report.json exists: %v", o, exists(files.Report))
		}
		if !exists(files.Attempt) {
			t.Errorf("%s: no attempt.json", o)
		}
	}
	left, err := filepath.Glob(filepath.Join(l.Instance("r", "org/m", "i").Dir, ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files left: %v, %v", left, err)
	}
}

func TestWriteAttemptReadsTheSign(t *testing.T) {
	l := Layout{Root: t.TempDir()}
	for o, want := range map[grading.Outcome]string{grading.Unresolved: "display_unavailable", grading.Resolved: ""} {
		a := sampleAttempt("i", o)
		write(t, l.Instance("r", "org/m", "i").TestOutput, "Error: cannot open display\n")
		if err := WriteAttempt(l, &a); err != nil {
			t.Fatal(err)
		}
		got, bad := LoadAttempts(l, "r", "org/m")
		if len(got) != 1 || len(bad) != 0 || got[0].Sign.Class != want || a.Sign.Class != want {
			t.Errorf("%s: %+v, %v", o, got, bad)
		}
	}
}

func TestBadFilesDoNotHideTheGoodOnes(t *testing.T) {
	l := Layout{Root: t.TempDir()}
	good := sampleAttempt("good", grading.Resolved)
	if err := WriteAttempt(l, &good); err != nil {
		t.Fatal(err)
	}
	encode := func(change func(*Attempt)) string {
		a := sampleAttempt("x", grading.Resolved)
		change(&a)
		data, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	want := map[string]string{} // folder -> part of the message
	for dir, c := range map[string]struct{ text, message string }{
		"torn":    {encode(func(a *Attempt) {})[:100], "torn"},
		"empty":   {"", "torn"},
		"list":    {"[]", "torn"},
		"object":  {"{}", "schema_version 0"},
		"newer":   {encode(func(a *Attempt) { a.SchemaVersion = 99 }), "schema_version 99"},
		"model":   {encode(func(a *Attempt) { a.Model = "other" }), `model "other"`},
		"run":     {encode(func(a *Attempt) { a.RunID = "other" }), `run "other"`},
		"copied":  {encode(func(a *Attempt) { a.InstanceID = "good" }), "does not belong"},
		"nothing": {encode(func(a *Attempt) { a.Outcome = "" }), "no outcome"},
		// A second folder for the instance "good".
		hashed("good"): {encode(func(a *Attempt) { a.InstanceID = "good" }), "another folder"},
	} {
		write(t, filesIn(filepath.Join(l.ModelDir("r", "org/m"), dir)).Attempt, c.text)
		want[dir] = c.message
	}
	model := l.ModelDir("r", "org/m")
	write(t, filepath.Join(model, "stray.txt"), "no folder")
	write(t, filepath.Join(model, "official-only", "report.json"), "{}")
	if err := os.MkdirAll(filepath.Join(model, "folder", "attempt.json"), 0o755); err != nil {
		t.Fatal(err)
	}
	want["folder"] = "not a regular file"

	got, bad := LoadAttempts(l, "r", "org/m")
	if diff := cmp.Diff([]Attempt{good}, got, stored); diff != "" {
		t.Error(diff)
	}
	for _, e := range bad {
		dir := filepath.Base(filepath.Dir(e.Path))
		if want[dir] == "" || !strings.Contains(e.Error(), want[dir]) {
			t.Errorf("%s: %v", dir, e)
		}
		delete(want, dir)
	}
	if len(want) > 0 {
		t.Errorf("not reported: %v", want)
	}
}

func TestWriteSaysWhichInstance(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "logs"), "a file where a folder should be")
	a := sampleAttempt("some__id-1", grading.Resolved)
	if err := WriteAttempt(Layout{Root: root}, &a); err == nil || !strings.Contains(err.Error(), "some__id-1") {
		t.Errorf("error %v", err)
	}
}

func TestRunRecord(t *testing.T) {
	l := Layout{Root: t.TempDir()}
	if _, err := LoadRun(l, "r"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no run: %v", err)
	}
	want := RunRecord{
		RunID: "r", CreatedAt: time.Date(2025, 1, 2, 3, 4, 5, 999, time.FixedZone("x", 3600)),
		Dataset:     DatasetRecord{Name: "verified", Split: "test", SHA256: "aa"},
		Predictions: []PredictionRecord{{Path: "preds.jsonl", SHA256: "bb"}},
		Models:      []string{"org/m"}, Instances: 2, Evalrun: "dev", Rules: "5.0.2",
		Engine: EngineRecord{Name: "docker", Version: "20.10.24", APIVersion: "1.41", StorageDriver: "overlay2", Cgroup: "2"},
		Kernel: "6.1", Platform: "linux/amd64", Limits: LimitsRecord{CPUs: 2}, Network: "none (verified)", Workers: 2,
		InstanceIDs: []string{"a", "b"}, ImageDigests: map[string]string{"a": "sha256:1"}, Deviations: []string{"a: 3.9.25 for 3.9"},
	}
	if err := WriteRun(l, want); err != nil {
		t.Fatal(err)
	}
	got, err := LoadRun(l, "r")
	if err != nil {
		t.Fatal(err)
	}
	want.SchemaVersion, want.CreatedAt = RunSchema, time.Date(2025, 1, 2, 2, 4, 5, 0, time.UTC)
	if diff := cmp.Diff(want, got, stored); diff != "" {
		t.Error(diff)
	}
	for text, message := range map[string]string{`{"run`: "torn", `{}`: "schema_version 0", `{"schema_version": 1, "models": ["a", "a"]}`: "a model twice",
		`{"schema_version": 1, "instance_ids": [null]}`: "empty name in instance_ids", `{"schema_version": 1, "models": ["a", ""]}`: "empty name in models"} {
		write(t, l.RunFile("r"), text)
		if _, err := LoadRun(l, "r"); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("run.json %s: %v", text, err)
		}
	}
}

func FuzzReadAttempt(f *testing.F) {
	data, err := json.Marshal(sampleAttempt("i", grading.Resolved))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"schema_version":1,"instance_id":"i","outcome":"x"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		l := Layout{Root: t.TempDir()}
		write(t, l.Instance("r", "org/m", "i").Attempt, string(data))
		got, bad := LoadAttempts(l, "r", "org/m")
		if len(got)+len(bad) != 1 {
			t.Fatalf("%d attempts and %v for one file", len(got), bad)
		}
		if len(got) == 1 && (got[0].InstanceID != "i" || got[0].Outcome == "") {
			t.Fatalf("took %+v", got[0])
		}
	})
}
