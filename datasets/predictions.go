package datasets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sort"
	"strings"
)

// PredictionSet is the predictions of one model: one run.
type PredictionSet struct {
	Model string
	// Order is the place of the model among those of the input, from 0, by
	// first appearance; sets themselves are sorted by model name.
	Order       int
	Predictions PredictionList // in the order of the input, one per instance and attempt
	// Unknown are those for instances the dataset does not have.
	Unknown PredictionList
}

// PredictionOptions say how strictly predictions are read.
type PredictionOptions struct {
	// Model names the model of a folder of patches (else the folder's name is
	// used), and of records that name none (else that is an error).
	Model        string
	AllowUnknown bool // unknown instance ids are a warning
	LastWins     bool // of two predictions of a model for an instance, use the later, with a warning
	// Attempts is how many predictions a model may have for an instance; 0 is one.
	// They are attempts 1, 2 and so on, in the order of the input.
	Attempts int
	// Selected says whose patches are wanted; of the others no more is kept than
	// that they are there. Nil wants all.
	Selected      func(instanceID string) bool
	AcceptAliases bool // take keys such as "model" and "patch" for the right ones, with a warning
	// Spool keeps the predictions out of memory, and has to stay open as long as they
	// are asked for; without it they are in memory.
	Spool *Spool
}

// The keys of a prediction.
const (
	keyInstance = "instance_id"
	keyModel    = "model_name_or_path"
	keyPatch    = "model_patch"
)

// LoadPredictions reads predictions for a dataset. path is "gold" (the rows'
// own patches), "empty" (no patch for any), a .json file (list, or object by
// instance id), a .jsonl file (each also .gz or .zst), or a folder with one
// JSON file or one patch file per instance. ds may be nil, then ids are not
// checked; gold and empty need it.
//
// All problems are returned, warnings included, and err is not nil when one is
// fatal. The sets hold everything that could be read even then.
func LoadPredictions(path string, ds *Dataset, opts PredictionOptions) ([]PredictionSet, Problems, error) {
	r := newPredictionReader(ds, opts)
	switch {
	case path == "gold" || path == "empty":
		if ds == nil {
			return nil, nil, fmt.Errorf("predictions %s: they are made from a dataset, and there is none", path)
		}
		set := r.builtIn(path)
		if r.stop != nil {
			return nil, nil, fmt.Errorf("predictions %s: %w", path, r.stop)
		}
		return []PredictionSet{set}, r.problems, nil
	case path == "":
		return nil, nil, errors.New("predictions: no path given (give a file, a folder, gold or empty)")
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, fmt.Errorf("predictions %s: no such file or folder (give a .json or .jsonl file, a folder, gold or empty)", path)
	case err != nil:
		return nil, nil, fmt.Errorf("predictions %s: %w", path, pathless(err))
	case info.IsDir():
		r.readFolder(path)
	case formatOf(path) == formatJSON || formatOf(path) == formatJSONL:
		r.readFile(path, "", maxRecord)
	default:
		return nil, nil, fmt.Errorf("predictions %s: unknown kind of file (use .json or .jsonl, either with .gz or .zst; patches go into a folder as <instance_id>.diff)", path)
	}
	r.tellOthers(path)
	if len(r.sets) == 0 && r.problems.Err() == nil {
		r.problems.fatal(Position{File: path}, "", "there are no predictions", "check the path")
	}
	sets := r.sorted()
	if r.stop != nil {
		return nil, r.problems, fmt.Errorf("predictions %s: %w", path, r.stop)
	}
	return sets, r.problems, r.problems.Err()
}

type predictionReader struct {
	ds       *Dataset
	opts     PredictionOptions
	problems Problems
	sets     map[string]*PredictionSet
	last     map[[2]string]latest // by model and instance
	near     *suggester
	warned   int
	stop     error // what keeps predictions from being put aside
}

// latest is the last of the predictions of a model for an instance.
type latest struct {
	place  int // in the list
	number int // of how many it is the last
}

// maxWarned is how many warnings of one input are told one by one: of a million
// predictions many may lack a patch, and that is no reason not to read the rest.
const maxWarned = 10_000

func (r *predictionReader) warn(pos Position, id, reason, fix string) {
	if r.warned++; r.warned <= maxWarned {
		r.problems.warn(pos, id, reason, fix)
	}
}

func (r *predictionReader) tellOthers(path string) {
	if more := r.warned - maxWarned; more > 0 {
		r.problems.warn(Position{File: path}, "", fmt.Sprintf("%d more warnings like those before", more), "")
	}
}

