// Package terminal is the chat in a person's terminal. It draws inline: what
// is finished is printed into the terminal's own scrollback, and only the
// live part and the input below it are redrawn. Where there is no terminal,
// Plain reads lines and writes answers.
package terminal

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	tea "charm.land/bubbletea/v2"

	"steward/internal/conversation"
	"steward/internal/effect"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/record"
	"steward/internal/runtime"
	"steward/internal/store"
)

// Node runs turns for the person at the terminal; see runtime.Node for the
// methods. A node in this process and one that is reached over a connection
// serve alike. Safe for concurrent use.
type Node interface {
	Send(ctx context.Context, t runtime.Turn) (runtime.Accepted, error)
	Watch(ctx context.Context, conv id.ID, from runtime.Cursor) iter.Seq2[runtime.Frame, error]
	Position(ctx context.Context, conv id.ID) (runtime.Cursor, error)
	Stop(ctx context.Context, conv id.ID) error
	Decide(ctx context.Context, conv id.ID, v runtime.Verdict) error
	Question(ctx context.Context, which string, p intent.Pattern) (effect.Question, error) // as it is shown with a pattern
}

// Shelf holds the person's conversations. Safe for concurrent use.
type Shelf interface {
	Conversations(ctx context.Context, after store.Cursor, limit int) ([]record.Conversation, store.Cursor, error)
	Conversation(ctx context.Context, conv id.ID) (record.Conversation, error)
	Newest(ctx context.Context, conv id.ID, after store.Cursor, limit int) ([]conversation.Entry, store.Cursor, error) // messages, the newest first
	Rename(ctx context.Context, conv id.ID, title string) (record.Conversation, error)
	Export(ctx context.Context, conv id.ID, format string, w io.Writer) error
}

// ToolLine is a tool as /tools lists it.
type ToolLine struct{ Name, Description string }

// AgentLine is an agent as /agents lists it.
type AgentLine struct{ Path, Description string }

// line is one as it is shown: status is empty where nobody has to allow it.
type agentLine struct {
	AgentLine
	status string
	waits  bool // for an approval
}

// Options are what a chat needs. Node and Shelf are required.
type Options struct {
	Node  Node
	Shelf Shelf
	// Agents answers /agents; nil: they are not listed.
	Agents func(ctx context.Context) ([]AgentLine, error)
	// Approvals asks the person about agents and sources that wait, and
	// answers /approve; nil: nobody is asked.
	Approvals Approvals
	// Tools and Models answer /tools and /model; nil: they are not offered.
	Tools  func(ctx context.Context) ([]ToolLine, error)
	Models func(ctx context.Context) ([]string, error)
	// Cost is what a call with so many tokens costs in US dollars; 0, or nil:
	// it is not known.
	Cost func(model string, tokens int64) float64
	// Paths and Views serve /branches, /pin and the like; nil: they are not offered.
	Paths Paths
	Views Views
	// Log tells what the tools of a conversation did, within a width in
	// columns; nil: /log is not offered.
	Log func(ctx context.Context, conv id.ID, width int) (string, error)

	Conversation id.ID  // zero: a new one
	Model        string // empty: the conversation's, else the default
	Agent        string // path of the agent to talk to; empty: the conversation's, else the assistant
	History      string // file of what was typed before; empty: not kept
	Greeting     string // printed first, a line or a few
	// Leaving is printed at the end when a turn is still running.
	Leaving string

	In      io.Reader // nil: the terminal
	Out     io.Writer // nil: standard output
	Environ []string  // nil: the process's own
}

// Run shows the chat until the person leaves or ctx is done.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m, err := newChat(ctx, o)
	if err != nil {
		return err
	}
	opts := []tea.ProgramOption{tea.WithContext(ctx), tea.WithoutSignalHandler()}
	if o.In != nil {
		opts = append(opts, tea.WithInput(o.In))
	}
	if o.Out != nil {
		opts = append(opts, tea.WithOutput(o.Out))
	}
	if o.Environ != nil {
		opts = append(opts, tea.WithEnvironment(o.Environ))
	}
	_, err = tea.NewProgram(m, opts...).Run()
	cancel()
	m.watchers.Wait()
	if errors.Is(err, tea.ErrProgramKilled) && ctx.Err() != nil {
		return nil // asked to end from outside
	}
	return err
}

// since formats how long something took.
func since(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
