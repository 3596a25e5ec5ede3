package search

import (
	"strings"

	"steward/internal/fault"
)

// Mode is what messages are found by.
type Mode string

// The modes. Hybrid is the default where there is an index of vectors: it merges the answers
// of the two others by reciprocal rank fusion. Vectors are made by the embedding model; without one they
// are made of words, and only called lexical (Page.By). The order Newest, and queries with
// quoted or excluded words, are answered by words alone.
const (
	ByText    Mode = "text"
	ByVectors Mode = "vectors"
	Hybrid    Mode = "hybrid"
)

// Check returns mode_unknown for anything but the modes and the empty one.
func (m Mode) Check() error {
	switch m {
	case "", ByText, ByVectors, Hybrid:
		return nil
	}
	return fault.New(fault.Invalid, "mode_unknown", "unknown mode %.40q", m).WithHint("use text, vectors or hybrid")
}

// What vectors are made of, in Page.By.
const (
	BySemantic = "semantic" // an embedding model made them
	ByLexical  = "lexical"  // they are made of words, without a model
)

// Prefixes returns what an embedding model wants before a document and before a query, as the cards of
// nomic-embed-text and EmbeddingGemma say.
func Prefixes(model string) (document, query string) {
	switch {
	case strings.Contains(model, "nomic-embed-text"):
		return "search_document: ", "search_query: "
	case strings.Contains(model, "embeddinggemma"):
		return "title: none | text: ", "task: search result | query: "
	}
	return "", ""
}
