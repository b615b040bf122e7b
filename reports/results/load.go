package results

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports"
)

// Options say how results are found.
type Options struct {
	// Root is the folder that holds logs/, for names of runs; "" is the current one.
	Root string
	// Light leaves out tests and whatever else only single instances need.
	Light bool

	shared *shared // between the sources of one call
	model  string  // the only one that is wanted; "" are all
}

// ErrNothing says that a file or folder holds no results of any known form.
var ErrNothing = errors.New("no results here")

// modelMark stands between a source and the one model of it that is wanted.
const modelMark = "::"

// Load reads results: a file, a folder, or the name of a run below o.Root. With
// ::MODEL at the end only that model's. There is one Set for each model.
func Load(ctx context.Context, source string, o Options) ([]*Set, error) {
	name, model, chosen := strings.Cut(source, modelMark)
	path, err := find(name, o.Root)
	if err != nil {
		return nil, err
	}
	o.model = model
	sets, err := loadPath(ctx, path, o)
	if err != nil {
		return nil, err
	}
	if !chosen {
		return sets, nil
	}
	var names []string
	for _, s := range sets {
		if s.Model == model || s.Name == model {
			return []*Set{s}, nil
		}
		names = append(names, s.Name)
	}
	return nil, fmt.Errorf("%s has no model %q; it has %s", name, model, strings.Join(names, ", "))
}

// LoadAll reads several sources and gives every Set a name of its own.
//
// The same results given twice are refused: they would count as two systems, or as
// two runs that agree in everything.
func LoadAll(ctx context.Context, sources []string, o Options) ([]*Set, error) {
	var all []*Set
	var errs []error
	o.shared = newShared()
	for _, source := range sources {
		sets, err := Load(ctx, source, o)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		errs = append(errs, err)
		all = append(all, sets...)
	}
	distinguish(all)
	return all, errors.Join(append(errs, repeated(all))...)
}

// repeated refuses what was given twice: by the same path or another to the same
// file or folder, or as a copy of a run.
func repeated(sets []*Set) error {
	var errs []error
	byModel := map[string][]*Set{}
	for _, s := range sets {
		for _, other := range byModel[s.Model] {
			if why := s.same(other); why != "" {
				errs = append(errs, fmt.Errorf("model %s: %s; leave one out", s.Model, why))
				break
			}
		}
		byModel[s.Model] = append(byModel[s.Model], s)
	}
	return errors.Join(errs...)
}

// same says why two sets of one model are the same results; "" if they are not.
func (s *Set) same(other *Set) string {
	a, errA := os.Stat(s.Source)
	b, errB := os.Stat(other.Source)
	if errA == nil && errB == nil && os.SameFile(a, b) && s.Run == other.Run {
		return s.Source + " is given twice"
	}
	if s.created.IsZero() || !s.created.Equal(other.created) || s.Run != other.Run || len(s.Items) != len(other.Items) {
		return ""
	}
	timed := false
	for i := range s.Items {
		x, y := &s.Items[i], &other.Items[i]
		if x.ID != y.ID || x.Outcome != y.Outcome || x.Seconds != y.Seconds {
			return ""
		}
		timed = timed || x.Seconds > 0
	}
	if !timed { // begun in the same second, and nothing ran
		return ""
	}
	return other.Source + " and " + s.Source + " are the same run"
}

// shared keeps every text and every list once: the systems compared have the same
// tests, and the names of thousands of instances fill the memory. A nil one shares
// nothing.
type shared struct {
	texts map[string]string
	lists map[uint64][]string
	seed  maphash.Seed
}

func newShared() *shared {
	return &shared{texts: map[string]string{}, lists: map[uint64][]string{}, seed: maphash.MakeSeed()}
}

// list is an equal list; nobody may change it.
func (s *shared) list(names []string) []string {
	if s == nil || len(names) == 0 {
		return names
	}
	var h maphash.Hash
	h.SetSeed(s.seed)
	for _, name := range names {
		h.WriteString(name)
		h.WriteByte(0)
	}
	sum := h.Sum64()
	if same, ok := s.lists[sum]; ok && slices.Equal(same, names) {
		return same
	}
	for i, name := range names {
		if same, ok := s.texts[name]; ok {
			names[i] = same
		} else {
			s.texts[name] = name
		}
	}
	s.lists[sum] = names
	return names
}

