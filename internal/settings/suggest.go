package settings

import (
	"strings"

	"steward/internal/strict"
)

// Likely returns the word that was probably meant, or "" if none is near: the
// nearest by edits, or the only one that begins with word.
func Likely(word string, words []string) string {
	best := strict.Likely(word, words)
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
