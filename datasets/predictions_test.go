package datasets

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func calcDataset() *Dataset {
	var instances []Instance
	for i := 1; i <= 5; i++ {
		instances = append(instances, Instance{ID: fmt.Sprintf("own__calc-%d", i), Patch: fmt.Sprintf("gold %d", i), Source: Position{File: "rows.jsonl", Line: i}})
	}
	instances[4].Patch = ""
	return NewDataset("own", "test", instances)
}

func describeSets(sets []PredictionSet, problems Problems, err error) string {
	var b strings.Builder
	for _, s := range sets {
		fmt.Fprintf(&b, "model %q, seen as %d\n", s.Model, s.Order)
		for _, p := range listed(&s.Predictions) {
			fmt.Fprintf(&b, "  %s %s %s\n", p.Source, p.InstanceID, patchOf(p))
		}
		for _, p := range listed(&s.Unknown) {
			fmt.Fprintf(&b, "  unknown %s %s %s\n", p.Source, p.InstanceID, patchOf(p))
		}
	}
	for _, p := range problems {
		fmt.Fprintln(&b, p)
	}
	if err != nil && len(problems) == 0 {
		fmt.Fprintln(&b, err)
	}
	return b.String()
}

// listed is a list in memory, without predictions that cannot be read.
func listed(l *PredictionList) []Prediction {
	var all []Prediction
	for p, err := range l.All() {
		if err == nil {
			all = append(all, *p)
		}
	}
	return all
}

func patchOf(p Prediction) string {
	if p.Patch == nil {
		return "null"
	}
	return fmt.Sprintf("%q", *p.Patch)
}

// Every kind of predictions gives the sets and the problems of its golden file.
func TestLoadPredictionsGolden(t *testing.T) {
	for _, tc := range []struct {
		name, path string
		opts       PredictionOptions
	}{
		{"gold", "gold", PredictionOptions{}},
		{"empty", "empty", PredictionOptions{}},
		{"good", "good.jsonl", PredictionOptions{}},
		{"list", "list.json", PredictionOptions{}},
		{"byid", "byid.json", PredictionOptions{}},
		{"single", "single.json", PredictionOptions{}},
		{"single-object-first", "single-object-first.json", PredictionOptions{}},
		{"no-patches", "empty.jsonl", PredictionOptions{}},
		{"faults", "faults.jsonl", PredictionOptions{}},
		{"faults-lenient", "faults.jsonl", PredictionOptions{AllowUnknown: true, LastWins: true, AcceptAliases: true, Model: "given"}},
		{"aliases", "aliases.jsonl", PredictionOptions{}},
		{"aliases-accepted", "aliases.jsonl", PredictionOptions{AcceptAliases: true}},
		{"folders", "folders.jsonl", PredictionOptions{}},
		{"flat", "flat", PredictionOptions{}},
		{"flat-named", "flat", PredictionOptions{Model: "team/alpha"}},
		{"nested", "nested", PredictionOptions{}},
		{"nested-one", "nested/alpha", PredictionOptions{}},
		{"nested-merged", "nested", PredictionOptions{Model: "alpha"}},
		{"grouped", "grouped", PredictionOptions{}},
		{"records", "records", PredictionOptions{}},
		{"records-named", "records", PredictionOptions{Model: "given"}},
		{"collection", "collection", PredictionOptions{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := tc.path
			if path != "gold" && path != "empty" {
				path = "testdata/predictions/" + path
			}
			sets, problems, err := LoadPredictions(path, calcDataset(), tc.opts)
			if (err != nil) != (problems.Err() != nil) {
				t.Errorf("error %v does not agree with the problems", err)
			}
			golden(t, "testdata/predictions/"+tc.name+".golden", describeSets(sets, problems, err))
		})
	}
}

func TestLoadPredictionsRefuses(t *testing.T) {
	dir := t.TempDir()
	csv := write(t, filepath.Join(dir, "preds.csv"), nil)
	none := write(t, filepath.Join(dir, "preds.jsonl"), nil)
	for want, path := range map[string]string{
		"no path given":            "",
		"no such file or folder":   filepath.Join(dir, "absent"),
		"unknown kind of file":     csv,
		"there are no predictions": none,
	} {
		if _, _, err := LoadPredictions(path, calcDataset(), PredictionOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gives %v, want %q", path, err, want)
		}
	}
	if _, _, err := LoadPredictions("gold", nil, PredictionOptions{}); err == nil {
		t.Error("gold without a dataset is no error")
	}
}

// Without a dataset no id is unknown.
func TestLoadPredictionsWithoutDataset(t *testing.T) {
	sets, problems, err := LoadPredictions("testdata/predictions/good.jsonl", nil, PredictionOptions{})
	if err != nil || len(sets) != 2 || len(problems.Fatal()) != 0 {
		t.Errorf("got %d sets, %v, %v", len(sets), problems, err)
	}
}