func (s *shared) tests(t *Tests) {
	if t != nil {
		t.Passed, t.Failed = s.list(t.Passed), s.list(t.Failed)
	}
}

// record shares what attempts have in common.
func (s *shared) record(a *reports.Attempt) {
	if a.Verdict != nil && a.Verdict.Tests != nil {
		for _, split := range []*grading.Split{&a.Verdict.Tests.FailToPass, &a.Verdict.Tests.PassToPass} {
			split.Success, split.Failure = s.list(split.Success), s.list(split.Failure)
		}
	}
	for _, list := range []*[]string{&a.Env, &a.Limits.Unenforced, &a.Deviations, &a.Warnings} {
		*list = s.list(*list)
	}
}

// distinguish adds the run, then the source, to names that several sets have.
func distinguish(sets []*Set) {
	for _, more := range []func(*Set) string{
		func(s *Set) string { return s.Run },
		func(s *Set) string { return s.Source },
	} {
		count := map[string]int{}
		for _, s := range sets {
			count[s.Name]++
		}
		for _, s := range sets {
			if add := more(s); count[s.Name] > 1 && add != "" {
				s.Name += " (" + add + ")"
			}
		}
	}
}

// find is the path of a source: itself, or a run's folder.
func find(name, root string) (string, error) {
	_, err := os.Stat(name)
	if err == nil {
		return name, nil
	}
	run := filepath.Join(root, "logs", "run_evaluation", name)
	if _, runErr := os.Stat(run); runErr == nil {
		return run, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s: no such file or folder, and no run of this name in %s; give --out the folder that holds logs/", name, filepath.Dir(run))
	}
	return "", err
}

func loadPath(ctx context.Context, path string, o Options) ([]*Set, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		if filepath.Ext(path) == ".jsonl" {
			return loadJournal(ctx, path, o)
		}
		return loadFile(path)
	}
	switch {
	case isFile(path, "run.json"):
		return loadRun(ctx, path, o)
	case isSubmission(path):
		s, err := loadSubmission(ctx, path, o)
		if err != nil {
			return nil, err
		}
		return []*Set{s}, nil
	case isDir(path, "logs", "run_evaluation"):
		return loadFolders(ctx, filepath.Join(path, "logs", "run_evaluation"), o)
	case isModelFolder(path):
		s, err := loadModelFolder(ctx, path, filepath.Base(filepath.Dir(path)), o)
		if err != nil {
			return nil, err
		}
		return []*Set{s}, nil
	}
	return loadFolders(ctx, path, o)
}

// loadFolders reads a folder of runs, of models of one run, or of submissions.
func loadFolders(ctx context.Context, path string, o Options) ([]*Set, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var sets []*Set
	var errs []error
	for _, e := range entries {
		child := filepath.Join(path, e.Name())
		if info, err := os.Stat(child); err != nil || !info.IsDir() {
			continue
		}
		if !isFile(child, "run.json") && !isSubmission(child) && !isModelFolder(child) && !isRunFolder(child) {
			continue
		}
		got, err := loadPath(ctx, child, o)
		errs = append(errs, err)
		sets = append(sets, got...)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(sets) == 0 {
		return nil, &FileError{Path: path, Err: fmt.Errorf("%w: want run.json, results/results.json or metadata.yaml, or folders with report.json", ErrNothing)}
	}
	return sets, nil
}

// loadFile reads one JSON file, whatever it is.
func loadFile(path string) ([]*Set, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	var keys map[string]json.RawMessage
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&keys); err != nil {
		return nil, jsonError(path, data, err)
	}
	has := func(names ...string) bool {
		return !slices.ContainsFunc(names, func(n string) bool { _, ok := keys[n]; return !ok })
	}
	if err := noDuplicates(path, data); err != nil {
		return nil, err
	}
	switch {
	case has("outcomes", "baseline"):
		return loadBaseline(path, data)
	case has("summary", "instances"):
		return loadDocuments(path, data)
	case has("resolved_ids"):
		return loadSummary(path, data)
	case has("resolved") && filepath.Base(filepath.Dir(path)) == "results":
		return nil, &FileError{Path: path, Err: errors.New("is part of a submission; give the submission's folder")}
	case has("run_id", "models"):
		return nil, &FileError{Path: path, Err: errors.New("is the record of a run; give the run's folder")}
	}
	return nil, &FileError{Path: path, Err: fmt.Errorf("%w: want a run summary (with resolved_ids), a baseline, or what --json prints", ErrNothing)}
}

