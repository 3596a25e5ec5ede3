package ollama

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/wire"
	"steward/internal/server/auth"
	"steward/internal/tool"
	"steward/internal/turn"
	"steward/internal/turn/relay"
)

// chat answers POST /api/chat.
func (s *server) chat(w http.ResponseWriter, r *http.Request, caller auth.Caller) error {
	var in chatRequest
	size, err := s.read(w, r, &in)
	if err != nil {
		return err
	}
	return s.answer(w, r, caller, &in.question, in.Messages, in.Tools, size, &answer{chat: true})
}

// generate answers POST /api/generate.
func (s *server) generate(w http.ResponseWriter, r *http.Request, caller auth.Caller) error {
	var in generateRequest
	size, err := s.read(w, r, &in)
	if err != nil {
		return err
	}
	var msgs []jsontext.Value
	if in.Prompt != "" || len(in.Images) > 0 {
		if msgs, err = in.messages(); err != nil {
			return err
		}
	}
	return s.answer(w, r, caller, &in.question, msgs, nil, size, &answer{})
}

// answer asks the model or the agent that a request names, and writes what it says. Without messages there is nothing
// to ask: clients do that to load or unload a model.
func (s *server) answer(w http.ResponseWriter, r *http.Request, caller auth.Caller, q *question, in []jsontext.Value, tools []toolPart, size int, a *answer) error {
	m, err := s.find(r, q.Model)
	if err != nil {
		return err
	}
	a.model, a.began, a.quiet = m.Name, time.Now(), string(q.Think) == "false"
	if len(in) == 0 {
		a.doneReason = "load"
		if q.unloads() {
			a.doneReason = "unload"
		}
		auth.Reply(w, http.StatusOK, a.whole(&llm.Reply{}))
		return nil
	}
	ctx, leave, err := s.enter(r.Context())
	if err != nil {
		return err
	}
	defer leave()
	from, err := s.ask(ctx, caller, m, q, in, tools, size, a)
	if err != nil {
		return err
	}
	if q.streamed() {
		return s.stream(w, r, from, a)
	}
	for ev, err := range from {
		if err != nil {
			return err
		}
		a.note(ev)
		if ev.Kind == llm.Done {
			auth.Reply(w, http.StatusOK, a.whole(ev.Reply))
			return nil
		}
	}
	return relay.Broken()
}

// ask checks a request and asks the model or the agent that it names.
func (s *server) ask(ctx context.Context, caller auth.Caller, m named, q *question, in []jsontext.Value, parts []toolPart, size int, a *answer) (relay.Events, error) {
	sampling, err := q.sampling()
	if err != nil {
		return nil, err
	}
	schema, err := q.schema()
	if err != nil {
		return nil, err
	}
	if a.tools, err = toolset(parts); err != nil {
		return nil, err
	}
	system, msgs, err := s.history(in)
	if err != nil {
		return nil, err
	}
	if m.Agent != "" {
		return s.turn(ctx, caller, m, system, msgs, sampling, schema, a.tools, size)
	}
	model, err := s.Node.Resolve(m.Alias)
	if err != nil {
		return nil, err
	}
	for _, x := range msgs {
		if err := s.Node.ReadAttached(ctx, caller.User, m.Alias, x.Blocks); err != nil {
			return nil, err
		}
	}
	request := &llm.Request{System: system, Transcript: llm.NewTranscript(msgs...), Tools: a.tools, Sampling: sampling,
		Schema: schema, User: caller.User, Labels: relay.LabelsOf(msgs)}
	kept, err := s.Node.FitRequest(ctx, model.Models, request, msgs, false)
	if err != nil {
		return nil, err
	}
	if len(kept) < len(msgs) {
		request.Transcript, msgs = llm.NewTranscript(kept...), kept
	}
	return relay.Structured(ctx, model.Model, request, msgs)
}

// turn has an agent answer the last message, in a new conversation. If the client disconnects, the turn continues.
func (s *server) turn(ctx context.Context, caller auth.Caller, m named, system string, msgs []*message.Message, sampling llm.Sampling, schema *llm.Schema, tools *llm.Toolset, size int) (relay.Events, error) {
	last := msgs[len(msgs)-1]
	switch {
	case tools != nil: // Ollama's own words for a model without them
		return nil, fault.New(fault.Unsupported, "unsupported_parameter", "%s does not support tools", m.Name).
			WithHint("an agent has tools of its own; use an alias such as %s%s, or send no tools", llm.DefaultAlias, latest)
	case schema != nil:
		return nil, fault.New(fault.Unsupported, "unsupported_parameter", "%s answers in prose", m.Name).WithHint("leave format out, or use an alias of a model")
	case last.Role != message.User:
		return nil, bad("the last message must be of the role user")
	}
	if err := caller.Store(ctx, int64(size)); err != nil {
		return nil, err
	}
	t := turn.Input{Agent: m.Agent, Sampling: sampling, Content: last.Blocks}
	if before := relay.Transcript(system, msgs[:len(msgs)-1]); before != nil {
		t.Content = append([]message.Block{before}, t.Content...)
	}
	acc, err := caller.Send(ctx, s.Node, t)
	if err != nil {
		return nil, err
	}
	return relay.Follow(ctx, s.Node, caller.User, acc), nil
}

