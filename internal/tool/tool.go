// Package tool says what a tool is: a callable named category.name with a
// JSON Schema and an effect; how one is made from a Go function; and the
// registry in which an agent's tools stand.
package tool

import (
	"context"
	"errors"
	"strings"
	"time"

	"steward/internal/fault"
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

// Reach says where what a tool is given goes.
type Reach string

// The reaches. Of a tool that does not say, the worst is thought: what is
// built in stays here if it is a query, everything else goes out.
const (
	ReachHere Reach = "here" // it stays on this node, in the user's own places
	ReachOut  Reach = "out"  // it leaves: to a person, a server, a program of others
)

// Out reports whether what the tool is given leaves the node.
func (s Spec) Out() bool {
	switch s.Reach {
	case ReachHere:
		return false
	case ReachOut:
		return true
	}
	return s.Effect != Query || s.Origin != "" && s.Origin != OriginOwn
}

// Source is whose data a tool returns: the first word of its name. It is empty
// where they may be anybody's, as of Steward's own tools that read what others
// have returned, and of agents.
func (s Spec) Source() string {
	word, _, _ := strings.Cut(s.Name, ".")
	if s.Origin == "" && word != "files" || strings.HasPrefix(s.Origin, "agent:") {
		return ""
	}
	return word
}

// Defaults for the zero values in Spec.
const (
	DefaultTimeout   = 30 * time.Second
	DefaultResultCap = 32 << 10 // bytes of text shown to the model
)

// Spec describes a tool. It is a plain value; do not change the bytes it
// points to.
type Spec struct {
	Name        string // category.name
	FullName    string // what Name was shortened from; empty: it is the whole name
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
	Status      string         // actions: the tool of its source that tells what became of Invocation.Key; empty: none
	Tidy        []Strategy     // what its calls make obsolete in a conversation
	Log         LogSpec        // how its calls are told in the work log
	Metadata    resource.Metadata

	// Reach says where what the tool is given goes, and Targets which of its
	// arguments (names of top-level members) say to whom or where to.
	Reach   Reach
	Targets []string
	Host    string // where Reach leads, for people: "search.example.com"; empty: not known
	// Guessed are those that nobody declared: they follow from the name and the schema.
	Guessed struct{ Yields, Targets bool } `json:"-"`

	For        *Audience     // who may call it; nil: everybody
	Origin     string        // where it comes from: "mcp:files", "grpc:hash", "process:weather", "agent:email"; empty: built in
	Asks       bool          // a person is asked before each call, whatever policy allows
	Async      bool          // the model is told "acknowledged" at once; the result comes later
	AsyncAfter time.Duration // a call that runs longer goes on as if Async; zero: never
}

// Invocation is one call of a tool.
type Invocation struct {
	Args         []byte       // canonical JSON, validated: the same bytes that were judged
	Call         message.Ref  // the identity of the call
	Key          string       // actions: the idempotency key
	Conversation resource.URI // zero outside a conversation
	User         string
	Agent        string // the path of the agent that calls; empty: the node's own
	Request      id.ID
	Parent       id.ID  // of the request; zero where it came from outside
	Trace        string // W3C traceparent of the call
	// Progress tells how far the call is. Safe for concurrent use, never
	// blocks for long. May be nil; use Report.
	Progress func(Progress)

	checked bool // Args have passed the tool's own check
}

// Checked returns in marked as holding arguments that Canonical made and the
// tool's Checker admitted, so that a tool made by New need not check again.
func (in Invocation) Checked() Invocation {
	in.checked = true
	return in
}

// Progress is how far a call is, in the tool's own words.
type Progress struct {
	Message  string
	Fraction float64 // 0 to 1; negative: not known
}

// Report tells how far the call is, if anybody wants to know.
func (in Invocation) Report(p Progress) {
	if in.Progress != nil {
		in.Progress(p)
	}
}

// Result is what a tool gives back. A fault that the model can mend is a
// Result with Failed; an error return is told to the model too, by its message
// and remedy. An action's Failed result says that nothing was changed; for an
// error see Certain.
type Result struct {
	Content []message.Block // Text, Image, File
	Failed  bool
	// Labels are those of all that the call was shown, whatever it tells of it:
	// they count without any content, and beside an error. Sources are whose
	// private data that was; none: not known.
	Labels  message.Labels
	Sources []string
	Denied  []string // the tools that were denied to an agent that the call asked
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

// Checker is a tool that validates its own arguments: canonical JSON in, a
// coded error (args_invalid) that a model can act on out.
type Checker interface {
	Check(args []byte) error
}

// Settler is a tool whose receiver can be asked, after a crash, whether an
// effect happened.
type Settler interface {
	// Settle reports whether the effect with in.Key happened, and its result
	// if so. An error means that it cannot be told now.
	Settle(ctx context.Context, in Invocation) (happened bool, res Result, err error)
}

// Undoer is a tool whose effect can be taken back.
type Undoer interface {
	// Undo takes back the effect with in.Key, which gave res. It can be asked
	// for again after a crash: what is taken back already is no error. What
	// cannot be taken back any more is refused (a coded error that Certain
	// holds of).
	Undo(ctx context.Context, in Invocation, res Result) (Result, error)
}

// UndoerOf returns the Undoer that t is, or that it wraps.
func UndoerOf(t Tool) (Undoer, bool) { return unwrapped[Undoer](t) }

// Batcher is a tool that takes several queued actions at once.
type Batcher interface {
	// CallAll does them in order. It returns an outcome for each.
	CallAll(ctx context.Context, ins []Invocation) []Outcome
}

// Outcome is what became of one call: as Call returns it.
type Outcome struct {
	Result Result
	Err    error
}

// BatcherOf returns the Batcher that t is, or that it wraps.
func BatcherOf(t Tool) (Batcher, bool) { return unwrapped[Batcher](t) }

// WireName is the name under which providers that allow no dots get a tool.
// Names of registered tools have no "__", so it can be reversed.
func WireName(name string) string { return strings.ReplaceAll(name, ".", "__") }

// FromWire reverses WireName.
func FromWire(wire string) string { return strings.ReplaceAll(wire, "__", ".") }

// SettlerOf returns the Settler that t is, or that it wraps (by a method
// Unwrap() Tool).
func SettlerOf(t Tool) (Settler, bool) { return unwrapped[Settler](t) }

// unwrapped returns the first of t and what it wraps that is an I.
func unwrapped[I any](t Tool) (I, bool) {
	for t != nil {
		if i, ok := t.(I); ok {
			return i, true
		}
		w, ok := t.(interface{ Unwrap() Tool })
		if !ok {
			break
		}
		t = w.Unwrap()
	}
	var none I
	return none, false
}

// Certain reports whether an action's error says that the effect certainly did
// not happen. Kinds by which a receiver refuses say so; Unavailable, Timeout,
// Cancelled and Internal, and errors without a code, leave it open, unless
// they are wrapped by NotDone.
func Certain(err error) bool {
	if errors.Is(err, errNotDone) {
		return true
	}
	switch fault.Of(err).Kind {
	case fault.Unavailable, fault.Timeout, fault.Cancelled, fault.Internal:
		return false
	}
	return true
}

// NotDone marks an action's error as one before which nothing was changed.
func NotDone(err error) error { return notDone{err} }

var errNotDone = errors.New("nothing was changed")

type notDone struct{ error }

func (e notDone) Unwrap() error        { return e.error }
func (e notDone) Is(target error) bool { return target == errNotDone }
