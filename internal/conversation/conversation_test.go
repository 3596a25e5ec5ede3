package conversation_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/anthropic"
	"steward/internal/provider/gemini"
	"steward/internal/provider/ollama"
	"steward/internal/provider/openai"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/sqlite"
)

var anna = store.ForUser("anna")

// codecs are the vendors' forms of messages.
func codecs() map[string]llm.Codec {
	return map[string]llm.Codec{
		"openai": openai.New(openai.Options{}).Codec(""), "anthropic": anthropic.New(anthropic.Options{}).Codec(""),
		"gemini": gemini.New(gemini.Options{}).Codec(""), "ollama": ollama.New(ollama.Options{}).Codec(""),
	}
}

func engine(t *testing.T) (*conversation.Engine, *sqlite.Store) {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "steward.db")})
	must(t, err)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return conversation.New(db, conversation.Options{Codecs: codecs()}), db
}

func say(role message.Role, text string) *message.Message {
	origin := "user"
	if role == message.Assistant {
		origin = "model:test/m"
	}
	return &message.Message{ID: id.New(), Role: role, Blocks: []message.Block{
		&message.Text{Common: message.Common{Origin: origin}, Text: text}}}
}

func create(e *conversation.Engine) *conversation.Session {
	return e.Create(anna, record.Conversation{ID: id.New(), Owner: "anna"})
}

func begin(t *testing.T, s *conversation.Session, words string) *message.Message {
	t.Helper()
	m := say(message.User, words)
	commit := s.Begin(conversation.Opening{Request: id.New(), Interaction: id.New(), Origin: "user", Message: m,
		Run: record.Run{ID: id.New(), Agent: "assistant"}})
	must(t, second(commit(t.Context())))
	return m
}

func finish(t *testing.T, s *conversation.Session, words string) {
	t.Helper()
	m := say(message.Assistant, words)
	m.Final, m.Usage = true, message.Usage{Input: 7, Output: 2}
	must(t, second(s.Finish(t.Context(), m, "answered", "", nil)))
}

// call appends an assistant message with one call, and its result.
func call(t *testing.T, s *conversation.Session, callID, args, result string, labels message.Labels) {
	t.Helper()
	a := &message.Message{ID: id.New(), Role: message.Assistant, Usage: message.Usage{Input: 5}, Blocks: []message.Block{
		&message.ToolCall{Common: message.Common{Labels: labels}, CallID: callID, Name: "a.b", Args: []byte(args)}}}
	r := &message.Message{ID: id.New(), Role: message.Tool, Blocks: []message.Block{
		&message.ToolResult{Call: message.Ref{Message: a.ID}, CallID: callID, Name: "a.b", Status: message.OK,
			Content: []message.Block{&message.Text{Common: message.Common{Labels: labels}, Text: result}}}}}
	must(t, second(s.Append(t.Context(), a, r)))
}

func TestCountsAndTitle(t *testing.T) {
	e, _ := engine(t)
	s := create(e)
	begin(t, s, "  What is \n six times seven?")
	call(t, s, "c1", "{}", "42", 0)
	finish(t, s, "42")
	begin(t, s, "And then?")
	finish(t, s, "Nothing.")
	c, err := e.Get(t.Context(), anna, s.Conversation().ID)
	must(t, err)
	if c.Messages != 4 || c.ToolCalls != 1 || c.Tokens != (message.Usage{Input: 19, Output: 4}) || c.Title != "What is" || c.Owner != "anna" {
		t.Errorf("%+v", c)
	}
	if c.Created.IsZero() || c.Updated.Before(c.Created) {
		t.Errorf("created %s, updated %s", c.Created, c.Updated)
	}
}

func TestLongTitleIsCutAtAWord(t *testing.T) {
	e, _ := engine(t)
	s := create(e)
	begin(t, s, strings.Repeat("häuser ", 20))
	title := s.Conversation().Title
	if len([]rune(title)) > 61 || !strings.HasSuffix(title, "häuser…") {
		t.Errorf("%q", title)
	}
}

