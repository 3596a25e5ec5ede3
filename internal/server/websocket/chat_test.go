package websocket_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	wsserver "steward/internal/server/websocket"
	"steward/internal/turn"
	_ "steward/test/seed"
	"steward/test/served"
	"steward/test/storetest"
)

// answer returns a reply that sends some words, one token each, and completes.
func answer(words ...string) func(*double, accepted) {
	return func(d *double, t accepted) {
		msg := d.newID()
		end := 0
		for _, w := range words {
			end += len(w)
			d.text(t, msg, turn.FrameToken, 0, w, end)
		}
		d.complete(t, msg, strings.Join(words, ""), message.StopEnd)
	}
}

// A wrong frame is answered with a coded error, and the connection and everything
// else continue.
func TestWrongFrames(t *testing.T) {
	d := newDouble(answer("Hi."))
	d.changes = served.NewEvents(t, storetest.NewModel(), 0)
	o := served.NewOffice(t)
	o.Agent("desk", "")
	_, url := serve(t, wsserver.Options{Node: d, Agents: o, MaxMessage: 2000})
	c, boss := dial(t, url, ""), dial(t, url, "admin")
	boss.waits("desk")
	c.send(`{"type":"message","content":"hello"}`)
	conv := c.want(frame{"type": "accepted"})["conversation_id"].(string)
	for c.next()["type"] != "complete" {
	}
	in := `"conversation_id":"` + conv + `"`
	type wrong struct{ send, code, re string }
	refused := func(c *client, frames ...wrong) {
		t.Helper()
		for _, f := range frames {
			c.send(f.send)
			got := c.next()
			re, _ := got["re"].(string)
			if got["type"] != "error" || got["code"] != f.code || re != f.re || got["message"] == "" || got["kind"] == "" {
				t.Errorf("%.200s: got %v, want %s", f.send, got, f.code)
			}
		}
	}
	refused(c, []wrong{
		{``, "invalid_json", ""},
		{`{`, "invalid_json", ""},
		{`hello`, "invalid_json", ""},
		{`[]`, "member_invalid", ""},
		{`"message"`, "member_invalid", ""},
		{`{"type":"message","content":"a"} {}`, "invalid_json", ""},
		{"{\"type\":\"message\",\"content\":\"\xff\"}", "invalid_utf8", ""},
		{`{"type":"message","content":"\ud800"}`, "invalid_json", ""},
		{`{}`, "unknown_type", ""},
		{`{"type":"Message","id":"a","content":"x"}`, "unknown_type", "a"},
		{`{"type":5,"id":"a"}`, "member_invalid", ""},
		{`{"type":"ping","id":5}`, "member_invalid", ""},
		{`{"type":"ping","id":"` + strings.Repeat("x", 257) + `"}`, "member_invalid", ""},
		{`{"type":"ping","id":"a","more":1}`, "unknown_member", "a"},
		{`{"type":"ping","type":"ping"}`, "duplicate_member", ""},
		{`{"type":"message","id":"a","content":"x","Steer":true}`, "unknown_member", "a"},
		{`{"type":"message","id":"a"}`, "member_missing", "a"},
		{`{"type":"message","id":"a","content":null}`, "message_empty", "a"},
		{`{"type":"message","id":"a","content":""}`, "message_empty", "a"},
		{`{"type":"message","id":"a","content":" \n"}`, "message_empty", "a"},
		{`{"type":"message","id":"a","content":[]}`, "message_empty", "a"},
		{`{"type":"message","id":"a","content":5}`, "member_invalid", "a"},
		{`{"type":"message","id":"a","content":[5]}`, "member_invalid", "a"},
		{`{"type":"message","id":"a","content":[{"type":"text","text":"x","lang":"de"}]}`, "unknown_member", "a"},
		{`{"type":"message","id":"a","content":[{"type":"text","text":"x","url":"https://x"}]}`, "block_invalid", "a"},
		{`{"type":"message","id":"a","content":[{"type":"image","url":"https://x","citations":[{"url":"https://x"}]}]}`, "block_invalid", "a"},
		{`{"type":"message","id":"a","content":[{"type":"video"}]}`, "block_invalid", "a"},
		{`{"type":"message","id":"a","content":[{"type":"image"}]}`, "block_invalid", "a"},
		{`{"type":"message","id":"a","content":[{"type":"image","mime":"text/html","data":"aGk="}]}`, "block_invalid", "a"},
		{`{"type":"message","id":"a","content":[{"type":"image","mime":"image/png","data":"!"}]}`, "member_invalid", "a"},
		{`{"type":"message","id":"a","content":[{"type":"image","mime":"image/png","data":"aGk=","url":"https://x"}]}`, "block_invalid", "a"},
		{`{"type":"message","id":"a","content":[{"type":"image","url":"file:///etc/passwd"}]}`, "block_invalid", "a"},
		{`{"type":"message","id":"a","content":[{"type":"file","data":"aGk="}]}`, "block_invalid", "a"},
		{`{"type":"message","id":"a","content":"x","message_id":"` + strings.Repeat("x", 257) + `"}`, "member_invalid", "a"},
		{`{"type":"message","id":"a","content":"x","sampling":{"temperature":2.5}}`, "member_invalid", "a"},
		{`{"type":"message","id":"a","content":"x","sampling":{"max_tokens":-1}}`, "member_invalid", "a"},
		{`{"type":"message","id":"a","content":"x","sampling":{"effort":"huge"}}`, "member_invalid", "a"},
		{`{"type":"message","id":"a","content":"x","sampling":{"top_k":1}}`, "unknown_member", "a"},
		{`{"type":"message","id":"a","content":"x","conversation_id":"nonsense"}`, "conversation_not_found", "a"},
		{`{"type":"message","id":"a","content":"x","conversation_id":"00000000-0000-7000-8000-0000000000ff"}`, "conversation_not_found", "a"},
		{`{"type":"message","id":"a","content":"` + strings.Repeat("x", 2000) + `"}`, "too_large", ""},
		{`{"type":"message","id":"a","content":"x","conversation_id":"00000000-0000-0000-0000-000000000000"}`, "conversation_not_found", "a"},
		{`{"type":"stop","id":"a","conversation_id":"00000000-0000-0000-0000-000000000000"}`, "conversation_not_found", "a"},
		{`{"type":"message","id":"a","content":"x","replace":"00000000-0000-7000-8000-0000000000ff"}`, "member_missing", "a"},
		{`{"type":"message","id":"a","regenerate":"00000000-0000-7000-8000-0000000000ff"}`, "member_missing", "a"},
		{`{"type":"message","id":"a",` + in + `,"content":"x","replace":"x"}`, "message_not_found", "a"},
		{`{"type":"message","id":"a",` + in + `,"regenerate":"00000000-0000-0000-0000-000000000000"}`, "message_not_found", "a"},
		{`{"type":"message","id":"a",` + in + `,"replace":"00000000-0000-7000-8000-0000000000ff"}`, "member_missing", "a"},
		{`{"type":"message","id":"a",` + in + `,"content":"x","regenerate":"00000000-0000-7000-8000-0000000000ff"}`, "member_invalid", "a"},
		{`{"type":"message","id":"a",` + in + `,"message_id":"x","regenerate":"00000000-0000-7000-8000-0000000000ff"}`, "member_invalid", "a"},
		{`{"type":"message","id":"a",` + in + `,"replace":"00000000-0000-7000-8000-0000000000fe","regenerate":"00000000-0000-7000-8000-0000000000ff"}`, "member_invalid", "a"},
		{`{"type":"message","id":"a",` + in + `,"content":"x","steer":true,"replace":"00000000-0000-7000-8000-0000000000ff"}`, "member_invalid", "a"},
		{`{"type":"stop","id":"a"}`, "member_missing", "a"},
		{`{"type":"stop","id":"a","conversation_id":"x"}`, "conversation_not_found", "a"},
		{`{"type":"stop","id":"a",` + in + `,"content":"x"}`, "unknown_member", "a"},
		{`{"type":"resume","id":"a","conversation_id":"00000000-0000-7000-8000-0000000000ff"}`, "conversation_not_found", "a"},
		{`{"type":"resume","id":"a"}`, "member_missing", "a"},
		{`{"type":"resume","id":"a",` + in + `,"cursor":"yesterday"}`, "cursor_invalid", "a"},
		{`{"type":"resume","id":"a",` + in + `,"from":"1"}`, "unknown_member", "a"},
		{`{"type":"approve","id":"a","hash":"x"}`, "member_missing", "a"},
		{`{"type":"deny","id":"a","approval_id":"x"}`, "member_missing", "a"},
		{`{"type":"deny","id":"a","approval":"x"}`, "unknown_member", "a"},
		{`{"type":"approval","id":"a"}`, "member_missing", "a"},
		{`{"type":"approval","id":"a","approval_id":"odd"}`, "approval_not_found", "a"},
		{`{"type":"approvals","id":"a","odd":1}`, "unknown_member", "a"},
		{`{"type":"approve","id":"a","hash":"h"}`, "member_missing", "a"},
		{`{"type":"approve","id":"a","approval_id":"q"}`, "member_missing", "a"},
		{`{"type":"approve","id":"a","approval_id":"q","hash":"h","until":"soon"}`, "member_invalid", "a"},
		{`{"type":"deny","id":"a","approval_id":"q","hash":"h","standing":"always"}`, "approval_invalid", "a"},
		{`{"type":"approve","id":"a","approval_id":"q","hash":"h","args_hash":"x"}`, "unknown_member", "a"},
		{`{"type":"requests","id":"a","limit":-1}`, "member_invalid", "a"},
		{`{"type":"requests","id":"a","limit":5000}`, "member_invalid", "a"},
		{`{"type":"requests","id":"a","request_id":"ffffffff"}`, "request_not_found", "a"},
		{`{"type":"requests","id":"a","open":true}`, "unknown_member", "a"},
		{`{"type":"cancel","id":"a"}`, "member_missing", "a"},
		{`{"type":"resume_turn","id":"a"}`, "member_missing", "a"},
		{`{"type":"resume_turn","id":"a","request_id":"ffffffff"}`, "request_not_found", "a"},
		{`{"type":"cancel","id":"a","request_id":"ffffffff"}`, "request_not_found", "a"},
		{`{"type":"cancel","id":"a","which":"x"}`, "unknown_member", "a"},
		{`{"type":"observe"}`, "member_missing", ""},
		{`{"type":"observe","id":"a","conversation_id":"x"}`, "unknown_member", "a"},
		{`{"type":"observe","id":"a","conversation_ids":"x"}`, "member_invalid", "a"},
		{`{"type":"observe","id":"a","conversation_ids":["x"]}`, "member_invalid", "a"},
		{`{"type":"observe","id":"a","interaction_ids":["` + number(1).String() + `",""]}`, "member_invalid", "a"},
		{`{"type":"observe","id":"a","tools":["[a"]}`, "filter_invalid", "a"},
		{`{"type":"observe","id":"a","kinds":["message"]}`, "filter_invalid", "a"},
		{`{"type":"observe","id":"a","cursor":"5"}`, "cursor_invalid", "a"},
		{`{"type":"unobserve","id":"a"}`, "member_missing", "a"},
		{`{"type":"unobserve","id":"a","re":"a"}`, "observation_not_found", "a"},
		{`{"type":"unobserve","id":"a","conversation_id":"a"}`, "unknown_member", "a"},
		{`{"type":"inspect_agent","id":"a","path":"desk"}`, "admin_only", "a"},
		{`{"type":"approve_agent","id":"a","path":"desk","hash":"x"}`, "admin_only", "a"},
		{`{"type":"deny_agent","id":"a","path":"desk"}`, "admin_only", "a"},
		{`{"type":"revoke_agent","id":"a","path":"desk"}`, "admin_only", "a"},
	}...)
	refused(boss, []wrong{
		{`{"type":"agents","id":"a","path":"desk"}`, "unknown_member", "a"},
		{`{"type":"inspect_agent","id":"a"}`, "member_missing", "a"},
		{`{"type":"inspect_agent","id":"a","path":5}`, "member_invalid", "a"},
		{`{"type":"inspect_agent","id":"a","path":"deks"}`, "agent_not_found", "a"},
		{`{"type":"approve_agent","id":"a","path":"desk"}`, "member_missing", "a"},
		{`{"type":"approve_agent","id":"a","path":"desk","hsh":"x"}`, "unknown_member", "a"},
		{`{"type":"approve_agent","id":"a","path":"desk","hash":"x","tools":{"notes.add":{"ask":true}}}`, "unknown_member", "a"},
		{`{"type":"approve_agent","id":"a","path":"desk","hash":"x"}`, "agent_changed", "a"},
		{`{"type":"deny_agent","id":"a","path":"desk","hash":"x"}`, "unknown_member", "a"},
		{`{"type":"revoke_agent","id":"a","path":"desk"}`, "agent_not_approved", "a"},
	}...)
	c.sendAs(websocket.MessageBinary, `{"type":"ping"}`)
	c.want(frame{"type": "error", "code": "binary_frame"})
	c.ask(`{"type":"ping","id":"alive"}`, frame{"type": "pong", "re": "alive"})
	c.ask(`{"type":"message",`+in+`,"content":"again"}`, frame{"type": "accepted", "conversation_id": conv})
	c.want(frame{"type": "token", "text": "Hi."})
	if n := len(d.talks); n != 1 {
		t.Errorf("%d conversations, want 1", n)
	}
}

