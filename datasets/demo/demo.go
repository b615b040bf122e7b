package demo

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// Owner is the owner of every repository of the demo: an instance's repo is
// Owner + "/" + name.
const Owner = "evalrun-demo"

// The files WriteTo writes, and the sources they and the repositories are made
// from. demo.jsonl, predictions and expected.json are generated: see README.md.
var (
	//go:embed README.md demo.jsonl expected.json predictions/*.jsonl
	shipped embed.FS

	//go:embed src/repos/*.txtar
	histories embed.FS
)

// JSONL returns the dataset: one instance per line.
func JSONL() []byte { return read("demo.jsonl") }

// Predictions returns the prediction files by name without extension, for
// example "mixed". Each holds one line per instance, all of one model.
func Predictions() map[string][]byte {
	files := map[string][]byte{}
	names, err := fs.Glob(shipped, "predictions/*.jsonl")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	for _, name := range names {
		base := path.Base(name)
		files[base[:len(base)-len(".jsonl")]] = read(name)
	}
	return files
}

// Expected returns how every prediction ends: the outcome, as package grading
// spells it, by model name and instance. Besides the models of the prediction
// files it has "gold" and "empty".
func Expected() (map[string]map[string]string, error) {
	var outcomes map[string]map[string]string
	if err := json.Unmarshal(read("expected.json"), &outcomes); err != nil {
		return nil, fmt.Errorf("demo: expected.json: %w", err)
	}
	return outcomes, nil
}

// WriteTo writes the dataset to dir, which is made if need be: demo.jsonl,
// predictions/*.jsonl, expected.json, and a README.md that explains them.
func WriteTo(dir string) error {
	return fs.WalkDir(shipped, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(dir, filepath.FromSlash(name))
		if entry.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		if err := os.WriteFile(target, read(name), 0o644); err != nil {
			return fmt.Errorf("write the demo dataset: %w", err)
		}
		return nil
	})
}

// read returns an embedded file, which cannot be missing: the compiler saw it.
func read(name string) []byte {
	data, err := shipped.ReadFile(name)
	if err != nil {
		panic(err)
	}
	return data
}
