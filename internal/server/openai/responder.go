package openai

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/provider/wire"
	"steward/internal/turn/relay"
)

// responseObject is the object response.
type responseObject struct {
	ID           string            `json:"id"`
	Object       string            `json:"object"`
	Created      int64             `json:"created_at"`
	Status       string            `json:"status"`
	Error        *responseError    `json:"error"`
	Incomplete   *incompleteReason `json:"incomplete_details"`
	Instructions *string           `json:"instructions"`
	MaxOutput    *int              `json:"max_output_tokens"`
	Metadata     map[string]string `json:"metadata"`
	Model        string            `json:"model"` // as requested
	Output       []*outputItem     `json:"output"`
	Parallel     bool              `json:"parallel_tool_calls"`
	Previous     *string           `json:"previous_response_id"`
	Store        bool              `json:"store"`
	Temperature  *float64          `json:"temperature"`
	ToolChoice   jsontext.Value    `json:"tool_choice"`
	Tools        []jsontext.Value  `json:"tools"`
	TopP         *float64          `json:"top_p"`
	Truncation   string            `json:"truncation"`
	Usage        jsontext.Value    `json:"usage"`
	Steward      notices           `json:"steward,omitzero"`
}

type responseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type incompleteReason struct {
	Reason string `json:"reason"`
}

// outputItem is a message, a function_call or reasoning.
type outputItem struct {
	ID      string         `json:"id"`
	Type    string         `json:"type"`
	Status  string         `json:"status,omitzero"`
	Role    string         `json:"role,omitzero"`
	Content []*contentPart `json:"content,omitzero"`
	Summary []*contentPart `json:"summary,omitzero"`
	CallID  string         `json:"call_id,omitzero"`
	Name    string         `json:"name,omitzero"`
	Args    *string        `json:"arguments,omitzero"`

	text  strings.Builder // what was sent of its text or arguments
	index int
	ended bool
}

// contentPart is a text of a message or of reasoning.
type contentPart struct {
	Type        string `json:"type"`
	Text        string `json:"text"`
	Annotations *[]any `json:"annotations,omitzero"`
	Logprobs    *[]any `json:"logprobs,omitzero"`
}

// responder writes the events of one response
// (https://platform.openai.com/docs/api-reference/responses-streaming).
type responder struct {
	answer *answer
	object responseObject
	pipe   *pipe // nil: not streamed

	begun bool
	seq   int
	open  *outputItem         // a message or reasoning that is being written
	calls map[int]*outputItem // by block
}

// event sends an event, unless the answer is not streamed. Its members begin with the type and end with
// the number.
func (p *responder) event(typ string, members wire.Members) {
	if p.pipe == nil {
		return
	}
	e := wire.Members{}
	e.String("type", typ)
	e = append(append(e, ','), members...)
	e.Int("sequence_number", int64(p.seq))
	p.seq++
	p.pipe.event(typ, wire.Append(nil, `{$}`, []byte(e)))
}

// with adds a member to those of an event.
func with(m wire.Members, name string, v any) wire.Members {
	return wire.AppendMember(m, name, encode(v))
}

// about returns the members of an event that say which item it is about, and which part of it.
func (it *outputItem) about(part string) wire.Members {
	m := with(with(nil, "item_id", it.ID), "output_index", it.index)
	if part != "" {
		m = with(m, part, 0)
	}
	return m
}

func (p *responder) begin() {
	if p.begun {
		return
	}
	p.begun = true
	p.event("response.created", with(nil, "response", p.object))
	p.event("response.in_progress", with(nil, "response", p.object))
}

func (p *responder) shown() bool { return len(p.object.Output) > 0 }

// add begins an item.
func (p *responder) add(it *outputItem, prefix string) *outputItem {
	p.begin()
	it.index = len(p.object.Output)
	it.ID = prefix + strings.TrimPrefix(p.object.ID, "resp_") + "_" + strconv.Itoa(it.index)
	p.object.Output = append(p.object.Output, it)
	p.event("response.output_item.added", with(with(nil, "output_index", it.index), "item", it))
	return it
}

func (p *responder) piece(kind llm.Kind, text string) {
	p.write(map[llm.Kind]string{llm.TextDelta: "message", llm.ReasoningDelta: "reasoning"}[kind], text)
}

