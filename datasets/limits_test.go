package datasets

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	pqformat "github.com/parquet-go/parquet-go/format"
)

// Files that are small and claim to hold, or do hold, more than memory has.
func TestFilesMadeToUseUpMemory(t *testing.T) {
	row := row("own__calc-1")
	blanks := bytes.Repeat([]byte(" "), freeExpansion+1)
	list := append([]byte("["), bytes.Repeat([]byte("{},"), maxProblems)...)
	keys := new(strings.Builder)
	for i := range maxKeys + 1 {
		fmt.Fprintf(keys, `"k%d":1,`, i)
	}
	many := "{" + keys.String() + row[1:]
	for _, tt := range []struct {
		name, want string
		data       []byte
		others     int // rows that are read all the same
	}{
		{"blanks.jsonl.gz", "more than 200 times its own size", gzipped(t, blanks), 0},
		{"blanks.jsonl.zst", "more than 200 times its own size", zstandard(t, blanks), 0},
		{"list.json.gz", "problems: what follows was not read", gzipped(t, list), 0},
		{"window.jsonl.zst", "window of more than 128 MiB", zstandardWindow(t), 0},
		{"nested.json", "nested.json:2: bad JSON at byte 10001 of the record: invalid character '[' exceeded max depth", []byte("[\n" + strings.Repeat("[", 20000)), 0},
		{"nested.jsonl", "nested.jsonl:1: own__calc-9: bad JSON", []byte(`{"instance_id":"own__calc-9","x":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + "}\n" + row), 1},
		{"long.jsonl", "long.jsonl:1: one record is larger than 64 MiB", []byte(`{"a":"` + strings.Repeat("x", 65<<20) + "\"}\n" + row), 1},
		{"keys.jsonl", "keys.jsonl:1: own__calc-1: one record has more than 1000 keys", []byte(many + "\n" + strings.Replace(row, "calc-1", "calc-2", 1)), 1},
		{"keys.json", "more than 1000 keys", []byte(many), 0},
		{"faults.jsonl", "faults.jsonl:50000: 50000 problems: what follows was not read", bytes.Repeat([]byte("x\n"), maxProblems+10), 0},
		{"tests.jsonl", "tests.jsonl:1: own__calc-1: column FAIL_TO_PASS has more than 262144 elements",
			[]byte(strings.Replace(row, `["a"]`, "["+strings.Repeat(`"",`, maxTests)+`""]`, 1) + "\n" + strings.Replace(row, "calc-1", "calc-2", 1)), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ds, err := Load(context.Background(), write(t, filepath.Join(t.TempDir(), tt.name), tt.data), LoadOptions{})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %.500v, want %q", err, tt.want)
			}
			if got := len(ds.Instances); got < tt.others {
				t.Errorf("%d rows are read, want %d", got, tt.others)
			}
		})
	}
}

// zstandardWindow is a file whose head asks for a window of 512 MiB.
func zstandardWindow(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b, zstd.WithWindowSize(512<<20))
	if err != nil {
		t.Fatal(err)
	}
	z.Write([]byte("[]"))
	z.Flush() // so that the frame does not know its length, and keeps the window
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// What quotes the input is cut, and stays on one line.
func TestProblemsQuoteLittle(t *testing.T) {
	name := strings.Repeat("k\n", 1<<20)
	path := write(t, filepath.Join(t.TempDir(), "p.jsonl"), fmt.Appendf(nil, `{%q:1,%q:2}`, name, name))
	_, problems, err := LoadPredictions(path, nil, PredictionOptions{})
	if err == nil || len(problems) != 1 {
		t.Fatalf("problems %d, error %.200v", len(problems), err)
	}
	if text := problems[0].String(); len(text) > 3*maxWords || strings.Contains(text, "\n") || !strings.Contains(text, "p.jsonl:1: key") {
		t.Errorf("%d bytes: %.200q", len(text), text)
	}
}

