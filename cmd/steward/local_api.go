package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"

	"steward/internal/catalog"
	"steward/internal/conversation"
	"steward/internal/face/api"
	"steward/internal/face/httpauth"
	"steward/internal/face/terminal"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/policy"
	"steward/internal/record"
	"steward/internal/runtime"
	"steward/internal/store"
	"steward/internal/store/sqlite"
	"steward/internal/tree"
)

// caller makes requests to /api/v1: of the Steward that serves, or of what
// this process has opened. What in is not nil is sent as JSON, and the answer
// is read into out, if that is not nil.
type caller interface {
	call(ctx context.Context, method, path string, in, out any) error
}

// wire is the API somewhere.
type wire struct {
	url   string
	token func() (string, error) // read anew each time, as it may be replaced; nil: there is no need of one
	http  *http.Client
}

// authorize adds the token to the headers of a request.
func (w wire) authorize(h http.Header) error {
	if w.token == nil {
		return nil
	}
	token, err := w.token()
	if err == nil {
		h.Set("Authorization", "Bearer "+token)
	}
	return err
}

func (w wire) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, w.url+api.Prefix+path, body)
	if err != nil {
		return err
	}
	if err := w.authorize(req.Header); err != nil {
		return err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := w.http.Do(req)
	if err != nil {
		return unreachable(w.url, err)
	}
	defer res.Body.Close()
	if res.StatusCode >= 400 {
		return refused(res)
	}
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(res.Body).Decode(out); err != nil {
		return unreachable(w.url, err)
	}
	return nil
}

// within is the API in this process, for a user who may do what policy lets him:
// the node's, or that of a judge.
func within(n api.Node, keys api.Identity, agents catalog.Approver, user string, log *slog.Logger, judge ...policy.Judge) wire {
	o := api.Options{Node: n, Identity: keys, Agents: agents, Logger: log}
	for _, j := range judge {
		o.Judge = j
	}
	if n, ok := n.(interface{ Judge() policy.Judge }); ok {
		o.Judge = n.Judge()
	}
	o.People, _ = keys.(api.People)
	if n, ok := n.(interface{ Resources() *tree.Service }); ok {
		o.Resources = n.Resources()
	}
	return wire{url: "http://steward", http: &http.Client{Transport: inside{
		handler: api.Handler(o),
		caller:  httpauth.Caller{User: user, Admin: true}}}}
}

// inside is a transport that hands requests to a handler.
type inside struct {
	handler http.Handler
	caller  httpauth.Caller
}

// RoundTrip implements http.RoundTripper.
func (t inside) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(httpauth.With(r.Context(), t.caller))
	if in.Body == nil {
		in.Body = http.NoBody
	}
	out := &answering{header: http.Header{}, status: http.StatusOK}
	t.handler.ServeHTTP(out, in)
	err := in.Body.Close()
	return &http.Response{StatusCode: out.status, Status: http.StatusText(out.status), Header: out.header, Request: r,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: int64(out.body.Len()), Body: io.NopCloser(&out.body)}, err
}

// answering is an answer that is being written.
type answering struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answering) Header() http.Header         { return a.header }
func (a *answering) WriteHeader(status int)      { a.status = status }
func (a *answering) Write(p []byte) (int, error) { return a.body.Write(p) }

// call implements caller.
func (l *local) call(ctx context.Context, method, path string, in, out any) error {
	return within(l.node, l.keys, l.catalog, l.user, l.log).call(ctx, method, path, in, out)
}

// reader answers, of the API, what can be read from the store alone: looking
// at what was said looks for no models and takes up no work.
type reader struct {
	api.Node // nil: what only a node can do is not asked of it
	shelf
	store store.Store
}

var _ api.Node = reader{}

func (r reader) Conversations(ctx context.Context, user string, after store.Cursor, limit int) ([]record.Conversation, store.Cursor, error) {
	return r.engine.List(ctx, store.ForUser(user), after, limit)
}

func (r reader) Conversation(ctx context.Context, user string, conv id.ID) (record.Conversation, error) {
	return r.engine.Get(ctx, store.ForUser(user), conv)
}

