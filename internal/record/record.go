// Package record defines the records that make up a conversation, with their URIs and
// stored forms: the conversation itself, its interactions, branches, runs, and the changes
// to its messages. The engines that store, search and watch conversations share them.
package record

import (
	"encoding/json"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/resource"
)

// The types of the resources.
const (
	TypeConversation = "common.Conversation"
	TypeInteraction  = "common.Interaction"
	TypeMessage      = "common.Message"
	TypeBranch       = "common.Branch"
	TypeRun          = "agent.Run"
	TypeMark         = "common.Mark"
	TypePin          = "common.Pin"
	TypeTrust        = "common.Trust"
	TypeUsage        = "llm.Usage" // a model call that is in no message
)

// Names of terms.
const (
	TermRecent  = "conversation" // the conversations of a space, most recently used last
	TermMessage = "message"      // a message whose ID was derived from the client's own ID
	TermCall    = "call"         // a message by the provider's call ID
	TermBranch  = "branch"       // the branches of a conversation, by the conversation's ID
	TermStands  = "stands"       // the marks of the messages that one message stands for, by its ID
	TermRouted  = "routed"       // the runs whose agents were chosen by routing
	TermNamed   = "named"        // the runs whose agents were named by a person, who taught routing by that
)

// OriginUser is the origin of text that the user wrote.
const OriginUser = "user"

// A reminder or a timer that goes off opens a turn. The origin of its message is OriginAlarm and the
// id of the alarm. The answer, by RepeatModel, repeats the message.
const (
	OriginAlarm = "alarm:"
	RepeatModel = "steward/repeat"
)

// Conversation is a chat. Its counts are as of the end of the last turn.
type Conversation struct {
	ID        id.ID             `json:"-"`
	Owner     string            `json:"owner"`
	Title     string            `json:"title,omitzero"`
	Created   time.Time         `json:"created"`
	Updated   time.Time         `json:"updated"`
	Agent     string            `json:"agent,omitzero"`
	Routed    bool              `json:"routed,omitzero"` // routing chose Agent, and nobody named it
	Model     string            `json:"model,omitzero"`
	Tools     []string          `json:"tools,omitzero"` // empty: the agent's own
	Metadata  map[string]string `json:"metadata,omitzero"`
	Window    int               `json:"window,omitzero"` // context window in tokens; 0: the model's own
	Tokens    message.Usage     `json:"tokens,omitzero"`
	ToolCalls int               `json:"tool_calls,omitzero"`
	Messages  int               `json:"messages,omitzero"` // user messages and final answers only
	Branch    string            `json:"branch,omitzero"`   // the current branch; empty: MainBranch
	Last      int64             `json:"last,omitzero"`     // the highest position assigned, apart from later ones on the branch itself
	Deleted   time.Time         `json:"deleted,omitzero"`
	Pinned    bool              `json:"pinned,omitzero"`   // lists show it first
	Archived  bool              `json:"archived,omitzero"` // lists leave it out, unless they are asked for it

	// Asked is set for a conversation that an agent holds on behalf of another conversation.
	// It is the Request resource that the conversation answers. Such a conversation is not
	// listed, and is deleted and erased together with the one above it.
	Asked resource.URI `json:"asked,omitzero"`
}

// BranchID returns the ID of the conversation's current branch.
func (c *Conversation) BranchID() string {
	if c.Branch == "" {
		return MainBranch
	}
	return c.Branch
}

// StateDeleted is the state of a resource that is hidden and will be erased.
const StateDeleted = "deleted"

// Interaction is one user turn and everything that followed from it. It ends when its run
// ends.
type Interaction struct {
	Started time.Time `json:"started"`
	Origin  string    `json:"origin"`         // "user", or what else started it
	Into    id.ID     `json:"into,omitzero"`  // the interaction that this one was merged into
	Holds   []id.ID   `json:"holds,omitzero"` // the interactions that were merged into this one
}

// Run is one execution of an agent's loop for one request. It records the settings that
// the run uses; its progress follows from the messages.
type Run struct {
	ID       id.ID        `json:"-"`
	Agent    string       `json:"agent"`
	Version  string       `json:"version"`         // of the agent's definition
	Model    string       `json:"model"`           // as requested: an alias or "provider/model"
	Branch   string       `json:"branch,omitzero"` // empty: MainBranch
	Attended bool         `json:"attended,omitzero"`
	Spoken   bool         `json:"spoken,omitzero"` // the answer is read aloud
	Plan     bool         `json:"plan,omitzero"`   // a person decides about a plan before it is carried out
	Started  time.Time    `json:"started"`
	Ended    time.Time    `json:"ended,omitzero"`
	Outcome  string       `json:"outcome,omitzero"` // "answered", "stopped", "bound", "failed"
	Error    string       `json:"error,omitzero"`   // the error code, if it failed
	Sampling SamplingPin  `json:"sampling,omitzero"`
	Models   []string     `json:"models,omitzero"`  // what Model resolved to when the run began: "provider/model"
	Waits    string       `json:"waits,omitzero"`   // why none of Models is available; the run waits for one
	Crashes  int          `json:"crashes,omitzero"` // consecutive crashes of the process during the run
	Parked   time.Time    `json:"parked,omitzero"`  // since when it is not resumed automatically; see MaxCrashes
	Route    *Route       `json:"route,omitzero"`   // how Agent was chosen; nil: it was the conversation's
	URI      resource.URI `json:"-"`
}

