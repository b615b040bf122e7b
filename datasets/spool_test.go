package datasets

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// loadSpooled reads predictions with a spool and gives back their texts.
func loadSpooled(t *testing.T, path string, opts PredictionOptions) ([]PredictionSet, map[string]string) {
	t.Helper()
	opts.Spool = NewSpool(t.TempDir())
	t.Cleanup(func() { opts.Spool.Close() })
	sets, _, err := LoadPredictions(path, calcDataset(), opts)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, s := range sets {
		for p, err := range s.Predictions.All() {
			if err != nil {
				t.Fatal(err)
			}
			text, err := p.Text()
			if err != nil {
				t.Fatal(err)
			}
			if text == nil != p.Null() {
				t.Errorf("%s: text %v, null %v", p.InstanceID, text, p.Null())
			}
			if text != nil {
				texts[p.InstanceID] = *text
				whole := Prediction{Patch: text}
				if p.Size() != len(*text) || p.SHA256() != whole.SHA256() || p.Empty() != whole.Empty() {
					t.Errorf("%s: size %d, digest %s, empty %v of %q", p.InstanceID, p.Size(), p.SHA256(), p.Empty(), *text)
				}
			}
		}
	}
	return sets, texts
}

// Whatever the shape of the input, patches come back from where they are kept byte for
// byte, and only those of empty predictions are in memory.
func TestSpoolShapes(t *testing.T) {
	want := map[string]string{"own__calc-1": "a\r\nb \"c\" \\ \u2028\U0001f600\x7f\n", "own__calc-2": "", "own__calc-3": " \n\n", "own__calc-4": "plain"}
	var records []string
	byID := map[string]json.RawMessage{}
	for _, id := range []string{"own__calc-1", "own__calc-2", "own__calc-3", "own__calc-4", "own__calc-5"} {
		var patch *string
		if text, ok := want[id]; ok {
			patch = &text
		}
		data, err := json.Marshal(map[string]any{"extra": []any{"}", map[string]any{"model_patch": "\\\""}}, "instance_id": id, "model_name_or_path": "alpha", "model_patch": patch, "n": -1.5e3, "z": nil})
		if err != nil {
			t.Fatal(err)
		}
		records, byID[id] = append(records, string(data)), data
	}
	object, err := json.Marshal(byID)
	if err != nil {
		t.Fatal(err)
	}
	lines := " " + strings.Join(records, "\r\n\n \t")
	for name, data := range map[string][]byte{
		"a.jsonl": []byte(lines), "bom.jsonl": []byte("\ufeff" + lines), "a.jsonl.gz": gzipped(t, []byte(lines)), "a.jsonl.zst": zstandard(t, []byte(lines)),
		"a.json": []byte("[" + strings.Join(records, ",") + "]"), "b.json": object, "b.json.gz": gzipped(t, object),
	} {
		sets, got := loadSpooled(t, write(t, filepath.Join(t.TempDir(), name), data), PredictionOptions{})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		for _, p := range listed(&sets[0].Predictions) {
			if p.Patch != nil && *p.Patch != "" {
				t.Errorf("%s: %s is in memory", name, p.InstanceID)
			}
		}
	}
	folder := filepath.Join(t.TempDir(), "m")
	bytes := "\ufeffdiff\r\n\x00\xff\xfe no final newline"
	write(t, filepath.Join(folder, "own__calc-1.diff"), []byte(bytes))
	write(t, filepath.Join(folder, "own__calc-2.diff"), nil)
	if _, got := loadSpooled(t, folder, PredictionOptions{}); got["own__calc-1"] != bytes || got["own__calc-2"] != "" || len(got) != 2 {
		t.Errorf("folder: %q", got)
	}
}

// Of two predictions the later wins, and keys that are meant are taken, also from where
// they are kept.
func TestSpoolOptions(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "a.jsonl"), []byte(`{"id":"own__calc-1","model":"m","patch":"first"}`+"\n"+`{"patch":"second","id":"own__calc-1","model":"m"}`))
	if _, got := loadSpooled(t, path, PredictionOptions{LastWins: true, AcceptAliases: true}); got["own__calc-1"] != "second" {
		t.Errorf("%q", got)
	}
	sets, got := loadSpooled(t, path, PredictionOptions{Attempts: 2, AcceptAliases: true, Selected: func(string) bool { return false }})
	if len(got) != 0 || sets[0].Predictions.Len() != 2 {
		t.Errorf("%d predictions, %q", sets[0].Predictions.Len(), got)
	}
}

