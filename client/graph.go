package client

import (
	"context"
	"strconv"
	"time"
)

// Entity is something in a graph, with what is said of it.
type Entity struct {
	ID        string       `json:"id,omitzero"` // empty: it is only mentioned; otherwise its IRI, or _: and the label of a blank node
	Label     string       `json:"label"`
	Relations []Neighbour  `json:"relations"`
	Facts     []Fact       `json:"facts,omitempty"`    // about it, or that mention it, the newest first
	Texts     []SourceText `json:"texts,omitempty"`    // of the sources of the relations and facts
	Passages  []SourceText `json:"passages,omitempty"` // of messages and documents that mention its name
	More      bool         `json:"more,omitzero"`      // there are more relations
	Labels    []string     `json:"labels,omitempty"`
}

// Neighbour is a relation of an entity to another one, or to a value.
type Neighbour struct {
	Predicate string    `json:"predicate"`
	Words     string    `json:"words"`            // the predicate in plain words
	Inverse   bool      `json:"inverse,omitzero"` // the other one is the subject
	ID        string    `json:"id,omitzero"`      // of the other entity; empty: it is a value
	Label     string    `json:"label"`
	At        time.Time `json:"at"` // when it was stated
	Sources   []string  `json:"sources"`
}

// SourceText is a text that a triple comes from, or that mentions an entity.
type SourceText struct {
	Source string    `json:"source"`
	Cite   string    `json:"cite,omitzero"` // where it stands, in words
	At     time.Time `json:"at,omitzero"`   // when it was written
	Text   string    `json:"text"`
}

// GraphAnswer is the answer to a query in SPARQL.
type GraphAnswer struct {
	Vars    []string            `json:"vars,omitempty"` // SELECT: the columns
	Rows    []map[string]string `json:"rows,omitempty"` // SELECT: the terms as in N-Triples
	Boolean *bool               `json:"boolean,omitempty"`
	Triples string              `json:"triples,omitzero"` // CONSTRUCT: N-Triples
	More    bool                `json:"more,omitzero"`    // the answer was cut
	Labels  []string            `json:"labels,omitempty"`
}

// NewTriple states something. A name that is no IRI means the entity or relation of that name.
type NewTriple struct {
	Subject   string `json:"subject"`
	Predicate string `json:"predicate"`
	Object    string `json:"object,omitzero"` // an entity
	Value     string `json:"value,omitzero"`  // or a text, number or day
	Source    string `json:"source,omitzero"` // what it comes from; empty: the person
}

// GraphDocument is a document with triples.
type GraphDocument struct {
	Format string `json:"format"` // turtle, ntriples or jsonld
	Text   string `json:"text"`
	Source string `json:"source,omitzero"`
	Own    bool   `json:"own,omitzero"` // import: its content is the caller's own, and not foreign
}

// GraphChange says how many triples were added or erased.
type GraphChange struct {
	Triples int `json:"triples"`
}

// QueryGraph answers a query in SPARQL.
func (c *Client) QueryGraph(ctx context.Context, query string, limit int) (GraphAnswer, error) {
	return ask[GraphAnswer](ctx, c, "POST /graph/query", nil, map[string]any{"query": query, "limit": limit})
}

// Neighbours returns an entity by its name or IRI, with what is said of it.
func (c *Client) Neighbours(ctx context.Context, which string, limit int) (Entity, error) {
	return ask[Entity](ctx, c, "GET /graph/neighbours", Params{"of": which, "limit": strconv.Itoa(limit)}, nil)
}

// AssertTriple adds a triple.
func (c *Client) AssertTriple(ctx context.Context, t NewTriple) (GraphChange, error) {
	return ask[GraphChange](ctx, c, "POST /graph/triples", nil, t)
}

// ImportGraph adds the triples of a document.
func (c *Client) ImportGraph(ctx context.Context, d GraphDocument) (GraphChange, error) {
	return ask[GraphChange](ctx, c, "POST /graph/documents", nil, d)
}

// ExportGraph returns all triples, or those of one source.
func (c *Client) ExportGraph(ctx context.Context, format, source string) (GraphDocument, error) {
	return ask[GraphDocument](ctx, c, "GET /graph/documents", Params{"format": format, "source": source}, nil)
}

// ForgetGraph erases all triples of a source.
func (c *Client) ForgetGraph(ctx context.Context, source string) (GraphChange, error) {
	return ask[GraphChange](ctx, c, "DELETE /graph/triples", Params{"source": source}, nil)
}
