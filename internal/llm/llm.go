// Package llm is the contract of language models (one streaming method) and
// what stands between an agent and a provider: aliases, retries, fallback
// chains, budgets.
package llm

import (
	"cmp"
	"context"
	"iter"
	"time"

	"steward/internal/message"
)

// Model is one model of one provider, or a chain of them. Safe for concurrent use.
type Model interface {
	// Stream asks for the next message and yields it as it comes. The last
	// event of a good stream is Done; an error is yielded last and alone
	// (Event{}, err). Breaking out of the loop, or ctx being done, cancels
	// the provider's request. A stream that ends without the provider's own
	// end mark is an error (stream_broken): half a call is never Done.
	//
	// Error codes: auth_failed (Unauthentic), rate_limited (RateLimited, with
	// RetryAfter), overloaded (Unavailable), provider_error (Unavailable, 5xx),
	// request_refused (Invalid, 4xx), context_too_long (TooLarge, with the window
	// in Details if it is told),
	// model_not_found (NotFound), tools_unsupported, images_unsupported,
	// schema_unsupported, effort_unsupported (Unsupported), first_byte_timeout, idle_timeout
	// (Timeout), stream_broken, unreachable (Unavailable), cancelled
	// (Cancelled), budget_exhausted (Exhausted), price_unknown (Unsupported),
	// model_not_allowed (Denied).
	Stream(ctx context.Context, r *Request) iter.Seq2[Event, error]
}

// Request is what a model is asked. It is not modified by a Model.
type Request struct {
	System     string
	Transcript *Transcript // never nil, never empty
	Tools      *Toolset    // nil: none
	ToolChoice string      // "" or "auto", "none", "required", or a tool's name
	Sampling   Sampling
	Schema     *Schema // non-nil: the answer is one JSON value of this schema
	User       string  // for budgets and the provider's abuse tracking; may be empty
	Meter      *Meter  // counts and bounds the whole request; nil: this call counts alone

	// What policy goes by, where models are allowed or not (Config.Allow).
	Labels  message.Labels // of all that the model is shown
	Agent   string         // the path of the agent that asks; empty: the node's own
	Lineage []string       // the agents on whose behalf it asks, the outermost first

	passing bool // another model of the chain is asked if this one cannot answer at once and with all tools
}

// Effort is how much a model may think before it answers.
type Effort string

// The efforts. The empty one leaves it to the provider.
const (
	EffortNone   Effort = "none"
	EffortLow    Effort = "low"
	EffortMedium Effort = "medium"
	EffortHigh   Effort = "high"
)

// Sampling are the settings of a call. Zero values leave a setting to the
// provider. What a provider cannot do it says by a Notice, once per stream.
type Sampling struct {
	Temperature *float64
	MaxTokens   int
	Stop        []string
	Effort      Effort

	TopP             *float64 // 0 to 1: only the likeliest tokens that add up to so much
	Seed             *int64   // the same seed is answered alike, where the model can
	FrequencyPenalty *float64 // -2 to 2
	PresencePenalty  *float64 // -2 to 2
}

// Zero reports whether s sets nothing.
func (s Sampling) Zero() bool {
	return s.Temperature == nil && s.MaxTokens == 0 && s.Stop == nil && s.Effort == "" &&
		s.TopP == nil && s.Seed == nil && s.FrequencyPenalty == nil && s.PresencePenalty == nil
}

// Over returns s with its zero values taken from base: a request's settings
// over an agent's over an alias's.
func (s Sampling) Over(base Sampling) Sampling {
	if s.Temperature == nil {
		s.Temperature = base.Temperature
	}
	if s.MaxTokens == 0 {
		s.MaxTokens = base.MaxTokens
	}
	if s.Stop == nil {
		s.Stop = base.Stop
	}
	if s.Effort == "" {
		s.Effort = base.Effort
	}
	s.TopP, s.Seed = cmp.Or(s.TopP, base.TopP), cmp.Or(s.Seed, base.Seed)
	s.FrequencyPenalty, s.PresencePenalty = cmp.Or(s.FrequencyPenalty, base.FrequencyPenalty), cmp.Or(s.PresencePenalty, base.PresencePenalty)
	return s
}

// Schema asks for structured output.
type Schema struct {
	Name string // letters, digits, '_' and '-'
	JSON []byte // JSON Schema, an object schema
}

// Kind is the kind of an Event.
type Kind uint8

// The kinds of events.
const (
	TextDelta      Kind = iota + 1 // Text, at Block
	ReasoningDelta                 // Text, at Block
	CallStart                      // Name and CallID, at Block
	CallArgs                       // Text: a fragment of the arguments, at Block
	Reset                          // forget what this stream has yielded; it begins anew
	Notice                         // Text: something the user should know
	Done                           // Reply
)

// Event is one step of a stream.
type Event struct {
	Kind   Kind
	Block  int // the block's place in the message that is being written
	Text   string
	Name   string
	CallID string
	Reply  *Reply
}

// Reply is the whole message of a finished stream.
type Reply struct {
	Model  string // "provider/model" that answered
	Blocks []message.Block
	Stop   message.Stop
	Usage  message.Usage
	Meta   message.Meta
}

// Provider is a family of models behind one endpoint. Safe for concurrent use.
type Provider interface {
	Name() string // "openai", "anthropic", …: the part before '/' in a model's name
	// Model returns a model by the provider's own name for it. It asks nobody.
	Model(name string) Model
	// Models asks the endpoint what it has. Errors as those of Model.
	Models(ctx context.Context) ([]Info, error)
}

// Info describes a model.
type Info struct {
	Name     string // the provider's own
	Created  time.Time
	Window   int // context window in tokens; 0 if unknown
	Embedder bool
}