// In a conversation that is followed already, accepted still comes before
// everything that the message leads to, and the message itself is not repeated.
func TestAcceptedComesFirst(t *testing.T) {
	for _, kind := range []string{"plain", "with an id", "regenerate"} {
		_, url := serve(t, wsserver.Options{Node: newDouble(answer("a", "b"))})
		c := dial(t, url, "")
		in := ""
		for i := range 200 {
			mine := `"content":"hello"`
			switch {
			case kind == "with an id":
				mine = fmt.Sprintf(`"message_id":"m%d",`, i) + mine
			case kind == "regenerate" && i > 0:
				mine = `"regenerate":"00000000-0000-7000-8000-0000000000aa"`
			}
			acc := c.ask(`{"type":"message",`+in+`"id":"x",`+mine+`}`, frame{"type": "accepted", "re": "x", "duplicate": false})
			in = `"conversation_id":"` + acc["conversation_id"].(string) + `",`
			for {
				f := c.next()
				if f["type"] == "complete" {
					break
				}
				if f["type"] != "token" || f["interaction_id"] != acc["interaction_id"] {
					t.Fatalf("turn %d: got %v", i, f)
				}
			}
		}
	}
}

// A replaced message and a regenerated answer each start a new branch. Messages of
// other connections are reported.
func TestAnew(t *testing.T) {
	d := newDouble(answer("Hi."))
	_, url := serve(t, wsserver.Options{Node: d})
	c, b := dial(t, url, ""), dial(t, url, "")
	c.send(`{"type":"message","content":"one"}`)
	conv := `"conversation_id":"` + c.next()["conversation_id"].(string) + `"`
	for c.next()["type"] != "complete" {
	}
	const msg = "00000000-0000-7000-8000-0000000000aa"
	c.send(`{"type":"message","id":"1",` + conv + `,"content":"two","replace":"` + msg + `"}`)
	if f := c.want(frame{"type": "accepted", "re": "1"}); f["message_id"] == nil {
		t.Errorf("%v", f)
	}
	for c.next()["type"] != "complete" {
	}
	if got := d.last(); got.Replace.String() != msg || !got.Regenerate.Zero() || len(got.Content) != 1 {
		t.Errorf("%+v", got)
	}
	c.send(`{"type":"message","id":"2",` + conv + `,"regenerate":"` + msg + `"}`)
	if f := c.want(frame{"type": "accepted", "re": "2"}); f["message_id"] != nil {
		t.Errorf("%v", f)
	}
	for c.next()["type"] != "complete" {
	}
	if got := d.last(); got.Regenerate.String() != msg || !got.Replace.Zero() || got.Content != nil {
		t.Errorf("%+v", got)
	}
	b.ask(`{"type":"message",`+conv+`,"content":"three"}`, frame{"type": "accepted"})
	c.want(frame{"type": "user"})
}