// The same predictions in every shape give the same set.
func TestLoadPredictionsShapes(t *testing.T) {
	one := `{"instance_id":"own__calc-1","model_name_or_path":"alpha","model_patch":"a\r\nb"}`
	two := `{"instance_id":"own__calc-2","model_name_or_path":"alpha","model_patch":""}`
	jsonl, list, byID := one+"\n\n"+two, "["+one+","+two+"]", `{"own__calc-1":`+one+`,"own__calc-2":`+two+"}"
	for name, data := range map[string][]byte{
		"a.jsonl": []byte(jsonl), "a.jsonl.gz": gzipped(t, []byte(jsonl)), "a.jsonl.zst": zstandard(t, []byte(jsonl)),
		"a.json": []byte(list), "a.json.gz": gzipped(t, []byte(list)), "b.json": []byte(byID), "b.json.zst": zstandard(t, []byte(byID)),
		"bom.json": []byte("\ufeff" + list),
	} {
		sets, _, err := LoadPredictions(write(t, filepath.Join(t.TempDir(), name), data), calcDataset(), PredictionOptions{})
		if err != nil || len(sets) != 1 || sets[0].Predictions.Len() != 2 {
			t.Errorf("%s: %+v, %v", name, sets, err)
			continue
		}
		got := listed(&sets[0].Predictions)
		if got[0].InstanceID != "own__calc-1" || *got[0].Patch != "a\r\nb" || got[1].InstanceID != "own__calc-2" || !got[1].Empty() {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A patch file is kept byte for byte, whatever its bytes.
func TestLoadPredictionsPatchBytes(t *testing.T) {
	want := "\ufeffdiff\r\n\x00\xff\xfe no final newline"
	dir := t.TempDir()
	write(t, filepath.Join(dir, "m", "own__calc-1.diff"), []byte(want))
	sets, problems, err := LoadPredictions(filepath.Join(dir, "m"), calcDataset(), PredictionOptions{})
	if err != nil || len(problems) != 0 || len(sets) != 1 {
		t.Fatalf("%v, %v", problems, err)
	}
	if sets[0].Model != "m" || *listed(&sets[0].Predictions)[0].Patch != want {
		t.Errorf("got %+v", sets[0])
	}
}

// A folder given as "." has its real name, and links and hidden files do no harm.
func TestLoadPredictionsFolderName(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "my model")
	write(t, filepath.Join(dir, "own__calc-1.diff"), []byte("x"))
	write(t, filepath.Join(dir, ".own__calc-2.diff"), []byte("x"))
	if err := os.Symlink(dir, filepath.Join(dir, "loop")); err != nil {
		t.Skip("no symbolic links:", err)
	}
	t.Chdir(dir)
	sets, problems, err := LoadPredictions(".", calcDataset(), PredictionOptions{})
	if err != nil || len(sets) != 1 || sets[0].Model != "my model" || sets[0].Predictions.Len() != 1 {
		t.Errorf("got %+v, %v", sets, err)
	}
	if len(problems) != 1 || !strings.Contains(problems[0].Reason, "1 files are not taken for predictions: loop") {
		t.Errorf("problems: %v", problems)
	}
}

func TestNearestIDs(t *testing.T) {
	near := newSuggester([]string{"django__django-11099", "django__django-11098", "sympy__sympy-1", "psf__requests-1142"})
	for word, want := range map[string][]string{
		"Django__Django-11099":     {"django__django-11099"},
		"django-11099":             {"django__django-11099"},
		"django__django_11099":     {"django__django-11099", "django__django-11098"},
		"psf__requests-1142.patch": {"psf__requests-1142"},
		"flask__flask-1":           nil,
		"":                         nil,
	} {
		if diff := cmp.Diff(want, near.near(word)); diff != "" {
			t.Errorf("near %q (-want +got):\n%s", word, diff)
		}
	}
}

func TestEditDistance(t *testing.T) {
	for _, tc := range []struct {
		a, b        string
		limit, want int
	}{{"", "", 2, 0}, {"abc", "abc", 2, 0}, {"abc", "abd", 2, 1}, {"abc", "ab", 2, 1}, {"abc", "xabc", 2, 1}, {"kitten", "sitting", 5, 3}, {"abcdef", "zzzzzz", 2, 3}, {"a", "abcdef", 2, 3}} {
		if got := editDistance(tc.a, tc.b, tc.limit); got != tc.want {
			t.Errorf("editDistance(%q, %q, %d) = %d, want %d", tc.a, tc.b, tc.limit, got, tc.want)
		}
	}
}
