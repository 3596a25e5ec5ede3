// Package embed defines the interface to models that convert texts to vectors.
package embed

import "context"

// Embedder converts texts to vectors. It is safe for concurrent use.
type Embedder interface {
	// Embed returns one vector per text, in order and of the same length. Its error codes are those of
	// llm.Model.
	Embed(ctx context.Context, texts []string) (Vectors, error)
}

// Vectors is the result of an Embedder.
type Vectors struct {
	Model  string // "provider/model"
	Values [][]float32
	Tokens int64 // as the provider reported; zero if it did not
}
