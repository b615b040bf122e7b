// Package results reads what graders have found, whoever wrote it down: runs of
// evalrun, summaries and log folders of the official harness, submissions to a
// leaderboard, baselines. All become one neutral Set.
//
// It must not know datasets (a Universe is given to it), statistics, or how
// anything is shown; and it never grades: an outcome is what the files say.
package results

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports"
)

// Error is the outcome of what the official harness calls an error: it did not
// reach grading, and the files do not say whose doing that was. It counts as not
// resolved, as on every leaderboard, but not as evaluated.
const Error grading.Outcome = "error"

// Kind says what a Set was read from.
type Kind string

const (
	KindRun        Kind = "run"        // run.json and attempt.json of evalrun
	KindSummary    Kind = "summary"    // <model>.<run>.json of the official harness
	KindLogs       Kind = "logs"       // logs/run_evaluation/<run>/<model> of the official harness
	KindSubmission Kind = "submission" // metadata.yaml, all_preds.jsonl, results/, logs/
	KindBaseline   Kind = "baseline"   // what `evalrun gate --write-baseline` wrote
)

// Set is what one system did at a number of instances.
type Set struct {
	Name   string // to show; different from that of every other Set of one Load
	Model  string // model_name_or_path where it is known
	Run    string // name of the run where it is known
	Kind   Kind
	Source string // file or folder it was read from

	// Items has one entry for each instance, ordered by id.
	Items []Item
	// Open: the files name only some of the instances; over the others Complete
	// says that they are unresolved.
	Open bool

	Dataset string // content hash of the dataset, where known
	Rules   string // grading rules, where known
	Info    SubmissionInfo
	Record  *reports.RunRecord // of a run of ours, else nil

	Warnings []string // what is odd in the files

	created time.Time // when the run began, where the files say it
}

// Item is the result at one instance.
type Item struct {
	ID        string
	Outcome   grading.Outcome
	Submitted bool   // there was a prediction
	Reason    string // one line, "" if none was recorded
	Repo      string // owner/name where the files say it
	// The tests of each list; nil where the files have no tests.
	FailToPass, PassToPass *Tests
	Seconds                float64
	Dir                    string           // folder with the logs, "" if there is none
	Patch                  string           // of a submission, as given, unless Light
	Record                 *reports.Attempt // of a run of ours, unless Light
}

// Tests divides the tests of one list by how they ended.
type Tests struct{ Passed, Failed []string }

// Total is the number of tests that count.
func (t *Tests) Total() int { return len(t.Passed) + len(t.Failed) }

// Resolved reports whether the instance is resolved.
func (it *Item) Resolved() bool { return it.Outcome == grading.Resolved }

// Scored reports whether the outcome is the system's own doing: a result of its
// patch, no patch at all, or an error nobody has claimed. What the environment or
// the infrastructure did is not, nor what an interruption left undone.
func (it *Item) Scored() bool {
	return it.Outcome.Evaluated() || it.Outcome == Error || (!it.Submitted && it.Outcome == grading.NotRun)
}

// SubmissionInfo is what a submission says of itself.
type SubmissionInfo struct {
	Split    string
	Date     string // 2025-08-07, from the name of its folder
	Title    string
	Org      string
	Site     string
	Models   []string
	Attempts string // "1", "2+"
	Checked  bool
	Cost     float64 // of one instance, where given
}

// Universe is the instances of a dataset, and what is known of each.
type Universe struct {
	IDs    []string // those selected
	Facts  map[string]Facts
	SHA256 string

	Name string          // of the dataset, to show
	All  map[string]bool // every instance of it, selected or not; nil: only those selected are known
	// AllowUnknown leaves out results at instances that the dataset does not have.
	// They are refused otherwise: who has them was run on other data.
	AllowUnknown bool
}

