package offline

import (
	"context"
	"hash/fnv"
	"math"
	"strings"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/search/words"
)

// Limits of the lexical embedder.
const (
	Dimensions   = 256     // of a vector
	maxEmbedded  = 1 << 20 // bytes of all texts of a request together
	embedPiece   = 4 << 10 // bytes between two looks at the context
	countBuckets = 4096
)

// lexical converts texts to vectors by hashing the stems of their words and of pairs of adjacent words. Texts
// with common words have similar vectors; meaning does not matter. The same text has the same vector on
// every machine, and a text without words has the zero vector. The memory does not depend on the text.
type lexical struct{}

// Embed implements llm.Embedder. Error codes: context_too_long, and those of ctx.
func (lexical) Embed(ctx context.Context, texts []string) (llm.Vectors, error) {
	size := 0
	for _, t := range texts {
		size += len(t)
	}
	if size > maxEmbedded {
		return llm.Vectors{}, fault.New(fault.TooLarge, "context_too_long", "the texts have %d bytes, and the offline embedder takes %d at most", size, maxEmbedded).
			WithHint("send fewer texts at once, or shorter pieces of them")
	}
	out := llm.Vectors{Model: ProviderName + "/" + EmbedderName, Values: make([][]float32, 0, len(texts))}
	for _, t := range texts {
		v, err := vectorOf(ctx, t)
		if err != nil {
			return llm.Vectors{}, fault.Of(err)
		}
		out.Values = append(out.Values, v)
		out.Tokens += tokensOf(len(t))
	}
	return out, nil
}

// vectorOf counts the words of a text in buckets, adds each bucket to one dimension with its own sign and
// the logarithm of its count, and scales the sum to length one.
func vectorOf(ctx context.Context, text string) ([]float32, error) {
	var counts [countBuckets]float64
	before := ""
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		piece := text[:min(len(text), embedPiece)]
		if n := strings.LastIndexAny(piece, " \n"); n > 0 && len(piece) < len(text) {
			piece = piece[:n] // not within a word
		}
		for _, w := range words.Split(piece) {
			if words.Common(w) {
				counts[bucket(w)] += 0.1
				continue
			}
			stem := words.Stem(w)
			counts[bucket(stem)]++
			if before != "" {
				counts[bucket(before+" "+stem)] += 0.3
			}
			before = stem
		}
		if text = text[len(piece):]; text == "" {
			break
		}
	}
	var sums [Dimensions]float64
	norm := 0.0
	for i, n := range counts {
		if n > 0 {
			sign := float64(1 - 2*(i>>8&1))
			sums[i%Dimensions] += sign * math.Log1p(n)
		}
	}
	for _, v := range sums {
		norm += v * v
	}
	out := make([]float32, Dimensions)
	if norm > 0 {
		for i, v := range sums {
			out[i] = float32(v / math.Sqrt(norm))
		}
	}
	return out, nil
}

func bucket(s string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(s)) // a hash's Write does not fail
	sum := h.Sum32()
	return (sum ^ sum>>15) % countBuckets
}