// answer is an answer in progress.
type answer struct {
	chat       bool // of /api/chat, not of /api/generate
	model      string
	tools      *llm.Toolset
	began      time.Time
	first      time.Time // when the model said its first word
	quiet      bool      // the client wants no thoughts
	doneReason string
}

// note takes the time of the first event.
func (a *answer) note(ev llm.Event) {
	if a.first.IsZero() && ev.Kind != llm.Notice {
		a.first = time.Now()
	}
}

// object is a piece of an answer, or a whole one.
type object struct {
	Model    string         `json:"model"`
	Created  string         `json:"created_at"`
	Message  *messageObject `json:"message,omitzero"`  // of /api/chat
	Response *string        `json:"response,omitzero"` // of /api/generate
	Thinking string         `json:"thinking,omitzero"` // of /api/generate
	Done     bool           `json:"done"`
	Reason   string         `json:"done_reason,omitzero"`
	Measured *measured      `json:",embed"`
}

// measured is how long an answer took, in nanoseconds, and its tokens.
type measured struct {
	Total        int64 `json:"total_duration"`
	Load         int64 `json:"load_duration"`
	PromptTokens int64 `json:"prompt_eval_count"`
	PromptTime   int64 `json:"prompt_eval_duration"`
	Tokens       int64 `json:"eval_count"`
	Time         int64 `json:"eval_duration"`
}

type messageObject struct {
	Role     string   `json:"role"`
	Content  string   `json:"content"`
	Thinking string   `json:"thinking,omitzero"`
	Calls    []called `json:"tool_calls,omitempty"`
}

type called struct {
	ID       string `json:"id"`
	Function struct {
		Index     int            `json:"index"`
		Name      string         `json:"name"`
		Arguments jsontext.Value `json:"arguments"` // an object
	} `json:"function"`
}

// piece returns a piece of an answer, or all of it.
func (a *answer) piece(text, thinking string, calls []called) *object {
	if a.quiet {
		thinking = ""
	}
	o := &object{Model: a.model, Created: time.Now().UTC().Format(time.RFC3339Nano)}
	if a.chat {
		o.Message = &messageObject{Role: "assistant", Content: text, Thinking: thinking, Calls: calls}
	} else {
		o.Response, o.Thinking = &text, thinking
	}
	return o
}

// end makes a piece the last one.
func (a *answer) end(o *object, r *llm.Reply) []byte {
	now := time.Now()
	if a.first.IsZero() {
		a.first = now
	}
	o.Done, o.Reason = true, a.doneReason
	if o.Reason == "" {
		o.Reason = "stop"
		if r.Stop == message.StopLength || r.Stop == message.StopBound {
			o.Reason = "length"
		}
		o.Measured = &measured{Total: now.Sub(a.began).Nanoseconds(), PromptTokens: r.Usage.Input, PromptTime: a.first.Sub(a.began).Nanoseconds(),
			Tokens: r.Usage.Output, Time: now.Sub(a.first).Nanoseconds()}
	}
	return line(o)
}

// whole returns an answer that is not streamed.
func (a *answer) whole(r *llm.Reply) []byte {
	text, thinking := relay.TextOf(r.Blocks)
	return a.end(a.piece(text, thinking, a.calls(r)), r)
}

// calls returns the calls of the client's tools.
func (a *answer) calls(r *llm.Reply) (out []called) {
	if a.tools == nil {
		return nil
	}
	for _, b := range r.Blocks {
		c, ok := b.(*message.ToolCall)
		if !ok {
			continue
		}
		x := called{ID: c.CallID}
		if x.ID == "" {
			random := make([]byte, 4)
			rand.Read(random) // never fails (crypto/rand)
			x.ID = "call_" + hex.EncodeToString(random)
		}
		x.Function.Index, x.Function.Name, x.Function.Arguments = len(out), tool.WireName(c.Name), wire.AppendArgs(nil, c.Args, "_malformed_arguments")
		for _, s := range a.tools.Specs() {
			if s.Name == c.Name || tool.WireName(s.Name) == c.Name {
				x.Function.Name = s.Name // as the client spells it
			}
		}
		out = append(out, x)
	}
	return out
}
