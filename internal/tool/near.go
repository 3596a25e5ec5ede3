package tool

import (
	"slices"
	"strings"
)

// Near returns at most n of the names that resemble the given one most, best
// first: what a model or a person probably meant.
func Near(name string, names []string, n int) []string {
	return nearest(FromWire(name), names, n)
}

func nearest(name string, names []string, n int) []string {
	type candidate struct {
		name string
		far  int
	}
	name = strings.ToLower(name)
	var found []candidate
	for _, other := range names {
		far := distance(clipBytes(name), clipBytes(strings.ToLower(other)))
		if sharesWord(name, other) {
			far -= 3
		}
		if far <= max(2, len(name)/3) {
			found = append(found, candidate{other, far})
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return a.far - b.far })
	out := make([]string, 0, min(n, len(found)))
	for _, c := range found[:min(n, len(found))] {
		out = append(out, c.name)
	}
	return out
}

// clipBytes bounds the work of distance.
func clipBytes(s string) string { return s[:min(len(s), 128)] }

// sharesWord reports whether two names have a word of three letters or more in common.
func sharesWord(a, b string) bool {
	split := func(s string) []string {
		return strings.FieldsFunc(s, func(r rune) bool { return r == '.' || r == '_' || r == '-' })
	}
	words := split(b)
	return slices.ContainsFunc(split(a), func(w string) bool { return len(w) > 2 && slices.Contains(words, w) })
}

// distance is the edit distance with transpositions (optimal string alignment).
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
