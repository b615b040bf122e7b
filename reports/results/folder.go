package results

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/evalrun/evalrun/grading"
)

// isInstanceFolder tells the official folder of one attempt.
func isInstanceFolder(dir string) bool {
	return isFile(dir, "report.json") || isFile(dir, "run_instance.log") || isFile(dir, "patch.diff") || isFile(dir, "test_output.txt")
}

// isModelFolder: folders of attempts and nothing else make a model's folder. One
// is looked for among the first few, as a folder can have thousands.
func isModelFolder(dir string) bool { return anyChild(dir, isInstanceFolder) }

func isRunFolder(dir string) bool { return anyChild(dir, isModelFolder) }

func anyChild(dir string, is func(string) bool) bool {
	const enough = 20
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer f.Close()
	entries, err := f.ReadDir(enough)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if child := filepath.Join(dir, e.Name()); e.IsDir() && is(child) {
			return true
		}
	}
	return false
}

// loadModelFolder reads logs/run_evaluation/<run>/<model> of the official harness.
func loadModelFolder(ctx context.Context, dir, run string, o Options) (*Set, error) {
	name := filepath.Base(dir)
	s := &Set{Name: modelOf(name), Model: modelOf(name), Run: run, Kind: KindLogs, Source: dir}
	items, err := readInstances(ctx, dir, o)
	s.Items = items
	s.sort()
	return s, err
}

// readInstances reads the folder of each attempt below dir.
func readInstances(ctx context.Context, dir string, o Options) ([]Item, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	found := make([]*Item, len(entries))
	errs := make([]error, len(entries))
	var g errgroup.Group
	g.SetLimit(runtime.NumCPU())
	for i, e := range entries {
		child := filepath.Join(dir, e.Name())
		if !e.IsDir() || !isInstanceFolder(child) {
			continue
		}
		g.Go(func() error {
			if ctx.Err() != nil {
				return nil
			}
			found[i], errs[i] = readInstance(child, o)
			return nil
		})
	}
	g.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var items []Item
	for _, it := range found {
		if it != nil {
			o.shared.tests(it.FailToPass)
			o.shared.tests(it.PassToPass)
			items = append(items, *it)
		}
	}
	return items, errors.Join(errs...)
}

// officialReport is the part of the official report.json that is read.
type officialReport struct {
	PatchIsNone  bool                 `json:"patch_is_None"`
	PatchApplied bool                 `json:"patch_successfully_applied"`
	Resolved     bool                 `json:"resolved"`
	InfraFailure bool                 `json:"infra_failure"`
	InfraReason  string               `json:"infra_failure_reason"`
	Tests        *grading.TestsStatus `json:"tests_status"`
}

// readInstance reads the folder of one attempt of the official harness.
func readInstance(dir string, o Options) (*Item, error) {
	id := filepath.Base(dir)
	path := filepath.Join(dir, "report.json")
	data, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		it := withoutReport(dir)
		it.ID, it.Dir, it.Submitted = id, dir, true
		return &it, nil
	}
	if err != nil {
		return nil, err
	}
	var reports map[string]json.RawMessage
	if err := decode(path, data, &reports); err != nil {
		return nil, err
	}
	raw, ok := reports[id]
	if !ok {
		for other := range reports {
			return nil, &FileError{path, lineOf(data, other, 1), fmt.Errorf("is of instance %q, and lies in the folder of %q", other, id)}
		}
		return nil, &FileError{Path: path, Err: errors.New("is an empty object; want the report by instance id")}
	}
	var r officialReport
	if err := json.Unmarshal(raw, &r); err != nil {
		var fault *FileError
		if errors.As(jsonError(path, raw, err), &fault) && fault.Line > 0 {
			fault.Line += lineAt(data, int64(bytes.Index(data, raw))) - 1
		}
		return nil, fault
	}
	it := r.item()
	it.ID, it.Dir, it.Submitted = id, dir, true
	if r.Tests != nil && r.PatchApplied && !o.Light {
		it.FailToPass, it.PassToPass = tests(r.Tests.FailToPass), tests(r.Tests.PassToPass)
	}
	return &it, nil
}

func (r *officialReport) item() Item {
	switch {
	case r.Resolved:
		return Item{Outcome: grading.Resolved}
	case r.PatchIsNone:
		return Item{Outcome: grading.EmptyPatch}
	case r.InfraFailure:
		return Item{Outcome: grading.InfraFailed, Reason: r.InfraReason}
	case !r.PatchApplied:
		return Item{Outcome: grading.Unresolved, Reason: "the log could not be graded"}
	}
	return Item{Outcome: grading.Unresolved}
}

// withoutReport tells from the rest of the folder why there is no report.json.
func withoutReport(dir string) Item {
	if info, err := os.Stat(filepath.Join(dir, "patch.diff")); err == nil && info.Size() == 0 {
		return Item{Outcome: grading.EmptyPatch}
	}
	log := tail(filepath.Join(dir, "run_instance.log"))
	switch {
	case bytes.Contains(log, []byte("Patch Apply Failed")):
		return Item{Outcome: grading.ApplyFailed}
	case bytes.Contains(log, []byte("Test timed out after")):
		return Item{Outcome: grading.TimedOut}
	}
	return Item{Outcome: Error, Reason: "no report.json"}
}

// tail is the end of a log, nil if there is none.
func tail(path string) []byte {
	const most = 256 << 10
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	data, _ := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-most), most)) // what can be read
	return data
}
