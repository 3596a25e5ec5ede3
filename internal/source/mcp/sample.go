package mcp

//lint:file-ignore SA1019 The specification of 2026-07-28 deprecates sampling, and servers of earlier ones use it.

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/tool"
)

// Limits for model requests of a server during one call: how many answers, and how long each may be and take.
const (
	maxSamples      = 5
	maxSampleTokens = 4096
	maxSampleText   = 64 << 10 // bytes of an answer
	sampleFor       = 5 * time.Minute
	codeRejected    = -1 // what the specification has for requests that the user rejects
)

// prompt is what a server wants the model to answer. A person approves it, and may edit it before.
type prompt struct {
	System    string          `json:"system,omitzero" jsonschema:"what the server tells the model to be"`
	Messages  []sampleMessage `json:"messages" minlen:"1" maxlen:"50"`
	MaxTokens int             `json:"max_tokens" min:"1" max:"4096" jsonschema:"how long the answer may be"`
}

type sampleMessage struct {
	Role string `json:"role" enum:"user,assistant"`
	Text string `json:"text"`
}

// sample has the model of the calling agent answer for the server, if a person allows it. The server does not learn
// why it gets no answer: that may be about the person, or the budget.
func (x *session) sample(ctx context.Context, r *sdk.CreateMessageWithToolsRequest) (*sdk.CreateMessageWithToolsResult, error) {
	rejected := &jsonrpc.Error{Code: codeRejected, Message: "the request for the model was rejected"}
	a, err := x.caller(ctx)
	if err != nil {
		x.src.env.Log.Info("a request of an MCP server for the model was rejected", "error", err)
		return nil, rejected
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	res, err := x.src.sampled(a, r.Params)
	if err != nil {
		a.why = "the model was not asked: " + err.Error()
		return nil, rejected
	}
	return res, nil
}

// sampled asks the person, and then the model.
func (s *source) sampled(a *elicitingCall, p *sdk.CreateMessageWithToolsParams) (*sdk.CreateMessageWithToolsResult, error) {
	args, err := promptOf(p)
	if err != nil {
		return nil, err
	}
	t, err := s.sampling()
	if err == nil && a.sampled == maxSamples {
		err = errors.New("the server asked for the model too often in this call")
	}
	if err != nil {
		return nil, err
	}
	a.sampled++
	given, res, err := a.askPerson(t, args)
	if err == nil && res.Status != message.OK {
		err = errors.New(res.Text())
	}
	if err != nil {
		return nil, err
	}
	out := &sdk.CreateMessageWithToolsResult{}
	return out, json.Unmarshal([]byte(given), out)
}

// promptOf returns a request of the server as arguments for the person to see.
func promptOf(p *sdk.CreateMessageWithToolsParams) ([]byte, error) {
	if len(p.Tools) > 0 {
		return nil, errors.New("the server asked for the model to use tools, which is not allowed here")
	}
	in := prompt{System: p.SystemPrompt, MaxTokens: int(min(p.MaxTokens, maxSampleTokens))}
	for _, m := range p.Messages {
		for _, c := range m.Content {
			t, ok := c.(*sdk.TextContent)
			if !ok {
				return nil, errors.New("the server sent the model something other than text")
			}
			in.Messages = append(in.Messages, sampleMessage{string(m.Role), t.Text})
		}
	}
	args, err := json.Marshal(in)
	if err == nil && len(args) > maxQuestion {
		err = errors.New("the prompt for the model is too long")
	}
	return args, err
}

// sampling is the query that asks the model: it changes nothing, and a crash only means that it is made again.
type sampling struct{ tool.Tool }

func (s *source) sampling() (tool.Tool, error) {
	spec := s.spec("sampling", "Has the model answer what a server wants to know", nil)
	spec.Asks, spec.Version, spec.Timeout, spec.ResultCap, spec.Yields = true, "1", sampleFor, maxSampleText, message.Untrusted
	t, err := tool.New(spec, func(ctx context.Context, in tool.Invocation, p prompt) (*sdk.CreateMessageWithToolsResult, error) {
		if in.Generate == nil {
			return nil, fault.New(fault.Unsupported, "mcp_no_model", "no model is available for this call").WithHint("use it in a conversation")
		}
		q := tool.Prompt{System: p.System, MaxTokens: p.MaxTokens}
		for _, m := range p.Messages {
			q.Messages = append(q.Messages, &message.Message{ID: id.New(), Role: message.Role(m.Role),
				Blocks: []message.Block{&message.Text{Common: message.Common{Origin: spec.Origin, Labels: message.Untrusted}, Text: m.Text}}})
		}
		got, err := in.Generate(ctx, q)
		if err != nil {
			return nil, err
		}
		out := &sdk.CreateMessageWithToolsResult{Role: "assistant", Model: got.Model, StopReason: "endTurn", Content: []sdk.Content{&sdk.TextContent{Text: got.Text}}}
		if got.Cut {
			out.StopReason = "maxTokens"
		}
		return out, nil
	})
	return sampling{t}, err
}

// Check implements tool.Checker.
func (t sampling) Check(args []byte) error { return t.Tool.(tool.Checker).Check(args) }

// Preview implements tool.Previewer.
func (t sampling) Preview(context.Context, tool.Invocation) (string, error) {
	return "The server asks your model to answer this. The model sees only this text, has no tools, and its cost counts towards the budget of this request. " +
		"Its answer is sent to the server. You can edit the text before you allow it.", nil
}
