// Package request holds the context of a unit of asked work: who asked, on
// whose behalf, in which conversation, with what left to spend. It goes along
// every call in a context.Context and is stamped on messages and log entries.
package request

import (
	"context"
	"fmt"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/resource"
)

// Context describes one request. Treat it as immutable once it is in a
// context.Context; a sub-request gets its own through Child.
type Context struct {
	ID           id.ID
	Parent       id.ID        // zero for a request that came from outside
	Root         id.ID        // the request from outside that all this is for; zero: this one
	Depth        int          // how many levels below Root
	User         string       // on whose behalf
	Actor        string       // who acts: the user's name or "agent:PATH"
	Lineage      []string     // the agents on whose behalf the one of this request acts, the outermost first
	Conversation resource.URI // zero outside a conversation
	Attended     bool         // a person is there who can be asked
}

// Child returns the context of a sub-request that actor makes.
func (c Context) Child(actor string) Context {
	return c.ChildAs(id.New(), actor)
}

// ChildAs is Child with an id that is already known.
func (c Context) ChildAs(own id.ID, actor string) Context {
	if c.Root.Zero() {
		c.Root = c.ID
	}
	c.Parent, c.ID, c.Actor = c.ID, own, actor
	c.Depth++
	return c
}

// Trace returns the request as a W3C traceparent: the root request's id is the
// trace, the end of its own id the span, so that no state is needed to follow
// a request over processes (https://www.w3.org/TR/trace-context/).
func (c Context) Trace() string {
	root := c.Root
	if root.Zero() {
		root = c.ID
	}
	return fmt.Sprintf("00-%x-%x-01", root[:], c.ID[8:])
}

type key struct{}

// With returns ctx carrying c.
func With(ctx context.Context, c Context) context.Context {
	return context.WithValue(ctx, key{}, c)
}

// From returns the request that ctx carries, if any.
func From(ctx context.Context) (Context, bool) {
	c, ok := ctx.Value(key{}).(Context)
	return c, ok
}

// The causes by which a run's context is cancelled.
var (
	// ErrStop: a person stopped the run. It is ended with what it has.
	ErrStop error = fault.New(fault.Cancelled, "stopped", "stopped by the user")
	// ErrSuspend: the node is closing. Nothing more is recorded; the run is
	// continued at the next start, as after a crash.
	ErrSuspend error = fault.New(fault.Unavailable, "suspended", "Steward is closing; the run goes on at the next start")
)
