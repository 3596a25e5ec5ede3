package tool

import (
	"context"
	"time"

	"steward/internal/message"
)

// StrategyKind says by what a call makes earlier results obsolete.
type StrategyKind string

// The kinds of strategies. In all of them only a call that succeeded counts,
// and only results that succeeded become obsolete.
const (
	// ByParameters: a call makes the earlier results of its own tool obsolete
	// whose calls had the same values in Parameters: reading a file again.
	ByParameters StrategyKind = "parameters"
	// ByTool: a call makes the earlier results of Tools obsolete; where
	// Parameters are named, only those with the same values in them: writing
	// a file after it was read.
	ByTool StrategyKind = "tools"
	// ByAge: results of this tool are obsolete once they are older than MaxAge.
	ByAge StrategyKind = "age"
	// Custom: the tool is an Optimizer and says it itself, of its own results
	// and those of Tools.
	Custom StrategyKind = "custom"
)

// Strategy is a rule by which a tool keeps a conversation tidy.
type Strategy struct {
	Kind       StrategyKind
	Parameters []string      // names of top-level arguments
	Tools      []string      // names of the tools whose results are meant
	MaxAge     time.Duration // ByAge
	Cascade    []string      // when the rule made a result obsolete, the earlier results of these tools are too
}

// Optimizer is a tool that knows itself which earlier results a call of it
// makes obsolete (Strategy Custom). SettlerOf's rule of wrapping holds: see
// OptimizerOf.
type Optimizer interface {
	// Obsolete is told of a call that has succeeded and of the results that
	// are still valid, of this tool's own calls and of its declared targets',
	// oldest first; it returns those that are obsolete now. It must be quick:
	// it runs between the call and the recording of its result. Naming a
	// result that it was not shown is refused and logged; an error is logged,
	// and nothing becomes obsolete.
	Obsolete(ctx context.Context, call Past, earlier []Past) ([]Obsolete, error)
}

// Past is a call that has its result.
type Past struct {
	Ref    message.Ref
	Name   string
	Args   []byte // as the model wrote them
	At     time.Time
	Result *message.ToolResult // do not modify
}

// Obsolete names a result, by its call, and says why it does not hold any more.
type Obsolete struct {
	Ref    message.Ref
	Reason string // for the model and a person: half a sentence
}

// OptimizerOf returns the Optimizer that t is, or that it wraps (by a method
// Unwrap() Tool).
func OptimizerOf(t Tool) (Optimizer, bool) { return unwrapped[Optimizer](t) }

// LogSpec says how calls of a tool are told in the work log.
type LogSpec struct {
	// Summary is what a call did in a person's words, with the values of
	// arguments in braces: "Read {path}". Empty: made from the tool's name.
	Summary string
	// Parameters are the arguments that are worth keeping in the log. Empty:
	// all short ones.
	Parameters []string
	// Secret are the arguments that are never shown, beside those whose name
	// or value says that they are secret.
	Secret []string
	// Impact are the arguments that name what the call affects: a path, a
	// recipient, an entity.
	Impact []string
}
