package tool

import (
	"slices"
	"strings"

	"steward/internal/fault"
)

// SimilarNames returns at most n names that resemble the given one, the best first: what a model or a person
// probably meant.
func SimilarNames(name string, names []string, n int) []string {
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
		far := fault.Distance(name, strings.ToLower(other))
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

// sharesWord reports whether two names have a word of three letters or more in common.
func sharesWord(a, b string) bool {
	split := func(s string) []string {
		return strings.FieldsFunc(s, func(r rune) bool { return r == '.' || r == '_' || r == '-' })
	}
	words := split(b)
	return slices.ContainsFunc(split(a), func(w string) bool { return len(w) > 2 && slices.Contains(words, w) })
}
