package client

import (
	"context"
	"io"
	"strconv"
	"time"
)

// Document is a file that is found by searches.
type Document struct {
	ID       string    `json:"id"`
	URI      string    `json:"uri"`
	Name     string    `json:"name"`
	Path     string    `json:"path,omitzero"`
	Folder   string    `json:"folder,omitzero"` // the watched folder that it belongs to
	Kind     string    `json:"kind,omitzero"`   // "pdf", "docx", "html", "mail", "feed" or "text"
	Title    string    `json:"title,omitzero"`
	Size     int       `json:"size"` // bytes
	Hash     string    `json:"hash"` // SHA-256 of the content
	Pages    int       `json:"pages,omitzero"`
	Passages int       `json:"passages"`
	Own      bool      `json:"own,omitzero"` // its text is the person's own
	Cut      bool      `json:"cut,omitzero"` // the end of its text is not searched
	Status   string    `json:"status"`       // "ready", or "refused": it cannot be read
	Reason   string    `json:"reason,omitzero"`
	Code     string    `json:"code,omitzero"`    // of the reason
	Triples  int       `json:"triples,omitzero"` // that its content states in the graph
	Notice   string    `json:"notice,omitzero"`  // why what it states is not in the graph
	Labels   []string  `json:"labels,omitempty"`
	Added    time.Time `json:"added"`
	Changed  time.Time `json:"changed"`

	Text []Passage `json:"text,omitempty"` // only if a single document was requested
}

// Passage is a part of a document's text.
type Passage struct {
	Text    string `json:"text"`
	Cite    string `json:"citation"` // "report.pdf p. 3", "notes.md:120"
	Heading string `json:"heading,omitzero"`
	Page    int    `json:"page,omitzero"`
	Line    int    `json:"line,omitzero"`
	Message int    `json:"message,omitzero"` // of a mailbox, from 1
}

// DocumentHit is a passage that a search has found.
type DocumentHit struct {
	Passage
	Document string   `json:"document"` // the id
	Name     string   `json:"name"`
	Path     string   `json:"path,omitzero"`
	Labels   []string `json:"labels,omitempty"`
	Score    float64  `json:"score"` // the higher, the better; comparable within one search
}

// DocumentFolder is a watched folder, and how far it is read.
type DocumentFolder struct {
	Path    string `json:"path"`
	Found   int    `json:"found"`            // files that can be read by their names
	Read    int    `json:"read"`             // of those
	Refused int    `json:"refused,omitzero"` // of those
	Reading string `json:"reading,omitzero"` // the file that is being read
	Error   string `json:"error,omitzero"`   // why the folder cannot be read
}

// DocumentList is all that is searched.
type DocumentList struct {
	Documents []Document       `json:"documents"`
	Folders   []DocumentFolder `json:"folders"`
}

// Documents lists the documents and the watched folders.
func (c *Client) Documents(ctx context.Context) (DocumentList, error) {
	return ask[DocumentList](ctx, c, "GET /documents", nil, nil)
}

// AddDocument adds a file, or replaces the one with the same path. own says that it is the person's own text.
func (c *Client) AddDocument(ctx context.Context, path string, own bool, data io.Reader) (Document, error) {
	return ask[Document](ctx, c, "POST /documents", Params{"path": path, "own": strconv.FormatBool(own)}, data)
}

// Document shows a document, by its id, path, name or words of that.
func (c *Client) Document(ctx context.Context, which string) (Document, error) {
	if which == "search" { // GET /documents/search is the search; blanks around a name do not count
		which = " search"
	}
	return ask[Document](ctx, c, "GET /documents/{id}", Params{"id": which}, nil)
}

// RemoveDocument erases a document. The file itself stays.
func (c *Client) RemoveDocument(ctx context.Context, which string) (Document, error) {
	return ask[Document](ctx, c, "DELETE /documents/{id}", Params{"id": which}, nil)
}

// SearchDocuments finds passages, the best first.
func (c *Client) SearchDocuments(ctx context.Context, query string, limit int) ([]DocumentHit, error) {
	out, err := ask[struct{ Hits []DocumentHit }](ctx, c, "GET /documents/search", Params{"q": query, "limit": strconv.Itoa(limit)}, nil)
	return out.Hits, err
}
