package conversation_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/conversation"
	"steward/internal/id"
	"steward/internal/llm/tokens"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/store/sqlite"
)

// long makes a conversation of many messages, its view fitted to 200k tokens.
func long(b *testing.B, turns int) (*conversation.Engine, id.ID, []id.ID) {
	b.Helper()
	db, err := sqlite.Open(b.Context(), sqlite.Options{Path: filepath.Join(b.TempDir(), "steward.db")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	e := conversation.New(db, conversation.Options{})
	s := e.Create(anna, record.Conversation{ID: id.New(), Owner: "anna"})
	first := say(message.User, "begin")
	if _, err := s.Begin(conversation.Opening{Request: id.New(), Interaction: id.New(), Origin: "user", Message: first,
		Run: record.Run{ID: id.New(), Agent: "bench"}})(b.Context()); err != nil {
		b.Fatal(err)
	}
	ids := []id.ID{first.ID}
	text := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 50)
	for n := 0; n < turns; n += 50 {
		var batch []*message.Message
		for i := range 50 {
			call := &message.Message{ID: id.New(), Role: message.Assistant, Blocks: []message.Block{&message.ToolCall{
				Common: message.Common{Origin: "model:b/m"}, CallID: fmt.Sprint("c", n+i), Name: "a.b", Args: []byte(`{"path":"x"}`)}}}
			result := &message.Message{ID: id.New(), Role: message.Tool, Blocks: []message.Block{&message.ToolResult{
				Common: message.Common{Origin: "tool:a.b"}, Call: message.Ref{Message: call.ID}, CallID: fmt.Sprint("c", n+i), Name: "a.b",
				Status: message.OK, Content: []message.Block{&message.Text{Text: text[:2000]}}}}}
			ask := say(message.User, text[:180])
			ids = append(ids, ask.ID)
			batch = append(batch, call, result, say(message.Assistant, text[:400]), ask)
		}
		if _, err := s.Append(b.Context(), batch...); err != nil {
			b.Fatal(err)
		}
		if s.Transcript().Tokens() > 200_000 {
			if _, err := s.Fit(b.Context(), conversation.Window{Tokens: 200_000, Count: tokens.Counter{}.Message}); err != nil {
				b.Fatal(err)
			}
		}
	}
	if _, err := s.Finish(b.Context(), nil, "answered", ""); err != nil {
		b.Fatal(err)
	}
	return e, s.Conversation().ID, ids
}

func BenchmarkOpen(b *testing.B) {
	e, conv, _ := long(b, 5000)
	b.ReportAllocs()
	shown := 0
	for b.Loop() {
		s, err := e.Open(b.Context(), anna, conv)
		if err != nil {
			b.Fatal(err)
		}
		shown = len(s.Transcript().Messages())
	}
	b.ReportMetric(float64(shown), "messages")
}

func BenchmarkFind(b *testing.B) {
	e, conv, ids := long(b, 5000)
	for b.Loop() {
		if _, err := e.Find(b.Context(), anna, conv, ids[len(ids)/2]); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFork(b *testing.B) {
	e, conv, ids := long(b, 5000)
	for b.Loop() {
		if _, err := e.Fork(b.Context(), anna, conv, conversation.Fork{Message: ids[len(ids)/2], Before: true}); err != nil {
			b.Fatal(err)
		}
	}
}
