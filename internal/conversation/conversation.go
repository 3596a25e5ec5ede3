// Package conversation keeps conversations: their interactions, messages and
// runs in the store, and the open ones in memory with what a model is shown.
package conversation

import (
	"encoding/json"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/resource"
	"steward/internal/store"
)

// The types of the resources that this package keeps.
const (
	Type            = "common.Conversation"
	TypeInteraction = "common.Interaction"
	TypeMessage     = "common.Message"
	TypeBranch      = "common.Branch"
	TypeRun         = "agent.Run"
)

// MainBranch is the id of the branch that a conversation begins with.
const MainBranch = "main"

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
	Deleted   time.Time         `json:"deleted,omitzero"`
}

// Interaction is one user turn with all that it led to. It ends when its run does.
type Interaction struct {
	Started time.Time `json:"started"`
	Origin  string    `json:"origin"` // "user", or what else opened it
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
	URI      resource.URI `json:"-"`
}

// SamplingPin are the request's own sampling settings, kept so that a run
// that is continued after a crash goes on with them.
type SamplingPin struct {
	Temperature *float64 `json:"temperature,omitzero"`
	MaxTokens   int      `json:"max_tokens,omitzero"`
	Stop        []string `json:"stop,omitzero"`
	Effort      string   `json:"effort,omitzero"`
}

// Running is the state of a Run's resource until the run ends.
const Running = "running"

// URI returns a conversation's URI.
func URI(conv id.ID) resource.URI { return resource.URI{}.ChildID(Type, conv) }

// Branch returns the URI of a conversation's branch.
func branchURI(conv id.ID, branch string) resource.URI { return URI(conv).Child(TypeBranch, branch) }

// termRecent finds a space's conversations, the most recently used last.
const termRecent = "conversation"

// termMessage finds a message whose id was derived from the client's own.
const termMessage = "message"

// termCall finds a message by a provider's call id.
const termCall = "call"

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain structs of our own: cannot fail
	}
	return b
}

func decode(r resource.Resource, v any) error {
	if err := json.Unmarshal(r.Body, v); err != nil {
		return fault.New(fault.Internal, "store_broken", "%s cannot be read: %w", r.URI, err).
			With("run steward doctor, and restore the data folder from a backup if it reports damage")
	}
	return nil
}

// read decodes a conversation's resource.
func read(r resource.Resource) (Conversation, error) {
	var c Conversation
	if err := decode(r, &c); err != nil {
		return c, err
	}
	c.ID, _ = id.Parse(r.URI.ID())
	return c, nil
}

// change returns the change that writes c.
func (c *Conversation) change(cond store.If) store.Change {
	ch := store.Change{URI: URI(c.ID), Body: encode(c), If: cond}
	if c.Deleted.IsZero() {
		ch.Terms = []store.Term{{Name: termRecent}}
	}
	return ch
}

// count adds what a message contributes to the conversation's counts.
func (c *Conversation) count(m *message.Message) {
	c.Tokens = c.Tokens.Add(m.Usage)
	switch m.Role {
	case message.User:
		if len(m.Blocks) > 0 && m.Blocks[0].Base().Origin == OriginUser {
			c.Messages++
		}
	case message.Assistant:
		if m.Final {
			c.Messages++
		}
		for _, b := range m.Blocks {
			if _, ok := b.(*message.ToolCall); ok {
				c.ToolCalls++
			}
		}
	}
}

// OriginUser is the origin of what the user wrote.
const OriginUser = "user"

// titleOf makes a title from the first user message: its first line, cut at a
// word, at most 60 characters.
func titleOf(m *message.Message) string {
	line, _, _ := strings.Cut(strings.TrimSpace(m.Text()), "\n")
	runes := []rune(strings.Join(strings.Fields(line), " "))
	const most = 60
	if len(runes) <= most {
		return string(runes)
	}
	cut := string(runes[:most])
	if i := strings.LastIndexByte(cut, ' '); i > most/2 {
		cut = cut[:i]
	}
	return cut + "…"
}

func notFound(conv id.ID) error {
	return fault.New(fault.NotFound, "conversation_not_found", "there is no conversation %s", conv).
		With("steward conversations list shows those that there are")
}
