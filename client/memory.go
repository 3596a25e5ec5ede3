package client

import (
	"context"
	"strconv"
	"time"
)

// Fact is something that is remembered for the caller.
type Fact struct {
	ID         string       `json:"id"`
	URI        string       `json:"uri"`
	Subject    string       `json:"subject"` // "user" is the caller
	Text       string       `json:"text"`
	Type       string       `json:"type"`              // "fact", "preference", "person", "place", "event" or "instruction"
	Importance float64      `json:"importance"`        // 0 to 1
	Source     string       `json:"source,omitzero"`   // the URI of the message that it comes from
	From       time.Time    `json:"valid_from"`        // since when it is true
	Until      time.Time    `json:"valid_to,omitzero"` // until when it was true
	Created    time.Time    `json:"created"`
	Changed    time.Time    `json:"changed"`
	Labels     []string     `json:"labels,omitempty"`
	Foreign    bool         `json:"foreign,omitzero"`     // it comes from text of others, and is not confirmed
	Trusted    time.Time    `json:"trusted,omitzero"`     // when a person confirmed it
	Successor  string       `json:"successor,omitzero"`   // the id of the fact that has superseded it
	Supersedes []string     `json:"supersedes,omitempty"` // ids
	Score      float64      `json:"score,omitzero"`       // how similar it is to what was searched, 0 to 1
	History    []FactChange `json:"history,omitempty"`    // only if a single fact, or what has changed, was requested
	Said       *FactSaid    `json:"said,omitempty"`       // only if a single fact was requested
	Recalls    []FactRecall `json:"recalls,omitempty"`    // only if a single fact was requested: its newest ones, the newest first
}

// FactChange is one change of a fact.
type FactChange struct {
	ID     string    `json:"id"` // to undo it
	At     time.Time `json:"at"`
	Actor  string    `json:"actor"` // "user", "agent:PATH", "program" or "extraction"
	What   string    `json:"what"`
	Source string    `json:"source,omitzero"` // the URI of the message that the change comes from
}

// FactSaid is the message that a fact comes from.
type FactSaid struct {
	Conversation string    `json:"conversation_id"`
	Title        string    `json:"title,omitzero"` // of the conversation
	Message      string    `json:"message_id"`
	At           time.Time `json:"at"`
	Text         string    `json:"text,omitzero"` // the beginning of what the person wrote; empty: an agent saved it by a call
}

// FactRecall is a recall of a fact in a conversation.
type FactRecall struct {
	Conversation string    `json:"conversation_id"`
	Message      string    `json:"message_id"` // that records it
	At           time.Time `json:"at"`
}

// What is told about memory.
const (
	MemoryRecalled  = "recalled"
	MemorySaved     = "saved"
	MemoryUndone    = "undone"
	MemoryForgotten = "forgotten"
)

// FactNews tells about a fact that was recalled, saved, undone or forgotten. Of one that was forgotten, only the
// id is told.
type FactNews struct {
	ID      string    `json:"id"`
	Text    string    `json:"text,omitzero"`
	Subject string    `json:"subject,omitzero"`
	Type    string    `json:"type,omitzero"`
	From    time.Time `json:"valid_from,omitzero"`
	Foreign bool      `json:"foreign,omitzero"` // a quotation of others
	Source  string    `json:"source,omitzero"`  // the URI of the message that it comes from
	How     string    `json:"how,omitzero"`     // of one that was saved: "added", "merged" or "superseded"
	Change  string    `json:"change,omitzero"`  // likewise: the id of the change, to undo it
	Actor   string    `json:"actor,omitzero"`   // likewise: as in FactChange
}

// ConversationMemory is what a conversation has recalled, each fact once, and what was saved from it, the newest
// last. What was forgotten is not in it.
type ConversationMemory struct {
	Recalled []FactNews `json:"recalled"`
	Saved    []FactNews `json:"saved"`
}

// UndoneFact says what has become of a fact whose change was undone.
type UndoneFact struct {
	Fact Fact `json:"fact"`
	Gone bool `json:"gone"` // the change had added it, so it is erased
}

