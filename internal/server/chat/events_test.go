package chat_test

import (
	"context"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/events"
	"steward/internal/fault"
	"steward/internal/policy"
	"steward/internal/resource"
	"steward/internal/server/chat"
	"steward/internal/server/httpauth"
	"steward/internal/store"
	"steward/internal/store/follow"
	"steward/internal/store/storetest"
)

// happening are a node's events, over a store that a test writes to.
type happening struct {
	t  *testing.T
	st store.Store
	*events.Engine
	Close func() // ends all subscriptions
}

type everybody struct{}

func (everybody) Principal(_ context.Context, user string) (policy.Principal, error) {
	return policy.Principal{User: user}, nil
}

func newHappening(t *testing.T, st store.Store, beat time.Duration) *happening {
	t.Helper()
	h := &happening{t: t, st: st}
	var err error
	follower := follow.New(follow.Options{Store: st, About: events.About})
	h.Engine, err = events.New(events.Options{Follow: follower, Authorizer: policy.Fixed{}, Directory: everybody{}, Beat: beat, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	h.Close = follower.Close
	t.Cleanup(h.Close)
	return h
}

func (h *happening) Subscribe(ctx context.Context, user string, f events.Filter, from events.Cursor) iter.Seq2[events.Batch, error] {
	return h.Engine.Subscribe(ctx, events.Caller{User: user}, f, from)
}

func (h *happening) put(user, name string) {
	h.t.Helper()
	if _, err := h.st.Commit(context.Background(), store.ForUser(user), store.Batch{Changes: []store.Change{{URI: noteAt(name), Body: []byte(`{"text":"` + name + `"}`)}}}); err != nil {
		h.t.Fatal(err)
	}
}

func noteAt(name string) resource.URI { return resource.Root("note.Note", name) }

// happened reads frames of a subscription until one tells events, and returns
// what they are about.
func (c *client) happened(re string) []string {
	c.t.Helper()
	for {
		f := c.want(frame{"type": "events", "re": re})
		var out []string
		for _, x := range f["events"].([]any) {
			for _, r := range x.(map[string]any)["resources"].([]any) {
				out = append(out, r.(map[string]any)["uri"].(string))
			}
		}
		if out != nil {
			return out
		}
	}
}

// Several subscriptions go on side by side, each with its filter, and end one
// by one; one goes on elsewhere from its cursor.
func TestSubscribe(t *testing.T) {
	h := newHappening(t, storetest.NewModel(), 0)
	_, url := serve(t, chat.Options{Node: newDouble(nil), Events: h})
	h.put("ana", "before")
	c := dial(t, url, "ana")
	c.send(`{"type":"subscribe","id":"all"}`)
	first := c.want(frame{"type": "events", "re": "all", "events": []any{}})
	c.send(`{"type":"subscribe","id":"a","prefixes":["cld:note.Note.a"],"types":["note.*"],"sources":["user:ana"],"detail_types":["RESOURCE_PUT"],"bodies":true}`)
	c.want(frame{"type": "events", "re": "a"})
	h.put("eve", "eves")
	h.put("ana", "b")
	if got := c.happened("all"); got[0] != "cld:note.Note.b" {
		t.Errorf("told %v", got)
	}
	h.put("ana", "a")
	for range 2 { // in whatever order
		f := c.next()
		x := f["events"].([]any)[0].(map[string]any)
		r := x["resources"].([]any)[0].(map[string]any)
		if r["uri"] != "cld:note.Note.a" || x["source"] != "user:ana" || (r["body"] != nil) != (f["re"] == "a") {
			t.Errorf("%v", f)
		}
	}
	c.send(`{"type":"unsubscribe","id":"1","re":"a"}`)
	c.want(frame{"type": "ok", "re": "1"})
	h.put("ana", "a")
	c.happened("all")
	c.send(`{"type":"ping","id":"2"}`)
	c.want(frame{"type": "pong"}) // and nothing of the one that has ended

	// The other connection goes on from a cursor; somebody else's is told nothing of it.
	d, eve := dial(t, url, "ana"), dial(t, url, "eve")
	d.send(`{"type":"subscribe","id":"x","cursor":"` + first["cursor"].(string) + `"}`)
	got := d.happened("x")
	for len(got) < 3 {
		got = append(got, d.happened("x")...)
	}
	if strings.Join(got, " ") != "cld:note.Note.b cld:note.Note.a cld:note.Note.a" {
		t.Errorf("told %v", got)
	}
	eve.send(`{"type":"subscribe","id":"x","cursor":"start","sources":["user:ana","user:eve"]}`)
	if got := eve.happened("x"); len(got) != 1 || got[0] != "cld:note.Note.eves" {
		t.Errorf("eve is told %v", got)
	}
}

// revocable knows one key until it is revoked.
type revocable struct {
	mu   sync.Mutex
	gone bool
}

func (r *revocable) Authenticate(context.Context, string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone {
		return "", fault.New(fault.Unauthentic, "key_revoked", "the key was revoked")
	}
	return "ana", nil
}

// Whose key is revoked is told of nothing more, and is cut off.
func TestRevokedKeyEndsSubscriptions(t *testing.T) {
	h, k := newHappening(t, storetest.NewModel(), 0), &revocable{}
	server := chat.Handler(chat.Options{Node: newDouble(nil), Events: h, PingEvery: time.Hour, Logger: slog.New(slog.DiscardHandler)})
	guard := httpauth.New(httpauth.Options{Keys: k, Logger: slog.New(slog.DiscardHandler)})
	s := httptest.NewServer(guard.Wrap(server, nil))
	defer s.Close()
	defer server.Shutdown(context.Background())
	c := dialKey(t, "ws"+strings.TrimPrefix(s.URL, "http"), "sk-steward-x")
	c.send(`{"type":"subscribe","id":"1"}`)
	c.want(frame{"type": "events"})
	k.mu.Lock()
	k.gone = true
	k.mu.Unlock()
	h.put("ana", "secret")
	if code := c.wantClosed(); code != chat.CloseRevoked {
		t.Errorf("closed with %d", code)
	}
}

func dialKey(t *testing.T, url, key string) *client {
	t.Helper()
	return dialWith(t, url, http.Header{"Authorization": {"Bearer " + key}})
}

// documentedEvents is the log of which docs/reference/websocket.md tells.
func documentedEvents(t *testing.T) chat.Events {
	st := dated{storetest.NewModel()}
	h := newHappening(t, st, 0)
	note := resource.Root("identity.User", "local").Child("home.Note", "shopping")
	for _, b := range []store.Batch{
		{Request: number(3), Changes: []store.Change{{URI: note, Body: []byte(`{"text":"milk"}`)}}},
		{Changes: []store.Change{{Op: store.Delete, URI: note}}},
	} {
		if _, err := st.Commit(t.Context(), store.ForUser("local"), b); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.Publish(t.Context(), events.Caller{User: "local"}, events.Publication{ID: number(9).String(), Time: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC),
		Resources: []events.Resource{{URI: resource.Root("home.Lamp", "kitchen"), Body: []byte(`{"on":true}`)}}}); err != nil {
		t.Fatal(err)
	}
	return h
}
