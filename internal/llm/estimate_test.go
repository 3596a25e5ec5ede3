package llm_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/test/messagetest"
)

func TestEstimateRequest(t *testing.T) {
	image := &message.Message{Role: message.User, Blocks: []message.Block{&message.Image{MIME: "image/png", Data: make([]byte, 1<<20)}}}
	tr := llm.NewTranscript(textMessage(message.User, strings.Repeat("a word ", 100)))
	base := llm.EstimateRequest(&llm.Request{Transcript: tr})
	if base < 200 || base > 600 {
		t.Errorf("200 words make %d tokens", base)
	}
	more := []*llm.Request{
		{Transcript: tr, System: "Be brief."},
		{Transcript: tr, Schema: &llm.Schema{JSON: []byte(`{"type":"object"}`)}},
		{Transcript: tr, Tools: llm.NewToolset(tool.Spec{Name: "a.b", Input: []byte(`{}`)})},
	}
	for i, r := range more {
		if got := llm.EstimateRequest(r); got <= base {
			t.Errorf("request %d: %d, without it %d", i, got, base)
		}
	}
	tr.Append(image)
	if got := llm.EstimateRequest(&llm.Request{Transcript: tr}) - base; got < 1000 || got > 3000 {
		t.Errorf("a picture makes %d tokens", got)
	}
	for _, c := range []struct {
		least, most int64
		b           message.Block
	}{
		{250, 500, &message.File{MIME: "text/plain", Data: []byte(strings.Repeat("a word ", 100))}},
		{3000, 10000, &message.File{MIME: "application/pdf", Data: make([]byte, 100<<10)}},
		{10, 60, &message.ToolCall{Name: "math.multiply", Args: []byte(`{"a":1}`)}},
		{10, 60, &message.ToolResult{Name: "math.multiply", Content: []message.Block{&message.Text{Text: "42"}}}},
		{300, 400, &message.Reasoning{Text: "hm", Common: message.Common{Meta: message.Meta{Provider: "p", Fields: make([]byte, 1000)}}}},
	} {
		got := llm.NewTranscript(&message.Message{Blocks: []message.Block{c.b}}).Tokens()
		if got < c.least || got > c.most {
			t.Errorf("%T makes %d tokens, want %d to %d", c.b, got, c.least, c.most)
		}
	}
}

func TestTokensOfATranscriptDoNotDependOnWhenTheyAreCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		msgs := messagetest.History().Draw(t, "history")
		tr := llm.NewTranscript()
		for _, m := range msgs {
			tr.Append(m)
			if rapid.Bool().Draw(t, "count now") {
				tr.Tokens()
			}
		}
		if got, want := tr.Tokens(), llm.NewTranscript(msgs...).Tokens(); got != want {
			t.Fatalf("%d in steps, %d at once", got, want)
		}
	})
}
