package grading_test

import (
	"bufio"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/evalrun/evalrun/internal/reference"
)

func sharedPath(t testing.TB, name string) string {
	t.Helper()
	return reference.Path(t, name)
}

func sharedLines(t testing.TB, name string, f func(line []byte)) {
	t.Helper()
	file, err := os.Open(sharedPath(t, name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var r io.Reader = file
	if strings.HasSuffix(name, ".gz") {
		if r, err = gzip.NewReader(file); err != nil {
			t.Fatal(err)
		}
	}
	br := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := br.ReadBytes('\n')
		if len(line) > 1 {
			f(line)
		}
		if err == io.EOF {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// row is what grading needs of a dataset row.
type row struct {
	InstanceID string   `json:"instance_id" parquet:"instance_id"`
	Repo       string   `json:"repo" parquet:"repo"`
	Version    string   `json:"version" parquet:"version"`
	LogParser  string   `json:"log_parser" parquet:"log_parser"`
	EvalType   string   `json:"eval_type" parquet:"eval_type"`
	F2P        jsonList `json:"FAIL_TO_PASS" parquet:"-"`
	P2P        jsonList `json:"PASS_TO_PASS" parquet:"-"`
	F2PText    string   `json:"-" parquet:"FAIL_TO_PASS"`
	P2PText    string   `json:"-" parquet:"PASS_TO_PASS"`
}

// jsonList is a list that some datasets write as a string of JSON.
type jsonList []string

func (l *jsonList) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		b = []byte(text)
	}
	return json.Unmarshal(b, (*[]string)(l))
}

// sharedRows reads the datasets, by name and id.
func sharedRows(t *testing.T) map[string]map[string]row {
	t.Helper()
	all := map[string]map[string]row{}
	for name, file := range map[string]string{
		"SWE-bench_Verified_test":     "data/datasets/SWE-bench_Verified.test.jsonl",
		"SWE-bench_Multilingual_test": "data/datasets/SWE-bench_Multilingual.test.jsonl",
	} {
		rows := map[string]row{}
		sharedLines(t, file, func(line []byte) {
			var r row
			if err := json.Unmarshal(line, &r); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			rows[r.InstanceID] = r
		})
		all[name] = rows
	}
	for name, file := range map[string]string{
		"SWE-bench_Lite_test":      "data/datasets/SWE-bench_Lite.test.parquet",
		"SWE-bench_dev":            "data/datasets/SWE-bench.dev.parquet",
		"SWE-bench_Multimodal_dev": "data/datasets/SWE-bench_Multimodal.dev.parquet",
	} {
		list, err := parquet.ReadFile[row](sharedPath(t, file))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		rows := map[string]row{}
		for _, r := range list {
			for text, into := range map[string]*jsonList{r.F2PText: &r.F2P, r.P2PText: &r.P2P} {
				if err := json.Unmarshal([]byte(text), (*[]string)(into)); err != nil {
					t.Fatalf("%s: %s: %v", file, r.InstanceID, err)
				}
			}
			rows[r.InstanceID] = r
		}
		all[name] = rows
	}
	return all
}

func decodeLog(t testing.TB, log, encoding string) string {
	t.Helper()
	if encoding != "base64" {
		return log
	}
	raw, err := base64.StdEncoding.DecodeString(log)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// repoOf turns "owner__name-123" into "owner/name".
func repoOf(id string) string {
	owner, rest, _ := strings.Cut(id, "__")
	if i := strings.LastIndexByte(rest, '-'); i >= 0 {
		rest = rest[:i]
	}
	return owner + "/" + rest
}