// FactInput describes a new fact, or changes one. What is nil or empty stays as it is.
type FactInput struct {
	Text       *string    `json:"text,omitempty"`
	Subject    *string    `json:"subject,omitempty"` // by default it is derived from the text
	Type       *string    `json:"type,omitempty"`
	Importance *float64   `json:"importance,omitempty"` // 0 to 1
	From       *time.Time `json:"valid_from,omitempty"`
	Until      *time.Time `json:"valid_to,omitempty"`
	Trusted    *bool      `json:"trusted,omitempty"`  // confirm a fact from text of others; only a person can
	Replaces   []string   `json:"replaces,omitempty"` // ids of facts that are no longer true
}

// The ways in which a new fact is saved.
const (
	FactAdded      = "added"
	FactMerged     = "merged"     // a fact that says less has got the new text
	FactSuperseded = "superseded" // it has taken the place of others, which keep their time
	FactDropped    = "dropped"    // a fact that says as much exists
)

// SavedFact says what has become of a new fact.
type SavedFact struct {
	Fact Fact     `json:"fact"`
	How  string   `json:"how"`
	Old  []string `json:"old,omitempty"` // ids of the facts that were superseded
}

// MemoryProfile is a page of facts that a person reads and edits.
type MemoryProfile struct {
	Text    string `json:"text"`
	Version string `json:"version"` // of the page, for SetMemoryProfile
	Changes int    `json:"changes,omitzero"`
}

// FactQuery selects facts.
type FactQuery struct {
	Query string    // empty: all, the newest first
	All   bool      // also those that are no longer true
	Limit int       // 0: 100
	Since time.Time // not zero: those that were changed after it, with their changes, the newest change first
}

// Facts returns facts of the caller.
func (c *Client) Facts(ctx context.Context, q FactQuery) ([]Fact, error) {
	p := Params{"query": q.Query}
	if q.All {
		p["all"] = "true"
	}
	if q.Limit > 0 {
		p["limit"] = strconv.Itoa(q.Limit)
	}
	if !q.Since.IsZero() {
		p["since"] = q.Since.UTC().Format(time.RFC3339Nano)
	}
	return whole[Fact](ctx, c, "GET /memory/facts", "facts", p)
}

// Fact returns a fact by its id, at least the first 8 characters of it, or words of its text.
func (c *Client) Fact(ctx context.Context, which string) (Fact, error) {
	return ask[Fact](ctx, c, "GET /memory/facts/{id}", Params{"id": which}, nil)
}

// SaveFact saves a fact, of which in has at least the text.
func (c *Client) SaveFact(ctx context.Context, in FactInput) (SavedFact, error) {
	return ask[SavedFact](ctx, c, "POST /memory/facts", nil, in)
}

// ChangeFact changes a fact.
func (c *Client) ChangeFact(ctx context.Context, which string, in FactInput) (Fact, error) {
	return ask[Fact](ctx, c, "PATCH /memory/facts/{id}", Params{"id": which}, in)
}

// ForgetFact erases a fact with all its versions, and the calls that have saved it. With turns, it also erases
// the turns of conversations in which it was said.
func (c *Client) ForgetFact(ctx context.Context, which string, turns bool) error {
	p := Params{"id": which}
	if turns {
		p["turns"] = "true"
	}
	return c.Call(ctx, "DELETE /memory/facts/{id}", p, nil, nil)
}

// UndoFact undoes a change of a fact, or its newest one if change is empty.
func (c *Client) UndoFact(ctx context.Context, which, change string) (UndoneFact, error) {
	var in struct {
		Change string `json:"change,omitzero"`
	}
	in.Change = change
	return ask[UndoneFact](ctx, c, "POST /memory/facts/{id}/undo", Params{"id": which}, in)
}

// ConversationMemory returns what a conversation has recalled, and what was saved from it.
func (c *Client) ConversationMemory(ctx context.Context, conv string) (ConversationMemory, error) {
	return ask[ConversationMemory](ctx, c, "GET /conversations/{id}/memory", Params{"id": conv}, nil)
}

// MemoryProfile returns the page of the caller's facts.
func (c *Client) MemoryProfile(ctx context.Context) (MemoryProfile, error) {
	return ask[MemoryProfile](ctx, c, "GET /memory/profile", nil, nil)
}

// SetMemoryProfile applies an edited page: changed lines change facts, removed lines erase them, new lines
// add facts. The version is that of the page that was edited.
func (c *Client) SetMemoryProfile(ctx context.Context, p MemoryProfile) (MemoryProfile, error) {
	return ask[MemoryProfile](ctx, c, "PUT /memory/profile", nil, p)
}
