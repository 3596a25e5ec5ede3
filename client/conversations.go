package client

import (
	"context"
	"io"
	"time"
)

// Conversation describes a conversation, without its messages.
type Conversation struct {
	ID        string            `json:"id"`
	Title     string            `json:"title"`
	Created   time.Time         `json:"created"`
	Updated   time.Time         `json:"updated"`
	Agent     string            `json:"agent,omitzero"`
	Model     string            `json:"model,omitzero"`
	Tools     []string          `json:"tools,omitempty"`
	Metadata  map[string]string `json:"metadata,omitempty"`
	Window    int               `json:"window,omitzero"`
	Messages  int               `json:"messages"`
	ToolCalls int               `json:"tool_calls"`
	Tokens    Usage             `json:"tokens"`
	Pinned    bool              `json:"pinned,omitzero"`
	Archived  bool              `json:"archived,omitzero"`
}

// Usage is the number of tokens that model calls have used.
type Usage struct {
	Input      int64 `json:"input,omitzero"`
	Output     int64 `json:"output,omitzero"`
	Reasoning  int64 `json:"reasoning,omitzero"`
	CacheRead  int64 `json:"cache_read,omitzero"`
	CacheWrite int64 `json:"cache_write,omitzero"`
	Searches   int64 `json:"searches,omitzero"`
}

// Share is a link by which a conversation can be read, without a sign-in.
type Share struct {
	ID           string    `json:"id"`
	Conversation string    `json:"conversation_id"`
	Private      bool      `json:"private,omitzero"` // it shows content labelled private
	Created      time.Time `json:"created"`
	Expires      time.Time `json:"expires"`
	Path         string    `json:"path,omitzero"` // of the page, with its secret; only when the share is made
}

// NewShare says how a conversation is shared.
type NewShare struct {
	Within  string `json:"within"` // how long: a duration of at most a year, such as 168h
	Private bool   `json:"private,omitzero"`
}

// Shares returns the shares of a conversation that have not expired, the newest first.
func (c *Client) Shares(ctx context.Context, conv string) ([]Share, error) {
	return whole[Share](ctx, c, "GET /conversations/{id}/shares", "shares", Params{"id": conv})
}

// NewShare shares a conversation.
func (c *Client) NewShare(ctx context.Context, conv string, s NewShare) (out Share, err error) {
	return out, c.Call(ctx, "POST /conversations/{id}/shares", Params{"id": conv}, s, &out)
}

// EndShare ends a share.
func (c *Client) EndShare(ctx context.Context, share string) error {
	return c.Call(ctx, "DELETE /shares/{id}", Params{"id": share}, nil, nil)
}

// ConversationChange is what a change of a conversation sets; nil: it stays.
type ConversationChange struct {
	Title    *string `json:"title,omitempty"`
	Pinned   *bool   `json:"pinned,omitempty"`
	Archived *bool   `json:"archived,omitempty"`
}

// ChangeConversation renames, pins or archives a conversation.
func (c *Client) ChangeConversation(ctx context.Context, conv string, change ConversationChange) (out Conversation, err error) {
	return out, c.Call(ctx, "PATCH /conversations/{id}", Params{"id": conv}, change, &out)
}

// Conversations returns at most limit conversations, the most recently used first.
func (c *Client) Conversations(ctx context.Context, limit int) ([]Conversation, error) {
	list, _, err := List[Conversation](ctx, c, "GET /conversations", "conversations", nil, limit)
	return list, err
}

// Conversation returns one conversation.
func (c *Client) Conversation(ctx context.Context, conv string) (Conversation, error) {
	return ask[Conversation](ctx, c, "GET /conversations/{id}", Params{"id": conv}, nil)
}

// DeleteConversation deletes a conversation. If erase is set it cannot be restored.
func (c *Client) DeleteConversation(ctx context.Context, conv string, erase bool) error {
	return c.Call(ctx, "DELETE /conversations/{id}", Params{"id": conv, "erase": yes(erase)}, nil, nil)
}

// Undelete restores a deleted conversation, or only one branch of it.
func (c *Client) Undelete(ctx context.Context, conv, branch string) error {
	return c.Call(ctx, "POST /conversations/{id}/undelete", Params{"id": conv}, map[string]string{"branch": branch}, nil)
}

// Export writes a conversation as json or markdown.
func (c *Client) Export(ctx context.Context, conv, format string, maskPrivate bool, w io.Writer) error {
	return c.Call(ctx, "GET /conversations/{id}/export", Params{"id": conv, "format": format, "mask_private": yes(maskPrivate)}, nil, w)
}

// NewBranch is a newly made branch.
type NewBranch struct {
	ID        string    `json:"id"`
	Title     string    `json:"title,omitzero"`
	Created   time.Time `json:"created,omitzero"`
	Used      time.Time `json:"used,omitzero"`
	Parent    string    `json:"parent,omitzero"` // the branch it was made from
	Preferred bool      `json:"preferred"`
	Revision  int       `json:"revision"`
	Cut       bool      `json:"cut,omitzero"`     // a model does not see all of it
	Summary   string    `json:"summary,omitzero"` // the message that replaces the rest
	Deleted   time.Time `json:"deleted,omitzero"`
}