// A repeated message has no further effect, and its turn is sent again.
func TestDuplicate(t *testing.T) {
	d := newDouble(answer("Hi."))
	_, url := serve(t, wsserver.Options{Node: d})
	a := dial(t, url, "")
	a.send(`{"type":"message","content":"one"}`)
	conv := a.next()["conversation_id"].(string)
	send := `{"type":"message","conversation_id":"` + conv + `","message_id":"m","content":"two"}`
	for a.next()["type"] != "complete" {
	}
	first := a.ask(send, frame{"type": "accepted", "duplicate": false})
	for a.next()["type"] != "complete" {
	}
	b := dial(t, url, "")
	b.ask(send, frame{"type": "accepted", "duplicate": true, "message_id": first["message_id"], "cursor": first["cursor"]})
	b.want(frame{"type": "token", "text": "Hi."})
	b.want(frame{"type": "complete"})
	a.send(send) // a follows the conversation, so the turn is not repeated
	a.want(frame{"type": "accepted", "duplicate": true})
	a.ask(`{"type":"ping"}`, frame{"type": "pong"})
}

// While a turn runs, messages wait in their order; stop and other frames do not wait.
func TestWaitingMessages(t *testing.T) {
	d := newDouble(nil)
	d.hold = make(chan struct{})
	_, url := serve(t, wsserver.Options{Node: d})
	c := dial(t, url, "")
	c.send(`{"type":"message","id":"first","content":"hello"}`)
	d.hold <- struct{}{}
	conv := c.want(frame{"type": "accepted", "re": "first"})["conversation_id"].(string)
	in := `"conversation_id":"` + conv + `"`
	const waiting = 20
	for i := range waiting {
		c.send(fmt.Sprintf(`{"type":"message","id":"%d",%s,"content":"%d"}`, i, in, i))
	}
	c.ask(`{"type":"stop","id":"s",`+in+`}`, frame{"type": "ok", "re": "s"})
	c.ask(`{"type":"message","id":"steering",`+in+`,"content":"left","steer":true}`, frame{"type": "accepted", "re": "steering"})
	for i := range waiting {
		d.hold <- struct{}{}
		c.want(frame{"type": "accepted", "re": fmt.Sprint(i)})
	}
	if !slices.Equal(d.stops, []id.ID{number(1)}) {
		t.Errorf("stopped %v", d.stops)
	}
	full := dial(t, url, "") // nothing waits on it yet
	for i := range 33 {
		full.send(fmt.Sprintf(`{"type":"message","id":"%d",%s,"content":"%d"}`, i, in, i))
	}
	full.want(frame{"type": "error", "code": "too_many_pending", "re": "32", "retry": "backoff"})
	full.CloseNow() // waiting messages were never acknowledged, and are not sent
}