// write adds text to the message or the reasoning that is open, or begins one.
func (p *responder) write(typ, text string) {
	if text == "" {
		return
	}
	if p.open == nil || p.open.Type != typ {
		p.close()
		if typ == "message" {
			p.open = p.add(&outputItem{Type: typ, Status: "in_progress", Role: "assistant", Content: []*contentPart{}}, "msg_")
			p.event("response.content_part.added", with(p.open.about("content_index"), "part", outputText("")))
		} else {
			p.open = p.add(&outputItem{Type: typ, Summary: []*contentPart{}}, "rs_")
			p.event("response.reasoning_summary_part.added", with(p.open.about("summary_index"), "part", summaryText("")))
		}
	}
	p.open.text.WriteString(text)
	if typ == "message" {
		p.event("response.output_text.delta", with(with(p.open.about("content_index"), "delta", text), "logprobs", []any{}))
		return
	}
	p.event("response.reasoning_summary_text.delta", with(p.open.about("summary_index"), "delta", text))
}

func outputText(text string) *contentPart {
	return &contentPart{Type: "output_text", Text: text, Annotations: &[]any{}, Logprobs: &[]any{}}
}

func summaryText(text string) *contentPart { return &contentPart{Type: "summary_text", Text: text} }

// close ends the message or the reasoning that is open. notes are a message's sources.
func (p *responder) close(notes ...annotation) {
	it := p.open
	if it == nil {
		return
	}
	p.open = nil
	text := it.text.String()
	if it.Type == "message" {
		part := outputText(text)
		for _, n := range notes {
			*part.Annotations = append(*part.Annotations, map[string]any{"type": n.Type, "url": n.URL.URL, "title": n.URL.Title,
				"start_index": n.URL.Start, "end_index": n.URL.End})
		}
		it.Content = []*contentPart{part}
		p.event("response.output_text.done", with(with(it.about("content_index"), "text", text), "logprobs", []any{}))
		p.event("response.content_part.done", with(it.about("content_index"), "part", part))
	} else {
		it.Summary = []*contentPart{summaryText(text)}
		p.event("response.reasoning_summary_text.done", with(it.about("summary_index"), "text", text))
		p.event("response.reasoning_summary_part.done", with(it.about("summary_index"), "part", it.Summary[0]))
	}
	p.end(it)
}

func (p *responder) end(it *outputItem) {
	if it.Status != "" {
		it.Status = "completed"
	}
	it.ended = true
	p.event("response.output_item.done", with(with(nil, "output_index", it.index), "item", it))
}

func (p *responder) call(block int, c called) {
	p.close()
	p.calls[block] = p.add(&outputItem{Type: "function_call", Status: "in_progress", CallID: c.ID, Name: c.Function.Name, Args: new(string)}, "fc_")
}

func (p *responder) args(block int, text string) {
	it := p.calls[block]
	it.text.WriteString(text)
	p.event("response.function_call_arguments.delta", with(it.about(""), "delta", text))
}

func (p *responder) said(r *llm.Reply) {
	p.begin()
	text, reasoning := relay.TextOf(r.Blocks)
	if !p.shown() {
		p.write("reasoning", reasoning)
	}
	if !slices.ContainsFunc(p.object.Output, func(it *outputItem) bool { return it.Type == "message" }) {
		p.write("message", text)
	}
	p.close(annotations(r.Blocks)...)
}

func (p *responder) done(r *llm.Reply) {
	for _, it := range p.object.Output {
		if it.Type == "function_call" && !it.ended {
			*it.Args = it.text.String()
			p.event("response.function_call_arguments.done", with(with(it.about(""), "arguments", *it.Args), "name", it.Name))
			p.end(it)
		}
	}
	p.object.Status, p.object.Usage, p.object.Steward = "completed", usageOf("input", "output", r.Usage), p.answer.Steward
	switch *finish(r.Stop, false) {
	case "length":
		p.object.Status, p.object.Incomplete = "incomplete", &incompleteReason{"max_output_tokens"}
	case "content_filter":
		p.object.Status, p.object.Incomplete = "incomplete", &incompleteReason{"content_filter"}
	}
	p.event("response."+p.object.Status, with(nil, "response", p.object))
}

func (p *responder) fail(e *fault.Error) {
	p.object.Status, p.object.Error = "failed", &responseError{Code: e.Code, Message: e.Error()}
	p.begin()
	p.event("response.failed", with(nil, "response", p.object))
}