// maxFile bounds what is read whole.
const maxFile = 256 << 20

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &FileError{Path: path, Err: errors.New("is not a regular file")}
	}
	if info.Size() > maxFile {
		return nil, &FileError{Path: path, Err: fmt.Errorf("has %d bytes, more than any results have", info.Size())}
	}
	data, err := os.ReadFile(path)
	if err == nil && manyValues(data) {
		err = &FileError{Path: path, Err: fmt.Errorf("holds more than %d values, more than any results have", maxValues)}
	}
	return data, err
}

// maxValues bounds what is made of a file: of a few bytes each, values take some
// hundred in memory.
const maxValues = 4 << 20

// manyValues counts the values of a JSON text by the commas between them.
func manyValues(data []byte) bool {
	n, text := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			text = !text
		case text && c == '\\':
			i++
		case c == ',' && !text:
			n++
		}
	}
	return n >= maxValues
}

// decode reads JSON of one file into v and says where it is wrong.
func decode(path string, data []byte, v any) error {
	if err := json.Unmarshal(data, v); err != nil {
		return jsonError(path, data, err)
	}
	return nil
}

// noDuplicates refuses an object with a key twice: whichever of the two counts, the
// file says something else as well. It also counts objects, which take most room.
func noDuplicates(path string, data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	type level struct {
		keys map[string]bool // nil in a list
		key  bool            // a key comes next
	}
	var stack []level
	objects := 0
	for {
		token, err := dec.Token()
		if err != nil {
			return nil // whoever reads it says what is wrong
		}
		var top *level
		if len(stack) > 0 {
			top = &stack[len(stack)-1]
		}
		switch token {
		case json.Delim('{'):
			if top != nil {
				top.key = true
			}
			stack = append(stack, level{map[string]bool{}, true})
			if objects++; objects > 4*maxInstances {
				return &FileError{path, lineAt(data, dec.InputOffset()), fmt.Errorf("has more than %d objects, more than any results have", 4*maxInstances)}
			}
			continue
		case json.Delim('['):
			if top != nil {
				top.key = true
			}
			stack = append(stack, level{})
			continue
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:len(stack)-1]
			continue
		}
		if top == nil || top.keys == nil {
			continue
		}
		if !top.key { // a value
			top.key = true
			continue
		}
		name, _ := token.(string)
		if top.keys[name] {
			return &FileError{path, lineAt(data, dec.InputOffset()), fmt.Errorf("key %q is there twice in one object", name)}
		}
		top.keys[name], top.key = true, false
	}
}

func jsonError(path string, data []byte, err error) error {
	offset := int64(-1)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &kind):
		offset = kind.Offset
		err = fmt.Errorf("%s is a %s, want %s", kind.Field, kind.Value, wanted(kind.Type.String()))
	case len(bytes.TrimSpace(data)) == 0:
		err = errors.New("is empty")
	default: // cut off
		offset = int64(len(data))
	}
	out := &FileError{Path: path, Err: err}
	if offset >= 0 {
		out.Line = lineAt(data, offset)
	}
	return out
}

// wanted names a Go type as JSON would.
func wanted(goType string) string {
	switch {
	case strings.HasPrefix(goType, "[]"):
		return "a list"
	case strings.HasPrefix(goType, "map"), strings.Contains(goType, "."):
		return "an object"
	case goType == "string":
		return "a string"
	case goType == "bool":
		return "true or false"
	}
	return "a number"
}

// lineAt is the line, from 1, of a position.
func lineAt(data []byte, offset int64) int {
	return 1 + bytes.Count(data[:min(max(offset, 0), int64(len(data)))], []byte("\n"))
}

// lineOf is the line where a name stands in quotes the n-th time, 0 if it does not.
func lineOf(data []byte, name string, n int) int {
	quoted, _ := json.Marshal(name)
	at := 0
	for range n {
		i := bytes.Index(data[at:], quoted)
		if i < 0 {
			return 0
		}
		at += i + len(quoted)
	}
	return lineAt(data, int64(at))
}

func isFile(parts ...string) bool {
	info, err := os.Stat(filepath.Join(parts...))
	return err == nil && info.Mode().IsRegular()
}

func isDir(parts ...string) bool {
	info, err := os.Stat(filepath.Join(parts...))
	return err == nil && info.IsDir()
}
