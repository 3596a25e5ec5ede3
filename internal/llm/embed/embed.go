// Package embed is the contract of what turns texts into vectors.
package embed

import "context"

// Embedder turns texts into vectors. Safe for concurrent use.
type Embedder interface {
	// Embed returns one vector per text, in order, all of one length.
	// Errors are coded as those of llm.Model.
	Embed(ctx context.Context, texts []string) (Vectors, error)
}

// Vectors is an answer of an Embedder.
type Vectors struct {
	Model  string // "provider/model"
	Values [][]float32
	Tokens int64 // as the provider reported; zero if it did not
}
