package turn

import (
	"time"
	"unicode/utf8"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/lifetime/telemetry"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/request"
	"steward/internal/resource"
)

// Input is a message, or a request to regenerate an answer, that a person sends.
type Input struct {
	Conversation id.ID  // zero: a new conversation
	ClientID     string // the client's own id of the message; sending it again has no effect
	Content      []message.Block
	Agent        string // path of an agent, which becomes the conversation's; empty: the conversation's, else "assistant"
	Model        string // "provider/model" or an alias; empty: the conversation's, else the agent's
	Sampling     llm.Sampling
	Tools        []string          // of a new conversation: names and globs that narrow its agent's tools
	Metadata     map[string]string // of a new conversation
	Attended     bool              // a person is present and can be asked for approvals
	Spoken       bool              // the answer is read aloud: it is short and plain, and the request small (spokenRoom)
	Plan         bool              // the person is shown a plan, and decides about it, before it is carried out
	Steer        bool              // if a run is active, reach it at its next safe point instead of waiting

	// Replace is a user message that this turn's message replaces, on a new
	// branch. The old one is kept.
	Replace id.ID
	// Opens is the new id of the interaction that the turn opens; zero: Send makes
	// one. A server that sets it recognizes the turn's frames before Send returns.
	Opens id.ID
	// Regenerate is an answer to be generated again, on a new branch. The old one
	// is kept. Content must be empty.
	Regenerate id.ID

	request   telemetry.Request // is ended by the turn
	offerPlan bool              // a plan is offered after the answer
	fresh     bool              // the conversation's id was made for this turn
	Derived   bool              // the id was derived from something known: the conversation may exist

	// For turns that do not come from outside:
	Origin         string          // who opens it: "tool:NAME", "agent:PATH", "alarm:ID", "job:ID"; empty: the user
	At             time.Time       // of the message; zero: when it is recorded
	Labels         message.Labels  // of the content
	Sources        []string        // whose private data the content is
	RequestContext request.Context // its lineage; zero: it has no parent
	AskedBy        resource.URI    // the request that the conversation, if it is created, answers
	Request        record.Request  // that one, if it is to be recorded with the turn
	ParentMeter    *llm.Meter      // the meter of the asking turn; nil: none
}

// Accepted reports that a turn's user message is durable.
type Accepted struct {
	Conversation id.ID
	Interaction  id.ID
	Message      id.ID    // zero if an answer is regenerated
	Branch       string   // that the message is on
	Seq          uint64   // of its log entry
	Duplicate    bool     // this client id was accepted before
	Hidden       []string // names of secrets that were masked in the message
}

// interaction returns the id of the interaction that the turn opens. A turn that
// regenerates an answer has no message, so it is recognized by this id, which is
// derived from the client id.
func (t *Input) interaction() id.ID {
	if !t.Opens.Zero() {
		return t.Opens
	}
	if t.ClientID == "" || t.Regenerate.Zero() {
		return id.New()
	}
	return id.Derive("regenerate", t.Conversation.String(), t.ClientID)
}

// UserMessage builds the message of a turn. It sets the turn's conversation if it
// has none.
func UserMessage(user string, t *Input) (*message.Message, error) {
	m := &message.Message{Role: message.User, Blocks: t.Content, At: t.At}
	if !t.Regenerate.Zero() {
		if len(t.Content) > 0 || t.Steer || !t.Replace.Zero() {
			return nil, fault.New(fault.Invalid, "turn_invalid", "a turn that regenerates an answer has no message").
				WithHint("send a message, or ask for another answer, not both")
		}
		return nil, nil
	}
	if t.Steer && !t.Replace.Zero() {
		return nil, fault.New(fault.Invalid, "turn_invalid", "a message that replaces another one begins a turn of its own").WithHint("leave steer out")
	}
	if len(t.Content) == 0 {
		return nil, fault.New(fault.Invalid, "message_empty", "the message is empty").WithHint("write something")
	}
	for _, b := range t.Content {
		b.Base().Origin = t.origin()
		b.Base().Labels |= t.Labels
		b.Base().Sources = t.Sources
		if _, words := b.(*message.Text); !words { // the writer of an attachment is unknown
			b.Base().Labels |= message.Private | message.Untrusted
		}
		if x, ok := b.(*message.Text); ok && !utf8.ValidString(x.Text) {
			return nil, fault.New(fault.Invalid, "message_invalid", "the message is not valid UTF-8").WithHint("send UTF-8 text")
		}
	}
	if t.ClientID == "" {
		m.ID = id.New()
		if t.Conversation.Zero() {
			t.Conversation, t.fresh = id.New(), true
		}
	} else {
		if t.Conversation.Zero() {
			t.Conversation, t.Derived = id.Derive("conversation", user, t.ClientID), true
		}
		kind := "message"
		if t.Origin != "" {
			kind = "woken" // never collides with a client's own id
		}
		m.ID = id.Derive(kind, t.Conversation.String(), t.ClientID)
	}
	return m, message.Validate(m)
}

// origin returns the origin of the turn's content.
func (t *Input) origin() string {
	if t.Origin == "" {
		return record.OriginUser
	}
	return t.Origin
}

// idempotencyKey identifies what is being sent, and how.
type idempotencyKey struct {
	id    id.ID // zero: it cannot be sent again
	steer bool
}

// key returns the key by which a repeated turn is recognized.
func (t *Input) key(m *message.Message) idempotencyKey {
	switch {
	case t.ClientID == "":
		return idempotencyKey{}
	case m == nil:
		return idempotencyKey{t.interaction(), t.Steer}
	}
	return idempotencyKey{m.ID, t.Steer}
}
