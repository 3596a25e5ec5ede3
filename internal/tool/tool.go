// Package tool defines tools: a tool is a callable named category.name with a JSON Schema and an
// effect. The package also makes tools from Go functions, and has the registry that holds an
// agent's tools.
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

// The effects. A query changes nothing, although its arguments may leave the node. An action changes
// something and always goes through an intent.
const (
	Query  Effect = "query"
	Action Effect = "action"
)

// Delivery says when the model learns an action's outcome.
type Delivery string

// The deliveries. Inline: the loop waits for the outcome. Deferred: the model gets the result "queued", and
// the intent is processed when the run ends.
const (
	Inline   Delivery = "inline"
	Deferred Delivery = "deferred"
)

// Reach says where a tool's arguments go.
type Reach string

// The reaches. Without a declared reach, queries of built-in tools and of an agent's own state count
// as ReachHere, and everything else as ReachOut.
const (
	ReachHere Reach = "here" // it stays on this node, in the user's own places
	ReachOut  Reach = "out"  // it leaves: to a person, a server, or a program outside Steward
)

// Out reports whether the tool's arguments leave the node.
func (s Spec) Out() bool {
	switch s.Reach {
	case ReachHere:
		return false
	case ReachOut:
		return true
	}
	return s.Effect != Query || s.Origin != "" && s.Origin != OriginOwn
}

// Source returns whose data the tool returns: the first word of its name. It is empty if the data
// may be anybody's, as with agents and with Steward's own tools that read what other tools
// returned.
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

// Spec describes a tool. It is a plain value; do not modify the bytes that it points to.
type Spec struct {
	Name        string // category.name
	FullName    string // category.name that Name was shortened from; empty: Name is complete
	Description string // for the model: what it does, when to use it
	Input       []byte // JSON Schema of the arguments, an object schema
	Effect      Effect
	Delivery    Delivery       // actions only; zero means Inline
	Version     string         // changes when the tool's behaviour does; bound by approvals
	Timeout     time.Duration  // of one call; zero means DefaultTimeout
	Concurrency int            // calls at once, over all runs; zero means no limit
	ResultCap   int            // zero means DefaultResultCap
	Yields      message.Labels // labels on what it returns
	Dedupes     bool           // actions: the receiver deduplicates calls by Invocation.Key
	Status      string         // actions: the tool of the same source that reports the outcome for Invocation.Key; empty: none
	Tidy        []Strategy     // which results in a conversation its calls make obsolete
	Log         LogSpec        // how its calls are described, in the work log and in questions
	Widths      []Width        `json:"-"` // what a standing approval is offered for, the narrowest first; nil: derived
	// Sentences are the sentences by which people ask for it, as patterns of package sentence; the first in
	// each language is shown as an example. Only built-in tools have them: no model is shown them, and no
	// approval covers them.
	Sentences []string `json:"-"`
	Metadata  resource.Metadata

	// Reach says where the arguments go. Targets are the arguments (names of top-level members)
	// that name recipients or destinations.
	Reach   Reach
	Targets []string
	Host    string // where Reach leads, for people: "search.example.com"; empty: unknown
	// Guessed marks the fields that are not declared: they are derived from the name and the
	// schema.
	Guessed struct{ Yields, Targets bool } `json:"-"`

	For        *Audience     // who may call it; nil: everybody
	Origin     string        // where it comes from: "mcp:files", "grpc:hash", "process:weather", "agent:email"; empty: built in
	Asks       bool          // a person is asked before each call, whatever policy allows
	Async      bool          // the model gets the result "acknowledged" at once; the result comes later
	AsyncAfter time.Duration // a call that runs longer continues as if Async; zero: never
}

// Invocation is one call of a tool.
type Invocation struct {
	Args         []byte       // canonical JSON, validated: the same bytes that were judged
	Call         message.Ref  // the identity of the call
	Message      resource.URI // that contains the call; zero outside a conversation
	Key          string       // actions: the idempotency key
	Conversation resource.URI // zero outside a conversation
	User         string
	Agent        string // the path of the agent that calls; empty: the node's own
	Request      id.ID
	Parent       id.ID  // of the request; zero if it came from outside
	Trace        string // W3C traceparent of the call
	// Labels are those of everything that the model had been shown when it made the call, and Sources
	// whose private data that was. What a tool keeps for later keeps them.
	Labels  message.Labels
	Sources []string
	// Progress reports how far the call has got. It is safe for concurrent use and never blocks
	// for long. It may be nil; use Report.
	Progress func(Progress)
	// Ask calls another tool while this call runs, such as a question of the server that is called: it is
	// authorized, recorded and run like any call. The same question is asked once in a call, also after a
	// crash. It may be nil.
	Ask func(ctx context.Context, t Tool, args []byte) (*message.ToolResult, error)
	// Generate has the model of the turn answer apart from the conversation, without tools, within the turn's
	// budget. It is nil outside a turn.
	Generate func(context.Context, Prompt) (Answer, error)

	checked bool // Args have passed the tool's own Check
}

// Checked returns in, marked as holding arguments that Canonical produced and the tool's Checker
// accepted, so that a tool made by New need not check them again.
func (in Invocation) Checked() Invocation {
	in.checked = true
	return in
}

// Prompt is what a model is asked apart from the conversation.
type Prompt struct {
	System    string
	Messages  []*message.Message
	MaxTokens int // of the answer
}

// Answer is what a model answered to a Prompt.
type Answer struct {
	Text, Model string
	Cut         bool // by MaxTokens
}

