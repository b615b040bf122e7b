package verify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/grading/logparse"
	"github.com/evalrun/evalrun/reports"
	"github.com/evalrun/evalrun/reports/provenance"
)

// finished writes a run of one resolved attempt as evalrun does, and returns what
// verifies it.
func finished(t *testing.T) Input {
	t.Helper()
	row := datasets.Instance{ID: "o__r-1", Repo: "o/r", BaseCommit: strings.Repeat("0", 40), Version: "1", EvalScript: "echo",
		LogParser: "parse_log_pytest", FailToPass: []string{"t.py::a"}, PassToPass: []string{"t.py::b"}}
	ds := datasets.NewDataset("d", "test", []datasets.Instance{row})
	in := Input{Layout: reports.Layout{Root: t.TempDir()}, Dataset: ds, Predictions: map[string]string{"p": "11"}}
	const patch, printed = "diff --git a/x b/x\n", "PASSED t.py::a\nPASSED t.py::b\n"
	sum := sha256.Sum256([]byte(patch))
	verdict := grading.FromRegion(grading.SWEBench5, printed, 0, row.LogParser, logparse.Context{Repo: row.Repo}, grading.Expectation{FailToPass: row.FailToPass, PassToPass: row.PassToPass})
	if !verdict.Resolved {
		t.Fatalf("the verdict is %+v", verdict)
	}
	a := reports.Attempt{RunID: "r", Model: "m", InstanceID: row.ID, Outcome: grading.Resolved, Verdict: &verdict, Rules: "swebench-5", LogParser: row.LogParser,
		ImageDigest: "sha256:1", Patch: reports.PatchRecord{SHA256: hex.EncodeToString(sum[:])}, Phases: []reports.PhaseRecord{{Name: "test", OutputBytes: int64(len(printed))}}}
	files := in.Layout.Instance("r", "m", row.ID)
	put(t, files.Patch, patch)
	put(t, files.TestOutput, "set-up\n+ : '"+logparse.StartTestOutput+"'\n"+printed+"+ : '"+logparse.EndTestOutput+"'\n"+logparse.TestExitCode+": 0\n")
	if err := reports.WriteAttempt(in.Layout, &a); err != nil {
		t.Fatal(err)
	}
	in.Record = reports.RunRecord{RunID: "r", CreatedAt: time.Unix(0, 0), Models: []string{"m"}, InstanceIDs: []string{row.ID}, Dataset: reports.DatasetRecord{Name: "d", SHA256: ds.SHA256},
		RowHashes: map[string]string{row.ID: row.Hash()}, ImageDigests: map[string]string{row.ID: "sha256:1"}, Predictions: []reports.PredictionRecord{{Path: "p", SHA256: "11"}, {Path: "gold"}}}
	if err := reports.WriteRun(in.Layout, in.Record); err != nil {
		t.Fatal(err)
	}
	in.Attempts, in.Unreadable = reports.LoadAttempts(in.Layout, "r", "m")
	s, err := provenance.New(t.Context(), in.Layout, &in.Record, in.Attempts)
	if err == nil {
		err = s.Write(in.Layout)
	}
	if err != nil {
		t.Fatal(err)
	}
	official := reports.NewOfficialRun(reports.OfficialInput{DatasetIDs: []string{row.ID}, PredictionIDs: []string{row.ID, "not-selected"}, Attempts: in.Attempts, Leftovers: &reports.Leftovers{}})
	if _, err := reports.WriteOfficialRun(in.Layout, "r", "m", official); err != nil {
		t.Fatal(err)
	}
	return in
}