// Check refuses sets with results at instances that the dataset does not have.
// A nil universe knows of no dataset.
func (u *Universe) Check(sets ...*Set) error {
	if u == nil || u.All == nil || u.AllowUnknown {
		return nil
	}
	var errs []error
	for _, s := range sets {
		var unknown []string
		for i := range s.Items {
			if !u.All[s.Items[i].ID] {
				unknown = append(unknown, s.Items[i].ID)
			}
		}
		if len(unknown) > 0 {
			errs = append(errs, fmt.Errorf("%s: %d of its %s are not in dataset %s (%s): is it of another dataset or split? --allow-unknown leaves them out",
				s.Name, len(unknown), plural(len(s.Items), "instance"), u.Name, firstOf(unknown)))
		}
	}
	return errors.Join(errs...)
}

// Facts are what slices are cut by. What is not known is "" or 0.
type Facts struct {
	Repo, Language, Difficulty string
	Created                    string // 2019-10-11, or longer
	PatchLines                 int    // added and removed by the gold patch; 0 is unknown
}

// Find returns the item of an instance, nil if there is none.
func (s *Set) Find(id string) *Item {
	i, ok := slices.BinarySearchFunc(s.Items, id, func(it Item, id string) int { return cmp.Compare(it.ID, id) })
	if !ok {
		return nil
	}
	return &s.Items[i]
}

// IDs are the instances of the set.
func (s *Set) IDs() []string {
	ids := make([]string, len(s.Items))
	for i := range s.Items {
		ids[i] = s.Items[i].ID
	}
	return ids
}

// Resolved counts the resolved instances.
func (s *Set) Resolved() int {
	n := 0
	for i := range s.Items {
		if s.Items[i].Resolved() {
			n++
		}
	}
	return n
}

// Complete restricts the set to the instances ids and gives those it does not
// name an outcome: unresolved in an open set, not run in others. It returns the
// instances that were left out.
func (s *Set) Complete(ids []string) (outside []string) {
	known := map[string]*Item{}
	for i := range s.Items {
		known[s.Items[i].ID] = &s.Items[i]
	}
	items := make([]Item, 0, len(ids))
	seen := map[string]bool{}
	for _, id := range ids {
		if seen[id] {
			continue
		}
		seen[id] = true
		switch it := known[id]; {
		case it != nil:
			items = append(items, *it)
			delete(known, id)
		case s.Open:
			items = append(items, Item{ID: id, Outcome: grading.Unresolved, Submitted: true})
		default:
			items = append(items, Item{ID: id, Outcome: grading.NotRun, Reason: "not in " + string(s.Kind) + " " + s.Name})
		}
	}
	for id := range known {
		outside = append(outside, id)
	}
	slices.Sort(outside)
	s.Items, s.Open = items, false
	s.sort()
	return outside
}

// Select keeps the instances ids: an open set has all of them, another those that
// it names. It returns the instances that were left out.
func (s *Set) Select(ids []string) (outside []string) {
	if s.Open {
		return s.Complete(ids)
	}
	return s.Complete(slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return s.Find(id) == nil }))
}

func (s *Set) sort() {
	slices.SortFunc(s.Items, func(a, b Item) int { return cmp.Compare(a.ID, b.ID) })
}

// RepoOf is the repository of an instance: as the dataset or the files say, else
// as its id says (owner__name-number), else "".
func RepoOf(it *Item, facts Facts) string {
	if repo := cmp.Or(facts.Repo, it.Repo); repo != "" {
		return repo
	}
	owner, rest, ok := strings.Cut(it.ID, "__")
	at := strings.LastIndex(rest, "-")
	if !ok || owner == "" || at <= 0 {
		return ""
	}
	return owner + "/" + rest[:at]
}

// FileError says which file could not be used, where in it, and why.
type FileError struct {
	Path string
	Line int // 0: the whole file
	Err  error
}

func (e *FileError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s:%d: %v", e.Path, e.Line, e.Err)
	}
	return fmt.Sprintf("%s: %v", e.Path, e.Err)
}

func (e *FileError) Unwrap() error { return e.Err }
