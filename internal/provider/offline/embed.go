package offline

import (
	"context"
	"math"
	"slices"
	"strings"

	"steward/internal/embed"
	"steward/internal/fault"
)

// Dimensions is the length of the lexical embedder's vectors.
const Dimensions = 256

// lexical turns texts into vectors by hashing: stems of words, the groups of
// words that are used for one another, and pieces of words, each weighted by
// the logarithm of its count, signed, and scaled to length one. Texts that
// share words, or parts of words, point the same way. The same text gives the
// same vector on every machine; a text without a word gives the zero vector.
type lexical struct{}

// Weights of the features of a word.
const (
	weightStem    = 1.0
	weightStop    = 0.1
	weightConcept = 0.4
	weightGram    = 0.3 // of a whole word's grams together
)

// Embed implements embed.Embedder. Its only error is that of ctx.
func (lexical) Embed(ctx context.Context, texts []string) (embed.Vectors, error) {
	out := embed.Vectors{Model: ProviderName + "/" + EmbedderName, Values: make([][]float32, 0, len(texts))}
	for _, t := range texts {
		if err := ctx.Err(); err != nil {
			return embed.Vectors{}, fault.Of(err)
		}
		out.Values = append(out.Values, vectorOf(t))
		out.Tokens += tokensOf(len(t))
	}
	return out, nil
}

// feature is one thing that a text has: where it goes in the vector, with
// which sign, and with what weight.
type feature struct {
	hash   uint64
	weight float64
}

func vectorOf(text string) []float32 {
	feats := features(text)
	slices.SortFunc(feats, func(a, b feature) int {
		switch {
		case a.hash < b.hash:
			return -1
		case a.hash > b.hash:
			return 1
		}
		return 0
	})
	var sums [Dimensions]float64
	for i := 0; i < len(feats); {
		j, total := i, 0.0
		for ; j < len(feats) && feats[j].hash == feats[i].hash; j++ {
			total += feats[j].weight
		}
		// weight × (1 + ln count), so that repeating a word does not drown the rest
		n := float64(j - i)
		v := float64(total/n) * float64(1+math.Log(n))
		if feats[i].hash>>63 == 1 {
			v = -v
		}
		sums[feats[i].hash%Dimensions] += v
		i = j
	}
	norm := 0.0
	for _, v := range sums {
		norm += float64(v * v)
	}
	out := make([]float32, Dimensions)
	if norm == 0 {
		return out
	}
	norm = math.Sqrt(norm)
	for i, v := range sums {
		out[i] = float32(v / norm)
	}
	return out
}

func features(text string) []feature {
	var out []feature
	for _, w := range splitName(text) {
		s := stem(w)
		if stopwords[w] {
			out = append(out, feature{hash64("w", s), weightStop})
			continue
		}
		out = append(out, feature{hash64("w", s), weightStem})
		for _, c := range concepts[s] {
			out = append(out, feature{hash64("c", conceptKey(c)), weightConcept / float64(len(concepts[s]))})
		}
		out = grams(out, s)
	}
	return out
}

// grams adds the pieces of three and four characters of a word with its ends marked.
func grams(out []feature, word string) []feature {
	runes := []rune("^" + strings.ToLower(word) + "$")
	count := max(0, len(runes)-2) + max(0, len(runes)-3)
	for n := 3; n <= 4; n++ {
		for i := 0; i+n <= len(runes); i++ {
			out = append(out, feature{hash64("g", string(runes[i:i+n])), weightGram / math.Sqrt(float64(count))})
		}
	}
	return out
}

// hash64 is FNV-1a with a final mix, so that all its bits depend on all of the input.
func hash64(kind, s string) uint64 {
	h := uint64(14695981039346656037)
	for _, part := range [2]string{kind, s} {
		for i := range len(part) {
			h = (h ^ uint64(part[i])) * 1099511628211
		}
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	return h ^ h>>33
}
