package llm

import (
	"cmp"
	"context"
	"strings"

	"steward/internal/fault"
	"steward/internal/message"
)

// Embedder converts texts to vectors. It is safe for concurrent use.
type Embedder interface {
	// Embed returns one vector per text, in order and of the same length. Its error codes are those of
	// Model.
	Embed(ctx context.Context, texts []string) (Vectors, error)
}

// Vectors is the result of an Embedder.
type Vectors struct {
	Model  string // "provider/model"
	Values [][]float32
	Tokens int64 // as the provider reported; zero if it did not
}

// Embedding is what a name resolves to as an embedding model.
type Embedding struct {
	Name     string // "provider/model"
	Embedder Embedder
}

// Embedder returns the embedder for an alias or a "provider/model" name; the empty name is
// EmbedAlias. Vectors of different models cannot be compared, so calls never fall back to another
// model: an alias stands for its first model whose provider is available. Error codes:
// model_not_found, embed_unsupported.
func (m *Models) Embedder(name string) (Embedding, error) {
	m = m.now()
	names := []string{cmp.Or(name, EmbedAlias)}
	if a, ok := m.aliases[names[0]]; ok {
		names = a.Models
	}
	var first error
	for _, full := range names {
		e, err := m.embedder(full)
		if err == nil {
			return e, nil
		}
		first = cmp.Or(first, err)
	}
	return Embedding{}, first
}

func (m *Models) embedder(full string) (Embedding, error) {
	p, err := m.provider(full)
	if err != nil {
		return Embedding{}, err
	}
	_, model, _ := strings.Cut(full, "/")
	if p, ok := p.(interface {
		Embedder(model string) Embedder
	}); ok {
		if e := p.Embedder(model); e != nil {
			if m.cfg.Telemetry != nil {
				e = countedEmbedder{e, full, m}
			}
			return Embedding{full, e}, nil
		}
	}
	return Embedding{}, fault.New(fault.Unsupported, "embed_unsupported", "%s cannot embed texts", full).
		WithHint("set the alias %q to a model that can", EmbedAlias)
}

// countedEmbedder is an embedder whose calls are counted.
type countedEmbedder struct {
	Embedder
	name   string
	models *Models
}

// Embed implements Embedder.
func (c countedEmbedder) Embed(ctx context.Context, texts []string) (Vectors, error) {
	ctx, call := c.models.cfg.Telemetry.EmbedCall(ctx, c.name, c.models.traced(c.name))
	v, err := c.Embedder.Embed(ctx, texts)
	price, _ := c.models.Price(c.name)
	used := message.Usage{Input: v.Tokens}
	call.End(used, price.Cost(used), nil, err)
	return v, err
}
