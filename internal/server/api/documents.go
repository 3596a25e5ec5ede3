package api

import (
	"context"
	"errors"
	"io"
	"net/http"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/memory/documents"
	"steward/internal/record"
	"steward/internal/server/auth"
)

func (f *server) servesDocuments() error {
	if f.Documents == nil {
		return fault.New(fault.Unsupported, "documents_unsupported", "documents are not served here")
	}
	return nil
}

// documents lists the caller's documents, and how far the watched folders are read.
func (f *server) documents(ctx context.Context, c *call, _ struct{}) (client.DocumentList, error) {
	out := client.DocumentList{Documents: []client.Document{}}
	if err := f.servesDocuments(); err != nil {
		return out, err
	}
	list, err := f.Documents.List(ctx, c.User)
	for i := range list {
		out.Documents = append(out.Documents, documents.View(&list[i]))
	}
	out.Folders = all(f.Documents.Folders(c.User))
	return out, err
}

// addDocument adds the file in the request's body. Only a person can say that a text is their own.
func (f *server) addDocument(ctx context.Context, c *call, in struct {
	Path string `query:"path"`
	Name string `query:"name"`
	Own  bool   `query:"own"`
}) (client.Document, error) {
	if err := f.servesDocuments(); err != nil {
		return client.Document{}, err
	}
	if in.Own && !c.Attended() {
		return client.Document{}, fault.New(fault.Denied, "own_denied", "a program cannot say that a document is the person's own text").WithHint("leave own out")
	}
	if c.r.ContentLength > documents.MaxBytes {
		c.w.Header().Set("Connection", "close")
		return client.Document{}, auth.TooLarge(documents.MaxBytes)
	}
	limit := c.BodyLimit(documents.MaxBytes)
	if c.Bounded() {
		if err := c.ReserveRequest(ctx, limit); err != nil {
			return client.Document{}, err
		}
	}
	data, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, limit))
	if errors.As(err, new(*http.MaxBytesError)) {
		return client.Document{}, auth.TooLarge(limit)
	}
	if err != nil {
		return client.Document{}, fault.New(fault.Invalid, "body_unreadable", "the file was not received completely: %w", err)
	}
	if err := c.Store(ctx, int64(len(data))); err != nil {
		return client.Document{}, err
	}
	return viewDocument(f.Documents.Add(ctx, c.User, documents.File{Name: in.Name, Path: in.Path, Data: data, Own: in.Own}))
}

// documentNamed is the path parameter that names one of the caller's documents, by its id, the beginning of
// that, its path, its name, or words of it.
type documentNamed struct {
	ID string `path:"id"`
}

// document shows a document with its text.
func (f *server) document(ctx context.Context, c *call, in documentNamed) (client.Document, error) {
	if err := f.servesDocuments(); err != nil {
		return client.Document{}, err
	}
	d, err := f.Documents.Get(ctx, c.User, in.ID)
	if err != nil {
		return client.Document{}, err
	}
	text, err := f.Documents.Text(ctx, c.User, d.ID)
	v := documents.View(&d)
	for i := range text.Parts {
		p := &text.Parts[i]
		v.Text = append(v.Text, client.Passage{Text: p.Text, Cite: documents.Cite(d.Name, p), Heading: p.Heading, Page: p.Page, Line: p.Line, Message: p.Message})
	}
	return v, err
}

func (f *server) removeDocument(ctx context.Context, c *call, in documentNamed) (client.Document, error) {
	if err := f.servesDocuments(); err != nil {
		return client.Document{}, err
	}
	return viewDocument(f.Documents.Remove(ctx, c.User, in.ID))
}

func viewDocument(d record.Document, err error) (client.Document, error) {
	if err != nil {
		return client.Document{}, err
	}
	return documents.View(&d), nil
}

// searchDocuments finds passages in the caller's documents.
func (f *server) searchDocuments(ctx context.Context, c *call, in struct {
	Query string `query:"q"`
	Limit int    `query:"limit" range:"1,50"`
}) (map[string][]client.DocumentHit, error) {
	if err := f.servesDocuments(); err != nil {
		return nil, err
	}
	hits, err := f.Documents.Search(ctx, c.User, in.Query, in.Limit)
	if err != nil {
		return nil, err
	}
	out := []client.DocumentHit{}
	for i := range hits {
		out = append(out, hits[i].View())
	}
	return the("hits", out), nil
}
