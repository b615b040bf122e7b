package stats

import (
	"cmp"
	"slices"
)

// Holm adjusts p-values for being many (Holm 1979): an adjusted value below alpha
// is significant with the family's error kept at alpha. The order is that of the
// input.
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	adjusted := make([]float64, len(p))
	highest := 0.0
	for rank, i := range order {
		highest = max(highest, min(1, float64(len(p)-rank)*p[i]))
		adjusted[i] = highest
	}
	return adjusted
}

// TieGroups divides n ranked systems, best first, into groups: the first of a
// group and all that follow it until one is told apart from it. Who shares a
// group is not told apart from its first; two others of a group may be. With
// differs true for nobody there is one group.
func TieGroups(n int, differs func(leader, other int) bool) []int {
	groups := make([]int, n)
	leader := 0
	for i := 1; i < n; i++ {
		groups[i] = groups[i-1]
		if differs(leader, i) {
			groups[i]++
			leader = i
		}
	}
	return groups
}
