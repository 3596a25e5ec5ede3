// Package record holds the records that a conversation consists of (itself,
// its interactions, branches, runs, and what became of its messages), with
// their URIs and stored forms: what the engines that keep, search and watch
// conversations share.
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
	TypeUsage        = "llm.Usage" // a model call outside of conversations
)

// Names of terms.
const (
	TermRecent  = "conversation" // a space's conversations, the most recently used last
	TermMessage = "message"      // a message whose id was derived from the client's own
	TermCall    = "call"         // a message by a provider's call id
	TermBranch  = "branch"       // the branches of a conversation, by its id
	TermStands  = "stands"       // the marks of messages for which one stands, by its id
)

// OriginUser is the origin of what the user wrote.
const OriginUser = "user"

// Conversation is a chat. Its counts are those at the end of the last turn.
type Conversation struct {
	ID        id.ID             `json:"-"`
	Owner     string            `json:"owner"`
	Title     string            `json:"title,omitzero"`
	Created   time.Time         `json:"created"`
	Updated   time.Time         `json:"updated"`
	Agent     string            `json:"agent,omitzero"`
	Model     string            `json:"model,omitzero"`
	Tools     []string          `json:"tools,omitzero"` // empty: the agent's own
	Metadata  map[string]string `json:"metadata,omitzero"`
	Window    int               `json:"window,omitzero"` // context window in tokens; 0: the model's own
	Tokens    message.Usage     `json:"tokens,omitzero"`
	ToolCalls int               `json:"tool_calls,omitzero"`
	Messages  int               `json:"messages,omitzero"` // user messages and final answers only
	Branch    string            `json:"branch,omitzero"`   // the preferred path; empty: MainBranch
	Last      int64             `json:"last,omitzero"`     // the highest position given out, but for the branch's own since
	Deleted   time.Time         `json:"deleted,omitzero"`

	// Of a conversation that an agent holds on behalf of another one: the
	// Request's resource that it answers. It is not listed, and is deleted
	// and erased with the one above it.
	Asked resource.URI `json:"asked,omitzero"`
}

// BranchID returns the branch that the conversation goes on with.
func (c *Conversation) BranchID() string {
	if c.Branch == "" {
		return MainBranch
	}
	return c.Branch
}

// StateDeleted is the state of a resource that is hidden and will be erased.
const StateDeleted = "deleted"

// Interaction is one user turn with all that it led to. It ends when its run does.
type Interaction struct {
	Started time.Time `json:"started"`
	Origin  string    `json:"origin"`         // "user", or what else opened it
	Into    id.ID     `json:"into,omitzero"`  // it was merged into this one
	Holds   []id.ID   `json:"holds,omitzero"` // the interactions that were merged into it
}

// Run is one execution of an agent's loop for one request. It pins what the
// run goes by; how far it is, the messages tell.
type Run struct {
	ID       id.ID        `json:"-"`
	Agent    string       `json:"agent"`
	Version  string       `json:"version"`         // of the agent's definition
	Model    string       `json:"model"`           // as asked for: an alias or "provider/model"
	Branch   string       `json:"branch,omitzero"` // empty: MainBranch
	Attended bool         `json:"attended,omitzero"`
	Started  time.Time    `json:"started"`
	Ended    time.Time    `json:"ended,omitzero"`
	Outcome  string       `json:"outcome,omitzero"` // "answered", "stopped", "bound", "failed"
	Error    string       `json:"error,omitzero"`   // the code, when it failed
	Sampling SamplingPin  `json:"sampling,omitzero"`
	Models   []string     `json:"models,omitzero"`  // the chain that Model stood for when the run began, as "provider/model"
	Waits    string       `json:"waits,omitzero"`   // why none of Models can be asked now: the run waits for one
	Crashes  int          `json:"crashes,omitzero"` // during which it ran, one after the other
	Parked   time.Time    `json:"parked,omitzero"`  // since when it is not taken up by itself; see MaxCrashes
	URI      resource.URI `json:"-"`
}

// MaxCrashes is after how many crashes in a row a run is parked: it may be
// what takes the process down.
const MaxCrashes = 2

// SamplingPin are the request's own sampling settings, kept so that a run
// that is continued after a crash goes on with them.
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

// BranchURI returns the URI of a branch, which is also the list of the
// messages that were written on it.
func BranchURI(conv id.ID, branch string) resource.URI {
	return ConversationURI(conv).Child(TypeBranch, branch)
}

// MarkURI returns the URI of what became of a message.
func MarkURI(conv, msg id.ID) resource.URI { return ConversationURI(conv).ChildID(TypeMark, msg) }

// MarksURI returns the list of a conversation's marks, by the positions of
// their messages.
func MarksURI(conv id.ID) resource.URI { return ConversationURI(conv).Child(TypeMark, "all") }

// PinURI returns the URI of a message's pin.
func PinURI(conv, msg id.ID) resource.URI { return ConversationURI(conv).ChildID(TypePin, msg) }

// TrustURI returns the URI of the decision to trust a message.
func TrustURI(conv, msg id.ID) resource.URI { return ConversationURI(conv).ChildID(TypeTrust, msg) }

// TrustsURI returns the list of these decisions, by the positions of the
// messages.
func TrustsURI(conv id.ID) resource.URI { return ConversationURI(conv).Child(TypeTrust, "all") }

// PinsURI returns the list of a conversation's pins, by the positions of
// their messages.
func PinsURI(conv id.ID) resource.URI { return ConversationURI(conv).Child(TypePin, "all") }

// IDOf returns the id of the nearest of u and its ancestors that has the
// type; zero where there is none.
func IDOf(u resource.URI, typ string) id.ID {
	at, _ := u.Find(typ)
	x, _ := id.Parse(at.ID())
	return x
}

// Encode returns the stored form of one of this package's records.
func Encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain structs of our own: cannot fail
	}
	return b
}

// Decode reads a resource's body into one of this package's records
// (store_broken).
func Decode(u resource.URI, body []byte, v any) error {
	if err := json.Unmarshal(body, v); err != nil {
		return fault.New(fault.Internal, "store_broken", "%s cannot be read: %w", u, err).
			WithHint("run steward doctor, and restore the data folder from a backup if it reports damage")
	}
	return nil
}

// DecodeConversation reads a conversation's resource.
func DecodeConversation(u resource.URI, body []byte) (Conversation, error) {
	var c Conversation
	err := Decode(u, body, &c)
	c.ID, _ = id.Parse(u.ID())
	return c, err
}

// DecodeMessage reads a message's resource; its id is the URI's.
func DecodeMessage(u resource.URI, body []byte) (*message.Message, error) {
	m, err := message.Decode(body)
	if err != nil {
		return nil, fault.New(fault.Internal, "store_broken", "%s cannot be read: %w", u, err)
	}
	m.ID, _ = id.Parse(u.ID())
	return m, nil
}
