package client

import (
	"context"
	"encoding/json"
)

// Context is what the next model call of a conversation sends, and how its budget is divided.
type Context struct {
	Conversation string            `json:"conversation"`
	Agent        string            `json:"agent"`  // its path
	Model        string            `json:"model"`  // the first of the chain that answers
	Window       int64             `json:"window"` // tokens that the model reads and writes in one call; 0: unknown
	Tokens       int64             `json:"tokens"` // what the call sends
	Free         int64             `json:"free"`   // what is left of the window, beside the answer
	Counted      string            `json:"counted"`
	Full         bool              `json:"full,omitzero"` // the call first makes room: see the guide to the context
	Categories   []ContextCategory `json:"categories"`
	Pieces       []ContextPiece    `json:"pieces"`
}

// The categories of a model call, in the order in which a context lists them.
const (
	ContextSystem   = "system"   // the system prompt
	ContextProfile  = "profile"  // standing instructions and important facts, said once in a conversation
	ContextFacts    = "facts"    // recalled for what was asked
	ContextPassages = "passages" // of messages and documents, recalled for what was asked
	ContextTools    = "tools"    // their descriptions
	ContextMessages = "messages" // of the conversation
	ContextAnswer   = "answer"   // reserved for the answer
)

// ContextCategory is one part of the budget of a model call.
type ContextCategory struct {
	Name   string `json:"name"` // ContextSystem, …
	Pieces int    `json:"pieces"`
	Tokens int64  `json:"tokens"`
	Bytes  int64  `json:"bytes"`
	Most   int64  `json:"most,omitzero"` // tokens that it may take; 0: what the others leave
	Each   bool   `json:"each,omitzero"` // Most is for each turn, since earlier ones stay where they were said
}

// ContextPiece is a part of what a model call sends.
type ContextPiece struct {
	Category string   `json:"category"`
	Name     string   `json:"name"` // of a tool or a part of the system prompt, or the beginning of a text
	Why      string   `json:"why"`  // why it is there
	Tokens   int64    `json:"tokens"`
	Bytes    int64    `json:"bytes"`
	Role     string   `json:"role,omitzero"` // of a message
	URI      string   `json:"uri,omitzero"`  // of a fact or a message
	Labels   []string `json:"labels,omitempty"`
	Count    int      `json:"count,omitzero"` // how many pieces it stands for, if there are more than a context lists
}

// ModelCall is what was sent to a model for an answer, before its provider gave it the form of its own protocol.
type ModelCall struct {
	System   string            `json:"system"` // the system prompt
	Tools    []ModelCallTool   `json:"tools"`
	Messages []json.RawMessage `json:"messages"` // in the form in which Steward stores messages
}

// ModelCallTool is a tool as a model is shown it.
type ModelCallTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Input       json.RawMessage `json:"input"` // JSON Schema of the arguments
}

// ModelCall returns what was sent to a model for an answer. Steward keeps this while the conversation is in memory,
// for its newest calls; later it answers model_call_not_kept.
func (c *Client) ModelCall(ctx context.Context, conv, answer string) (ModelCall, error) {
	return ask[ModelCall](ctx, c, "GET /conversations/{id}/messages/{message}/model-call", Params{"id": conv, "message": answer}, nil)
}

// Context returns what the next model call of a conversation sends, and why each piece of it is there.
func (c *Client) Context(ctx context.Context, conv string) (Context, error) {
	return ask[Context](ctx, c, "GET /conversations/{id}/context", Params{"id": conv}, nil)
}
