package datasets

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares got with a file beside the input.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// Every file of rows gives the instances and the problems of its golden file.
func TestLoadGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/rows/*.json*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no inputs: %v", err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, ".golden") {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			ds, err := Load(context.Background(), filepath.ToSlash(file), LoadOptions{})
			golden(t, file+".golden", describe(ds, err))
		})
	}
}

func describe(ds *Dataset, err error) string {
	var b strings.Builder
	if ds != nil {
		for _, i := range ds.Instances {
			fmt.Fprintf(&b, "%s %s version=%q f2p=%q p2p=%q", i.Source, oneLine(i.ID), i.Version, i.FailToPass, i.PassToPass)
			if i.Recipe != nil {
				fmt.Fprintf(&b, " recipe=%s/%s", i.Recipe.Environment.Language, i.Recipe.Evaluation.Test)
			}
			b.WriteByte('\n')
		}
		if err == nil {
			for _, w := range ds.Warnings {
				fmt.Fprintln(&b, w)
			}
		}
	}
	if err != nil {
		fmt.Fprintln(&b, err)
	}
	return b.String()
}

func row(id string) string {
	return fmt.Sprintf(`{"instance_id":%q,"repo":"own/calc","base_commit":%q,"FAIL_TO_PASS":["a"]}`, id, strings.Repeat("1", 40))
}

func write(t *testing.T, path string, data []byte) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func gzipped(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zstandard(t *testing.T, data []byte) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return z.EncodeAll(data, nil)
}

type textRow struct {
	ID     string  `parquet:"instance_id"`
	Repo   *string `parquet:"repo"`
	Commit string  `parquet:"base_commit"`
	F2P    string  `parquet:"FAIL_TO_PASS"`
	P2P    *string `parquet:"PASS_TO_PASS"`
	Ver    int32   `parquet:"version"`
}

type listRow struct {
	ID     string    `parquet:"instance_id"`
	Repo   string    `parquet:"repo"`
	Commit string    `parquet:"base_commit"`
	F2P    []string  `parquet:"FAIL_TO_PASS,list"`
	P2P    []*string `parquet:"PASS_TO_PASS,list"`
	Run    string    `parquet:"evalrun,optional"`
}

func parquetOf[T any](t *testing.T, rows ...T) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := parquet.Write(&b, rows); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func ptr[T any](v T) *T { return &v }

func TestLoadSameContentInEveryFormat(t *testing.T) {
	one, two := row("own__calc-1"), row("own__calc-2")
	commit := strings.Repeat("1", 40)
	jsonl := []byte(one + "\n" + two + "\n")
	list := []byte("[" + two + ",\n" + one + "]")
	byID := []byte(`{"own__calc-1":` + one + `,"own__calc-2":` + two + "}")
	pq := parquetOf(t,
		listRow{ID: "own__calc-1", Repo: "own/calc", Commit: commit, F2P: []string{"a"}},
		listRow{ID: "own__calc-2", Repo: "own/calc", Commit: commit, F2P: []string{"a"}})
	for name, data := range map[string][]byte{
		"a.jsonl": jsonl, "a.jsonl.gz": gzipped(t, jsonl), "a.jsonl.zst": zstandard(t, jsonl),
		"a.json": list, "a.json.gz": gzipped(t, list), "a.json.zst": zstandard(t, byID), "byid.json": byID,
		"a.parquet": pq, "plain.jsonl.gz": jsonl,
	} {
		t.Run(name, func(t *testing.T) {
			ds, err := Load(context.Background(), write(t, filepath.Join(t.TempDir(), name), data), LoadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			want := NewDataset("", "", []Instance{
				{ID: "own__calc-1", Repo: "own/calc", BaseCommit: commit, FailToPass: []string{"a"}},
				{ID: "own__calc-2", Repo: "own/calc", BaseCommit: commit, FailToPass: []string{"a"}},
			})
			if len(ds.Instances) != 2 || ds.SHA256 != want.SHA256 {
				t.Errorf("got %d instances, hash %s; want 2, %s", len(ds.Instances), ds.SHA256, want.SHA256)
			}
			if inst, ok := ds.Lookup("own__calc-2"); !ok || inst.ID != "own__calc-2" {
				t.Errorf("Lookup = %v, %v", inst, ok)
			}
			if _, ok := ds.Lookup("own__calc-3"); ok {
				t.Error("Lookup finds an instance that is not there")
			}
		})
	}
}

func TestLoadParquetCells(t *testing.T) {
	commit := strings.Repeat("1", 40)
	text := write(t, filepath.Join(t.TempDir(), "a.parquet"), parquetOf(t,
		textRow{"i-1", ptr("own/calc"), commit, `["a", "b"]`, nil, 7},
		textRow{"i-2", nil, commit, `a`, ptr("[]"), 7}))
	ds, err := Load(context.Background(), text, LoadOptions{})
	var problems Problems
	if !errors.As(err, &problems) || len(problems) != 2 {
		t.Fatalf("want two problems of row 2, got %v", err)
	}
	for _, p := range problems {
		if p.Line != 2 || p.InstanceID != "i-2" {
			t.Errorf("problem is at %s %s: %s", p.Position, p.InstanceID, p)
		}
	}
	if diff := cmp.Diff([]string{"a", "b"}, ds.Instances[0].FailToPass); diff != "" || ds.Instances[0].Version != "7" {
		t.Errorf("row 1: version %q, F2P %s", ds.Instances[0].Version, diff)
	}

	list := write(t, filepath.Join(t.TempDir(), "b.parquet"), parquetOf(t,
		listRow{"i-1", "own/calc", commit, []string{"a"}, []*string{ptr("b"), ptr("c")}, `{"environment":{"language":"py"},"evaluation":{"test":"t","log_parser":"p"}}`},
		listRow{"i-2", "own/calc", commit, nil, []*string{ptr("b"), nil}, ""}))
	ds, err = Load(context.Background(), list, LoadOptions{})
	if err == nil || !strings.Contains(err.Error(), "i-2: column PASS_TO_PASS element 1 is null") {
		t.Errorf("a null test name gives %v", err)
	}
	if got := ds.Instances[0]; !cmp.Equal(got.PassToPass, []string{"b", "c"}) || got.Recipe == nil || got.Recipe.Environment.Language != "py" {
		t.Errorf("row 1 is %+v", got)
	}
}

func TestLoadParquetNestedColumn(t *testing.T) {
	type nested struct {
		ID  string            `parquet:"instance_id"`
		F2P map[string]string `parquet:"FAIL_TO_PASS"`
	}
	path := write(t, filepath.Join(t.TempDir(), "a.parquet"), parquetOf(t, nested{"i-1", map[string]string{"a": "b"}}))
	_, err := Load(context.Background(), path, LoadOptions{})
	if err == nil || !strings.Contains(err.Error(), "column FAIL_TO_PASS is a nested Parquet column (write it as JSON text)") {
		t.Errorf("got %v", err)
	}
}

// A damaged Parquet file is an error, never a panic.
func TestLoadParquetDamaged(t *testing.T) {
	whole := parquetOf(t, listRow{ID: "i-1", Repo: "r", Commit: strings.Repeat("1", 40), F2P: []string{"a"}})
	dir := t.TempDir()
	for n := 0; n < len(whole); n += 23 {
		if _, err := Load(context.Background(), write(t, filepath.Join(dir, "a.parquet"), whole[:n]), LoadOptions{}); err == nil {
			t.Errorf("cut at %d of %d bytes: no error", n, len(whole))
		}
	}
	for i := 0; i < len(whole); i += 5 {
		damaged := bytes.Clone(whole)
		damaged[i] ^= 0xff
		ds, err := Load(context.Background(), write(t, filepath.Join(dir, "a.parquet"), damaged), LoadOptions{})
		if err == nil && len(ds.Instances) == 0 {
			t.Errorf("byte %d turned: neither rows nor an error", i)
		}
	}
}

func TestLoadCompressedDamaged(t *testing.T) {
	data := bytes.Repeat([]byte(row("own__calc-1")+"\n"), 500)
	for name, packed := range map[string][]byte{"a.jsonl.gz": gzipped(t, data), "a.jsonl.zst": zstandard(t, data)} {
		for _, left := range []int{6, len(packed) - 5} {
			path := write(t, filepath.Join(t.TempDir(), name), packed[:left])
			_, err := Load(context.Background(), path, LoadOptions{})
			if err == nil || !strings.Contains(err.Error(), "cut off or damaged") {
				t.Errorf("%s, %d bytes: got %.200v", name, left, err)
			}
		}
	}
}

func TestLoadNoRows(t *testing.T) {
	for text, want := range map[string]string{"null": "the JSON value null", "3": "the JSON value 3"} {
		_, err := Load(context.Background(), write(t, filepath.Join(t.TempDir(), "a.json"), []byte(text)), LoadOptions{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", text, err)
		}
	}
}

func TestLoadFolder(t *testing.T) {
	rows := []byte(row("i-1") + "\n")
	pq := func(id string) []byte {
		return parquetOf(t, listRow{ID: id, Repo: "r", Commit: strings.Repeat("1", 40), F2P: []string{"a"}})
	}
	for _, tc := range []struct {
		name  string
		files map[string][]byte
		split string
		ids   []string
		err   string
	}{
		{"whole", map[string][]byte{"test.parquet": pq("i-1"), "dev.parquet": pq("i-2"), "test.jsonl": rows}, "", []string{"i-1"}, ""},
		{"split", map[string][]byte{"test.parquet": pq("i-1"), "dev.parquet": pq("i-2")}, "dev", []string{"i-2"}, ""},
		{"shards", map[string][]byte{"test-00000-of-00002.parquet": pq("i-1"), "test-00001-of-00002.parquet": pq("i-2")}, "", []string{"i-1", "i-2"}, ""},
		{"data", map[string][]byte{"data/test-00000-of-00001.parquet": pq("i-1"), "data/dev-00000-of-00001.parquet": pq("i-2")}, "", []string{"i-1"}, ""},
		{"jsonl", map[string][]byte{"test.jsonl": rows, "test.more.jsonl": rows}, "", []string{"i-1"}, ""},
		{"jsonl.gz", map[string][]byte{"test.jsonl.gz": gzipped(t, rows)}, "", []string{"i-1"}, ""},
		{"shard missing", map[string][]byte{"test-00000-of-00002.parquet": pq("i-1")}, "", nil, "shards are not complete"},
		{"shard twice", map[string][]byte{"test-00000-of-00001.parquet": pq("i-1"), "test-00000-of-00002.parquet": pq("i-2")}, "", nil, "shards are not complete"},
		{"no split", map[string][]byte{"dev.parquet": pq("i-1")}, "", nil, "no file for split test (it holds dev.parquet; use --split"},
		{"several", map[string][]byte{"test.jsonl": rows, "test.json": rows}, "", nil, "several files for split test"},
		{"arrow", map[string][]byte{"dataset_dict.json": nil}, "", nil, "save_to_disk"},
		{"none", map[string][]byte{"x.txt": nil}, "", nil, "it holds no .parquet"},
		{"bad split", map[string][]byte{"test.jsonl": rows}, "../test", nil, "a split is a word"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "da[t]a*") // glob characters are plain ones in a path
			for name, data := range tc.files {
				write(t, filepath.Join(dir, name), data)
			}
			ds, err := Load(context.Background(), dir, LoadOptions{Split: tc.split})
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("got error %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.ids, ds.IDs()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestHubID(t *testing.T) {
	const base = "SWE-bench/SWE-bench"
	for name, want := range map[string]string{
		"full": base, "Lite": base + "_Lite", "VERIFIED": base + "_Verified", "multilingual": base + "_Multilingual", "multimodal": base + "_Multimodal",
		"swe-bench": base, "swebench": base, "swe_bench": base, "SWE-bench": base, "swe-bench-lite": base + "_Lite", "swebench-lite": base + "_Lite",
		"swe_bench_lite": base + "_Lite", "swe-bench_lite": base + "_Lite", "SWE-bench_Verified": base + "_Verified",
		"princeton-nlp/SWE-bench_Lite": "princeton-nlp/SWE-bench_Lite", "me/own.set-1": "me/own.set-1",
		"": "", "lites": "", "a/b/c": "", "/a/b": "", "./b": "", "../b": "", "a/": "", "rows/test.jsonl": "", "rows/test.json.gz": "", "a b/c": "",
	} {
		if got, ok := hubID(name); got != want || ok != (want != "") {
			t.Errorf("hubID(%q) = %q, %v; want %q", name, got, ok, want)
		}
	}
}

type fakeHub struct {
	id, split string
	files     []string
	err       error
}

func (h *fakeHub) Fetch(_ context.Context, id, split string) ([]string, error) {
	h.id, h.split = id, split
	return h.files, h.err
}

func TestLoadHub(t *testing.T) {
	pq := write(t, filepath.Join(t.TempDir(), "shard.parquet"), parquetOf(t, listRow{ID: "i-1", Repo: "r", Commit: strings.Repeat("1", 40), F2P: []string{"a"}}))
	hub := &fakeHub{files: []string{pq}}
	ds, err := Load(context.Background(), "Lite", LoadOptions{Hub: hub, Split: "dev"})
	if err != nil {
		t.Fatal(err)
	}
	if hub.id != "SWE-bench/SWE-bench_Lite" || hub.split != "dev" || ds.Name != hub.id || ds.Split != "dev" || len(ds.Instances) != 1 {
		t.Errorf("asked for %s, %s; got %+v", hub.id, hub.split, ds)
	}
	for want, opts := range map[string]LoadOptions{
		"hub is not asked":      {},
		"no files for split":    {Hub: &fakeHub{}},
		"split test: no answer": {Hub: &fakeHub{err: errors.New("no answer")}},
	} {
		if _, err := Load(context.Background(), "lite", opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := Load(context.Background(), "no such/thing/here", LoadOptions{Hub: hub}); err == nil || !strings.Contains(err.Error(), "no such file or folder") {
		t.Errorf("a missing path gives %v", err)
	}
	if _, err := Load(context.Background(), write(t, filepath.Join(t.TempDir(), "rows.csv"), nil), LoadOptions{}); err == nil || !strings.Contains(err.Error(), "unknown kind of file") {
		t.Errorf("a .csv gives %v", err)
	}
}

func TestLoadCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, name := range []string{"good.jsonl", "list.json"} {
		if _, err := Load(ctx, "testdata/rows/"+name, LoadOptions{}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A record over the limit is named, and those after it are read where lines allow it.
func TestRecordLimit(t *testing.T) {
	big := strings.Replace(row("own__calc-2"), `"own/calc"`, `"`+strings.Repeat("x", 200_000)+`"`, 1)
	for name, tc := range map[string]struct {
		text string
		ids  int
		line int
	}{
		"a.jsonl": {row("own__calc-1") + "\n" + big + "\n" + row("own__calc-3") + "\n", 2, 2},
		"a.json":  {"[\n" + row("own__calc-1") + ",\n" + big + ",\n" + row("own__calc-3") + "]", 1, 2},
	} {
		rows := newRowReader()
		rows.readFile(context.Background(), write(t, filepath.Join(t.TempDir(), name), []byte(tc.text)), 100_000)
		if len(rows.instances) != tc.ids || len(rows.problems) != 1 || rows.problems[0].Line != tc.line || !strings.Contains(rows.problems[0].Reason, "larger than") {
			t.Errorf("%s: %d instances, problems: %v", name, len(rows.instances), rows.problems)
		}
	}
	rows := newRowReader()
	rows.readFile(context.Background(), write(t, filepath.Join(t.TempDir(), "a.jsonl"), []byte(big)), 1<<20)
	if len(rows.instances) != 1 || len(rows.problems) != 0 {
		t.Errorf("a line of 200 kB under the limit: %d instances, %v", len(rows.instances), rows.problems)
	}
}
