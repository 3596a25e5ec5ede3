package fault

// Distance returns the edit distance between a and b (optimal string
// alignment: insertions, deletions, substitutions and swaps of neighbours).
// Remedies that say “did you mean” use it. Only the first 128 bytes of each count.
func Distance(a, b string) int {
	a, b = a[:min(len(a), 128)], b[:min(len(b), 128)]
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
