package rpc

import (
	"context"
	"strings"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/server/auth"
)

type windowRequest struct {
	For string `json:"for"`
}

// window is a memory.Window.
type window struct {
	For        resource.URI             `json:"for"`
	Agent      string                   `json:"agent"`
	Model      string                   `json:"model"`
	Budget     int64                    `json:"budget"`
	Tokens     int64                    `json:"tokens"`
	Free       int64                    `json:"free"`
	Counted    string                   `json:"counted"`
	Full       bool                     `json:"full"`
	Allocation []client.ContextCategory `json:"allocation,omitempty"`
	Pieces     []client.ContextPiece    `json:"pieces,omitempty"`
}

// getWindow serves memory.Memory.GetWindow.
func (f *Server) getWindow(ctx context.Context, in *windowRequest) (out window, err error) {
	c, err := auth.From(ctx)
	if err != nil {
		return out, err
	}
	conv, ok := id.Parse(in.For)
	if u, err := resource.Parse(in.For); !ok && err == nil && strings.HasPrefix(in.For, "cld:") {
		conv = record.IDOf(u, record.TypeConversation)
		ok = !conv.Zero()
	}
	if !ok {
		return out, fault.New(fault.NotFound, "conversation_not_found", "there is no conversation %.80q", in.For).
			WithHint("use the id of a conversation, or its URI")
	}
	x, err := f.Node.Context(ctx, c.User, conv)
	if err != nil {
		return out, err
	}
	return window{For: record.ConversationURI(conv), Agent: x.Agent, Model: x.Model, Budget: x.Window, Tokens: x.Tokens, Free: x.Free, Counted: x.Counted,
		Full: x.Full, Allocation: x.Categories, Pieces: x.Pieces}, nil
}
