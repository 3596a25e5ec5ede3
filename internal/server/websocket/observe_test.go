package websocket_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"steward/internal/events"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/server/websocket"
	"steward/internal/store"
	"steward/test/served"
	"steward/test/storetest"
)

// calling returns a message with which a model calls a tool.
func calling(conv id.ID, n uint64, tool string) store.Change {
	return store.Change{URI: record.InteractionURI(conv, number(900)).ChildID(record.TypeMessage, number(n)),
		Body: message.Append(nil, &message.Message{Role: message.Assistant, Blocks: []message.Block{&message.ToolCall{Name: tool, Args: []byte("{}")}}})}
}

// changes reads a frame with this number of changes under the id.
func (c *client) changes(re string, n int) frame {
	c.t.Helper()
	f := c.want(frame{"type": "changes", "re": re})
	if got := f["changes"].([]any); len(got) != n {
		c.t.Fatalf("%d changes, want %d: %v", len(got), n, f)
	}
	return f
}

// Several observations run at the same time, each with its filter, and end one by
// one; another connection continues one from its cursor.
func TestObserve(t *testing.T) {
	d := newDouble(nil)
	d.changes = served.NewEvents(t, storetest.NewModel(), 0)
	_, url := serve(t, websocket.Options{Node: d})
	c := dial(t, url, "ana")
	d.changes.Commit("ana", calling(number(1), 11, "file.read"))
	c.send(`{"type":"observe","id":"all","conversation_ids":["` + number(1).String() + `"]}`)
	first := c.changes("all", 1)
	c.send(`{"type":"observe","id":"files","tools":["file.*"],"kinds":["message_added"],"cursor":"now"}`)
	c.changes("files", 0)
	d.changes.Commit("ana", calling(number(1), 12, "math.add"))
	second := c.changes("all", 1)
	d.changes.Commit("eve", calling(number(3), 13, "file.read"))
	d.changes.Commit("ana", calling(number(2), 14, "file.write"))
	got := c.changes("files", 1)["changes"].([]any)[0].(map[string]any)
	for k, want := range map[string]any{"kind": "message_added", "seq": 4.0, "actor": "ana", "conversation_id": number(2).String(),
		"message_id": number(14).String(), "role": "assistant", "uri": "cld:common.Conversation." + number(2).String() + "/common.Interaction." + number(900).String() + "/common.Message." + number(14).String()} {
		if got[k] != want {
			t.Errorf("%s is %v, want %v", k, got[k], want)
		}
	}
	c.ask(`{"type":"unobserve","id":"u","re":"files"}`, frame{"type": "ok", "re": "u"})
	d.changes.Commit("ana", calling(number(1), 15, "file.read"))
	c.changes("all", 1)
	c.send(`{"type":"unobserve","re":"all"}`)
	c.send(`{"type":"observe","id":"files","cursor":"now"}`) // the id is free again
	c.changes("files", 0)
	c.CloseNow()

	c = dial(t, url, "ana")
	for _, from := range []struct {
		cursor any
		n      int
	}{{first["cursor"], 3}, {second["cursor"], 2}} {
		c.send(fmt.Sprintf(`{"type":"observe","id":"%d","cursor":"%s"}`, from.n, from.cursor))
		c.changes(fmt.Sprint(from.n), from.n)
	}
}

// A connection has a limited number of observations, each under its own id.
func TestObservationsAreLimited(t *testing.T) {
	d := newDouble(nil)
	d.changes = served.NewEvents(t, storetest.NewModel(), 0)
	_, url := serve(t, websocket.Options{Node: d})
	c := dial(t, url, "ana")
	for i := range 16 {
		c.send(fmt.Sprintf(`{"type":"observe","id":"%d","cursor":"now"}`, i))
		c.changes(fmt.Sprint(i), 0)
	}
	c.ask(`{"type":"observe","id":"3"}`, frame{"type": "error", "code": "observation_exists", "re": "3"})
	c.ask(`{"type":"observe","id":"16"}`, frame{"type": "error", "code": "too_many_observations", "re": "16"})
	c.send(`{"type":"unobserve","re":"3"}`)
	c.send(`{"type":"observe","id":"16","cursor":"now"}`)
	c.changes("16", 0)
	d.changes.Follow.Close()
	for range 16 {
		if f := c.want(frame{"type": "error", "code": "closing", "kind": "unavailable"}); f["details"].(map[string]any)["cursor"] == "" {
			t.Errorf("got %v", f)
		}
	}
	c.ask(`{"type":"ping"}`, frame{"type": "pong"})
}

// dated is a store whose entries all have the same time.
type dated struct{ store.Store }

func (d dated) Log(ctx context.Context, sc store.Scope, q store.LogQuery) (store.LogPage, error) {
	page, err := d.Store.Log(ctx, sc, q)
	for i := range page.Entries {
		page.Entries[i].At = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	}
	return page, err
}

// documentedChanges returns the log that docs/reference/websocket.md shows: a file is
// read and then written.
func documentedChanges(t *testing.T) *served.Events {
	st := dated{storetest.NewModel()}
	conv, inter := number(1), number(2)
	in := record.InteractionURI(conv, inter)
	call := func(n uint64, tool string) store.Change {
		return store.Change{URI: in.ChildID(record.TypeMessage, number(n)), Body: message.Append(nil, &message.Message{Role: message.Assistant,
			Blocks: []message.Block{&message.ToolCall{Name: tool, Args: []byte(`{"path":"a.txt"}`)}}})}
	}
	result := func(n uint64, tool string) store.Change {
		return store.Change{URI: in.ChildID(record.TypeMessage, number(n)), Body: message.Append(nil, &message.Message{Role: message.Tool,
			Blocks: []message.Block{&message.ToolResult{Name: tool, Status: message.OK}}})}
	}
	mark := record.Mark{Changes: []record.Change{{State: record.Invalidated, Tool: "file.write", Interaction: inter, Reason: "a.txt was written since"}}}
	for _, b := range [][]store.Change{
		{{URI: record.ConversationURI(conv), Body: []byte("{}")}, {URI: in, Body: []byte("{}")}},
		{call(4, "file.read")}, {result(5, "file.read")}, {call(6, "file.write")},
		{result(7, "file.write"), {URI: record.MarkURI(conv, number(5)), Body: record.Encode(mark)}},
		{{URI: resource.Root("llm.Usage", "1"), Body: []byte("{}")}},
	} {
		if _, err := st.Commit(t.Context(), store.ForUser("local"), store.Batch{Request: number(3), Changes: b}); err != nil {
			t.Fatal(err)
		}
	}
	return served.NewEvents(t, st, 0)
}

// Every kind of change is documented.
func TestKindsAreDocumented(t *testing.T) {
	text := documentation(t)
	for _, k := range events.ChangeKinds() {
		if !strings.Contains(text, "`"+string(k)+"`") {
			t.Errorf("docs/reference/websocket.md does not tell of %s", k)
		}
	}
}
