package api

import (
	"context"
	"io"
	"iter"

	"steward/internal/conversation"
	"steward/internal/conversation/worklog"
	"steward/internal/effect"
	"steward/internal/id"
	"steward/internal/importexport"
	"steward/internal/intent"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/runtime"
	"steward/internal/search"
	"steward/internal/store"
)

// Node is what the server needs of the runtime; runtime.Node is one. Another
// one answers commands from the database alone. which is an id, or at least 8
// characters of its beginning.
type Node interface {
	Conversations(ctx context.Context, user string, after store.Cursor, limit int) ([]record.Conversation, store.Cursor, error)
	Conversation(ctx context.Context, user string, conv id.ID) (record.Conversation, error)
	ReadMessages(ctx context.Context, user string, conv id.ID, r runtime.Reading) ([]conversation.Entry, store.Cursor, error)
	FindCall(ctx context.Context, user, callID string) ([]conversation.Called, error)
	Rename(ctx context.Context, user string, conv id.ID, title string) (record.Conversation, error)
	Delete(ctx context.Context, user string, conv id.ID) error
	Undelete(ctx context.Context, user string, conv id.ID, branch string) error
	Erase(ctx context.Context, user string, conv id.ID, names ...string) error
	EraseMessages(ctx context.Context, user string, conv id.ID, msgs ...id.ID) error
	EraseUser(ctx context.Context, by, user string) error
	EraseEvent(ctx context.Context, by, user string, which id.ID) error
	Import(ctx context.Context, user string, r io.Reader, o importexport.Options) iter.Seq2[conversation.Imported, error]
	ExportAs(ctx context.Context, user string, conv id.ID, o conversation.ExportOptions, w io.Writer) error
	Convert(doc []byte, from, to string) (list []byte, notes []string, err error)
	Models(ctx context.Context) (found llm.Listing, aliases []string)
	Search(ctx context.Context, user string, q search.Query) (search.Page, error)
	ExplainPolicy(ctx context.Context, user string, q runtime.PolicyQuestion) ([]runtime.PolicyAnswer, error)
	History
	Work
}

// History is the part of Node for branches and what becomes of messages.
type History interface {
	Paths(ctx context.Context, user string, conv id.ID, deleted bool) ([]runtime.Path, error)
	Siblings(ctx context.Context, user string, conv, msg id.ID) ([]conversation.Sibling, error)
	Fork(ctx context.Context, user string, conv id.ID, f conversation.Fork) (record.Branch, error)
	Switch(ctx context.Context, user string, conv id.ID, branch string) error
	TitleBranch(ctx context.Context, user string, conv id.ID, branch, title string) error
	DeleteBranch(ctx context.Context, user string, conv id.ID, branch string) error
	CopyBranch(ctx context.Context, user string, conv id.ID, branch string) (id.ID, error)
	Rewind(ctx context.Context, user string, conv, msg id.ID, withdraw bool) (record.Branch, int, error)
	Remove(ctx context.Context, user string, conv id.ID, msgs ...id.ID) (record.Branch, error)
	Insert(ctx context.Context, user string, conv, after id.ID, m *message.Message) (record.Branch, error)
	Interaction(ctx context.Context, user string, conv, inter id.ID) (conversation.Interaction, error)
	Merge(ctx context.Context, user string, conv, into, from id.ID) error
	Mark(ctx context.Context, user string, conv id.ID, v conversation.Verdict, msgs ...id.ID) (int, error)
	Pin(ctx context.Context, user string, conv id.ID, pinned bool, msgs ...id.ID) error
	Trust(ctx context.Context, user string, conv id.ID, labels message.Labels, msgs ...id.ID) error
	Audit(ctx context.Context, user string, conv, interaction id.ID, tool string) ([]conversation.Optimization, error)
	Rollback(ctx context.Context, user string, conv, interaction id.ID, tool string) (int, error)
	Tidy(ctx context.Context, user string, conv id.ID, how runtime.Tidying, tools []string) (int, error)
}

// Work is the part of Node for what was asked, wanted, done and decided.
type Work interface {
	WorkLog(ctx context.Context, user string, f worklog.Filter, after store.Cursor, limit int) ([]worklog.Entry, store.Cursor, error)
	WorkLogEntry(ctx context.Context, user, ref string) (worklog.Entry, []*message.Message, error)
	Requests(ctx context.Context, user string, all bool, limit int) ([]runtime.RequestView, error)
	EverybodysRequests(ctx context.Context, all bool, limit int) ([]runtime.RequestView, error)
	RequestTree(ctx context.Context, user, which string) (runtime.RequestView, error)
	CancelRequest(ctx context.Context, user, which string) error
	ResumeRequest(ctx context.Context, user, which string) error
	Intents(ctx context.Context, user string, f runtime.IntentFilter, after store.Cursor, limit int) ([]runtime.IntentView, store.Cursor, error)
	Intent(ctx context.Context, user, which string) (runtime.IntentView, error)
	AnswerIntent(ctx context.Context, user, which, hash, reason string, approve bool) (runtime.IntentView, error)
	CancelIntent(ctx context.Context, user, which string) (runtime.IntentView, error)
	RetryIntent(ctx context.Context, user, which string) (runtime.IntentView, error)
	UndoIntent(ctx context.Context, user, which string) (runtime.IntentView, error)
	ResolveIntent(ctx context.Context, user, which string, w effect.Resolution) (runtime.IntentView, error)
	Approvals(ctx context.Context, user string) ([]effect.Question, error)
	Approval(ctx context.Context, user, which string, p intent.Pattern) (effect.Question, error)
	Decide(ctx context.Context, user string, v runtime.Verdict) error
	Grants(ctx context.Context, user string, all bool) ([]runtime.GrantView, error)
	Grant(ctx context.Context, user string, grant id.ID) (runtime.GrantView, error)
	ShowGrantEdit(ctx context.Context, user string, grant id.ID, ed effect.GrantEdit) (runtime.GrantEdited, error)
	EditGrant(ctx context.Context, user string, grant id.ID, ed effect.GrantEdit) (runtime.GrantView, error)
	RevokeGrant(ctx context.Context, user string, grant id.ID) error
}