// A session opened in the middle of a turn counts the messages that the
// conversation's record does not include yet.
func TestOpenInMidTurn(t *testing.T) {
	e, _ := engine(t)
	s := create(e)
	begin(t, s, "one")
	finish(t, s, "first")
	begin(t, s, "two")
	call(t, s, "c1", "{}", "r", message.Untrusted)
	again, err := e.Open(t.Context(), anna, s.Conversation().ID)
	must(t, err)
	if a, b := again.Conversation(), s.Conversation(); a.Messages != b.Messages || a.ToolCalls != b.ToolCalls || a.Tokens != b.Tokens || a.Messages != 3 {
		t.Errorf("%+v\n%+v", a, b)
	}
	if again.Head() != s.Head() || again.Seq() != s.Seq() || again.Labels() != message.Untrusted {
		t.Error("the sessions differ")
	}
	if err := message.CheckHistory(again.Transcript().Messages()); err != nil {
		t.Error(err)
	}
	runs, err := e.OpenRuns(t.Context(), store.ForNode(resource.System), resource.URI{})
	if err != nil || len(runs) != 1 || runs[0].Conversation != again.Conversation().ID || runs[0].Space != "user:anna" {
		t.Fatalf("%+v %v", runs, err)
	}
	again.Resume(runs[0], id.New(), "agent:assistant")
	finish(t, again, "second")
	if runs, _ := e.OpenRuns(t.Context(), anna, resource.URI{}); len(runs) != 0 {
		t.Errorf("%+v", runs)
	}
	if _, err := s.Finish(t.Context(), nil, "answered", "", nil); err == nil {
		t.Error("a run ended twice")
	}
	if s.Broken() == nil {
		t.Error("the overtaken session is not broken")
	}
	if _, err := s.Append(t.Context(), say(message.User, "x")); err == nil {
		t.Error("a broken session takes messages")
	}
}

func TestPagesAreInExactOrder(t *testing.T) {
	t.Parallel()
	e, _ := engine(t)
	s := create(e)
	at := time.Now().UTC().Truncate(time.Millisecond)
	first := begin(t, s, "m0")
	want := []string{"m0"}
	for i := range 300 {
		m := say(message.User, fmt.Sprintf("m%d", i+1))
		m.At = at // all of the same millisecond
		want = append(want, m.Text())
		must(t, second(s.Append(t.Context(), m)))
	}
	conv := s.Conversation().ID
	for _, limit := range []int{1, 7, 100, 0, 1000} {
		for _, reverse := range []bool{false, true} {
			var got []string
			for after := store.Cursor(""); ; {
				page, next, err := e.Messages(t.Context(), anna, conv, after, limit, reverse)
				must(t, err)
				for _, m := range page {
					if reverse {
						got = append([]string{m.Text()}, got...)
					} else {
						got = append(got, m.Text())
					}
				}
				if after = next; next == "" {
					break
				}
			}
			if strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("limit %d, reverse %v: %v", limit, reverse, got)
			}
		}
	}
	entries, err := e.Since(t.Context(), anna, conv, s.Seq()-150)
	if err != nil || len(entries) != 150 || entries[0].Text() != "m151" || entries[149].Text() != "m300" {
		t.Errorf("%d entries, %v", len(entries), err)
	}
	if all, err := e.Since(t.Context(), anna, conv, 0); err != nil || len(all) != 301 || all[0].ID != first.ID {
		t.Errorf("%d entries, %v", len(all), err)
	}
}

