package api

import (
	"context"
	"iter"
	"strings"
	"time"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/importexport"
	"steward/internal/server/auth"
)

// MaxImport is the size limit of an import, packed and unpacked, in bytes: enough for the exports
// of many years.
const MaxImport = 1 << 30

// ImportReport is the result of importing a file.
type ImportReport struct {
	Imported []ImportedView  `json:"imported"`
	Refused  []ImportFailure `json:"refused"`
	Notes    []string        `json:"notes"` // on the file as a whole
}

// ImportedView describes an imported conversation.
type ImportedView struct {
	ID       id.ID               `json:"id"`
	Title    string              `json:"title"`
	Source   string              `json:"source"`
	Created  time.Time           `json:"created"`
	Updated  time.Time           `json:"updated"`
	Messages int                 `json:"messages"` // of all branches, including calls and results
	Branches int                 `json:"branches"`
	Notes    []importexport.Note `json:"notes"` // on content that a message cannot hold
}

// ImportFailure describes a conversation, or a part of a file, that was not imported.
type ImportFailure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
}

// newImportReport collects the results of an import. It returns an error that was not caused by the
// file, such as a full disk, with what was imported before it.
func newImportReport(found iter.Seq2[conversation.Imported, error]) (ImportReport, error) {
	rep := ImportReport{Imported: []ImportedView{}, Refused: []ImportFailure{}, Notes: []string{}}
	for got, err := range found {
		if err == nil {
			c := got.Conversation
			rep.Imported = append(rep.Imported, ImportedView{ID: c.ID, Title: c.Title, Source: got.Source, Created: c.Created, Updated: c.Updated,
				Messages: got.Stored, Branches: got.Branches, Notes: all(got.Notes)})
			continue
		}
		e := fault.Of(err)
		if !strings.HasPrefix(e.Code, "import_") { // not caused by the file
			return rep, err
		}
		rep.refuse(e)
	}
	return rep, nil
}

// refuse adds an error to a report.
func (r *ImportReport) refuse(e *fault.Error) {
	plain := *e
	plain.Remedy = ""
	r.Refused = append(r.Refused, ImportFailure{Code: e.Code, Message: plain.Error(), Remedy: e.Remedy})
}

// importFile imports the conversations of the file in the request's body. If nothing could be
// imported, it returns the error of the first conversation.
func (f *server) importFile(ctx context.Context, c *call, in struct {
	Name   string `query:"name"`
	Format string `query:"format"`
	Mine   bool   `query:"mine"`
}) (ImportReport, error) {
	if c.r.ContentLength > MaxImport {
		c.w.Header().Set("Connection", "close")
		return ImportReport{}, auth.TooLarge(MaxImport)
	}
	if err := c.Store(ctx, max(c.r.ContentLength, 0)); err != nil {
		return ImportReport{}, err
	}
	left, err := c.StorageLeft(ctx)
	if err == nil && c.Bounded() { // an import takes all of the caller's room in memory, whatever its size
		err = c.ReserveRequest(ctx, c.BodyLimit(auth.MaxBody))
	}
	if err != nil {
		return ImportReport{}, err
	}
	var notes []string
	o := importexport.Options{Name: in.Name, Format: in.Format, Mine: in.Mine, MaxTotal: min(MaxImport, left), MaxChat: c.ImportLimit(), Tell: func(s string) { notes = append(notes, s) }}
	var first error
	found := func(yield func(conversation.Imported, error) bool) {
		for got, err := range f.Node.Import(ctx, c.User, c.r.Body, o) {
			if first == nil {
				first = err
			}
			if !yield(got, err) {
				return
			}
			if err := c.Store(ctx, 0); err != nil {
				yield(conversation.Imported{}, err)
				return
			}
		}
	}
	rep, err := newImportReport(found)
	if len(rep.Imported) == 0 && first != nil {
		return rep, first
	}
	if err != nil { // what was imported before it stays, and must be reported
		rep.refuse(fault.Of(err))
		auth.Log(c.r, f.Logger, err)
	}
	rep.Notes = append(rep.Notes, notes...)
	return rep, nil
}

// convert converts messages from one vendor's form to another's. It stores nothing. It answers with the members
// messages and notes (on everything that is not as it was) and, for vendors that take what the system says
// beside the messages, with the member of a request's body that has it.
func (f *server) convert(ctx context.Context, c *call, in struct {
	From string `query:"from"`
	To   string `query:"to"`
}) (map[string]any, error) {
	doc, err := auth.ReadBody(c.w, c.r, 0)
	if err != nil {
		return nil, err
	}
	got, err := importexport.Convert(ctx, f.Node.Vendors, doc, in.From, in.To)
	if err != nil {
		return nil, err
	}
	out := map[string]any{"messages": got.Messages, "notes": all(got.Notes)}
	if got.Member != "" {
		out[got.Member] = got.System
	}
	return out, nil
}
