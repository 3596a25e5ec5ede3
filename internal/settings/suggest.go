package settings

import "strings"

// Likely returns the word that was probably meant, or "" if none is near:
// the nearest by edits (a swap of neighbours counts once), at most a third of
// its letters away, or the only one that begins with word.
func Likely(word string, words []string) string {
	best, at := "", 0
	for _, w := range words {
		d := distance(strings.ToLower(word), strings.ToLower(w))
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

// distance is the optimal string alignment distance over bytes.
func distance(a, b string) int {
	const long = 64
	if len(a) > long || len(b) > long {
		return long
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
