package api

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"strconv"
	"time"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/importexport"
	"steward/internal/server/httpauth"
)

// Exchanger is the part of Node that brings conversations in and out.
type Exchanger interface {
	Import(ctx context.Context, user string, r io.Reader, o importexport.Options) iter.Seq2[conversation.Imported, error]
	ExportAs(ctx context.Context, user string, conv id.ID, o conversation.ExportOptions, w io.Writer) error
	Convert(doc []byte, from, to string) (list []byte, notes []string, err error)
}

// MaxImport is how many bytes an import may have, packed and unpacked: the
// exports of many years.
const MaxImport = 1 << 30

// ImportReport tells what became of a file that was imported.
type ImportReport struct {
	Imported []ImportedView  `json:"imported"`
	Refused  []ImportFailure `json:"refused"`
	Notes    []string        `json:"notes"` // what concerns no single conversation
}

// ImportedView is a conversation that was imported.
type ImportedView struct {
	ID       id.ID               `json:"id"`
	Title    string              `json:"title"`
	Source   string              `json:"source"`
	Created  time.Time           `json:"created"`
	Updated  time.Time           `json:"updated"`
	Messages int                 `json:"messages"` // those of all branches, calls and results among them
	Branches int                 `json:"branches"`
	Notes    []importexport.Note `json:"notes"` // what became of that which has no place in a message
}

// ImportFailure is a conversation, or a part of a file, that was not imported.
type ImportFailure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
}

// NewImportReport gathers what an import yields. It returns an error that is
// none of the file's, such as a full disk, with what was imported before it.
func NewImportReport(all iter.Seq2[conversation.Imported, error]) (ImportReport, error) {
	rep := ImportReport{Imported: []ImportedView{}, Refused: []ImportFailure{}, Notes: []string{}}
	for got, err := range all {
		if err == nil {
			c := got.Conversation
			v := ImportedView{ID: c.ID, Title: c.Title, Source: got.Source, Created: c.Created, Updated: c.Updated,
				Messages: got.Stored, Branches: got.Branches, Notes: got.Notes}
			if v.Notes == nil {
				v.Notes = []importexport.Note{}
			}
			rep.Imported = append(rep.Imported, v)
			continue
		}
		e := fault.Of(err)
		if !ofFile(e) {
			return rep, err
		}
		rep.Refused = append(rep.Refused, ImportFailure{Code: e.Code, Message: said(e), Remedy: e.Remedy})
	}
	return rep, nil
}

// ofFile reports whether an error is one of the file that is read.
func ofFile(e *fault.Error) bool { return len(e.Code) > 7 && e.Code[:7] == "import_" }

// said is an error's message with its cause, without the remedy.
func said(e *fault.Error) string {
	c := *e
	c.Remedy = ""
	return c.Error()
}

// importChats makes conversations of the file that is the request's body. A
// file of which nothing could be imported is an error, that of its first
// conversation.
func (f *server) importChats(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	if r.ContentLength > MaxImport {
		w.Header().Set("Connection", "close")
		return httpauth.TooLarge(MaxImport)
	}
	q := r.URL.Query()
	var notes []string
	o := importexport.Options{Name: q.Get("name"), Format: q.Get("format"), MaxTotal: MaxImport, Tell: func(s string) { notes = append(notes, s) }}
	var first error
	all := func(yield func(conversation.Imported, error) bool) {
		for got, err := range f.Node.Import(r.Context(), c.User, r.Body, o) {
			if first == nil {
				first = err
			}
			if !yield(got, err) {
				return
			}
		}
	}
	rep, err := NewImportReport(all)
	if len(rep.Imported) == 0 && first != nil {
		return first
	}
	if err != nil { // what was imported before it stays, and has to be told
		e := fault.Of(err)
		rep.Refused = append(rep.Refused, ImportFailure{Code: e.Code, Message: said(e), Remedy: e.Remedy})
		httpauth.Log(r, f.Logger, err)
	}
	rep.Notes = append(rep.Notes, notes...)
	return reply(w, http.StatusOK, rep)
}

// convert writes the messages of a vendor's form in another's. Nothing of them
// is kept.
func (f *server) convert(w http.ResponseWriter, r *http.Request, _ httpauth.Caller) error {
	doc, err := httpauth.ReadBody(w, r, 0)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	list, notes, err := f.Node.Convert(doc, q.Get("from"), q.Get("to"))
	if err != nil {
		return err
	}
	if notes == nil {
		notes = []string{}
	}
	return reply(w, http.StatusOK, struct {
		Messages json.RawMessage `json:"messages"`
		Notes    []string        `json:"notes"` // what became of that which the other form does not know
	}{list, notes})
}

// flagOf reads a yes or no of a query; empty is no.
func flagOf(s, name string) (bool, error) {
	if s == "" {
		return false, nil
	}
	b, err := strconv.ParseBool(s)
	if err != nil {
		return false, fault.New(fault.Invalid, name+"_invalid", "%s=%.40q is neither yes nor no", name, s).WithHint("use true or false")
	}
	return b, nil
}
