package provenance

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/evalrun/evalrun/cache"
	"github.com/evalrun/evalrun/reports"
)

// Type and Version stand in every statement.
const (
	Type    = "evalrun-statement"
	Version = 1
)

// File is the name of a run's statement, in its folder.
const File = "statement.json"

// Statement is what a run was and what came of it, without times, paths and
// whatever else can differ between two runs that mean the same. Its lists are
// sorted. Numbers that need not be integers are decimal text.
type Statement struct {
	Type    string   `json:"type"`
	Version int      `json:"version"`
	Run     Run      `json:"run"`
	Results []Result `json:"results"` // by model, then instance
}

// Run is what all attempts have in common.
type Run struct {
	RunID       string   `json:"run_id"`
	Dataset     string   `json:"dataset_sha256"`
	Predictions []string `json:"predictions_sha256"`
	Models      []string `json:"models"`
	Instances   []Row    `json:"instances"`
	Rules       string   `json:"rules"`
	Evalrun     string   `json:"evalrun"`
	Revision    string   `json:"revision"`
	Engine      string   `json:"engine"` // name and version
	Kernel      string   `json:"kernel"`
	Platform    string   `json:"platform"`
	Network     string   `json:"network"`
	Limits      Limits   `json:"limits"`
	Policy      []string `json:"policy"` // name=value
}

// Row is an instance asked for, and the hash of what determines its verdict.
type Row struct {
	InstanceID string `json:"instance_id"`
	SHA256     string `json:"row_sha256"`
}

// Limits of one attempt, unless its row has its own.
type Limits struct {
	CPUs    string `json:"cpus"`
	Memory  int64  `json:"memory_bytes"`
	Pids    int64  `json:"pids"`
	Disk    int64  `json:"disk_bytes"`
	Output  int64  `json:"output_bytes"`
	Timeout string `json:"timeout_seconds"`
	Silence string `json:"silence_seconds"`
}

// Result is one attempt.
type Result struct {
	Model       string `json:"model_name_or_path"`
	InstanceID  string `json:"instance_id"`
	Outcome     string `json:"outcome"`
	Rules       string `json:"rules"`
	Key         string `json:"key"`
	Patch       string `json:"patch_sha256"`
	ImageDigest string `json:"image_digest"`
	Log         string `json:"log_sha256"`    // of test_output.txt, "" if there is none
	Report      string `json:"report_sha256"` // of report.json, "" if there is none
}

// New makes the statement of a run from its record and attempts, and from the
// files that lie beside them.
func New(ctx context.Context, layout reports.Layout, record *reports.RunRecord, attempts []reports.Attempt) (Statement, error) {
	l := record.Limits
	s := Statement{Type: Type, Version: Version, Run: Run{
		RunID: record.RunID, Dataset: record.Dataset.SHA256, Predictions: []string{}, Models: slices.Sorted(slices.Values(record.Models)), Instances: []Row{},
		Rules: record.Rules, Evalrun: record.Evalrun, Revision: record.Build.Revision,
		Engine: record.Engine.Name + " " + record.Engine.Version, Kernel: record.Kernel, Platform: record.Platform, Network: record.Network,
		Limits: Limits{CPUs: decimal(l.CPUs), Memory: l.MemoryBytes, Pids: l.Pids, Disk: l.DiskBytes, Output: l.OutputBytes,
			Timeout: decimal(l.TimeoutSeconds), Silence: decimal(l.SilenceSeconds)},
		Policy: []string{},
	}}
	for _, p := range record.Predictions {
		s.Run.Predictions = append(s.Run.Predictions, p.SHA256)
	}
	slices.Sort(s.Run.Predictions)
	for name, value := range record.Policy {
		s.Run.Policy = append(s.Run.Policy, name+"="+value)
	}
	slices.Sort(s.Run.Policy)
	for _, id := range slices.Sorted(slices.Values(record.InstanceIDs)) {
		s.Run.Instances = append(s.Run.Instances, Row{id, record.RowHashes[id]})
	}
	s.Results = make([]Result, len(attempts))
	var g errgroup.Group
	g.SetLimit(runtime.NumCPU())
	for i := range attempts {
		g.Go(func() (err error) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			s.Results[i], err = newResult(layout, record, &attempts[i])
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return s, err
	}
	slices.SortFunc(s.Results, func(a, b Result) int {
		return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(a.InstanceID, b.InstanceID))
	})
	return s, nil
}

func newResult(layout reports.Layout, record *reports.RunRecord, a *reports.Attempt) (Result, error) {
	files := layout.Instance(record.RunID, a.Model, a.InstanceID)
	r := Result{Model: a.Model, InstanceID: a.InstanceID, Outcome: string(a.Outcome), Rules: a.Rules, Key: a.Key, Patch: a.Patch.SHA256, ImageDigest: a.ImageDigest}
	var err error
	if r.Log, err = HashFile(files.TestOutput); err == nil {
		r.Report, err = HashFile(files.Report)
	}
	if err != nil {
		return r, fmt.Errorf("instance %s: %w", a.InstanceID, err)
	}
	return r, nil
}

// HashFile is the SHA-256 of a file in hexadecimal, "" where there is none.
func HashFile(path string) (string, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", path) // a pipe would hold us
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Encode is the canonical form.
func (s Statement) Encode() ([]byte, error) { return Canonical(s) }

// Digest is the SHA-256 of the canonical form, which a signature will be of.
func (s Statement) Digest() (string, error) {
	data, err := s.Encode()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// Write writes the canonical form, without a final newline, beside run.json.
func (s Statement) Write(layout reports.Layout) error {
	data, err := s.Encode()
	if err == nil {
		err = cache.WriteFile(filepath.Join(layout.RunDir(s.Run.RunID), File), data, 0o666)
	}
	if err != nil {
		return fmt.Errorf("run %q: write %s: %w", s.Run.RunID, File, err)
	}
	return nil
}

func decimal(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
