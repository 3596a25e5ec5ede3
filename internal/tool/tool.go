// Package tool says what a tool is: a callable named category.name with a
// JSON Schema and an effect; how one is made from a Go function; and the
// registry in which an agent's tools stand.
package tool

import (
	"context"
	"strings"
	"time"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/resource"
)

// Effect says whether a call changes anything.
type Effect string

// The effects. A query changes nothing (though something may leave); an
// action changes something and always goes through an intent.
const (
	Query  Effect = "query"
	Action Effect = "action"
)

// Delivery says when an action's outcome is known to the model.
type Delivery string

// The deliveries. Inline: the loop waits for the outcome. Deferred: the model
// is told "queued", and the intent is processed when the run ends.
const (
	Inline   Delivery = "inline"
	Deferred Delivery = "deferred"
)

// Defaults for the zero values in Spec.
const (
	DefaultTimeout   = 30 * time.Second
	DefaultResultCap = 32 << 10 // bytes of text shown to the model
)

// Spec describes a tool. It is a plain value; do not change the bytes it
// points to.
type Spec struct {
	Name        string // category.name
	Description string // for the model: what it does, when to use it
	Input       []byte // JSON Schema of the arguments, an object schema
	Effect      Effect
	Delivery    Delivery       // actions only; zero means Inline
	Version     string         // changes when the tool's behaviour does; bound by approvals
	Timeout     time.Duration  // of one call; zero means DefaultTimeout
	Concurrency int            // calls at once, over all runs; zero means no limit
	ResultCap   int            // zero means DefaultResultCap
	Yields      message.Labels // labels on what it returns
	Dedupes     bool           // actions: the receiver recognises Invocation.Key
	Metadata    resource.Metadata
}

// Invocation is one call of a tool, its arguments already validated against
// the schema.
type Invocation struct {
	Args         []byte       // canonical JSON: the same bytes that were judged
	Call         message.Ref  // the identity of the call
	Key          string       // actions: the idempotency key
	Conversation resource.URI // zero outside a conversation
	User         string
	Request      id.ID
}

// Result is what a tool gives back. A fault of the tool's own that the model
// can mend is a Result with Failed; an error return is told to the model too,
// by its message and remedy.
type Result struct {
	Content []message.Block // Text, Image, File
	Failed  bool
}

// Text makes a result of one text block.
func Text(s string) Result {
	return Result{Content: []message.Block{&message.Text{Text: s}}}
}

// Tool is a callable. Call must be safe for concurrent use and return soon
// after ctx is done.
type Tool interface {
	Spec() Spec
	Call(ctx context.Context, in Invocation) (Result, error)
}

// Settler is a tool whose receiver can be asked, after a crash, whether an
// effect happened.
type Settler interface {
	// Settle reports whether the effect with in.Key happened, and its result
	// if so. An error means that it cannot be told now.
	Settle(ctx context.Context, in Invocation) (happened bool, res Result, err error)
}

// WireName is the name under which providers that allow no dots get a tool.
// Names of registered tools have no "__", so it can be reversed.
func WireName(name string) string { return strings.ReplaceAll(name, ".", "__") }

// FromWire reverses WireName.
func FromWire(wire string) string { return strings.ReplaceAll(wire, "__", ".") }
