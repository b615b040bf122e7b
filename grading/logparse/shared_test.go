package logparse

import (
	"bufio"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// sharedFile opens a file of the reference material that lies beside the module,
// and skips the test where there is none.
func sharedFile(t testing.TB, name string) *os.File {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Skip("no go.mod above this folder")
		}
		dir = parent
	}
	f, err := os.Open(filepath.Join(dir, "..", "shared", name))
	if err != nil {
		t.Skipf("reference material is not here: %v", err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// sharedLog is one line of a file of logs with the official answer.
type sharedLog struct {
	Dataset    string `json:"dataset"`
	InstanceID string `json:"instance_id"`
	Encoding   string `json:"encoding"`
	Log        string `json:"log"`
	Expected   struct {
		Found     bool              `json:"found"`
		BadCodes  []string          `json:"bad_codes"`
		StatusMap map[string]string `json:"status_map"`
	} `json:"expected"`
}

func eachSharedLog(t *testing.T, name string, f func(sharedLog)) {
	t.Helper()
	zr, err := gzip.NewReader(sharedFile(t, name))
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(bufio.NewReaderSize(zr, 1<<20))
	for {
		var row sharedLog
		if err := dec.Decode(&row); err == io.EOF {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		if row.Encoding == "base64" {
			raw, err := base64.StdEncoding.DecodeString(row.Log)
			if err != nil {
				t.Fatal(err)
			}
			row.Log = string(raw)
		}
		f(row)
	}
}