// What is read of several inputs with one spool goes into one list, also the rows' own
// patches.
func TestSpoolAppend(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "a.jsonl"), []byte(`{"instance_id":"own__calc-2","model_name_or_path":"gold","model_patch":"another"}`))
	spool := NewSpool(t.TempDir())
	defer spool.Close()
	var all PredictionList
	for i, path := range []string{"gold", path, "gold"} {
		sets, _, err := LoadPredictions(path, calcDataset(), PredictionOptions{Spool: spool})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			all = sets[0].Predictions
		} else {
			all.Append(sets[0].Predictions)
		}
	}
	var got []string
	for p, err := range all.All() {
		if err != nil {
			t.Fatal(err)
		}
		text, err := p.Text()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %s %s %s", p.Source, p.Model, p.InstanceID, *text))
	}
	gold := []string{"rows.jsonl:1 gold own__calc-1 gold 1", "rows.jsonl:2 gold own__calc-2 gold 2", "rows.jsonl:3 gold own__calc-3 gold 3", "rows.jsonl:4 gold own__calc-4 gold 4", "rows.jsonl:5 gold own__calc-5 "}
	if diff := cmp.Diff(slices.Concat(gold, []string{path + ":1 gold own__calc-2 another"}, gold), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A file that is not what it was gives no patch, and says so; one that has only grown
// does.
func TestSpoolFileChanged(t *testing.T) {
	line := `{"instance_id":"own__calc-1","model_name_or_path":"m","model_patch":"diff 1"}` + "\n"
	for what, c := range map[string]struct {
		change func(path string) error
		want   string
	}{
		"grown": {func(path string) error { return os.WriteFile(path, []byte(line+line), 0o644) }, ""},
		"another": {func(path string) error {
			return os.WriteFile(path, []byte(strings.Replace(line, "diff 1", "diff 2", 1)), 0o644)
		}, "changed"},
		"moved":      {func(path string) error { return os.WriteFile(path, []byte("\n"+line), 0o644) }, "changed"},
		"cut off":    {func(path string) error { return os.Truncate(path, 20) }, "changed"},
		"no file":    {os.Remove, "no such file"},
		"now a pipe": {func(path string) error { return replaceByPipe(path) }, "changed"},
		"bytes":      {func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte{0xff}, len(line)), 0o644) }, "changed"},
	} {
		t.Run(what, func(t *testing.T) {
			path := write(t, filepath.Join(t.TempDir(), "a.jsonl"), []byte(line))
			sets, _ := loadSpooled(t, path, PredictionOptions{})
			if err := c.change(path); err != nil {
				t.Skip(err)
			}
			p, err := sets[0].Predictions.At(0)
			if err != nil {
				t.Fatal(err)
			}
			text, err := p.Text()
			switch {
			case c.want == "" && (err != nil || *text != "diff 1"):
				t.Errorf("%v, %v", text, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "a.jsonl:1") || !strings.Contains(err.Error(), "own__calc-1")):
				t.Errorf("error %v, want %q with the file, its line and the instance", err, c.want)
			}
		})
	}
}

// The spool leaves no file behind, not even while it is used; a disk that cannot take
// it is told.
func TestSpoolLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	path := write(t, filepath.Join(t.TempDir(), "a.json"), []byte(`[{"instance_id":"own__calc-1","model_name_or_path":"m","model_patch":"diff 1"}]`))
	s := NewSpool(dir)
	sets, _, err := LoadPredictions(path, calcDataset(), PredictionOptions{Spool: s})
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left are %v (%v)", left, err)
	}
	p, err := sets[0].Predictions.At(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := p.Text(); err == nil {
		t.Error("a patch is read from a spool that is closed")
	}
	if _, err := sets[0].Predictions.At(0); err == nil || !strings.Contains(err.Error(), "prediction 1 of model m") {
		t.Errorf("a prediction is read from a spool that is closed: %v", err)
	}
	_, _, err = LoadPredictions(path, calcDataset(), PredictionOptions{Spool: NewSpool(path)})
	if err == nil || !strings.Contains(err.Error(), "keep the patches on disk") {
		t.Errorf("error %v", err)
	}
}

