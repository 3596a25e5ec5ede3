package settings

import (
	"strings"

	"steward/internal/strict"
)

// Suggest returns the word that was probably meant: the nearest by edit distance
// or else the only one that begins with word. It returns "" if there is neither.
func Suggest(word string, words []string) string {
	best := strict.Suggest(word, words)
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