// over is a run that has come to its end, with the list of its files.
func over(t *testing.T) Input {
	t.Helper()
	in := finished(t)
	in.Record.FinishedAt = time.Unix(9, 0)
	files := in.Layout.Instance("r", "m", "o__r-1")
	put(t, files.EvalScript, "#!/bin/bash\necho\n")
	put(t, files.Log, "INFO - outcome: resolved\n")
	err := reports.WriteRun(in.Layout, in.Record)
	var s provenance.Sums
	if err == nil {
		s, err = provenance.Sum(t.Context(), in.Layout, &in.Record)
	}
	if err == nil {
		err = s.Write(in.Layout, "r")
	}
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(path[:strings.LastIndex(path, "/")], 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// found are the checks that are not the same, as "status what".
func found(t *testing.T, in Input) []string {
	t.Helper()
	r, err := Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for _, c := range r.Checks {
		if c.What == provenance.SumsFile && c.Status == Unchecked {
			continue // of a run that goes on
		}
		out = append(out, string(c.Status)+" "+c.What)
		if c.Detail == "" {
			t.Errorf("%s: no detail", c.What)
		}
	}
	return out
}

func TestWhatIsTrueVerifies(t *testing.T) {
	in := finished(t)
	r, err := Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Checks) != 1 || r.Checks[0].What != provenance.SumsFile || r.Counts != (Counts{Same: 9, Unchecked: 1}) || len(r.Digest) != 64 {
		t.Errorf("a run that goes on: %+v", r)
	}
	r, err = Run(context.Background(), over(t))
	if err != nil {
		t.Fatal(err)
	}
	// Eight files in the run's folder and the summary.
	if len(r.Checks) != 0 || r.Counts != (Counts{Same: 9 + 8 + 1}) {
		t.Errorf("a run that is over: %+v", r)
	}
}

// TestEveryEditIsFound edits each file of a run in turn, in every way.
func TestEveryEditIsFound(t *testing.T) {
	edits := map[string]func(path string, old []byte) error{
		"a byte more": func(path string, old []byte) error { return os.WriteFile(path, append(old, '\n'), 0o644) },
		"a byte less": func(path string, old []byte) error { return os.WriteFile(path, old[:len(old)-1], 0o644) },
		"another byte": func(path string, old []byte) error {
			old[len(old)/2] ^= 1
			return os.WriteFile(path, old, 0o644)
		},
		"nothing in it": func(path string, _ []byte) error { return os.WriteFile(path, nil, 0o644) },
		"gone":          func(path string, _ []byte) error { return os.Remove(path) },
		"a link": func(path string, old []byte) error {
			return errors.Join(os.Rename(path, path+".moved"), os.Symlink(path+".moved", path))
		},
		"another beside it": func(path string, old []byte) error { return os.WriteFile(path+".new", old, 0o644) },
	}
	var names []string
	in := over(t)
	for _, name := range []string{"run.json", "statement.json", "SHA256SUMS", "m/o__r-1/attempt.json", "m/o__r-1/report.json", "m/o__r-1/patch.diff",
		"m/o__r-1/test_output.txt", "m/o__r-1/eval.sh", "m/o__r-1/run_instance.log"} {
		names = append(names, filepath.Join("logs/run_evaluation/r", name))
	}
	names = append(names, "m.r.json")
	if have := filesBelow(t, in.Layout.Root); !slices.Equal(slices.Sorted(slices.Values(names)), have) {
		t.Fatalf("the run has files %v", have)
	}
	for _, name := range names {
		for what, edit := range edits {
			if name == "m.r.json" && what == "another beside it" {
				continue // whatever lies beside the summaries is not of the run
			}
			in := over(t)
			path := filepath.Join(in.Layout.Root, name)
			old, err := os.ReadFile(path)
			if err == nil {
				err = edit(path, old)
			}
			if err != nil {
				t.Fatal(err)
			}
			// As the command does.
			record, err := reports.LoadRun(in.Layout, "r")
			if err != nil {
				continue // told at once
			}
			in.Record = record
			in.Attempts, in.Unreadable = reports.LoadAttempts(in.Layout, "r", "m")
			r, err := Run(context.Background(), in)
			if err == nil && r.Counts.Differs == 0 {
				t.Errorf("%s, %s: not found: %+v", name, what, r)
			}
		}
	}
}

func filesBelow(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// TestFoldersOfNobody: models that run.json does not name are listed.
func TestFoldersOfNobody(t *testing.T) {
	in := finished(t)
	put(t, in.Layout.RunDir("r")+"/other/o__r-1/attempt.json", "{}")
	if got := fmt.Sprint(found(t, in)); got != "[unchecked other]" {
		t.Errorf("while it goes on: %s", got)
	}
	in = over(t)
	put(t, in.Layout.RunDir("r")+"/other/o__r-1/attempt.json", "{}")
	if got := fmt.Sprint(found(t, in)); got != "[differs other/o__r-1/attempt.json unchecked other]" {
		t.Errorf("when it is over: %s", got)
	}
}

func TestWhatWasChangedIsFound(t *testing.T) {
	for what, c := range map[string]struct {
		change func(t *testing.T, in *Input, files reports.InstanceFiles)
		want   []string
	}{
		"another dataset": {func(t *testing.T, in *Input, _ reports.InstanceFiles) {
			row := in.Dataset.Instances[0]
			row.FailToPass = []string{"t.py::a", "t.py::c"}
			in.Dataset = datasets.NewDataset("d", "test", []datasets.Instance{row})
		}, []string{"differs dataset", "differs row o__r-1", "differs m o__r-1: verdict"}},
		"a dataset without the row": {func(t *testing.T, in *Input, _ reports.InstanceFiles) {
			in.Dataset = datasets.NewDataset("d", "test", nil)
		},
			[]string{"differs dataset", "differs row o__r-1"}},
		"no dataset":           {func(t *testing.T, in *Input, _ reports.InstanceFiles) { in.Dataset = nil }, []string{"unchecked dataset"}},
		"other predictions":    {func(t *testing.T, in *Input, _ reports.InstanceFiles) { in.Predictions["p"] = "12" }, []string{"differs predictions p"}},
		"predictions are gone": {func(t *testing.T, in *Input, _ reports.InstanceFiles) { delete(in.Predictions, "p") }, []string{"unchecked predictions p"}},
		"another patch":        {func(t *testing.T, in *Input, f reports.InstanceFiles) { put(t, f.Patch, "other") }, []string{"differs m o__r-1: patch.diff"}},
		"no patch":             {func(t *testing.T, in *Input, f reports.InstanceFiles) { os.Remove(f.Patch) }, []string{"differs m o__r-1: patch.diff"}},
		"another report.json": {func(t *testing.T, in *Input, f reports.InstanceFiles) { put(t, f.Report, "{}") },
			[]string{"differs m o__r-1: report.json", "differs statement.json"}},
		"no report.json": {func(t *testing.T, in *Input, f reports.InstanceFiles) { os.Remove(f.Report) }, []string{"differs m o__r-1: report.json", "differs statement.json"}},
		"another log": {func(t *testing.T, in *Input, f reports.InstanceFiles) {
			text, err := os.ReadFile(f.TestOutput)
			if err != nil {
				t.Fatal(err)
			}
			put(t, f.TestOutput, strings.Replace(string(text), "PASSED t.py::a", "FAILED t.py::a", 1))
		}, []string{"differs m o__r-1: verdict", "differs statement.json"}},
		"a log without its end": {func(t *testing.T, in *Input, f reports.InstanceFiles) { put(t, f.TestOutput, "cut") },
			[]string{"differs m o__r-1: verdict", "differs statement.json"}},
		"no log": {func(t *testing.T, in *Input, f reports.InstanceFiles) { os.Remove(f.TestOutput) }, []string{"differs m o__r-1: verdict", "differs statement.json"}},
		"another image": {func(t *testing.T, in *Input, _ reports.InstanceFiles) { in.Attempts[0].ImageDigest = "sha256:2" },
			[]string{"differs m o__r-1: image digest", "differs statement.json"}},
		"another outcome": {func(t *testing.T, in *Input, _ reports.InstanceFiles) { in.Attempts[0].Outcome = grading.Unresolved },
			[]string{"differs m o__r-1: report.json", "differs m o__r-1: verdict", "differs m.r.json: what it says", "differs statement.json"}},
		"another summary": {func(t *testing.T, in *Input, _ reports.InstanceFiles) {
			path := in.Layout.SummaryFile("r", "m")
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			put(t, path, strings.Replace(string(text), `"resolved_instances": 1`, `"resolved_instances": 2`, 1))
		}, []string{"differs m.r.json: what it says"}},
		"a torn summary": {func(t *testing.T, in *Input, _ reports.InstanceFiles) { put(t, in.Layout.SummaryFile("r", "m"), "{") },
			[]string{"differs m.r.json: what it says"}},
		"no summary": {func(t *testing.T, in *Input, _ reports.InstanceFiles) { os.Remove(in.Layout.SummaryFile("r", "m")) },
			[]string{"unchecked m.r.json: what it says"}},
		"it is over, and the statement and the list are gone": {func(t *testing.T, in *Input, _ reports.InstanceFiles) {
			in.Record.FinishedAt = time.Unix(9, 0)
			os.Remove(in.Layout.RunDir("r") + "/statement.json")
		}, []string{"differs SHA256SUMS", "differs statement.json"}},
		"another verdict": {func(t *testing.T, in *Input, _ reports.InstanceFiles) { in.Attempts[0].Verdict.Resolved = false },
			[]string{"differs m o__r-1: report.json", "differs m o__r-1: verdict", "differs m.r.json: what it says"}},
		"a later call": {func(t *testing.T, in *Input, _ reports.InstanceFiles) { in.Record.InstanceIDs = nil },
			[]string{"unchecked m o__r-1: instance", "differs m.r.json: what it says", "differs statement.json"}},
		"an attempt that cannot be read": {func(t *testing.T, in *Input, f reports.InstanceFiles) {
			put(t, f.Attempt, "{")
			in.Attempts, in.Unreadable = reports.LoadAttempts(in.Layout, "r", "m")
		}, []string{"differs ATTEMPT", "differs m.r.json: what it says", "differs statement.json"}},
		"it is not over": {func(_ *testing.T, in *Input, _ reports.InstanceFiles) { in.Record.ImageDigests = nil },
			[]string{"unchecked m o__r-1: image digest"}},
		"it is over, and has no digest": {func(_ *testing.T, in *Input, _ reports.InstanceFiles) {
			in.Record.ImageDigests, in.Record.FinishedAt = nil, time.Unix(9, 0)
		}, []string{"differs m o__r-1: image digest", "differs SHA256SUMS"}},
		"no statement": {func(t *testing.T, in *Input, _ reports.InstanceFiles) {
			os.Remove(in.Layout.RunDir("r") + "/statement.json")
		},
			[]string{"unchecked statement.json"}},
	} {
		t.Run(what, func(t *testing.T) {
			in := finished(t)
			files := in.Layout.Instance("r", "m", "o__r-1")
			c.change(t, &in, files)
			got := found(t, in)
			for i := range got {
				got[i] = strings.ReplaceAll(got[i], files.Attempt, "ATTEMPT")
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhatCannotBeGradedAgain(t *testing.T) {
	in := finished(t)
	in.Attempts[0].Phases[0].Truncated = true
	if got := fmt.Sprint(found(t, in)); got != "[unchecked m o__r-1: verdict]" {
		t.Errorf("got %s", got)
	}
}
