package datasets

import (
	"fmt"
	"sort"
	"strings"
)

// suggester finds the ids meant by misspelt ones.
type suggester struct {
	known []string
	folds []string // known in lower case
	left  int      // how many more words get a suggestion: beyond that, something else is wrong
}

func newSuggester(known []string) *suggester {
	s := &suggester{known: known, folds: make([]string, len(known)), left: 50}
	for i, k := range known {
		s.folds[i] = strings.ToLower(k)
	}
	return s
}

// near returns up to three known words near to word, the nearest first.
func (s *suggester) near(word string) []string {
	if s.left <= 0 || word == "" || len(word) > maxID {
		return nil
	}
	s.left--
	fold := strings.ToLower(word)
	limit := 1 + len(fold)/6
	type candidate struct {
		distance, index int
	}
	var found []candidate
	for i, k := range s.folds {
		var d int
		switch {
		case k == fold:
			d = 0
		case len(fold) >= 5 && (strings.Contains(k, fold) || strings.Contains(fold, k)):
			d = 1
		default:
			d = editDistance(fold, k, limit)
		}
		if d <= limit {
			found = append(found, candidate{d, i})
		}
	}
	sort.SliceStable(found, func(a, b int) bool { return found[a].distance < found[b].distance })
	var out []string
	for _, c := range found[:min(3, len(found))] {
		if found[0].distance == 0 && c.distance > 0 {
			break // nothing but the case is wrong
		}
		out = append(out, s.known[c.index])
	}
	return out
}

// didYouMean words the suggestion, or returns otherwise.
func (s *suggester) didYouMean(word, otherwise string) string {
	near := s.near(word)
	if len(near) == 0 {
		return otherwise
	}
	return fmt.Sprintf("did you mean %s?", strings.Join(near, " or "))
}

// editDistance is the number of bytes to insert, drop or replace to make b of
// a; any result over limit only says "more".
func editDistance(a, b string, limit int) int {
	if d := len(a) - len(b); d > limit || -d > limit {
		return limit + 1
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal, best := row[0], i
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost = 1 + min(diagonal, row[j], row[j-1])
			}
			diagonal, row[j] = row[j], cost
			best = min(best, cost)
		}
		if best > limit {
			return limit + 1
		}
	}
	return row[len(b)]
}
