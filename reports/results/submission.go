package results

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/evalrun/evalrun/grading"
)

// isSubmission tells the folder of a submission in the experiments layout.
func isSubmission(dir string) bool {
	return isFile(dir, "results", "results.json") || isFile(dir, "all_preds.jsonl") ||
		isFile(dir, "metadata.yaml") || isFile(dir, "metadata.yml")
}

// loadSubmission reads evaluation/<split>/<name>. What counts most is what it says
// it has resolved; logs, where they are there, say how the others ended.
func loadSubmission(ctx context.Context, dir string, o Options) (*Set, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	name := filepath.Base(abs)
	s := &Set{Name: name, Model: name, Kind: KindSubmission, Source: dir, Open: true}
	s.Info.Split, s.Info.Date = filepath.Base(filepath.Dir(abs)), dateOf(name)
	sub := &submission{set: s, items: map[string]Item{}}
	err = errors.Join(sub.metadata(dir), sub.predictions(filepath.Join(dir, "all_preds.jsonl"), o), sub.logs(ctx, dir, o), sub.results(filepath.Join(dir, "results", "results.json")))
	if err != nil {
		return nil, err
	}
	s.Items = slices.Collect(maps.Values(sub.items))
	s.sort()
	return s, nil
}

// submission collects a set from the files of its folder.
type submission struct {
	set    *Set
	items  map[string]Item
	graded bool // there were logs
}

var datePattern = regexp.MustCompile(`^(\d{4})(\d{2})(\d{2})(_|$)`)

func dateOf(name string) string {
	m := datePattern.FindStringSubmatch(name)
	if m == nil {
		return ""
	}
	return m[1] + "-" + m[2] + "-" + m[3]
}

// ReadMetadata reads what the metadata.yaml of a submission says.
func ReadMetadata(dir string) (SubmissionInfo, error) {
	s := submission{set: &Set{}}
	err := s.metadata(dir)
	return s.set.Info, err
}

// maxMetadata bounds metadata.yaml.
const maxMetadata = 1 << 20

// metadata reads metadata.yaml in its newer and older form. Values of odd kinds
// are passed over: they decide nothing.
func (s *submission) metadata(dir string) error {
	path := filepath.Join(dir, "metadata.yaml")
	if !isFile(path) {
		path = filepath.Join(dir, "metadata.yml")
	}
	data, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		s.set.Warnings = append(s.set.Warnings, dir+": no metadata.yaml")
		return nil
	}
	if err == nil && len(data) > maxMetadata {
		err = &FileError{Path: path, Err: fmt.Errorf("has %d bytes, more than any metadata have", len(data))}
	}
	if err != nil {
		return err
	}
	if len(data) > mostMetadata || nesting(data) > deepest {
		return &FileError{Path: path, Err: errors.New("is longer, or nested deeper, than what a system says of itself")}
	}
	var m map[string]any
	if err := yaml.Unmarshal(data, &m); err != nil {
		var at yaml.Error
		line := 0
		if errors.As(err, &at) && at.GetToken() != nil && at.GetToken().Position != nil {
			line, err = at.GetToken().Position.Line, errors.New(at.GetMessage())
		}
		return &FileError{path, line, err}
	}
	info := &s.set.Info
	section := func(key string) map[string]any { part, _ := m[key].(map[string]any); return part }
	text := func(values ...any) string {
		for _, v := range values {
			if t, ok := v.(string); ok && t != "" {
				return t
			}
		}
		return ""
	}
	about, tags := section("info"), section("tags")
	info.Title = text(about["name"], m["name"])
	info.Site = text(about["site"], m["site"])
	info.Org = text(tags["org"])
	info.Checked, _ = tags["checked"].(bool)
	if old, ok := m["verified"].(bool); ok {
		info.Checked = info.Checked || old
	}
	switch models := tags["model"].(type) {
	case string:
		info.Models = []string{models}
	case []any:
		for _, v := range models {
			info.Models = append(info.Models, plain(v))
		}
	}
	if system, ok := tags["system"].(map[string]any); ok && system["attempts"] != nil {
		info.Attempts = plain(system["attempts"])
	}
	for _, v := range []any{about["cost"], m["cost"], about["instance_cost"]} {
		switch n := v.(type) {
		case float64:
			if n > 0 && !math.IsInf(n, 0) { // YAML has .nan and .inf
				info.Cost = n
			}
		case uint64:
			info.Cost = float64(n)
		}
	}
	return nil
}

// plain is a value as text. Lists are none: with aliases a few lines of YAML stand for
// more than memory has.
func plain(v any) string {
	switch v.(type) {
	case []any, map[string]any:
		return "?"
	}
	return fmt.Sprint(v)
}

// Bounds of a metadata.yaml: reading YAML takes time by the square of its depth.
const (
	mostMetadata = 1 << 20
	deepest      = 100
)

// nesting is about how deep a YAML file goes: brackets that are open, and list marks
// one after the other.
func nesting(data []byte) int {
	most, open, marks := 0, 0, 0
	for i, c := range data {
		switch c {
		case '[', '{':
			open++
		case ']', '}':
			open = max(0, open-1)
		case '-', '?':
			if i+1 < len(data) && (data[i+1] == ' ' || data[i+1] == '\t') {
				marks++
			}
		case ' ', '\t':
		default:
			marks = 0
		}
		most = max(most, open, marks)
	}
	return most
}

