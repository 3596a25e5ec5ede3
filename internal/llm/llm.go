// Package llm defines the interface to language models (one streaming method) and the layers
// between an agent and a provider: aliases, retries, fallback chains, budgets.
package llm

import (
	"cmp"
	"context"
	"iter"
	"time"

	"steward/internal/fault"
	"steward/internal/message"
)

// Model is one model of one provider, or a chain of models. It is safe for concurrent use.
type Model interface {
	// Stream requests the next message and yields it as it arrives. The last event of a successful
	// stream is Done. An error is yielded last and alone (Event{}, err). Leaving the loop, or
	// cancelling ctx, cancels the provider's request. A stream that ends without the provider's own
	// end mark is an error (stream_broken), so an incomplete call is never Done.
	//
	// Error codes: auth_failed (Unauthentic), rate_limited (RateLimited, with RetryAfter),
	// overloaded (Unavailable), provider_error (Unavailable, 5xx), request_refused (Invalid, 4xx),
	// context_too_long (TooLarge, with the window in Details if the provider reports it),
	// model_not_found (NotFound), tools_unsupported, images_unsupported, schema_unsupported,
	// effort_unsupported (Unsupported), empty_answer (Unavailable), first_byte_timeout, idle_timeout (Timeout), stream_broken,
	// unreachable (Unavailable), cancelled (Cancelled), budget_exhausted (Exhausted), price_unknown
	// (Unsupported), model_not_allowed (Denied).
	Stream(ctx context.Context, r *Request) iter.Seq2[Event, error]
}

// Answer asks a model once, and returns its whole reply.
func Answer(ctx context.Context, m Model, r *Request) (*Reply, error) {
	for ev, err := range m.Stream(ctx, r) {
		if err != nil {
			return nil, err
		}
		if ev.Kind == Done {
			return ev.Reply, nil
		}
	}
	return nil, fault.New(fault.Unavailable, "stream_broken", "the model's stream ended without its end mark")
}

// Request is a request to a model. A Model does not modify it.
type Request struct {
	System     string
	Transcript *Transcript // neither nil nor empty
	Tools      *Toolset    // nil: none
	ToolChoice string      // "" or "auto", "none", "required", or a tool's name
	Sampling   Sampling
	Schema     *Schema // if not nil, the answer is one JSON value of this schema
	// Plannable are the tools and agents that a plan may use, if a plan is asked for.
	// The system prompt lists them too; this is for models that read no prompts.
	Plannable *Toolset
	User      string // for budgets and the provider's abuse tracking; may be empty
	Meter     *Meter // counts and bounds the whole request; nil: this call is counted by itself

	// The inputs of the policy that decides which models are allowed (Config.Allow).
	Labels  message.Labels // of everything that the model sees
	Agent   string         // the path of the calling agent; empty: the node itself
	Lineage []string       // the agents on whose behalf it calls, outermost first

	passing bool // the chain tries another model if this one cannot answer at once and with all tools
}

// Effort is how much a model may reason before it answers.
type Effort string

// The efforts. An empty effort leaves the choice to the provider.
const (
	EffortNone   Effort = "none"
	EffortLow    Effort = "low"
	EffortMedium Effort = "medium"
	EffortHigh   Effort = "high"
)

// Sampling holds the sampling settings of a call. A zero value leaves the setting to the provider.
// If a provider does not support a setting, the stream yields one Notice that says so.
type Sampling struct {
	Temperature *float64
	MaxTokens   int
	Stop        []string
	Effort      Effort

	TopP             *float64 // 0 to 1: sample only from the likeliest tokens whose probabilities add up to this
	Seed             *int64   // equal seeds give equal answers, if the model supports it
	FrequencyPenalty *float64 // -2 to 2
	PresencePenalty  *float64 // -2 to 2
}

// Zero reports whether s sets nothing.
func (s Sampling) Zero() bool {
	return s.Temperature == nil && s.MaxTokens == 0 && s.Stop == nil && s.Effort == "" &&
		s.TopP == nil && s.Seed == nil && s.FrequencyPenalty == nil && s.PresencePenalty == nil
}

// Over returns s with its zero values replaced by those of base. The settings of a request override
// those of an agent, which override those of an alias.
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

// Schema requests structured output.
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
	Reset                          // discard what this stream has yielded; it starts over
	Notice                         // Text: something that the user should know
	Done                           // Reply
)

// Event is one event of a stream.
type Event struct {
	Kind   Kind
	Block  int // the index of the block in the message
	Text   string
	Name   string
	CallID string
	Reply  *Reply
}

// Reply is the complete message of a finished stream.
type Reply struct {
	Model  string // "provider/model" that answered
	Blocks []message.Block
	Stop   message.Stop
	Usage  message.Usage
	Meta   message.Meta
}

// Text returns the text of the reply.
func (r *Reply) Text() string {
	return (&message.Message{Role: message.Assistant, Blocks: r.Blocks}).Text()
}

// Provider gives access to the models behind one endpoint. It is safe for concurrent use.
type Provider interface {
	Name() string // "openai", "anthropic", …: the part before '/' in a model's name
	// Model returns a model by the provider's own name for it. It makes no request.
	Model(name string) Model
	// Models asks the endpoint which models it has. It returns the same errors as Model.Stream.
	Models(ctx context.Context) ([]Info, error)
}

// Info describes a model.
type Info struct {
	Name     string // the provider's own name for it
	Created  time.Time
	Window   int // context window in tokens; 0 if unknown
	Embedder bool
}