// Where a file cannot do without a name it has one for a moment, and what a killed process
// has left of that is removed.
func TestSpoolUnnamed(t *testing.T) {
	for what, flags := range map[string]int{"unnamed": os.O_RDWR | unix.O_TMPFILE, "with a name at first": os.O_RDWR} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "other"), nil)
		if what != "unnamed" {
			write(t, filepath.Join(dir, ".predictions-1.tmp"), []byte("left"))
		}
		f, err := unnamed(dir, flags)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		read := make([]byte, 4)
		if _, err := f.WriteAt([]byte("text"), 10); err != nil {
			t.Error(err)
		}
		if _, err := f.ReadAt(read, 10); err != nil || string(read) != "text" {
			t.Errorf("%s: %q, %v", what, read, err)
		}
		if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
			t.Errorf("%s: in the folder are %v, %v", what, names, err)
		}
	}
}

// Warnings of one kind do not keep a large file from being read.
func TestManyWarnings(t *testing.T) {
	const n = maxProblems + 5
	path := write(t, filepath.Join(t.TempDir(), "a.jsonl"), bytes.Repeat([]byte(`{"instance_id":"own__calc-1","model_name_or_path":"m","model_patch":""}`+"\n"), n))
	sets, problems, err := LoadPredictions(path, calcDataset(), PredictionOptions{Attempts: n})
	if err != nil || len(sets) != 1 || sets[0].Predictions.Len() != n {
		t.Fatalf("%d sets, %v", len(sets), err)
	}
	if last := problems[len(problems)-1].String(); len(problems) != maxWarned+1 || !strings.Contains(last, "40005 more warnings") {
		t.Errorf("%d problems, the last is %q", len(problems), last)
	}
}

// FuzzUnquote: what is decoded here is what encoding/json makes of it.
func FuzzUnquote(f *testing.F) {
	for _, seed := range []string{`""`, `"a\n\"\\\/\b\f\r\t"`, `"\u00e9\ud83d\ude00"`, `"\ud83d"`, `"\ud83dx"`, `"\u12"`, "\"\x01\"", "\"\xff\"", `"a"b"`, `"\"`, `"`, `"\x"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, ok := unquote(raw)
		var want string
		err := json.Unmarshal(raw, &want)
		if ok && (err != nil || got != want) {
			t.Fatalf("%q gives %q, want %q, %v", raw, got, want, err)
		}
		if err == nil && !ok && strings.TrimSpace(string(raw)) == string(raw) && !strings.Contains(want, "\ufffd") && !hasLoneSurrogate(raw) {
			t.Fatalf("%q is refused, and means %q", raw, want)
		}
	})
}

// FuzzPlain: what is taken for a plain object, without a look at it by encoding/json, is
// one; and every object of strings is.
func FuzzPlain(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":"b"}`, " {\t\"a\" :\"b\",\r\n\"c\":\"\\u00e9\\ud83d \\\\ \\\"\"} ", `{"a":"b",}`, `{"a":"b"}}`, `{"a":"\x"}`, `{"a":"b" "c":"d"}`, `{"a","b"}`, `{"a":"b":"c"}`, `{"12345678\":"12345678"}`, "{\"a\":\"1234567\x01\"}", `{"a":"`, `{"a":1}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		plain := plainObject(raw)
		if plain && !json.Valid(raw) {
			t.Fatalf("%q is no JSON", raw)
		}
		var texts map[string]json.RawMessage
		if json.Unmarshal(raw, &texts) != nil || len(texts) == 0 || plain {
			return
		}
		for _, value := range validFields(raw) {
			if value[0] != '"' {
				return
			}
		}
		t.Fatalf("%q is not taken for what it is", raw)
	})
}

// FuzzFields: the fields of a valid object are those encoding/json finds.
func FuzzFields(f *testing.F) {
	for _, seed := range []string{`{}`, ` { "a" : 1 , "b" : [ { "c" : "}" } , -1.5e3 ] } `, `{"a\n":{"b":[]},"c":null,"d":true}`, `{"a":"\\","b":"\""}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var want map[string]json.RawMessage
		if err := json.Unmarshal(raw, &want); err != nil || want == nil || firstInvalidUTF8(raw) >= 0 || len(want) > maxKeys {
			return
		}
		got, twice, err := objectFields(raw)
		if err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
		if twice == "" && !cmp.Equal(got, want) {
			t.Fatalf("%q gives %q, want %q", raw, got, want)
		}
	})
}
