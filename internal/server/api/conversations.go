package api

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"steward/client"
	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/runtime"
	"steward/internal/server/httpauth"
	"steward/internal/store"
)

func view(c record.Conversation) client.Conversation {
	return client.Conversation{ID: c.ID.String(), Title: c.Title, Created: c.Created, Updated: c.Updated, Agent: c.Agent, Model: c.Model,
		Tools: c.Tools, Metadata: c.Metadata, Window: c.Window, Messages: c.Messages, ToolCalls: c.ToolCalls, Tokens: client.Usage(c.Tokens)}
}

func (f *server) conversations(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	after, limit, err := page(r)
	if err != nil {
		return err
	}
	list, next, err := f.Node.Conversations(r.Context(), c.User, after, limit)
	if err != nil {
		return err
	}
	out := struct {
		Conversations []client.Conversation `json:"conversations"`
		Next          store.Cursor          `json:"next,omitzero"`
	}{make([]client.Conversation, len(list)), next}
	for i, conv := range list {
		out.Conversations[i] = view(conv)
	}
	return reply(w, http.StatusOK, out)
}

func (f *server) conversation(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	x, err := pathID(r, "conversation")
	if err != nil {
		return err
	}
	conv, err := f.Node.Conversation(r.Context(), c.User, x)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, view(conv))
}

const maxTitle = 200 // characters

func (f *server) rename(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	x, err := pathID(r, "conversation")
	if err != nil {
		return err
	}
	var in struct {
		Title string `json:"title"`
	}
	if err := httpauth.Decode(w, r, maxBody, &in); err != nil {
		return err
	}
	in.Title = strings.TrimSpace(in.Title)
	if n := utf8.RuneCountInString(in.Title); n == 0 || n > maxTitle || strings.ContainsFunc(in.Title, unicode.IsControl) {
		return fault.New(fault.Invalid, "title_invalid", "a title is one line of 1 to %d characters", maxTitle)
	}
	conv, err := f.Node.Rename(r.Context(), c.User, x, in.Title)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, view(conv))
}