// predictions reads which instances were submitted.
func (s *submission) predictions(path string, o Options) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return &FileError{Path: path, Err: errors.New("is not a regular file")}
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxPrediction)
	models := map[string]bool{}
	n := 1
	for ; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var p struct {
			ID    string  `json:"instance_id"`
			Model string  `json:"model_name_or_path"`
			Patch *string `json:"model_patch"`
		}
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			return &FileError{path, n, err}
		}
		if p.ID == "" {
			return &FileError{path, n, errors.New("a prediction without instance_id")}
		}
		if _, again := s.items[p.ID]; again {
			s.set.Warnings = append(s.set.Warnings, fmt.Sprintf("%s:%d: a second prediction for %s", path, n, p.ID))
		}
		models[p.Model] = true
		outcome := grading.Unresolved
		if p.Patch == nil || strings.TrimSpace(*p.Patch) == "" {
			outcome = grading.EmptyPatch
		}
		it := Item{ID: p.ID, Outcome: outcome, Submitted: true}
		if p.Patch != nil && !o.Light {
			it.Patch = *p.Patch
		}
		s.items[p.ID] = it
	}
	if len(models) == 1 {
		for m := range models {
			if m != "" {
				s.set.Model = m
			}
		}
	}
	if err := lines.Err(); err != nil {
		return &FileError{path, n, err}
	}
	return nil
}

// maxPrediction is the longest line of a file of predictions.
const maxPrediction = 64 << 20

// logs reads the folders of the attempts, where they are there.
func (s *submission) logs(ctx context.Context, dir string, o Options) error {
	if !isDir(dir, "logs") {
		return nil
	}
	items, err := readInstances(ctx, filepath.Join(dir, "logs"), o)
	for _, it := range items {
		s.items[it.ID] = it
	}
	s.graded = len(items) > 0
	return err
}

// results reads results/results.json. Newer ones have the lists resolved,
// no_generation and no_logs, older ones a list for every way of failing. An
// instance in resolved is resolved, whatever the other lists say.
func (s *submission) results(path string) error {
	data, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if !s.graded {
			return &FileError{Path: filepath.Dir(filepath.Dir(path)), Err: errors.New("neither results/results.json nor logs/ with report.json: nothing says what was resolved")}
		}
		return nil
	}
	if err != nil {
		return err
	}
	var r map[string]any
	if err := decode(path, data, &r); err != nil {
		return err
	}
	if err := noDuplicates(path, data); err != nil {
		return err
	}
	lists := []struct {
		name    string
		outcome grading.Outcome
	}{
		{"generated", grading.Unresolved}, {"with_logs", grading.Unresolved}, {"applied", grading.Unresolved},
		{"install_fail", Error}, {"reset_failed", Error}, {"test_errored", Error}, {"no_logs", Error},
		{"test_timeout", grading.TimedOut}, {"no_apply", grading.ApplyFailed}, {"no_generation", grading.EmptyPatch},
		{"resolved", grading.Resolved},
	}
	if r["resolved"] == nil {
		return &FileError{Path: path, Err: errors.New("has no list resolved")}
	}
	claimed := map[string]bool{}
	for _, list := range lists {
		ids, err := stringList(r[list.name])
		if err != nil {
			return &FileError{path, lineOf(data, list.name, 1), fmt.Errorf("%s: %w", list.name, err)}
		}
		for _, id := range ids {
			s.put(id, list.outcome, list.name)
			if list.outcome == grading.Resolved {
				claimed[id] = true
			}
		}
	}
	if s.graded {
		for id, it := range s.items {
			if it.Resolved() && !claimed[id] {
				s.set.Warnings = append(s.set.Warnings, fmt.Sprintf("%s: %s is resolved in its log and not in results.json", path, id))
			}
		}
		slices.Sort(s.set.Warnings)
	}
	return nil
}

// put notes what a list says of an instance. Logs know better than any list but
// resolved, which is the claim that is published; where they differ, both are told.
func (s *submission) put(id string, outcome grading.Outcome, list string) {
	it, known := s.items[id]
	if known && it.Dir != "" {
		if outcome == grading.Resolved && it.Outcome != outcome {
			s.set.Warnings = append(s.set.Warnings, fmt.Sprintf("%s: %s is resolved in results.json and %s in its log", s.set.Source, id, it.Outcome))
		}
		return
	}
	if known && outcome == grading.Resolved && list == "resolved" && it.Outcome == grading.EmptyPatch {
		s.set.Warnings = append(s.set.Warnings, fmt.Sprintf("%s: %s is resolved and has no patch", s.set.Source, id))
	}
	if known && outcome == grading.Unresolved {
		return
	}
	s.items[id] = Item{ID: id, Outcome: outcome, Submitted: list != "no_generation", Reason: reasonOf(list), Patch: it.Patch}
}

func reasonOf(list string) string {
	switch list {
	case "no_generation", "no_logs", "no_apply", "install_fail", "reset_failed", "test_errored", "test_timeout":
		return list
	}
	return ""
}

func stringList(v any) ([]string, error) {
	if v == nil {
		return nil, nil
	}
	list, ok := v.([]any)
	if !ok {
		return nil, errors.New("is not a list")
	}
	out := make([]string, 0, len(list))
	for i, e := range list {
		id, ok := e.(string)
		if !ok || id == "" {
			return nil, fmt.Errorf("entry %d is not an instance id", i+1)
		}
		out = append(out, id)
	}
	return out, nil
}