func (r reader) ReadMessages(ctx context.Context, user string, conv id.ID, q runtime.Reading) ([]conversation.Entry, store.Cursor, error) {
	return runtime.ReadMessages(ctx, r.engine, store.ForUser(user), conv, q)
}

func (r reader) FindCall(ctx context.Context, user, callID string) ([]conversation.Called, error) {
	return r.engine.FindCall(ctx, store.ForUser(user), callID)
}

func (r reader) Paths(ctx context.Context, user string, conv id.ID, deleted bool) ([]runtime.Path, error) {
	return runtime.Paths(ctx, r.store, r.engine, store.ForUser(user), conv, deleted)
}

func (r reader) Siblings(ctx context.Context, user string, conv, msg id.ID) ([]conversation.Sibling, error) {
	return r.engine.Siblings(ctx, store.ForUser(user), conv, msg)
}

func (r reader) Audit(ctx context.Context, user string, conv, interaction id.ID, tool string) ([]conversation.Optimization, error) {
	return r.engine.Audit(ctx, store.ForUser(user), conv, interaction, tool)
}

func (r reader) ExportAs(ctx context.Context, user string, conv id.ID, o conversation.ExportOptions, w io.Writer) error {
	return r.engine.ExportAs(ctx, store.ForUser(user), conv, o, w)
}

// talk is a conversation that a command is about, with the API by which it is
// read or changed.
type talk struct {
	caller
	conv id.ID
	flag string // what commands that are about it too need: "" or " --conversation ID"
}

// about returns the conversation that a person has named.
func (a *app) about(ctx context.Context, c caller, s terminal.Shelf, which string) (talk, error) {
	t := talk{caller: c}
	if which == "" {
		which = "last"
	}
	var err error
	if t.conv, err = a.which(ctx, s, which, false); which != "last" {
		t.flag = " --conversation " + t.conv.String()
	}
	return t, err
}

// do makes a request below the conversation's own path.
func (t talk) do(ctx context.Context, method, path string, in, out any) error {
	return t.call(ctx, method, "/conversations/"+t.conv.String()+path, in, out)
}

func (t talk) get(ctx context.Context, path string, out any) error {
	return t.do(ctx, http.MethodGet, path, nil, out)
}

func (t talk) post(ctx context.Context, path string, in, out any) error {
	return t.do(ctx, http.MethodPost, path, in, out)
}

// looking runs do with a conversation ("" and "last": the last used one) that
// is only read, whoever has the data folder in use.
func (a *app) looking(ctx context.Context, which string, do func(talk) error) error {
	st, err := a.reading(ctx)
	if err != nil {
		return err
	}
	if st == nil {
		return noConversation()
	}
	return errors.Join(a.look(ctx, st, which, do), st.Close())
}

func (a *app) look(ctx context.Context, st *sqlite.Store, which string, do func(talk) error) error {
	s := a.shelf(st)
	t, err := a.about(ctx, within(reader{shelf: s, store: st}, nil, nil, s.user, slog.New(slog.DiscardHandler)), s.reader(), which)
	if err != nil {
		return err
	}
	return do(t)
}

// changing runs do with a conversation that may be changed: by this process,
// or by the Steward that has the data folder in use.
func (a *app) changing(ctx context.Context, which string, do func(talk) error) error {
	return a.opened(ctx, func(b backend) error {
		t, err := a.about(ctx, b, b, which)
		if err != nil {
			return err
		}
		return do(t)
	})
}

// opened runs do with what holds the conversations.
func (a *app) opened(ctx context.Context, do func(backend) error) error {
	set, err := a.settings()
	if err != nil {
		return err
	}
	if _, err := os.Stat(database(set.Data)); errors.Is(err, os.ErrNotExist) {
		return noConversation()
	}
	b, err := a.open(ctx, set, a.logger(set, a.stderr))
	if err != nil {
		return err
	}
	return errors.Join(do(b), b.Close())
}

func noConversation() error {
	return fault.New(fault.NotFound, "conversation_not_found", "there is no conversation yet").With(`begin one: steward ask "…"`)
}
