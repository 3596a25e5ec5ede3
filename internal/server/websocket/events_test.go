package websocket_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"steward/internal/events"
	"steward/internal/resource"
	"steward/internal/server/auth"
	"steward/internal/server/websocket"
	"steward/internal/store"
	"steward/test/served"
	"steward/test/storetest"
)

// happened reads frames of a subscription until one has events, and returns
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

// Several subscriptions run at the same time, each with its filter, and end one by
// one; another connection continues one from its cursor.
func TestSubscribe(t *testing.T) {
	h := served.NewEvents(t, storetest.NewModel(), 0)
	_, url := serve(t, websocket.Options{Node: newDouble(nil), Events: h})
	h.Put("ana", "before")
	c := dial(t, url, "ana")
	first := c.ask(`{"type":"subscribe","id":"all"}`, frame{"type": "events", "re": "all", "events": []any{}})
	c.ask(`{"type":"subscribe","id":"a","prefixes":["cld:note.Note.a"],"types":["note.*"],"sources":["user:ana"],"detail_types":["RESOURCE_PUT"],"bodies":true}`, frame{"type": "events", "re": "a"})
	h.Put("eve", "eves")
	h.Put("ana", "b")
	if got := c.happened("all"); got[0] != "cld:note.Note.b" {
		t.Errorf("told %v", got)
	}
	h.Put("ana", "a")
	for range 2 { // in any order
		f := c.next()
		x := f["events"].([]any)[0].(map[string]any)
		r := x["resources"].([]any)[0].(map[string]any)
		if r["uri"] != "cld:note.Note.a" || x["source"] != "user:ana" || (r["body"] != nil) != (f["re"] == "a") {
			t.Errorf("%v", f)
		}
	}
	c.ask(`{"type":"unsubscribe","id":"1","re":"a"}`, frame{"type": "ok", "re": "1"})
	h.Put("ana", "a")
	c.happened("all")
	c.ask(`{"type":"ping","id":"2"}`, frame{"type": "pong"}) // nothing arrives for the ended one

	// Another connection continues from a cursor; another user's gets nothing.
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

// A connection with a revoked key gets nothing more and is closed.
func TestRevokedKeyEndsSubscriptions(t *testing.T) {
	h, k := served.NewEvents(t, storetest.NewModel(), 0), &served.Keys{User: "ana"}
	server := websocket.Handler(websocket.Options{Node: newDouble(nil), Events: h, PingEvery: time.Hour, Logger: slog.New(slog.DiscardHandler)})
	guard := auth.New(auth.Options{Keys: k, Logger: slog.New(slog.DiscardHandler)})
	s := httptest.NewServer(guard.Wrap(server, nil))
	defer s.Close()
	defer server.Shutdown(context.Background())
	c := dialKey(t, "ws"+strings.TrimPrefix(s.URL, "http"), "sk-steward-x")
	c.ask(`{"type":"subscribe","id":"1"}`, frame{"type": "events"})
	k.Gone.Store(&revoked)
	h.Put("ana", "secret")
	if code := c.wantClosed(); code != websocket.CloseRevoked {
		t.Errorf("closed with %d", code)
	}
}

func dialKey(t *testing.T, url, key string) *client {
	t.Helper()
	return dialWith(t, url, http.Header{"Authorization": {"Bearer " + key}})
}

// documentedEvents returns the log that docs/reference/websocket.md shows.
func documentedEvents(t *testing.T) *served.Events {
	st := dated{storetest.NewModel()}
	h := served.NewEvents(t, st, 0)
	note := resource.Root("identity.User", "local").Child("home.Note", "shopping")
	for _, b := range []store.Batch{
		{Request: number(3), Changes: []store.Change{{URI: note, Body: []byte(`{"text":"milk"}`)}}},
		{Changes: []store.Change{{Op: store.Delete, URI: note}}},
	} {
		if _, err := st.Commit(t.Context(), store.ForUser("local"), b); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.Publish(t.Context(), "local", events.Publication{ID: number(9).String(), Time: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC),
		Resources: []events.Resource{{URI: resource.Root("home.Lamp", "kitchen"), Body: []byte(`{"on":true}`)}}}); err != nil {
		t.Fatal(err)
	}
	return h
}
