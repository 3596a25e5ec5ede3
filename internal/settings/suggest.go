package settings

import (
	"strings"

	"steward/internal/fault"
)

// Likely returns the word that was probably meant, or "" if none is near:
// the nearest by edits (a swap of neighbours counts once), at most a third of
// its letters away, or the only one that begins with word.
func Likely(word string, words []string) string {
	best, at := "", 0
	for _, w := range words {
		d := fault.Distance(strings.ToLower(word), strings.ToLower(w))
		if near := max(1, len(w)/3); d <= near && (best == "" || d < at) {
			best, at = w, d
		}
	}
	if best != "" || len(word) < 3 {
		return best
	}
	for _, w := range words {
		if strings.HasPrefix(w, word) {
			if best != "" {
				return ""
			}
			best = w
		}
	}
	return best
}
