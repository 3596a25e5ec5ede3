package effect

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"steward/internal/conversation/window"
	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tool"
)

// ReadToolName is the name of the tool that reads the rest of a result that was cut.
const ReadToolName = "results.read"

type readArgs struct {
	URI    string `json:"uri" jsonschema:"the uri that the cut result names"`
	Offset int    `json:"offset,omitzero" jsonschema:"where to read on, in bytes; the cut result names it" min:"0"`
	Limit  int    `json:"limit,omitzero" jsonschema:"how many bytes at most; 16384 unless given" min:"1" max:"30000"`
}

// ReadTool returns the query tool with which a model reads the rest of a result that was
// cut. It reads only results of the invocation's own conversation. Outside of
// conversations it reads the results of the user's calls from outside.
func (e *Engine) ReadTool() tool.Tool {
	t, err := tool.New(tool.Spec{
		Name: ReadToolName,
		Description: "Reads on in a long tool result that was cut. " +
			"Use it with the uri and the offset that the cut result names.",
		Effect: tool.Query, Version: "1",
		Log:  tool.LogSpec{Summary: "Read on in a long result", Parameters: []string{"uri", "offset", "limit"}},
		Tidy: []tool.Strategy{{Kind: tool.ByParameters, Parameters: []string{"uri", "offset", "limit"}}},
	}, e.readRest)
	if err != nil {
		panic(err) // the spec is a constant
	}
	return t
}

func (e *Engine) readRest(ctx context.Context, in tool.Invocation, a readArgs) (tool.Result, error) {
	missing := fault.New(fault.NotFound, "result_not_found", "there is no result %.300q in this conversation", a.URI).
		WithHint("use the uri as the cut result names it")
	uri, err := resource.Parse(a.URI)
	if err != nil || !within(uri, in.Conversation) {
		return tool.Result{}, missing
	}
	sc := store.ForUser(in.User)
	r, err := e.opt.Store.Get(ctx, sc, uri)
	switch {
	case err == nil && uri.Type() == record.TypeMessage: // a result that was shortened to fit the window
		return e.readMessage(ctx, sc, r, a, missing)
	case fault.Is(err, fault.NotFound), err == nil && uri.Type() != "tool.Overflow":
		return tool.Result{}, missing
	case err != nil:
		return tool.Result{}, err
	}
	line, text, _ := bytes.Cut(r.Body, []byte("\n"))
	var head restHead
	if err := json.Unmarshal(line, &head); err != nil {
		return tool.Result{}, fault.New(fault.Internal, "result_broken", "the kept result cannot be read: %w", err)
	}
	return page(head, string(text), a)
}

// readMessage reads the rest of the result in a tool message, unless a person has deleted
// the message.
func (e *Engine) readMessage(ctx context.Context, sc store.Scope, r resource.Resource, a readArgs, missing error) (tool.Result, error) {
	m, err := record.DecodeMessage(r.URI, r.Body)
	if err != nil {
		return tool.Result{}, err
	}
	res := m.Result()
	if res == nil {
		return tool.Result{}, missing
	}
	k, err := e.opt.Store.Get(ctx, sc, record.MarkURI(record.IDOf(r.URI, record.TypeConversation), m.ID))
	if err != nil && !fault.Is(err, fault.NotFound) {
		return tool.Result{}, err
	}
	if err == nil && k.State == record.StateDeleted {
		return tool.Result{}, missing
	}
	return page(restHead{Tool: res.Name, Labels: message.LabelsOf(m.Blocks), Sources: res.Sources}, window.Whole(res), a)
}

// within reports whether a call in a conversation may read a result. It must belong to
// that conversation; if there is none, to a call from outside.
func within(result, conversation resource.URI) bool {
	if conversation.Zero() {
		return result.Parent().Type() == record.TypeRequest && result.Parent().Parent().Zero()
	}
	return result.Under(conversation)
}

func page(head restHead, text string, a readArgs) (tool.Result, error) {
	if a.Limit == 0 {
		a.Limit = 16384
	}
	if a.Offset >= len(text) {
		return tool.Result{}, fault.New(fault.Invalid, "offset_invalid", "the result of %s has %d bytes: there is nothing at %d", head.Tool, len(text), a.Offset)
	}
	start := len(cut(text, a.Offset)) // never in the middle of a character
	part := cut(text[start:], a.Limit)
	if part == "" { // a single character is longer than the limit
		_, size := utf8.DecodeRuneInString(text[start:])
		part = text[start : start+size]
	}
	end := start + len(part)
	note := fmt.Sprintf("\n[Bytes %d to %d of %d.", start, end, len(text))
	if end < len(text) {
		note += fmt.Sprintf(" Read on at offset %d.", end)
	}
	return tool.Result{Content: []message.Block{&message.Text{Text: part + note + "]"}}, Labels: head.Labels, Sources: head.Sources}, nil
}