// Branch is a branch of a conversation.
type Branch struct {
	NewBranch
	Stem     string `json:"stem,omitzero"` // the branch that holds the last message shared with this one
	Messages int    `json:"messages"`
	Own      int    `json:"own"` // how many of them were written on this branch
	Begins   string `json:"begins,omitzero"`
}

// Branches returns the branches of a conversation, or its deleted branches that can be restored.
func (c *Client) Branches(ctx context.Context, conv string, deleted bool) ([]Branch, error) {
	return whole[Branch](ctx, c, "GET /conversations/{id}/branches", "branches", Params{"id": conv, "deleted": yes(deleted)})
}

// ChangeBranch changes members of a branch: title, preferred.
func (c *Client) ChangeBranch(ctx context.Context, conv, branch string, change map[string]any) error {
	return c.Call(ctx, "PATCH /conversations/{id}/branches/{branch}", Params{"id": conv, "branch": branch}, change, nil)
}

// DeleteBranch deletes a branch. If erase is set it cannot be restored.
func (c *Client) DeleteBranch(ctx context.Context, conv, branch string, erase bool) error {
	return c.Call(ctx, "DELETE /conversations/{id}/branches/{branch}", Params{"id": conv, "branch": branch, "erase": yes(erase)}, nil, nil)
}

// CopyBranch copies a branch to a new conversation and returns the conversation's id.
func (c *Client) CopyBranch(ctx context.Context, conv, branch string) (string, error) {
	out, err := ask[struct {
		Conversation string `json:"conversation_id"`
	}](ctx, c, "POST /conversations/{id}/branches/{branch}/copy", Params{"id": conv, "branch": branch}, nil)
	return out.Conversation, err
}

// Sibling is one of the alternatives at a point where a conversation branches.
type Sibling struct {
	Branch    string `json:"branch"`
	Message   string `json:"message_id"`
	Preferred bool   `json:"preferred"`
}

// Siblings returns the alternatives to a message on all branches.
func (c *Client) Siblings(ctx context.Context, conv, message string) ([]Sibling, error) {
	return whole[Sibling](ctx, c, "GET /conversations/{id}/messages/{message}/siblings", "siblings", Params{"id": conv, "message": message})
}

// Change is a change of a message's validity.
type Change struct {
	Message     string    `json:"message_id,omitzero"` // empty: several messages, as the reason says
	State       string    `json:"state"`
	At          time.Time `json:"at"`
	Actor       string    `json:"actor"`
	Tool        string    `json:"tool,omitzero"`
	Call        string    `json:"call,omitzero"`
	Interaction string    `json:"interaction_id,omitzero"`
	Strategy    string    `json:"strategy,omitzero"`
	Reason      string    `json:"reason,omitzero"`
	By          string    `json:"superseded_by,omitzero"`
	Undone      time.Time `json:"undone,omitzero"`
	UndoneBy    string    `json:"undone_by,omitzero"`
}

// Changes returns how the validity of a conversation's messages has changed: of all messages, or of
// those changed by an interaction or a tool.
func (c *Client) Changes(ctx context.Context, conv, interaction, tool string) ([]Change, error) {
	return whole[Change](ctx, c, "GET /conversations/{id}/changes", "changes", Params{"id": conv, "interaction": interaction, "tool": tool})
}

// Rollback restores the messages that the tools of an interaction, or one of its tools, made
// obsolete. It returns how many messages were restored.
func (c *Client) Rollback(ctx context.Context, conv, interaction, tool string) (int, error) {
	out, err := ask[struct{ Restored int }](ctx, c, "POST /conversations/{id}/interactions/{interaction}/rollback",
		Params{"id": conv, "interaction": interaction}, map[string]string{"tool": tool})
	return out.Restored, err
}

// Tidy changes which messages of a conversation a model sees. It returns how many messages are
// affected.
func (c *Client) Tidy(ctx context.Context, conv, how string, tools ...string) (int, error) {
	out, err := ask[struct{ Changed int }](ctx, c, "POST /conversations/{id}/tidy", Params{"id": conv}, map[string]any{"how": how, "tools": tools})
	return out.Changed, err
}

// Pin pins messages, so that a model keeps seeing them, or unpins them.
func (c *Client) Pin(ctx context.Context, conv string, pinned bool, messages ...string) error {
	return c.Call(ctx, "POST /conversations/{id}/messages/pin", Params{"id": conv}, map[string]any{"messages": messages, "pinned": pinned}, nil)
}

// Trust removes the label untrusted from messages.
func (c *Client) Trust(ctx context.Context, conv string, messages ...string) error {
	return c.Call(ctx, "POST /conversations/{id}/messages/trust", Params{"id": conv}, map[string]any{"messages": messages}, nil)
}

// Mark changes the state of messages.
type Mark struct {
	Messages []string `json:"messages"`
	State    string   `json:"state"` // empty: active
	Reason   string   `json:"reason,omitzero"`
	Erase    bool     `json:"erase,omitzero"` // with the state deleted: permanently
}

// Mark marks messages. It returns how many have changed: a call and its results are always marked
// together.
func (c *Client) Mark(ctx context.Context, conv string, m Mark) (int, error) {
	out, err := ask[struct{ Changed int }](ctx, c, "POST /conversations/{id}/messages/mark", Params{"id": conv}, m)
	return out.Changed, err
}