func TestFind(t *testing.T) {
	e, _ := engine(t)
	s := create(e)
	begin(t, s, "x")
	call(t, s, "call_77", "{}", "r", 0)
	conv := s.Conversation().ID
	found, err := e.FindCall(t.Context(), anna, "call_77")
	if err != nil || len(found) != 2 || found[0].Conversation != conv || found[1].Result() == nil || found[1].Result().CallID != "call_77" || found[0].Role != message.Assistant || found[0].Calls()[0].CallID != "call_77" || !found[0].Shown {
		t.Errorf("%+v %v", found, err)
	}
	if found, err := e.FindCall(t.Context(), anna, "call_78"); err != nil || len(found) != 0 {
		t.Error(found, err)
	}
	if found, err := e.FindCall(t.Context(), store.ForUser("bert"), "call_77"); err != nil || len(found) != 0 {
		t.Error(found, err)
	}
	derived := say(message.User, "again")
	derived.ID = id.Derive("message", "1")
	must(t, second(s.Append(t.Context(), derived)))
	if m, err := e.FindMessage(t.Context(), anna, conv, derived.ID); err != nil || m.Text() != "again" {
		t.Errorf("%+v %v", m, err)
	}
}

func TestListIsByRecency(t *testing.T) {
	e, _ := engine(t)
	var sessions []*conversation.Session
	for i := range 5 {
		s := create(e)
		begin(t, s, fmt.Sprint(i))
		finish(t, s, "y")
		sessions = append(sessions, s)
	}
	begin(t, sessions[1], "again")
	finish(t, sessions[1], "y")
	var got []string
	for after := store.Cursor(""); ; {
		page, next, err := e.List(t.Context(), anna, after, 2)
		must(t, err)
		for _, c := range page {
			got = append(got, c.Title)
		}
		if after = next; next == "" {
			break
		}
	}
	if strings.Join(got, "") != "14320" {
		t.Errorf("%v", got)
	}
}

func TestTheSameMessageTwice(t *testing.T) {
	e, _ := engine(t)
	s := create(e)
	m := begin(t, s, "x")
	in := id.New()
	commit := s.Begin(conversation.Opening{Request: id.New(), Interaction: in, Origin: "user", Message: say(message.User, "y"), Run: record.Run{ID: id.New()}})
	must(t, second(commit(t.Context())))
	again := create(e)
	_ = m
	commit = again.Begin(conversation.Opening{Request: id.New(), Interaction: id.New(), Origin: "user", Message: say(message.User, "y"), Run: record.Run{ID: id.New()}})
	must(t, second(commit(t.Context())))
	other := e.Create(anna, again.Conversation())
	commit = other.Begin(conversation.Opening{Request: id.New(), Interaction: id.New(), Origin: "user", Message: say(message.User, "y"), Run: record.Run{ID: id.New()}})
	if _, err := commit(t.Context()); !fault.HasCode(err, "message_exists") || other.Broken() == nil {
		t.Errorf("a conversation was made twice: %v", err)
	}
}

func TestInvalidMessagesAreRefused(t *testing.T) {
	e, _ := engine(t)
	s := create(e)
	begin(t, s, "x")
	bad := say(message.User, "x")
	bad.Blocks = []message.Block{&message.ToolCall{Name: "a.b"}}
	if _, err := s.Append(t.Context(), bad); err == nil || s.Broken() != nil {
		t.Errorf("%v, broken: %v", err, s.Broken())
	}
	if _, err := s.Finish(t.Context(), bad, "answered", "", nil); err == nil || s.Broken() != nil {
		t.Errorf("%v, broken: %v", err, s.Broken())
	}
	finish(t, s, "fine")
}

func TestUsage(t *testing.T) {
	e, _ := engine(t)
	s := create(e)
	begin(t, s, "x")
	call(t, s, "c", "{}", "r", 0)
	finish(t, s, "y")
	must(t, e.Record(t.Context(), store.ForUser("bert"), resource.URI{}, "m/n", message.Usage{Input: 100}))
	must(t, e.Delete(t.Context(), anna, s.Conversation().ID))
	got := map[string]int64{}
	for u, err := range e.Usage(t.Context(), store.ForNode(resource.System), time.Now().Add(-time.Hour)) {
		must(t, err)
		got[u.User] += u.Usage.Input
	}
	if got["anna"] != 12 || got["bert"] != 100 {
		t.Errorf("%v", got)
	}
	for u := range e.Usage(t.Context(), store.ForNode(resource.System), time.Now().Add(time.Hour)) {
		t.Errorf("%+v is from the future", u)
	}
}
