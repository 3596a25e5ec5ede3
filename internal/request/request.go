// Package request holds the context of a request: who asked, on whose behalf, and in which
// conversation. It is passed along in a context.Context and recorded on messages and log
// entries.
package request

import (
	"context"
	"fmt"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/resource"
)

// Context describes one request. Treat it as immutable once it is in a context.Context. A
// sub-request gets its own, from Child.
type Context struct {
	ID           id.ID
	Parent       id.ID        // zero for a request that came from outside
	Root         id.ID        // the outside request that this one serves; zero: this one
	Depth        int          // number of levels below Root
	User         string       // on whose behalf the request is made
	Actor        string       // who acts: the user's name or "agent:PATH"
	Lineage      []string     // the agents on whose behalf this request's agent acts, outermost first
	Conversation resource.URI // zero outside a conversation
	Attended     bool         // a person is connected and can be asked
}

// Child returns the context of a sub-request made by actor.
func (c Context) Child(actor string) Context {
	return c.ChildAs(id.New(), actor)
}

// ChildAs is like Child, with a given ID.
func (c Context) ChildAs(own id.ID, actor string) Context {
	if c.Root.Zero() {
		c.Root = c.ID
	}
	c.Parent, c.ID, c.Actor = c.ID, own, actor
	c.Depth++
	return c
}

// Trace returns the request as a W3C traceparent (https://www.w3.org/TR/trace-context/).
// The trace ID is the root request's ID, and the span ID is the last 8 bytes of the
// request's own, so that a request can be followed across processes without any state.
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

// The causes with which a run's context is cancelled.
var (
	// ErrStop means that a person stopped the run. It ends with what it has so far.
	ErrStop error = fault.New(fault.Cancelled, "stopped", "stopped by the user")
	// ErrSuspend means that the node is closing. Nothing more is recorded; the run is resumed
	// at the next start, as after a crash.
	ErrSuspend error = fault.New(fault.Unavailable, "suspended", "Steward is closing; the run continues at the next start")
)
