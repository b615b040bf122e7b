package datasets

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path"
	"sort"
	"strconv"
	"strings"
)

// Selection says which instances of a dataset to use. The parts narrow one
// after the other: ids (IDs and the file's together), repositories, slice,
// sample. The zero value selects everything.
type Selection struct {
	IDs     []string // ids or globs; each may hold several, separated by commas
	Repos   []string // owner/name or globs; likewise
	IDsFile string   // a file of ids or globs, one a line, # for comments; or a JSON list
	Slice   string   // as in Python: "10:20", ":5", "-5:", "::2"
	Sample  int      // how many to draw at random; 0 means all
	Seed    int64    // of the draw; the same seed draws the same instances
}

// Apply returns the selected instances in dataset order. Ids, globs and
// repositories that match nothing are an error that lists them all.
func (s Selection) Apply(instances []Instance) ([]Instance, error) {
	if s.Sample < 0 {
		return nil, fmt.Errorf("sample %d: give how many instances to draw", s.Sample)
	}
	keep, problems := s.byName(instances)
	if err := problems.Err(); err != nil {
		return nil, err
	}
	if s.Slice != "" {
		slice, err := parseSlice(s.Slice)
		if err != nil {
			return nil, err
		}
		keep = slice.apply(keep)
	}
	keep = sample(keep, s.Sample, s.Seed)
	if len(keep) == 0 && len(instances) > 0 {
		return nil, fmt.Errorf("the selection leaves none of the %d instances (check slice and repositories)", len(instances))
	}
	out := make([]Instance, len(keep))
	for i, index := range keep {
		out[i] = instances[index]
	}
	return out, nil
}

// byName returns the indexes of the instances with the wanted ids and repositories.
func (s Selection) byName(instances []Instance) ([]int, Problems) {
	var problems Problems
	ids := splitTerms(s.IDs, Position{})
	if s.IDsFile != "" {
		terms, err := readTerms(s.IDsFile)
		if err != nil {
			problems.fatalErr(Position{File: s.IDsFile}, "", err)
		} else if len(terms) == 0 {
			problems.fatal(Position{File: s.IDsFile}, "", "holds no instance ids", "write one a line")
		}
		ids = append(ids, terms...)
	}
	idOf := func(i int) string { return instances[i].ID }
	repoOf := func(i int) string { return instances[i].Repo }
	keep := make([]int, len(instances))
	for i := range keep {
		keep[i] = i
	}
	keep = matchTerms(keep, ids, "instance id", idOf, &problems)
	keep = matchTerms(keep, splitTerms(s.Repos, Position{}), "repository", repoOf, &problems)
	return keep, problems
}

// term is one id, repository or glob, and where it was written.
type term struct {
	text string
	pos  Position
}

func splitTerms(list []string, pos Position) []term {
	var terms []term
	for _, item := range list {
		for part := range strings.SplitSeq(item, ",") {
			if part = strings.TrimSpace(part); part != "" {
				terms = append(terms, term{part, pos})
			}
		}
	}
	return terms
}

func readTerms(file string) ([]term, error) {
	in, err := openText(file)
	if err != nil {
		return nil, pathless(err)
	}
	defer in.Close()
	const most = 16 << 20
	data, err := io.ReadAll(io.LimitReader(in, most+1))
	if err != nil {
		return nil, readFault(err)
	}
	if len(data) > most {
		return nil, errors.New("is larger than 16 MiB; that is no file of ids")
	}
	text := strings.TrimSpace(string(data))
	var ids []string
	if strings.HasPrefix(text, "[") && json.Unmarshal([]byte(text), &ids) == nil {
		return splitTerms(ids, Position{File: file}), nil
	}
	var terms []term
	for i, line := range strings.Split(string(data), "\n") {
		line, _, _ = strings.Cut(line, "#")
		terms = append(terms, splitTerms([]string{line}, Position{File: file, Line: i + 1})...)
	}
	return terms, nil
}

// matchTerms keeps the indexes whose name matches one of the terms; no terms
// keep all.
func matchTerms(keep []int, terms []term, what string, nameOf func(int) string, problems *Problems) []int {
	if len(terms) == 0 {
		return keep
	}
	byName := map[string][]int{}
	var names []string
	for _, i := range keep {
		name := nameOf(i)
		if byName[name] == nil {
			names = append(names, name)
		}
		byName[name] = append(byName[name], i)
	}
	near := newSuggester(names)
	chosen := map[int]bool{}
	for _, t := range terms {
		matched, err := matchTerm(t.text, names, byName)
		switch {
		case err != nil:
			problems.fatal(t.pos, "", fmt.Sprintf("bad pattern %q", t.text), "patterns are as in a shell: * ? [a-z]")
		case len(matched) == 0 && strings.ContainsAny(t.text, "*?["):
			problems.fatal(t.pos, "", fmt.Sprintf("no %s matches %q", what, t.text), "correct the pattern")
		case len(matched) == 0:
			problems.fatal(t.pos, "", fmt.Sprintf("unknown %s %q", what, t.text), near.didYouMean(t.text, "it is not in this dataset and split"))
		}
		for _, i := range matched {
			chosen[i] = true
		}
	}
	var out []int
	for _, i := range keep {
		if chosen[i] {
			out = append(out, i)
		}
	}
	return out
}

func matchTerm(text string, names []string, byName map[string][]int) ([]int, error) {
	if exact := byName[text]; exact != nil {
		return exact, nil
	}
	var matched []int
	for _, name := range names {
		ok, err := path.Match(text, name)
		if err != nil {
			return nil, err
		}
		if ok {
			matched = append(matched, byName[name]...)
		}
	}
	return matched, nil
}

// pySlice is a Python slice with a step of at least 1, since a selection keeps
// the dataset's order.
type pySlice struct {
	start, stop       int
	hasStart, hasStop bool
	step              int
}

func parseSlice(text string) (pySlice, error) {
	s := pySlice{step: 1}
	parts := strings.Split(text, ":")
	bad := func(why string) (pySlice, error) {
		return pySlice{}, fmt.Errorf("slice %q: %s (write start:stop or start:stop:step, as 10:20, :5, -5: or ::2)", text, why)
	}
	if len(parts) < 2 || len(parts) > 3 {
		return bad("it needs one or two colons")
	}
	for i, part := range parts {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		n, err := strconv.Atoi(part)
		if err != nil {
			return bad(fmt.Sprintf("%q is no number", part))
		}
		switch i {
		case 0:
			s.start, s.hasStart = n, true
		case 1:
			s.stop, s.hasStop = n, true
		case 2:
			if n < 1 {
				return bad("the step must be 1 or more: instances keep their order")
			}
			s.step = n
		}
	}
	return s, nil
}

func (s pySlice) apply(list []int) []int {
	n := len(list)
	bound := func(value int, has bool, otherwise int) int {
		if !has {
			return otherwise
		}
		if value < 0 {
			value += n
		}
		return max(0, min(value, n))
	}
	stop := bound(s.stop, s.hasStop, n)
	var out []int
	for i := bound(s.start, s.hasStart, 0); i < stop; i += min(s.step, n) {
		out = append(out, list[i])
	}
	return out
}

// sample draws n of list, in the list's order.
func sample(list []int, n int, seed int64) []int {
	if n == 0 || n >= len(list) {
		return list
	}
	rng := rand.New(rand.NewPCG(uint64(seed), 0))
	places := rng.Perm(len(list))[:n]
	sort.Ints(places)
	out := make([]int, n)
	for i, place := range places {
		out[i] = list[place]
	}
	return out
}