// A failed message does not block the next one.
func TestFailingMessage(t *testing.T) {
	d := newDouble(answer("Hi."))
	_, url := serve(t, wsserver.Options{Node: d})
	c := dial(t, url, "")
	const none = `"conversation_id":"00000000-0000-7000-8000-0000000000ff"`
	for range 3 {
		c.ask(`{"type":"message","id":"a",`+none+`,"content":"x"}`, frame{"type": "error", "re": "a", "code": "conversation_not_found"})
	}
	d.breakDown(errors.New("/secret/path is gone"))
	for _, f := range []string{`{"type":"message","id":"a","content":"x"}`, `{"type":"message","id":"a",` + none + `,"content":"x"}`,
		`{"type":"stop","id":"a",` + none + `}`, `{"type":"resume","id":"a",` + none + `}`} {
		c.ask(f, frame{"type": "error", "re": "a", "code": "internal", "message": "internal error"})
	}
}

// A failed watch is reported, and can be resumed.
func TestWatchFails(t *testing.T) {
	d := newDouble(answer("Hi."))
	_, url := serve(t, wsserver.Options{Node: d})
	c := dial(t, url, "")
	c.send(`{"type":"message","content":"x"}`)
	conv := c.next()["conversation_id"].(string)
	for c.next()["type"] != "complete" {
	}
	d.breakDown(fault.New(fault.Unavailable, "disk_full", "no room"))
	f := c.want(frame{"type": "error", "code": "disk_full", "conversation_id": conv})
	if _, ok := f["re"]; ok {
		t.Errorf("got %v", f)
	}
	d.breakDown(nil)
	c.ask(`{"type":"resume","conversation_id":"`+conv+`"}`, frame{"type": "user"})
	c.want(frame{"type": "token"})
}

