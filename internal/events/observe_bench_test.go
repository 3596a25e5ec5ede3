package events

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/store"
	"steward/internal/store/sqlite"
)

// BenchmarkTurn is what a turn with one tool call commits to the real store,
// while nobody observes, while a thousand observe other conversations, and
// while one observes this one.
func BenchmarkTurn(b *testing.B) {
	for _, c := range []struct {
		name         string
		others, here int
	}{{"nobody", 0, 0}, {"others1000", 1000, 0}, {"one", 0, 1}, {"all1000", 0, 1000}} {
		b.Run(c.name, func(b *testing.B) {
			st, err := sqlite.Open(b.Context(), sqlite.Options{Path: filepath.Join(b.TempDir(), "steward.db")})
			if err != nil {
				b.Fatal(err)
			}
			defer st.Close()
			h := observing(st, 0, 0)
			defer h.opt.Follow.Close()
			conv := id.New()
			stop := observers(b, h, c.here, conv)
			defer stop()
			for range c.others {
				defer observers(b, h, 1, id.New())()
			}
			b.ReportAllocs()
			for b.Loop() {
				for _, batch := range turnOf(conv) {
					if _, err := st.Commit(b.Context(), ana, batch); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// observers lets so many observe a conversation until stop is called, and
// returns when they do.
func observers(b *testing.B, h *Engine, n int, conv id.ID) (stop func()) {
	ctx, cancel := context.WithCancel(b.Context())
	var ready, ended sync.WaitGroup
	for range n {
		ready.Add(1)
		ended.Go(func() {
			first := true
			for _, err := range h.Observe(ctx, ana, ChangeFilter{Conversations: []id.ID{conv}}, Now) {
				if err != nil {
					b.Error(err)
				}
				if first {
					ready.Done()
				}
				first = false
			}
		})
	}
	ready.Wait()
	return func() {
		cancel()
		ended.Wait()
	}
}

func turnOf(conv id.ID) []store.Batch {
	in := record.InteractionURI(conv, id.New())
	run := in.ChildID(record.TypeRun, id.New())
	say := func(m *message.Message) store.Change {
		return store.Change{URI: in.ChildID(record.TypeMessage, id.New()), Body: message.Append(nil, m)}
	}
	text := []message.Block{&message.Text{Text: strings.Repeat("word ", 60)}}
	return []store.Batch{
		{Changes: []store.Change{{URI: in, Body: []byte("{}")}, {URI: run, Body: []byte("{}"), State: "running"}, say(&message.Message{Role: message.User, Blocks: text})}},
		{Changes: []store.Change{say(&message.Message{Role: message.Assistant, Blocks: []message.Block{&message.ToolCall{Name: "file.read", Args: []byte("{}")}}})}},
		{Changes: []store.Change{say(&message.Message{Role: message.Tool, Blocks: []message.Block{&message.ToolResult{Name: "file.read", Status: message.OK, Content: text}}})}},
		{Changes: []store.Change{say(&message.Message{Role: message.Assistant, Final: true, Blocks: text}), {URI: run, Body: []byte(`{"ended":"2030-01-02T03:04:05Z","outcome":"answered"}`)},
			{URI: record.ConversationURI(conv), Body: record.Encode(record.Conversation{Owner: "ana", Title: "t"})}}},
	}
}