// Progress says how far a call has got, in the tool's own words.
type Progress struct {
	Message  string
	Fraction float64 // 0 to 1; negative: unknown
}

// Report reports the call's progress, if anybody listens.
func (in Invocation) Report(p Progress) {
	if in.Progress != nil {
		in.Progress(p)
	}
}

// Result is what a tool returns. A fault that the model can correct is a Result with Failed set;
// an error is also shown to the model, by its message and remedy. A Failed result of an action
// says that nothing was changed; for an error see Certain.
type Result struct {
	Content []message.Block // Text, Image, File
	Failed  bool
	Stopped bool // it was stopped before its end; what it had done by then is done
	// Labels cover all data that the call was shown, whatever part of it the result contains.
	// They count even without content, and beside an error. Sources names the owners of the
	// private data among it; none: unknown.
	Labels  message.Labels
	Sources []string
	Denied  []string // the tools that were denied to the agent that this call asked
}

// Text returns a result of one text block.
func Text(s string) Result {
	return Result{Content: []message.Block{&message.Text{Text: s}}}
}

// Failure returns a result that tells the model, in words, why the call has failed.
func Failure(s string) Result {
	res := Text(s)
	res.Failed = true
	return res
}

// Tool is a callable. Call must be safe for concurrent use and return soon after ctx is done.
type Tool interface {
	Spec() Spec
	Call(ctx context.Context, in Invocation) (Result, error)
}

// Checker is a tool that validates its own arguments. Check takes canonical JSON and returns a
// coded error (args_invalid) that a model can act on.
type Checker interface {
	Check(args []byte) error
}

// Settler is a tool whose receiver can be asked, after a crash, whether an effect happened.
type Settler interface {
	// Settle reports whether the effect with in.Key happened, and its result if so. An error
	// means that this cannot be determined now.
	Settle(ctx context.Context, in Invocation) (happened bool, res Result, err error)
}

// Undoer is a tool whose effect can be undone.
type Undoer interface {
	// Undo undoes the effect with in.Key, which returned res. It may be called again after a
	// crash: an effect that is already undone is not an error. An effect that can no longer be undone
	// is refused with a coded error for which Certain holds.
	Undo(ctx context.Context, in Invocation, res Result) (Result, error)
}

// UndoerOf returns the Undoer that t is, or that it wraps.
func UndoerOf(t Tool) (Undoer, bool) { return unwrapped[Undoer](t) }

// Previewer is an action that can show what a call would change, such as the difference of two texts.
type Previewer interface {
	// Preview changes nothing. An empty text means that the arguments say all. An error says why the
	// call would fail.
	Preview(ctx context.Context, in Invocation) (string, error)
}

// PreviewerOf returns the Previewer that t is, or that it wraps.
func PreviewerOf(t Tool) (Previewer, bool) { return unwrapped[Previewer](t) }

// Divider is an action one argument of which can hold several actions, such as a command line. A
// standing approval covers a call only if it covers each part.
type Divider interface {
	// Parts returns the name of that argument, and for each part the arguments of a call that
	// consists of it alone. ok is false if the parts cannot be determined; no standing approval
	// covers the call then.
	Parts(args []byte) (argument string, parts []Part, ok bool)
}

// Part is one of several actions that a call holds.
type Part struct {
	Args  []byte // of a call that consists of it alone
	Whole bool   // no pattern covers it: only an approval of exactly the whole call does
}

// DividerOf returns the Divider that t is, or that it wraps.
func DividerOf(t Tool) (Divider, bool) { return unwrapped[Divider](t) }

// Batcher is a tool that accepts several queued actions at once.
type Batcher interface {
	// CallAll performs the actions in order. It returns one outcome for each.
	CallAll(ctx context.Context, ins []Invocation) []Outcome
}

// Outcome is the outcome of one call, as Call returns it.
type Outcome struct {
	Result Result
	Err    error
}

// BatcherOf returns the Batcher that t is, or that it wraps.
func BatcherOf(t Tool) (Batcher, bool) { return unwrapped[Batcher](t) }

// WireName is a tool's name for providers that allow no dots. Names of registered tools contain
// no "__", so the mapping can be reversed.
func WireName(name string) string { return strings.ReplaceAll(name, ".", "__") }

// FromWire reverses WireName.
func FromWire(wire string) string { return strings.ReplaceAll(wire, "__", ".") }

// SettlerOf returns the Settler that t is, or that it wraps (by a method Unwrap() Tool).
func SettlerOf(t Tool) (Settler, bool) { return unwrapped[Settler](t) }

// unwrapped returns the first I among t and the tools that it wraps.
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

// CertainlyNotDone reports whether an action's error means that the effect certainly did not happen. This
// holds for the kinds by which a receiver refuses. Unavailable, Timeout, Cancelled and Internal,
// and errors without a code, leave it open unless they are wrapped by NotDone.
func CertainlyNotDone(err error) bool {
	if errors.Is(err, errNotDone) {
		return true
	}
	switch fault.Of(err).Kind {
	case fault.Unavailable, fault.Timeout, fault.Cancelled, fault.Internal:
		return false
	}
	return true
}

// NotDone marks an action's error as one that occurred before anything was changed.
func NotDone(err error) error {
	if err == nil {
		return nil
	}
	return notDone{err}
}

var errNotDone = errors.New("nothing was changed")

type notDone struct{ error }

func (e notDone) Unwrap() error        { return e.error }
func (e notDone) Is(target error) bool { return target == errNotDone }
