package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports"
)

// officialSchema is the newest schema_version of the official run summary that is known.
const officialSchema = 2

// loadSummary reads the official run summary of one model.
func loadSummary(path string, data []byte) ([]*Set, error) {
	var r reports.OfficialRun
	if err := decode(path, data, &r); err != nil {
		return nil, err
	}
	if r.SchemaVersion > officialSchema {
		return nil, &FileError{path, lineOf(data, "schema_version", 1), fmt.Errorf("has schema_version %d, this evalrun reads those up to %d", r.SchemaVersion, officialSchema)}
	}
	stem := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	s := &Set{Name: stem, Model: stem, Kind: KindSummary, Source: path}
	if at := strings.LastIndex(stem, "."); at > 0 {
		s.Model, s.Run = stem[:at], stem[at+1:]
	}
	for _, ids := range [][]string{r.ResolvedIDs, r.UnresolvedIDs, r.EmptyPatchIDs, r.IncompleteIDs, r.CompletedIDs, r.ErrorIDs} {
		if err := fewInstances(path, ids); err != nil {
			return nil, err
		}
	}
	items := map[string]Item{}
	var errs []error
	put := func(ids []string, outcome grading.Outcome) {
		for _, id := range ids {
			if id == "" {
				errs = append(errs, &FileError{path, lineOf(data, id, 1), errors.New("has an instance without a name")})
			}
			if old, twice := items[id]; twice {
				errs = append(errs, &FileError{path, lineOf(data, id, 2), fmt.Errorf("instance %s is %s and %s", id, old.Outcome, outcome)})
			}
			items[id] = Item{ID: id, Outcome: outcome, Submitted: outcome != grading.NotRun}
		}
	}
	put(r.ResolvedIDs, grading.Resolved)
	put(r.UnresolvedIDs, grading.Unresolved)
	put(r.EmptyPatchIDs, grading.EmptyPatch)
	put(r.IncompleteIDs, grading.NotRun)
	if len(r.UnresolvedIDs) == 0 { // older summaries have only the union
		for _, id := range r.CompletedIDs {
			if _, ok := items[id]; !ok {
				put([]string{id}, grading.Unresolved)
			}
		}
	}
	completed := map[string]bool{}
	for _, id := range r.CompletedIDs {
		completed[id] = true
	}
	for _, id := range r.ErrorIDs {
		if !completed[id] { // the official harness counts a malformed report as both
			put([]string{id}, Error)
		}
	}
	explain(items, r.FailureReasons)
	if n := len(r.ResolvedIDs); r.ResolvedInstances != n {
		s.Warnings = append(s.Warnings, fmt.Sprintf("%s: resolved_instances is %d, resolved_ids has %d; the list counts", path, r.ResolvedInstances, n))
	}
	if n := len(items); r.TotalInstances != n {
		s.Warnings = append(s.Warnings, fmt.Sprintf("%s: total_instances is %d, the lists have %d", path, r.TotalInstances, n))
	}
	s.Items = slices.Collect(maps.Values(items))
	s.sort()
	return []*Set{s}, errors.Join(errs...)
}

// What the lists of a summary may have: benchmarks have some ten thousand instances.
const (
	maxInstances = 1 << 18
	maxName      = 1000
)

func fewInstances(path string, ids []string) error {
	if len(ids) > maxInstances {
		return &FileError{Path: path, Err: fmt.Errorf("has a list of %d instances, more than any dataset has", len(ids))}
	}
	for _, id := range ids {
		if len(id) > maxName {
			return &FileError{Path: path, Err: fmt.Errorf("has an instance id of %d bytes", len(id))}
		}
	}
	return nil
}

// explain takes over reasons; those that are outcomes of ours say more than
// "error" does.
func explain(items map[string]Item, reasons map[string]string) {
	for id, reason := range reasons {
		it, ok := items[id]
		if !ok {
			continue
		}
		it.Reason = reason
		switch o := grading.Outcome(reason); o {
		case grading.BuildFailed, grading.InfraFailed, grading.NotRun:
			if it.Outcome == Error {
				it.Outcome, it.Reason = o, ""
			}
		}
		items[id] = it
	}
}

// loadDocuments reads what --json prints: one document for each model.
func loadDocuments(path string, data []byte) ([]*Set, error) {
	var sets []*Set
	dec := json.NewDecoder(bytes.NewReader(data))
	for {
		var doc reports.Document
		start := dec.InputOffset()
		if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
			return sets, nil
		} else if err != nil {
			var kind *json.UnmarshalTypeError
			if errors.As(err, &kind) {
				kind.Offset += start
			}
			return nil, jsonError(path, data, err)
		}
		if v := doc.SchemaVersion; v != reports.SummarySchema {
			return nil, &FileError{path, lineAt(data, dec.InputOffset()), fmt.Errorf("has schema_version %d, this evalrun reads %d", v, reports.SummarySchema)}
		}
		s, err := documentSet(path, data, &doc)
		if err != nil {
			return nil, err
		}
		sets = append(sets, s)
	}
}

func documentSet(path string, data []byte, doc *reports.Document) (*Set, error) {
	s := &Set{Name: doc.Summary.Model, Model: doc.Summary.Model, Run: doc.Summary.RunID, Kind: KindRun, Source: path}
	if s.Name == "" {
		s.Name = path
	}
	nothing := map[string]bool{}
	if doc.Run != nil {
		s.Dataset, s.Rules, s.created = doc.Run.Dataset.SHA256, doc.Run.Rules, doc.Run.CreatedAt
		for _, id := range doc.Run.NoPrediction[s.Model] {
			nothing[id] = true
		}
	}
	for _, r := range doc.Instances {
		if r.InstanceID == "" || !knownOutcome(r.Outcome) {
			return nil, &FileError{path, lineOf(data, r.InstanceID, 1), unknownOutcome(r.InstanceID, r.Outcome)}
		}
		it := Item{ID: r.InstanceID, Outcome: r.Outcome, Submitted: !nothing[r.InstanceID], Reason: oneLine(r.Reason), Seconds: r.Seconds}
		if r.Submitted != nil {
			it.Submitted = *r.Submitted
		}
		s.Items = append(s.Items, it)
	}
	s.sort()
	if id := twice(s.Items); id != "" {
		return nil, &FileError{path, lineOf(data, id, 2), fmt.Errorf("instance %s is there twice", id)}
	}
	return s, nil
}

// twice is an id that sorted items have two times, "" if there is none.
func twice(items []Item) string {
	for i := 1; i < len(items); i++ {
		if items[i].ID == items[i-1].ID {
			return items[i].ID
		}
	}
	return ""
}

func oneLine(s string) string {
	s = strings.TrimSpace(s)
	if i := strings.IndexAny(s, "\r\n"); i >= 0 {
		return strings.TrimSpace(s[:i])
	}
	return s
}
