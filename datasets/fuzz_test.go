package datasets

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
)

func seeds(f *testing.F, pattern string) [][]byte {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds %s: %v", pattern, err)
	}
	var all [][]byte
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, data)
	}
	return all
}

// opener gives data as a file would, again and again.
func opener(data []byte) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return newText(io.NopCloser(bytes.NewReader(data))) }
}

func checkProblems(t *testing.T, problems Problems, data []byte) {
	lines := strings.Count(string(data), "\n") + 1
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) || bytes.HasPrefix(data, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
		lines = 1 << 30 // compressed: the lines are not in sight
	}
	for _, p := range problems {
		if p.Reason == "" || strings.Contains(p.String(), "\n") || p.Line < 0 || p.Line > lines {
			t.Fatalf("problem of %d lines: %q", lines, p.String())
		}
	}
}

func FuzzRows(f *testing.F) {
	for _, seed := range seeds(f, "testdata/rows/*.jsonl") {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		rows := newRowReader()
		rows.readText(context.Background(), "rows.jsonl", opener(data), 1<<16)
		checkProblems(t, rows.problems, data)
		seen := map[string]bool{}
		for i := range rows.instances {
			inst := &rows.instances[i]
			if inst.ID == "" || seen[inst.ID] || strings.ContainsAny(inst.ID, "/\\\n") {
				t.Fatalf("instance id %q", inst.ID)
			}
			seen[inst.ID] = true
			if first, again := inst.Hash(), inst.Hash(); first != again || inst.Source.Line < 1 {
				t.Fatalf("instance %+v", inst)
			}
		}
	})
}

func FuzzRowsJSON(f *testing.F) {
	for _, seed := range seeds(f, "testdata/rows/*.json") {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		rows := newRowReader()
		rows.readText(context.Background(), "rows.json", opener(data), 1<<16)
		checkProblems(t, rows.problems, data)
	})
}

func FuzzParquet(f *testing.F) {
	for _, codec := range []compress.Codec{&parquet.Uncompressed, &parquet.Snappy, &parquet.Gzip, &parquet.Zstd} {
		for _, version := range []int{1, 2} {
			var b bytes.Buffer
			rows := []listRow{{ID: "own__calc-1", F2P: []string{"a", "b"}, P2P: []*string{nil}}, {ID: "own__calc-2", Run: "{}"}}
			if err := parquet.Write(&b, rows, parquet.Compression(codec), parquet.DataPageVersion(version)); err != nil {
				f.Fatal(err)
			}
			f.Add(b.Bytes())
		}
	}
	wanted := map[string]bool{"instance_id": true, "FAIL_TO_PASS": true, "PASS_TO_PASS": true, "evalrun": true}
	f.Fuzz(func(t *testing.T, data []byte) {
		size := int64(0)
		err := readParquetFrom(context.Background(), bytes.NewReader(data), int64(len(data)), wanted, func(cells map[string]any, number int) bool {
			if text, ok := cells["instance_id"].(string); ok {
				size += int64(len(text))
			}
			return number < 1000
		})
		if size > mayExpandTo(int64(len(data))) || err != nil && err.Error() == "" {
			t.Fatalf("%d bytes give ids of %d, error %v", len(data), size, err)
		}
	})
}

func FuzzPredictions(f *testing.F) {
	for _, seed := range seeds(f, "testdata/predictions/*.json*") {
		f.Add(seed, false, false)
		f.Add(seed, true, true)
	}
	ds := calcDataset()
	f.Fuzz(func(t *testing.T, data []byte, lines, lenient bool) {
		name, opts := "p.json", PredictionOptions{}
		if lines {
			name = "p.jsonl"
		}
		if lenient {
			opts = PredictionOptions{AllowUnknown: true, LastWins: true, AcceptAliases: true, Model: "m"}
		}
		r := newPredictionReader(ds, opts)
		r.readText(name, "", opener(data), 1<<16)
		sets := r.sorted()
		checkProblems(t, r.problems, data)
		for i, s := range sets {
			checkSet(t, s, ds)
			if i > 0 && sets[i-1].Model >= s.Model {
				t.Fatalf("sets are out of order: %q, %q", sets[i-1].Model, s.Model)
			}
		}
	})
}

func checkSet(t *testing.T, s PredictionSet, ds *Dataset) {
	seen := map[string]bool{}
	for _, p := range listed(&s.Predictions) {
		if _, known := ds.Lookup(p.InstanceID); !known || seen[p.InstanceID] || p.Model != s.Model || p.Model == "" {
			t.Fatalf("prediction %+v in the set of %q", p, s.Model)
		}
		if seen[p.InstanceID] = true; p.Patch != nil && !utf8.ValidString(*p.Patch) {
			t.Fatalf("JSON gave the patch %q", *p.Patch)
		}
	}
}

func FuzzSlice(f *testing.F) {
	for _, seed := range []string{"10:20", ":5", "-5:", "::2", ":", "1:2:3", "-1:-9:1", "::0", "a:b", "9223372036854775807:"} {
		f.Add(seed, uint8(10))
	}
	f.Fuzz(func(t *testing.T, text string, n uint8) {
		s, err := parseSlice(text)
		if err != nil {
			return
		}
		list := make([]int, n)
		for i := range list {
			list[i] = i
		}
		last := -1
		for _, i := range s.apply(list) {
			if i <= last || i >= int(n) || (last >= 0 && i-last != s.step) {
				t.Fatalf("slice %q of %d gives %d after %d", text, n, i, last)
			}
			last = i
		}
	})
}

func FuzzTestList(f *testing.F) {
	for _, seed := range []string{"", "null", "[]", `["a", "b"]`, `["a", 1]`, "['a']", "[", `["\ud83d\ude00", "\ud83d"]`, `["\\ud800"]`, "a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		names, err := cellList(text)
		if err != nil && names != nil {
			t.Fatalf("%q: both names and the error %v", text, err)
		}
		for _, n := range names {
			if !utf8.ValidString(n) {
				t.Fatalf("%q gives the name %q", text, n)
			}
		}
	})
}
