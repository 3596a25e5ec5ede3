package openai

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/internal/turn/relay"
)

// null is the value of members that are present but empty.
var null = jsontext.Value("null")

// encode writes an object of an answer. Invalid UTF-8 becomes U+FFFD; these types have no other errors.
func encode(v any) []byte {
	b, _ := json.Marshal(v, jsontext.AllowInvalidUTF8(true), json.FormatNilSliceAsNull(false))
	return b
}

// answer is a completion in progress.
type answer struct {
	completed
	tools  *llm.Toolset
	single bool // at most one tool call
}

// completed is the object chat.completion, or a chunk of one.
type completed struct {
	ID      string         `json:"id"`
	Object  string         `json:"object"`
	Created int64          `json:"created"`
	Model   string         `json:"model"` // as requested
	Choices []choice       `json:"choices"`
	Usage   jsontext.Value `json:"usage,omitzero"`

	// Steward holds notices for the person. Clients that do not know this member ignore it.
	Steward notices `json:"steward,omitzero"`
}

type notices struct {
	Notices []string `json:"notices,omitempty"`
}

func (n notices) IsZero() bool { return len(n.Notices) == 0 }

type choice struct {
	Index    int            `json:"index"`
	Message  *messageObject `json:"message,omitzero"`
	Delta    *messageObject `json:"delta,omitzero"`
	Logprobs jsontext.Value `json:"logprobs"` // null
	Finish   *string        `json:"finish_reason"`
}

// messageObject is a message, or a chunk of it.
type messageObject struct {
	Role        string         `json:"role,omitzero"`
	Content     any            `json:"content,omitzero"`
	Refusal     jsontext.Value `json:"refusal,omitzero"`
	Reasoning   string         `json:"reasoning_content,omitzero"`
	Annotations []annotation   `json:"annotations,omitempty"`
	Calls       []called       `json:"tool_calls,omitempty"`
}

type called struct {
	Index    *int   `json:"index,omitzero"` // of chunks
	ID       string `json:"id,omitzero"`
	Type     string `json:"type,omitzero"`
	Function struct {
		Name      string `json:"name,omitzero"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// call returns a tool call for the caller. It has the provider's id, or a new one if there is none, and
// the tool's name as the caller spells it.
func (a *answer) call(id, name, args string) called {
	c := called{ID: id, Type: "function"}
	if id == "" {
		b := make([]byte, 12)
		rand.Read(b) // never fails (crypto/rand)
		c.ID = "call_" + hex.EncodeToString(b)
	}
	c.Function.Name, c.Function.Arguments = tool.WireName(name), args
	for _, s := range a.tools.Specs() {
		if s.Name == name {
			c.Function.Name = name
		}
	}
	return c
}

// whole is the object chat.completion.
func (a *answer) whole(r *llm.Reply) []byte {
	text, reasoning := relay.TextOf(r.Blocks)
	m := &messageObject{Role: "assistant", Content: text, Refusal: null, Reasoning: reasoning, Annotations: annotations(r.Blocks)}
	for _, b := range r.Blocks {
		if c, ok := b.(*message.ToolCall); ok && (len(m.Calls) == 0 || !a.single) {
			m.Calls = append(m.Calls, a.call(c.CallID, c.Name, string(c.Args)))
		}
	}
	if text == "" && len(m.Calls) > 0 {
		m.Content = null
	}
	o := a.completed
	o.Object = "chat.completion"
	o.Choices = []choice{{Message: m, Logprobs: null, Finish: finish(r.Stop, len(m.Calls) > 0)}}
	o.Usage = usageOf("prompt", "completion", r.Usage)
	return encode(o)
}

// annotation is a source of an answer, with the part of the text that it supports.
type annotation struct {
	Type string `json:"type"`
	URL  struct {
		URL   string `json:"url"`
		Title string `json:"title"`
		Start int    `json:"start_index"`
		End   int    `json:"end_index"`
	} `json:"url_citation"`
}

func annotations(blocks []message.Block) (list []annotation) {
	start, end := 0, 0
	for _, b := range blocks {
		t, ok := b.(*message.Text)
		if !ok {
			continue
		}
		start, end = end, end+utf8.RuneCountInString(t.Text)
		for _, c := range t.Citations {
			a := annotation{Type: "url_citation"}
			a.URL.URL, a.URL.Title, a.URL.Start, a.URL.End = c.URL, c.Title, start, end
			list = append(list, a)
		}
	}
	return list
}

func finish(s message.Stop, calls bool) *string {
	word := "stop"
	switch {
	case s == message.StopLength, s == message.StopBound:
		word = "length"
	case s == message.StopRefused:
		word = "content_filter"
	case calls:
		word = "tool_calls"
	}
	return &word
}

// usageOf returns the tokens of an answer, in the words that an API has for input and output.
func usageOf(input, output string, u message.Usage) jsontext.Value {
	return fmt.Appendf(nil, `{"%[1]s_tokens":%[3]d,"%[2]s_tokens":%[4]d,"total_tokens":%[5]d,`+
		`"%[1]s_tokens_details":{"cached_tokens":%[6]d},"%[2]s_tokens_details":{"reasoning_tokens":%[7]d}}`,
		input, output, u.Input, u.Output, u.Input+u.Output, u.CacheRead, u.Reasoning)
}
