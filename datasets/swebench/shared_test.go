package swebench

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/internal/reference"
	"github.com/parquet-go/parquet-go"
)

// sharedDir is the folder of the reference material.
func sharedDir(t testing.TB) string {
	t.Helper()
	return reference.Path(t, ".")
}

// row holds the columns these tests read.
type row struct {
	ID         string `json:"instance_id" parquet:"instance_id"`
	Repo       string `json:"repo" parquet:"repo"`
	Version    string `json:"version" parquet:"version"`
	BaseCommit string `json:"base_commit" parquet:"base_commit"`
	TestPatch  string `json:"test_patch" parquet:"test_patch"`
	EvalScript string `json:"eval_script" parquet:"eval_script"`
	LogParser  string `json:"log_parser" parquet:"log_parser"`
	EvalType   string `json:"eval_type" parquet:"eval_type"`
	Image      string `json:"image" parquet:"image"`
}

func (r row) instance() *datasets.Instance {
	return &datasets.Instance{ID: r.ID, Repo: r.Repo, Version: r.Version, BaseCommit: r.BaseCommit, TestPatch: r.TestPatch,
		EvalScript: r.EvalScript, LogParser: r.LogParser, EvalType: r.EvalType, Image: r.Image}
}

// sharedRows reads the rows of every dataset beside the module, by instance id
// within each dataset. Published rows differ between datasets.
func sharedRows(t testing.TB) map[string][]row {
	t.Helper()
	dir := filepath.Join(sharedDir(t), "data", "datasets")
	rows := map[string][]row{}
	for _, path := range glob(t, dir, "*.jsonl") {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		rows[strings.TrimSuffix(filepath.Base(path), ".jsonl")] = readJSONL[row](t, f)
		f.Close()
	}
	for _, path := range glob(t, dir, "*.parquet") {
		read, err := parquet.ReadFile[row](path)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		rows[strings.TrimSuffix(filepath.Base(path), ".parquet")] = read
	}
	if len(rows) == 0 {
		t.Skip("no datasets in ../shared/data/datasets")
	}
	return rows
}

func glob(t testing.TB, dir, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	sort.Strings(paths)
	return paths
}

func readJSONL[T any](t testing.TB, r io.Reader) []T {
	t.Helper()
	var out []T
	br := bufio.NewReader(r)
	for {
		line, err := br.ReadBytes('\n')
		if len(strings.TrimSpace(string(line))) > 0 {
			var v T
			if err := json.Unmarshal(line, &v); err != nil {
				t.Fatal(err)
			}
			out = append(out, v)
		}
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// derivation is one row of parity/derivation.jsonl.gz.
type derivation struct {
	Harness      string   `json:"harness"`
	Dataset      string   `json:"dataset"`
	ID           string   `json:"instance_id"`
	Repo         string   `json:"repo"`
	Version      string   `json:"version"`
	Language     string   `json:"language"`
	Image        string   `json:"instance_image"`
	LogParser    string   `json:"log_parser"`
	TestCommands []string `json:"test_commands"`
	ResetAfter   []string `json:"reset_after"`
	Note         string   `json:"note"`
}

func sharedDerivations(t testing.TB) []derivation {
	t.Helper()
	f, err := os.Open(filepath.Join(sharedDir(t), "parity", "derivation.jsonl.gz"))
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	return readJSONL[derivation](t, z)
}