func TestParquetMadeToUseUpMemory(t *testing.T) {
	type idRow struct {
		ID string `parquet:"instance_id,dict"`
	}
	write1 := func(rows []idRow, options ...parquet.WriterOption) []byte {
		var b bytes.Buffer
		if err := parquet.Write(&b, rows, options...); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	same := make([]idRow, 1000)
	value := strings.Repeat("x", 1<<20)
	for i := range same {
		same[i].ID = value
	}
	bomb := zstandard(t, make([]byte, freeExpansion))
	page := pqformat.PageHeader{Type: pqformat.DataPage, UncompressedPageSize: 8, CompressedPageSize: 8}
	page.DataPageHeader.Valid = true
	page.DataPageHeader.V = pqformat.DataPageHeader{NumValues: 1}
	with := func(change func(*pqformat.PageHeader)) pqformat.PageHeader {
		p := page
		change(&p)
		return p
	}
	short := []byte("\x04\x00\x00\x00abcd")
	delta := pqformat.DeltaLengthByteArray
	for _, tt := range []struct {
		name, want string
		data       []byte
	}{
		{"one large page", "more than 200 times", handmade(t, pqformat.Zstd, with(func(p *pqformat.PageHeader) { p.UncompressedPageSize = freeExpansion }), bomb)},
		{"a large value in many rows", "more than 200 times", write1(same, parquet.Compression(&parquet.Zstd), parquet.SkipPageBounds("instance_id"))},
		{"a page that claims much", "more than 200 times", handmade(t, pqformat.Uncompressed, with(func(p *pqformat.PageHeader) { p.UncompressedPageSize = math.MaxInt32 }), short)},
		{"a page that is shorter than it claims", "longer than the column", handmade(t, pqformat.Uncompressed, with(func(p *pqformat.PageHeader) { p.CompressedPageSize = math.MaxInt32 }), short)},
		{"a page of many values", "more than 200 times", handmade(t, pqformat.Uncompressed, with(func(p *pqformat.PageHeader) { p.DataPageHeader.V.NumValues = math.MaxInt32 }), short)},
		{"a page of a negative size", "has a page of -1 bytes", handmade(t, pqformat.Uncompressed, with(func(p *pqformat.PageHeader) { p.UncompressedPageSize = -1 }), short)},
		{"zstd that holds more than it claims", "claims 8 bytes and holds more", handmade(t, pqformat.Zstd, with(func(p *pqformat.PageHeader) { p.CompressedPageSize = int32(len(bomb)) }), bomb)},
		{"gzip that holds more than it claims", "claims 8 bytes and holds more", handmade(t, pqformat.Gzip, page, gzipped(t, make([]byte, 1<<20)))},
		{"snappy that claims more", "claims 8 bytes and holds more", handmade(t, pqformat.Snappy, page, []byte("\xff\xff\xff\xff\x0fxxx"))},
		{"a compression without an end", "compression LZ4_RAW, which is not read", handmade(t, pqformat.Lz4Raw, page, short)},
		{"a long run", "has a page of 1 values with", handmade(t, pqformat.Uncompressed, with(func(p *pqformat.PageHeader) { p.DataPageHeader.V.Encoding = pqformat.RLEDictionary }), []byte("\x01\xfe\xff\xff\x0f\x01"))},
		{"many lengths", "has a page of 1 values with 2147483647", handmade(t, pqformat.Uncompressed, with(func(p *pqformat.PageHeader) { p.DataPageHeader.V.Encoding = delta }), []byte("\x80\x01\x04\xff\xff\xff\xff\x07\x00"))},
		{"prefixes", "encoding DELTA_BYTE_ARRAY, which is not read", handmade(t, pqformat.Uncompressed, with(func(p *pqformat.PageHeader) { p.DataPageHeader.V.Encoding = pqformat.DeltaByteArray }), short)},
		{"structures that claim a length", "structures claim 4294967295 bytes", []byte("PAR1xxxx\xff\xff\xff\xffPAR1")},
		{"a list that claims a length", "a list of 2147483647", footer("\x29\xfc\xff\xff\xff\xff\x07")},
		{"deep structures", "its structures are damaged", footer(strings.Repeat("\x1c", 100))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Load(context.Background(), write(t, filepath.Join(t.TempDir(), "rows.parquet"), tt.data), LoadOptions{})
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "rows.parquet") {
				t.Errorf("file of %d bytes: error %.500v, want %q", len(tt.data), err, tt.want)
			}
		})
	}
}

func footer(structures string) []byte {
	b := append([]byte("PAR1"), structures...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(structures)))
	return append(b, "PAR1"...)
}

// handmade is a file with one page of one column.
func handmade(t *testing.T, codec pqformat.CompressionCodec, header pqformat.PageHeader, data []byte) []byte {
	t.Helper()
	if header.CompressedPageSize == 8 {
		header.CompressedPageSize = int32(len(data))
	}
	marshal := func(v any) []byte {
		b, err := thrift.Marshal(new(thrift.CompactProtocol), v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	page := append(marshal(&header), data...)
	leaf := pqformat.SchemaElement{Name: "instance_id"}
	leaf.Type.Valid, leaf.Type.V = true, pqformat.ByteArray
	leaf.RepetitionType.Valid, leaf.RepetitionType.V = true, pqformat.Required
	root := pqformat.SchemaElement{Name: "root"}
	root.NumChildren.Valid, root.NumChildren.V = true, 1
	meta := pqformat.ColumnMetaData{Type: pqformat.ByteArray, PathInSchema: []string{"instance_id"}, Codec: codec, NumValues: 1,
		TotalCompressedSize: int64(len(page)), TotalUncompressedSize: int64(len(page)), DataPageOffset: 4}
	file := marshal(&pqformat.FileMetaData{Version: 1, Schema: []pqformat.SchemaElement{root, leaf}, NumRows: 1,
		RowGroups: []pqformat.RowGroup{{NumRows: 1, Columns: []pqformat.ColumnChunk{{MetaData: meta}}}}})
	out := append([]byte("PAR1"), page...)
	out = append(out, file...)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(file)))
	return append(out, "PAR1"...)
}

// The same by hand, honest: what the lies above are told from.
func TestParquetHandmade(t *testing.T) {
	page := pqformat.PageHeader{Type: pqformat.DataPage, UncompressedPageSize: 15, CompressedPageSize: 8}
	page.DataPageHeader.Valid = true
	page.DataPageHeader.V = pqformat.DataPageHeader{NumValues: 1}
	path := write(t, filepath.Join(t.TempDir(), "rows.parquet"), handmade(t, pqformat.Uncompressed, page, []byte("\x0b\x00\x00\x00own__calc-1")))
	ids := []string{}
	err := readParquet(context.Background(), path, map[string]bool{"instance_id": true}, func(cells map[string]any, _ int) bool {
		ids = append(ids, fmt.Sprint(cells["instance_id"]))
		return true
	})
	if err != nil || len(ids) != 1 || ids[0] != "own__calc-1" {
		t.Errorf("ids %q, error %v", ids, err)
	}
}
