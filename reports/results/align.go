package results

import (
	"fmt"
	"slices"
	"strings"
)

// Align gives all sets the same instances, or says why they cannot have them.
//
// With a universe its instances count. Without one those of the closed sets do,
// which must agree; open sets, which were asked a whole split, are restricted to
// them. Results at instances that the universe's dataset does not have are refused;
// common allows sets that differ, and keeps what all of them have. The notes
// say what was left out.
func Align(sets []*Set, u *Universe, common bool) (notes []string, err error) {
	if err := u.Check(sets...); err != nil {
		return nil, err
	}
	ids, err := commonIDs(sets, u, common)
	if err != nil {
		return nil, err
	}
	for _, s := range sets {
		named := len(s.Items)
		outside := s.Complete(ids)
		if len(outside) > 0 {
			notes = append(notes, fmt.Sprintf("%s: %s of %d left out, which are not among those compared", s.Name, plural(len(outside), "instance"), named))
		}
	}
	notes = append(notes, differing(sets, "datasets", func(s *Set) string { return s.Dataset })...)
	return append(notes, differing(sets, "grading rules", func(s *Set) string { return s.Rules })...), nil
}

func commonIDs(sets []*Set, u *Universe, common bool) ([]string, error) {
	var ids []string
	var from string
	if u != nil {
		ids, from = slices.Clone(u.IDs), "the dataset"
	}
	for _, s := range sets {
		if s.Open {
			continue
		}
		have := s.IDs()
		if from == "" {
			ids, from = have, s.Name
			continue
		}
		missing, extra := difference(ids, have), difference(have, ids)
		switch {
		case len(missing) == 0 && (len(extra) == 0 || u != nil):
		case common:
			ids = difference(ids, missing)
		default:
			return nil, fmt.Errorf("%s and %s are not of the same instances:\n  %s\n  %s\ngive the same selection, or --common to compare on what all have",
				from, s.Name, listed("only in "+from, missing), listed("only in "+s.Name, extra))
		}
	}
	if from == "" {
		return nil, fmt.Errorf("submissions name only some of their instances: give the dataset with -d, so that the others can be counted")
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("there is no instance that all have")
	}
	return ids, nil
}

// difference is what a has and b has not, in the order of a.
func difference(a, b []string) []string {
	in := make(map[string]bool, len(b))
	for _, id := range b {
		in[id] = true
	}
	var out []string
	for _, id := range a {
		if !in[id] {
			out = append(out, id)
		}
	}
	return out
}

func listed(what string, ids []string) string {
	if len(ids) == 0 {
		return what + ": none"
	}
	return fmt.Sprintf("%s: %d (%s)", what, len(ids), firstOf(ids))
}

func firstOf(ids []string) string {
	const most = 5
	text := strings.Join(ids[:min(most, len(ids))], ", ")
	if len(ids) > most {
		text += ", …"
	}
	return text
}

// differing notes that two sets have different values of what should be equal.
// What is not known is not told.
func differing(sets []*Set, what string, of func(*Set) string) []string {
	var first *Set
	for _, s := range sets {
		switch {
		case of(s) == "":
		case first == nil:
			first = s
		case of(s) != of(first):
			return []string{fmt.Sprintf("%s and %s have different %s", first.Name, s.Name, what)}
		}
	}
	return nil
}
