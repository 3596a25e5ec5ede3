// Package search is the contract of search in what was said, with what all
// implementations share: what of a message is searched, how text becomes
// words, how a person's query is read, and how a hit is shown.
package search

import (
	"context"
	"time"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/resource"
	"steward/internal/store"
)

// Index finds messages. It is a projection of the log: it may be lost at any
// time and is made anew from the log. Safe for concurrent use.
type Index interface {
	// Search returns one page of the messages in the scope's readable spaces
	// that match, newest first. All that was committed before the call is
	// found, unless there is much that is not indexed yet, as after an import,
	// and Follow runs, which goes on with it: then Page.Behind says so. Error codes: search_empty, search_too_long, cursor_invalid,
	// scope_missing, search_unavailable, and those of the store.
	Search(ctx context.Context, sc store.Scope, q Query) (Page, error)

	// Catch brings the index up to the log as it is now. When it has returned
	// without an error, nothing of what was erased before the call is left.
	Catch(ctx context.Context) error

	// Follow keeps the index near the log, in quiet moments, until ctx ends
	// or the store or the index is closed.
	Follow(ctx context.Context)
}

// Query says what to look for. Text is read by Parse; the other fields narrow
// the answer, their zero values do not.
type Query struct {
	Text         string
	Conversation id.ID
	Role         message.Role
	Tool         string    // messages that call this tool, or hold its result
	Since        time.Time // said at this time or later
	Until        time.Time // said before this time
	Except       id.ID     // a message: its whole interaction is left out
	Around       int       // how many messages to show before and after each hit, at most MaxAround
	Limit        int       // hits in a page, at most MaxLimit; zero means DefaultLimit
	After        Cursor
}

// Bounds of a Query.
const (
	DefaultLimit = 20
	MaxLimit     = 100
	MaxAround    = 5
)

// Cursor is a place in an answer, opaque, and good for the query that it came
// from. It stays good when messages are added. Empty: the beginning.
type Cursor string

// Page is an answer to a Query.
type Page struct {
	Hits []Hit  `json:"hits"`
	Next Cursor `json:"next,omitzero"` // empty when there is no more

	// Behind is how many entries of the log are not indexed yet: what they say
	// is not found. Zero: the answer is complete.
	Behind uint64 `json:"behind,omitzero"`
}

// Hit is a message that matches.
type Hit struct {
	Line
	URI          resource.URI   `json:"uri"`
	Conversation id.ID          `json:"conversation_id"`
	Title        string         `json:"title"` // of the conversation
	Interaction  id.ID          `json:"interaction_id"`
	Seq          uint64         `json:"seq"`              // the message's position in the log
	Labels       message.Labels `json:"labels"`           // of all that the hit shows, its neighbours included
	Spans        []Span         `json:"spans"`            // what matched, in Text
	Before       []Line         `json:"before,omitempty"` // the messages before it, oldest first
	After        []Line         `json:"after,omitempty"`  // the messages after it, oldest first
}

// Line is a message in one line: a part of its text on which nothing is cut
// inside of a character, white space made single spaces, and "…" where
// something was left out.
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

// PageSize returns the limit that counts.
func (q *Query) PageSize() int {
	if q.Limit <= 0 {
		return DefaultLimit
	}
	return min(q.Limit, MaxLimit)
}
