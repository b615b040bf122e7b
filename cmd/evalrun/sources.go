package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/evalrun/evalrun/cache"
	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/datasets/hub"
	"github.com/evalrun/evalrun/reports"
	"github.com/evalrun/evalrun/reports/results"
)

// sourceHelp says what commands that read results take.
const sourceHelp = `A source is the name of a run (below --out), or a file or folder: a run's folder, a
summary <model>.<run>.json or logs/run_evaluation of the official harness, a submission
(metadata.yaml, results/, logs/), a folder of them, a baseline, or what --json printed.
SOURCE::MODEL takes one model of several.
`

// universeFlags name the dataset behind results, where it is needed.
type universeFlags struct {
	Dataset  string   `short:"d" placeholder:"NAME" help:"Dataset of the results, as for run: for slices, and to count what submissions do not name."`
	Split    string   `short:"s" default:"test" help:"Split of the dataset."`
	Instance []string `short:"i" placeholder:"ID" help:"Only these instances of the dataset (ids or globs)."`
	Repo     []string `placeholder:"OWNER/NAME" help:"Only instances of these repositories of the dataset (globs allowed)."`
	Unknown  bool     `name:"allow-unknown" help:"Results at instances the dataset does not have are left out, not refused."`
}

// load is nil without a dataset.
func (f universeFlags) load(e *env) (*results.Universe, error) {
	if f.Dataset == "" {
		if len(f.Instance)+len(f.Repo) > 0 {
			return nil, fmt.Errorf("--instance and --repo select from a dataset: give it with -d")
		}
		return nil, nil
	}
	client := hub.New(hub.Options{CacheDir: filepath.Join(cache.Dir(), "hub"), Log: func(msg string) { fmt.Fprintln(e.stderr, msg) }})
	ds, err := datasets.Load(e.ctx, f.Dataset, datasets.LoadOptions{Split: f.Split, Hub: client})
	if err != nil {
		return nil, fmt.Errorf("dataset %s:\n%w", f.Dataset, err)
	}
	selected, err := datasets.Selection{IDs: f.Instance, Repos: f.Repo}.Apply(ds.Instances)
	if err != nil {
		return nil, err
	}
	u := &results.Universe{Name: f.Dataset, SHA256: ds.SHA256, Facts: map[string]results.Facts{}, All: map[string]bool{}, AllowUnknown: f.Unknown}
	for i := range ds.Instances {
		u.All[ds.Instances[i].ID] = true
	}
	for i := range selected {
		inst := &selected[i]
		u.IDs = append(u.IDs, inst.ID)
		u.Facts[inst.ID] = results.Facts{
			Repo: inst.Repo, Language: inst.Language, Difficulty: inst.Difficulty, Created: inst.CreatedAt, PatchLines: changedLines(inst.Patch),
		}
	}
	return u, nil
}

// changedLines counts the lines a patch adds and removes.
func changedLines(patch string) int {
	n := 0
	for line := range strings.SplitSeq(patch, "\n") {
		if strings.HasPrefix(line, "+") && !strings.HasPrefix(line, "+++ ") || strings.HasPrefix(line, "-") && !strings.HasPrefix(line, "--- ") {
			n++
		}
	}
	return n
}

// facts of a universe, which may be nil.
func facts(u *results.Universe) map[string]results.Facts {
	if u == nil {
		return nil
	}
	return u.Facts
}

// readIDs reads a file with one instance id a line; "#" starts a comment.
func readIDs(path string) ([]string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	text := strings.TrimPrefix(string(data), "\ufeff") // a mark that editors write
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return nil, fmt.Errorf("%s is no text in UTF-8: save it as such, with one instance id a line", path)
	}
	var ids []string
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) > 1 {
			return nil, fmt.Errorf("%s:%d: %q: want one instance id a line", path, n, strings.TrimSpace(line))
		}
		ids = append(ids, words...)
	}
	return ids, nil
}

// idList is a file of instance ids that was given with a flag.
type idList struct {
	flag, path string
	ids        []string
}

// readList reads such a file; no path is an empty list.
func readList(flag, path string) (idList, error) {
	l := idList{flag: flag, path: path}
	if path == "" {
		return l, nil
	}
	var err error
	if l.ids, err = readIDs(path); err != nil {
		return l, fmt.Errorf("%s: %w", flag, err)
	}
	return l, nil
}

// set is nil for an empty list.
func (l idList) set() map[string]bool {
	if len(l.ids) == 0 {
		return nil
	}
	set := make(map[string]bool, len(l.ids))
	for _, id := range l.ids {
		set[id] = true
	}
	return set
}

// warn tells of ids that no set has: they do nothing, and may be misspelt.
func (l idList) warn(e *env, sets ...*results.Set) {
	const most = 3
	var unknown []string
	for _, id := range l.ids {
		if !slices.ContainsFunc(sets, func(s *results.Set) bool { return s.Find(id) != nil }) && !slices.Contains(unknown, id) {
			unknown = append(unknown, id)
		}
	}
	if len(unknown) == 0 {
		return
	}
	text := strings.Join(unknown[:min(most, len(unknown))], ", ")
	if len(unknown) > most {
		text += ", …"
	}
	fmt.Fprintf(e.stderr, "warning: %s %s: %d ids are of no instance here: %s\n", l.flag, l.path, len(unknown), reports.SafeText(text))
}

// showNotes prints what is odd in results to standard error.
func showNotes(e *env, sets []*results.Set) {
	shown := 0
	for _, s := range sets {
		for _, w := range s.Warnings {
			if shown == maxWarnings {
				fmt.Fprintln(e.stderr, "warning: … and more")
				return
			}
			shown++
			fmt.Fprintln(e.stderr, "warning:", reports.SafeText(w))
		}
	}
}