// The ways in which an agent is chosen.
const (
	RouteLocal   = "local"     // by the words, without a model
	RouteModel   = "model"     // by the fast model
	RouteFollow  = "follow-up" // the agent that routing had chosen before goes on
	RouteDefault = "default"   // nothing was clear: the assistant
	RouteNamed   = "named"     // by a person
)

// Route records how the agent of a run was chosen.
type Route struct {
	Path      string       `json:"path"`
	P         float64      `json:"p,omitzero"`         // the probability that the choice is right, as far as it is known
	Candidate string       `json:"candidate,omitzero"` // the agent that was likely, but not certain
	Fallback  bool         `json:"fallback,omitzero"`  // planning failed, and the candidate got the request
	Millis    float64      `json:"ms,omitzero"`        // how long it took
	Said      resource.URI `json:"said,omitzero"`      // RouteNamed: the message that is an example of the agent
	Instead   string       `json:"instead,omitzero"`   // RouteNamed: the agent that routing had chosen for the same words
}

// Term returns the name of the term by which the run is found, or "" for none.
func (r *Run) Term() string {
	switch {
	case r.Route == nil, r.Route.Path == RouteNamed && r.Route.Said.Zero():
		return ""
	case r.Route.Path == RouteNamed:
		return TermNamed
	}
	return TermRouted
}

// MaxCrashes is the number of consecutive crashes after which a run is parked, because the
// run itself may cause them.
const MaxCrashes = 2

// SamplingPin holds the request's own sampling settings. They are stored so that a run
// resumed after a crash continues with them.
type SamplingPin struct {
	Temperature *float64 `json:"temperature,omitzero"`
	MaxTokens   int      `json:"max_tokens,omitzero"`
	Stop        []string `json:"stop,omitzero"`
	Effort      string   `json:"effort,omitzero"`

	TopP             *float64 `json:"top_p,omitzero"`
	Seed             *int64   `json:"seed,omitzero"`
	FrequencyPenalty *float64 `json:"frequency_penalty,omitzero"`
	PresencePenalty  *float64 `json:"presence_penalty,omitzero"`
}

// StateRunning is the state of a Run's resource until the run ends.
const StateRunning = "running"

// ConversationURI returns a conversation's URI.
func ConversationURI(conv id.ID) resource.URI {
	return resource.URI{}.ChildID(TypeConversation, conv)
}

// InteractionURI returns the URI of an interaction.
func InteractionURI(conv, inter id.ID) resource.URI {
	return ConversationURI(conv).ChildID(TypeInteraction, inter)
}

// BranchURI returns the URI of a branch. It is also the URI of the list of messages
// written on the branch.
func BranchURI(conv id.ID, branch string) resource.URI {
	return ConversationURI(conv).Child(TypeBranch, branch)
}

// MarkURI returns the URI of a message's mark.
func MarkURI(conv, msg id.ID) resource.URI { return ConversationURI(conv).ChildID(TypeMark, msg) }

// MarksURI returns the URI of the list of a conversation's marks, ordered by the positions
// of their messages.
func MarksURI(conv id.ID) resource.URI { return ConversationURI(conv).Child(TypeMark, "all") }

// PinURI returns the URI of a message's pin.
func PinURI(conv, msg id.ID) resource.URI { return ConversationURI(conv).ChildID(TypePin, msg) }

// TrustURI returns the URI of the decision to trust a message.
func TrustURI(conv, msg id.ID) resource.URI { return ConversationURI(conv).ChildID(TypeTrust, msg) }

// TrustsURI returns the URI of the list of a conversation's trust decisions, ordered by
// the positions of the messages.
func TrustsURI(conv id.ID) resource.URI { return ConversationURI(conv).Child(TypeTrust, "all") }

// PinsURI returns the URI of the list of a conversation's pins, ordered by the positions
// of their messages.
func PinsURI(conv id.ID) resource.URI { return ConversationURI(conv).Child(TypePin, "all") }

// IDOf returns the ID of the nearest resource of the type among u and its ancestors. It
// returns the zero ID if there is none.
func IDOf(u resource.URI, typ string) id.ID {
	at, _ := u.Find(typ)
	x, _ := id.Parse(at.ID())
	return x
}

// Encode returns the stored form of one of this package's records.
func Encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain structs of this package: cannot fail
	}
	return b
}

// Decode decodes a resource's body into one of this package's records (error code
// store_broken).
func Decode(u resource.URI, body []byte, v any) error {
	if err := json.Unmarshal(body, v); err != nil {
		return fault.New(fault.Internal, "store_broken", "%s cannot be read: %w", u, err).
			WithHint("run steward doctor, and restore the data folder from a backup if it reports damage")
	}
	return nil
}

// DecodeConversation decodes a conversation's resource (error code store_broken).
func DecodeConversation(u resource.URI, body []byte) (Conversation, error) {
	var c Conversation
	err := Decode(u, body, &c)
	c.ID, _ = id.Parse(u.ID())
	return c, err
}

// DecodeMessage decodes a message's resource (error code store_broken). The message's ID
// comes from the URI.
func DecodeMessage(u resource.URI, body []byte) (*message.Message, error) {
	m, err := message.Decode(body)
	if err != nil {
		return nil, fault.New(fault.Internal, "store_broken", "%s cannot be read: %w", u, err)
	}
	m.ID, _ = id.Parse(u.ID())
	return m, nil
}