func newPredictionReader(ds *Dataset, opts PredictionOptions) *predictionReader {
	r := &predictionReader{ds: ds, opts: opts, sets: map[string]*PredictionSet{}, last: map[[2]string]latest{}}
	if ds != nil {
		r.near = newSuggester(ds.IDs())
	}
	return r
}

// builtIn makes the gold or the empty predictions.
func (r *predictionReader) builtIn(name string) PredictionSet {
	set := PredictionSet{Model: name, Predictions: newPredictionList(name, r.opts.Spool)}
	for i := range r.ds.Instances {
		inst := &r.ds.Instances[i]
		patch := ""
		if name == "gold" {
			patch = inst.Patch
		}
		p := Prediction{InstanceID: inst.ID, Model: name, Patch: &patch, Source: inst.Source}
		if name == "gold" && p.Empty() {
			r.problems.warn(p.Source, p.InstanceID, "the row has no gold patch", "")
		}
		r.stopOn(set.Predictions.add(p, place{}))
	}
	return set
}

// readFile adds the predictions of one file. fileID is the instance id its name
// gives, for files of one prediction each.
func (r *predictionReader) readFile(path, fileID string, max int) {
	r.readText(path, fileID, func() (io.ReadCloser, error) { return openText(path) }, max)
}

func (r *predictionReader) readText(path, fileID string, open func() (io.ReadCloser, error), max int) {
	reader := &recordReader{path: path, open: open, max: max, problems: &r.problems, emit: func(rec record) {
		if r.stop != nil {
			return
		}
		id := rec.key
		if id == "" {
			id = fileID
		}
		r.record(rec, id)
	}}
	reader.read(context.Background())
}

// record turns one JSON object into a prediction. givenID is what the key or
// file name says.
func (r *predictionReader) record(rec record, givenID string) {
	p := Prediction{InstanceID: givenID, Source: rec.pos}
	usable := true
	report := func(err error) {
		usable = false
		r.problems.fatalErr(rec.pos, p.InstanceID, err)
	}
	raw, err := r.field(rec, keyInstance, givenID, givenID == "")
	if err != nil {
		report(err)
	} else if id, err := identifier(raw); err != nil {
		report(prefixed(keyInstance+" ", err, "correct the record"))
	} else if id != "" {
		p.InstanceID = id
	}
	if rec.key != "" && p.InstanceID != rec.key {
		report(&fault{fmt.Sprintf("stands under the key %q of the object by id", rec.key), "make key and instance_id equal"})
	}
	raw, err = r.field(rec, keyModel, p.InstanceID, r.opts.Model == "")
	if err != nil {
		report(err)
	} else if p.Model, err = identifier(raw); err != nil {
		report(prefixed(keyModel+" ", err, "correct the record"))
	} else if p.Model = or(p.Model, r.opts.Model); p.Model == "" {
		report(&fault{keyModel + " is empty", "name the model, in the file or with --model"})
	}
	raw, err = r.field(rec, keyPatch, p.InstanceID, true)
	if err != nil {
		report(err)
	} else if p.Patch, err = patchText(raw); err != nil {
		report(prefixed(keyPatch+" ", err, "correct the record"))
	}
	if usable {
		r.add(p, rec.place(raw))
	}
}

// identifier decodes an id or a model name: a string or null.
func identifier(raw json.RawMessage) (string, error) {
	switch kind := kindOf(raw); kind {
	case "nothing", "null":
		return "", nil
	case "a string":
		return decodeText(raw)
	default:
		return "", errors.New("is " + kind + ", not a string")
	}
}

func patchText(raw json.RawMessage) (*string, error) {
	switch kind := kindOf(raw); kind {
	case "nothing", "null":
		return nil, nil
	case "a string":
		text, err := decodeText(raw)
		return &text, err
	default:
		return nil, &fault{"is " + kind + ", not a string", "write the diff as one string, or null for none"}
	}
}