// However often the connection breaks, a client that resumes from its last cursor
// misses nothing and gets nothing twice.
func TestResume(t *testing.T) {
	words := make([]string, 60)
	for i := range words {
		words[i] = fmt.Sprintf("word%d ", i)
	}
	d := newDouble(answer(words...))
	_, url := serve(t, wsserver.Options{Node: d})
	c := dial(t, url, "")
	first := c.ask(`{"type":"message","content":"x"}`, frame{"type": "accepted"})
	conv := first["conversation_id"].(string)
	c.CloseNow()
	rapid.Check(t, func(r *rapid.T) {
		cursor, text, complete := first["cursor"].(string), "", 0
		for complete == 0 {
			c := dial(t, url, "")
			c.send(`{"type":"resume","conversation_id":"` + conv + `","cursor":"` + cursor + `"}`)
			for range rapid.IntRange(1, 30).Draw(r, "frames") {
				f := c.next()
				cursor = f["cursor"].(string)
				if f["type"] == "complete" {
					complete++
					break
				}
				text += f["text"].(string)
			}
			c.CloseNow()
		}
		if want := strings.Join(words, ""); text != want {
			r.Fatalf("got %q", text)
		}
	})
}

// Resuming again on the same connection ends the earlier watch.
func TestResumeAnew(t *testing.T) {
	d := newDouble(answer("Hi."))
	_, url := serve(t, wsserver.Options{Node: d})
	c := dial(t, url, "")
	c.send(`{"type":"message","content":"x"}`)
	acc := c.next()
	conv := acc["conversation_id"].(string)
	for c.next()["type"] != "complete" {
	}
	for range 50 {
		c.ask(`{"type":"resume","conversation_id":"`+conv+`"}`, frame{"type": "user", "content": []any{map[string]any{"type": "text", "text": "x"}}})
		c.want(frame{"type": "token"})
		c.want(frame{"type": "complete"})
	}
	c.ask(`{"type":"message","conversation_id":"`+conv+`","content":"y"}`, frame{"type": "accepted"})
	c.want(frame{"type": "token"})
	c.want(frame{"type": "complete"})
	c.ask(`{"type":"ping"}`, frame{"type": "pong"}) // the turn is not repeated
}

// A service cannot be asked for approval, whatever it sends.
func TestServicesAreNeverAttended(t *testing.T) {
	d := newDouble(nil)
	_, url := serve(t, wsserver.Options{Node: d})
	for user, attended := range map[string]bool{"ana": true, "robot": false} {
		c := dial(t, url, user)
		c.send(`{"type":"message","id":"1","content":"Hello"}`)
		for f := c.next(); f["type"] != "accepted"; f = c.next() {
			if f["type"] == "error" {
				t.Fatalf("%v", f)
			}
		}
		if got := d.last().Attended; got != attended {
			t.Errorf("%s is attended: %v", user, got)
		}
	}
}
