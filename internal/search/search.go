// Package search defines the search in messages (Index) and the parts that all
// implementations share: which parts of a message are searched (Read), how text is
// split into words (Tokens), how a person's query is parsed (Parse), and how a hit is
// shown (Terms.Snippet). Package fts implements Index.
package search

import (
	"context"
	"time"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/resource"
	"steward/internal/store"
)

// Index finds messages. It is a projection of the log: if it is lost, it is rebuilt
// from the log. It is safe for concurrent use.
type Index interface {
	// Search returns a page of the matching messages in the scope's readable spaces, in
	// the order that the query asks for. It finds everything that was committed before the call, with one
	// exception: if much is not indexed yet, as after an import, and Follow runs,
	// Page.Behind says how much is missing. Error codes: search_empty,
	// search_too_long, cursor_invalid, scope_missing, search_unavailable, and those
	// of the store.
	Search(ctx context.Context, sc store.Scope, q Query) (Page, error)

	// CatchUp brings the index up to date with the log. After it has returned without an
	// error, nothing that was erased before the call is left in the index.
	CatchUp(ctx context.Context) error

	// Follow keeps the index up to date while the log is quiet, until ctx ends or the
	// store or the index is closed.
	Follow(ctx context.Context)
}

// Query says what to search for. Text is parsed by Parse. The other fields narrow the
// answer; their zero values do not.
type Query struct {
	Text         string
	Order        Order
	Mode         Mode // what messages are found by; an index without vectors ignores it
	Conversation id.ID
	Message      id.ID // show this message instead of searching; Text is not needed
	Role         message.Role
	Agent        string         // only conversations with this agent
	Labels       message.Labels // only messages with all of these labels
	Without      message.Labels // only messages with none of these labels
	Threshold    float64        // leave out hits with a lower Score; only with the order Best
	Tool         string         // only messages that call this tool or hold its result
	Since        time.Time      // written at this time or later
	Until        time.Time      // written before this time
	Except       id.ID          // a message whose whole interaction is left out
	Rerank       bool           // a model orders the best hits; an index ignores it
	Around       int            // how many messages to show before and after each hit, at most MaxAround
	Limit        int            // hits in a page, at most MaxLimit; zero means DefaultLimit
	After        Cursor
}

// Order is the order of the hits, and with it what matches.
type Order string

// The orders. Best is the default: any word of the query counts, in any of its forms
// (Terms.Stemmed), and rare words count more than frequent ones. An answer in this order
// has at most MaxRanked hits. Newest requires all words, exactly as they are written.
const (
	Best   Order = "best"
	Newest Order = "newest"
)

// Bounds of a Query.
const (
	DefaultLimit = 20
	MaxLimit     = 100
	MaxAround    = 5
	MaxRanked    = 200
)

// Cursor is an opaque position in the answer to a query. It is valid for that query
// only, and stays valid when messages are added. In the order Best, a message that was
// added meanwhile can shift the hits behind it by one. Empty: the beginning.
type Cursor string

// Page is an answer to a Query.
type Page struct {
	Hits []Hit  `json:"hits"`
	Next Cursor `json:"next,omitzero"` // empty when there is no more

	// Behind is the number of log entries that are not indexed yet. Zero: the answer is
	// complete.
	Behind uint64 `json:"behind,omitzero"`

	// By says what found the hits besides their words: BySemantic or ByLexical vectors.
	By string `json:"by,omitzero"`
	// Notice says why vectors were not searched although they were asked for.
	Notice string `json:"notice,omitzero"`
}

// Hit is a message that matches.
type Hit struct {
	Line
	URI          resource.URI   `json:"uri"`
	Conversation id.ID          `json:"conversation_id"`
	Title        string         `json:"title"` // of the conversation
	Interaction  id.ID          `json:"interaction_id"`
	Seq          uint64         `json:"seq"`              // the message's position in the log
	Labels       message.Labels `json:"labels"`           // of everything that the hit shows, including its neighbours
	Score        float64        `json:"score,omitzero"`   // from 0 to 1, relative to the best hit; only in the order Best
	Spans        []Span         `json:"spans"`            // what matched, in Text
	Before       []Line         `json:"before,omitempty"` // the messages before it, oldest first
	After        []Line         `json:"after,omitempty"`  // the messages after it, oldest first
}

// Line is a message on one line: a part of its text, cut between characters, with
// white space collapsed and "…" where something was left out.
type Line struct {
	Message id.ID        `json:"id"`
	Role    message.Role `json:"role"`
	Tool    string       `json:"tool,omitzero"` // of a tool message: the tool whose result it holds
	At      time.Time    `json:"at,omitzero"`
	Text    string       `json:"text"`
}

// Span is a range of bytes.
type Span struct {
	From, To int
}

// PageSize returns the limit in effect.
func (q *Query) PageSize() int {
	if q.Limit <= 0 {
		return DefaultLimit
	}
	return min(q.Limit, MaxLimit)
}

// Ordered returns the order in effect.
func (q *Query) Ordered() Order {
	if q.Order == "" {
		return Best
	}
	return q.Order
}
