package route

import (
	"steward/internal/search/meaning"
	"steward/internal/search/words"
)

// spoken is the words that the candidates' samples use.
type spoken struct {
	words meaning.Vocabulary
	by    [][]int // by word: the candidates that use it
}

// add notes the words of a candidate's sample.
func (s *spoken) add(text string, candidate int) {
	for _, w := range words.Split(text) {
		if words.Common(w) {
			continue
		}
		n := s.words.Add(w)
		if n == len(s.by) {
			s.by = append(s.by, nil)
		}
		if n >= 0 && (len(s.by[n]) == 0 || s.by[n][len(s.by[n])-1] != candidate) {
			s.by[n] = append(s.by[n], candidate)
		}
	}
}

const (
	leastAlike = 0.3 // similarity that counts
	mostAsked  = 64  // words of a text that are compared
)

// scores returns, for each candidate, how well it has a word for each word of a text, from 0 to 1.
func (s *spoken) scores(text string, candidates int) []float64 {
	out := make([]float64, candidates)
	similar := make([]float32, s.words.Len())
	best := make([]float32, candidates)
	all, asked := 1.0, 0
	for _, w := range words.Split(text) {
		if words.Common(w) || asked == mostAsked {
			continue
		}
		says := s.words.Compare(w, similar)
		if says == 0 {
			continue
		}
		asked++
		all += says
		clear(best)
		for n, x := range similar {
			if x < leastAlike {
				continue
			}
			for _, c := range s.by[n] {
				best[c] = max(best[c], x)
			}
		}
		for c, x := range best {
			out[c] += says * float64(x*x)
		}
	}
	for c := range out {
		out[c] /= all
	}
	return out
}