func (f *server) delete(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	x, err := pathID(r, "conversation")
	if err != nil {
		return err
	}
	erase, err := flagOf(r.URL.Query().Get("erase"), "erase")
	if err != nil {
		return err
	}
	if err := f.Node.Delete(r.Context(), c.User, x); err != nil {
		return err
	}
	if erase {
		if err := f.Node.Erase(r.Context(), c.User, x); err != nil {
			return err
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// place is where a message stands and what became of it: the members that an
// answer has besides those of its stored form.
type place struct {
	Interaction  id.ID           `json:"interaction_id"`
	Branch       string          `json:"branch,omitzero"`        // on which it was written
	State        record.Validity `json:"state,omitzero"`         // left out: active
	Reason       string          `json:"reason,omitzero"`        // of the state
	By           string          `json:"by,omitzero"`            // the tool or the person that changed the state
	Changed      time.Time       `json:"changed,omitzero"`       // when
	SupersededBy id.ID           `json:"superseded_by,omitzero"` // the message that stands for it
	Pinned       bool            `json:"pinned,omitzero"`
	Shown        *bool           `json:"shown,omitempty"` // false: it lies before what a model is shown
}

func placeOf(e *conversation.Entry) place {
	p := place{Interaction: e.Interaction, Branch: e.Branch, Pinned: e.Pinned}
	if c := e.Change; c.State != record.Active {
		p.State, p.Reason, p.By, p.Changed, p.SupersededBy = c.State, c.Reason, cmp.Or(c.Tool, c.Actor), c.At, c.By
	}
	if !e.Shown {
		p.Shown = &e.Shown
	}
	return p
}

// messages answers with a page of messages in their stored form, each with
// its place.
func (f *server) messages(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	x, err := pathID(r, "conversation")
	if err != nil {
		return err
	}
	q := r.URL.Query()
	in := runtime.Reading{Branch: q.Get("branch")}
	if in.After, in.Limit, err = page(r); err != nil {
		return err
	}
	if in.Reverse, err = flagOf(q.Get("reverse"), "reverse"); err != nil {
		return err
	}
	if in.Deleted, err = flagOf(q.Get("deleted"), "deleted"); err != nil {
		return err
	}
	list, next, err := f.Node.ReadMessages(r.Context(), c.User, x, in)
	if err != nil {
		return err
	}
	b, err := placed(list, func(m *conversation.Entry) (any, *message.Message) { return placeOf(m), m.Message })
	if err != nil {
		return err
	}
	if next != "" {
		if b, err = jsontext.AppendQuote(append(b, `,"next":`...), string(next)); err != nil {
			return err
		}
	}
	httpauth.Reply(w, http.StatusOK, append(b, "}\n"...))
	return nil
}

// placed begins an answer with messages, each with where it stands.
func placed[T any](list []T, of func(*T) (place any, m *message.Message)) ([]byte, error) {
	b := []byte(`{"messages":[`)
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		at, m := of(&list[i])
		var err error
		if b, err = appendPlaced(b, at, m); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

// appendPlaced appends a message in its stored form, after members of its own.
func appendPlaced(b []byte, place any, m *message.Message) ([]byte, error) {
	head, err := json.Marshal(place)
	if err != nil {
		return b, err
	}
	b = append(append(b, head[:len(head)-1]...), ',')
	at := len(b)
	b = message.Append(b, m)
	return append(b[:at], b[at+1:]...), nil // without its own opening brace
}

// called answers with the messages that make a call with a provider's id.
func (f *server) called(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	call := r.URL.Query().Get("call")
	if call == "" {
		return fault.New(fault.Invalid, "call_missing", "it is not said which call is looked for").WithHint("name it by the provider's id: ?call=…")
	}
	list, err := f.Node.FindCall(r.Context(), c.User, call)
	if err != nil {
		return err
	}
	type found struct {
		Conversation id.ID `json:"conversation_id"`
		place
	}
	b, err := placed(list, func(m *conversation.Called) (any, *message.Message) {
		return found{m.Conversation, placeOf(&m.Entry)}, m.Message
	})
	if err != nil {
		return err
	}
	httpauth.Reply(w, http.StatusOK, append(b, "}\n"...))
	return nil
}

func (f *server) export(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	x, err := pathID(r, "conversation")
	if err != nil {
		return err
	}
	q := r.URL.Query()
	format := q.Get("format")
	mime := "application/json"
	switch formats := conversation.ExportFormats(); {
	case format == "":
		format = "json"
	case format == "markdown":
		mime = "text/markdown; charset=utf-8"
	case !slices.Contains(formats, format):
		return fault.New(fault.Invalid, "format_unknown", "there is no format %.40q", format).WithHint("use one of %s", strings.Join(formats, ", "))
	}
	private, err := flagOf(q.Get("mask_private"), "mask_private")
	if err != nil {
		return err
	}
	out := &late{w: w, mime: mime}
	err = f.Node.ExportAs(r.Context(), c.User, x, conversation.ExportOptions{Format: format, MaskPrivate: private}, out)
	if _, here := w.(ErrorTaker); err != nil && out.started && !here {
		httpauth.Log(r, f.Logger, err)
		panic(http.ErrAbortHandler) // so that the client does not take a part for the whole
	}
	return err
}

// late writes the head of an answer with its first byte: until then it can
// still become an error.
type late struct {
	w       http.ResponseWriter
	mime    string
	started bool
}

var _ io.Writer = (*late)(nil)

func (l *late) Write(p []byte) (int, error) {
	if !l.started {
		l.started = true
		l.w.Header().Set("Content-Type", l.mime)
		l.w.Header().Set("Cache-Control", "no-store")
		l.w.Header().Set("X-Content-Type-Options", "nosniff")
		l.w.WriteHeader(http.StatusOK)
	}
	return l.w.Write(p)
}