// add checks a well-formed prediction and puts it into its model's set. at is where
// its patch can be read again.
func (r *predictionReader) add(p Prediction, at place) {
	if r.stop != nil {
		return
	}
	if err := checkID(p.InstanceID); err != nil {
		r.problems.fatalErr(p.Source, p.InstanceID, err)
		return
	}
	if err := checkModel(p.Model); err != nil {
		r.problems.fatalErr(p.Source, p.InstanceID, err)
		return
	}
	set := r.sets[p.Model]
	if set == nil {
		set = &PredictionSet{Model: p.Model, Order: len(r.sets)}
		set.Predictions, set.Unknown = newPredictionList(p.Model, r.opts.Spool), newPredictionList(p.Model, r.opts.Spool)
		r.sets[p.Model] = set
	}
	list := &set.Predictions
	p.Model = set.Model // one name in memory for all
	if r.ds != nil {
		if inst, known := r.ds.Lookup(p.InstanceID); known {
			p.InstanceID = inst.ID
		} else {
			list = &set.Unknown
		}
	}
	key := [2]string{p.Model, p.InstanceID}
	last, more := r.last[key]
	switch {
	case more && r.opts.Attempts == 0:
		r.duplicate(list, last.place, p, at)
		return
	case more && last.number == r.opts.Attempts:
		r.problems.fatal(p.Source, p.InstanceID, fmt.Sprintf("a prediction of model %s more than there are attempts (%d)", p.Model, r.opts.Attempts), "remove it, or ask for more attempts")
		return
	}
	r.last[key] = latest{list.Len(), last.number + 1}
	if list == &set.Unknown && !more {
		r.unknown(p)
	}
	r.noteEmpty(p)
	r.stopOn(list.add(r.wanted(p), at))
}

// stopOn ends reading when predictions cannot be kept.
func (r *predictionReader) stopOn(err error) {
	if err != nil && r.stop == nil {
		r.stop = fmt.Errorf("keep the patches on disk: %w", err)
	}
}

func (r *predictionReader) unknown(p Prediction) {
	note := r.problems.fatal
	if r.opts.AllowUnknown {
		note = r.warn
	}
	if r.opts.AllowUnknown && r.warned >= maxWarned {
		r.warned++ // looking for what was meant takes a while
		return
	}
	note(p.Source, p.InstanceID, "unknown instance id: not in "+r.ds.Name+", split "+r.ds.Split,
		r.near.didYouMean(p.InstanceID, "give its dataset and split, or allow unknown ids"))
}

// wanted is the prediction without a patch that nobody will ask for.
func (r *predictionReader) wanted(p Prediction) Prediction {
	if r.opts.Selected != nil && !r.opts.Selected(p.InstanceID) {
		p.Patch = nil
	}
	return p
}

// duplicate handles a second prediction of a model for an instance.
func (r *predictionReader) duplicate(list *PredictionList, place int, second Prediction, at place) {
	first, err := list.At(place)
	if err != nil {
		r.stopOn(err)
		return
	}
	reason := fmt.Sprintf("a second prediction of model %s; the first is at %s", second.Model, first.Source)
	if !r.opts.LastWins {
		r.problems.fatal(second.Source, second.InstanceID, reason, "remove one, or let the last win")
		return
	}
	r.warn(second.Source, second.InstanceID, reason, "this one is used")
	r.noteEmpty(second)
	r.stopOn(list.set(place, r.wanted(second), at))
}

func (r *predictionReader) noteEmpty(p Prediction) {
	if !p.Empty() {
		return
	}
	what := "the patch holds only white space"
	switch {
	case p.Patch == nil:
		what = "the patch is null"
	case *p.Patch == "":
		what = "the patch is empty"
	}
	r.warn(p.Source, p.InstanceID, what, "it counts as an empty patch")
}

// checkModel refuses names that cannot become the name of a folder. "/" can:
// it is written as "__".
func checkModel(name string) error {
	switch {
	case strings.TrimSpace(name) == "" || name == "." || name == "..":
		return &fault{fmt.Sprintf("model name %q cannot be a folder's name", name), "give the model another name"}
	case len(name) > maxID:
		return &fault{fmt.Sprintf("model name has %d bytes, more than %d", len(name), maxID), "it becomes a file name; shorten it"}
	case oneLine(name) != name:
		return &fault{fmt.Sprintf("model name %q holds control characters", name), "give the model another name"}
	}
	return nil
}

// sorted returns the sets by model name, and warns of models whose results
// would land in one folder.
func (r *predictionReader) sorted() []PredictionSet {
	var sets []PredictionSet
	for _, s := range r.sets {
		sets = append(sets, *s)
	}
	sort.Slice(sets, func(a, b int) bool { return sets[a].Model < sets[b].Model })
	folders := map[string]string{}
	for i := range sets {
		s := &sets[i]
		folder := strings.ToLower(strings.ReplaceAll(s.Model, "/", "__"))
		if other, ok := folders[folder]; ok {
			r.problems.warn(r.firstSource(s), "", fmt.Sprintf("models %q and %q give the same folder name where case is ignored", other, s.Model), "better rename one")
		}
		folders[folder] = s.Model
	}
	return sets
}

func (r *predictionReader) firstSource(s *PredictionSet) Position {
	list := &s.Predictions
	if list.Len() == 0 {
		list = &s.Unknown
	}
	first, err := list.At(0)
	if err != nil {
		r.stopOn(err)
		return Position{}
	}
	return first.Source
}
