package vector

import (
	"context"
	"hash/fnv"
	"math"

	"steward/internal/llm"
	"steward/internal/search/meaning"
	"steward/internal/search/words"
)

// LexicalName is the name of the model that Lexical returns.
const LexicalName = "offline/lexical"

// lexicalDims is the length of a lexical vector: the stems' part, then the word vectors'.
const (
	lexicalDims = 256
	stemDims    = lexicalDims - meaning.Dimensions
)

// Lexical returns the built-in model. It runs in the process, knows words that are used
// alike in English, and stems. It does not know what a sentence says, and is not called
// semantic.
func Lexical() Model { return Model{Name: LexicalName, Embedder: lexical{}, Lexical: true} }

type lexical struct{}

// Embed implements llm.Embedder.
func (lexical) Embed(ctx context.Context, texts []string) (llm.Vectors, error) {
	out := llm.Vectors{Model: LexicalName}
	for _, t := range texts {
		if err := ctx.Err(); err != nil {
			return llm.Vectors{}, err
		}
		out.Values = append(out.Values, lexicalVector(t))
	}
	return out, nil
}

func lexicalVector(text string) []float32 {
	var sum meaning.Sum
	counts := map[string]float64{}
	for _, w := range words.Split(text) {
		if words.Common(w) {
			continue
		}
		sum.Add(w, 1)
		counts[words.Stem(w)]++
	}
	out := make([]float32, lexicalDims)
	stems := out[:stemDims]
	var bits [stemDims]float64
	for stem, n := range counts {
		h := fnv.New64a()
		h.Write([]byte(stem)) // a hash's Write does not fail
		at := h.Sum64()
		// Rounding makes the sum independent of the order of a map.
		part := math.Round(math.Log1p(n) * 1024)
		if at>>63 == 1 {
			part = -part
		}
		bits[at%stemDims] += part
	}
	norm := 0.0
	for _, b := range bits {
		norm += b * b
	}
	if norm > 0 {
		for i, b := range bits {
			stems[i] = float32(b / math.Sqrt(norm))
		}
	}
	sum.Unit()
	copy(out[stemDims:], sum[:])
	return out
}
