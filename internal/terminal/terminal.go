// Package terminal is the chat in a person's terminal. It draws inline: finished
// text is printed into the terminal's own scrollback, and only the live part and
// the input below it are redrawn. Without a terminal, Plain reads lines and writes
// answers.
package terminal

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"

	"steward/client"
)

// Options configure a chat. Client is required.
type Options struct {
	Client *client.Client // calls Steward as the person at the terminal
	// Tools returns the list that /tools prints. If it is nil, the tools cannot be listed.
	Tools func() string
	// Cost returns what tokens cost in US dollars; 0, or nil: unknown.
	Cost func(model string, u client.Usage) float64
	// Window returns the size of a model's context window in tokens; 0, or nil: unknown.
	Window func(model string) int
	// Folder lets the files tools use one more folder, and says what is so now. nil: not from here.
	Folder func(path string, write bool) (string, error)
	// Private reports whether a path leads to Steward's own data or settings, which are not attached. nil:
	// nothing is.
	Private func(path string) bool
	// Log returns what the tools of a conversation did, within a width in columns. The chat needs it;
	// Plain does not.
	Log func(ctx context.Context, conv string, width int) (string, error)

	// Providers are those of which a model may be chosen even if they cannot be asked for their models now.
	Providers []string

	Conversation string // empty: a new one
	Model        string // empty: the conversation's, else the default
	Agent        string // path of the agent to talk to; empty: the conversation's, else the assistant
	History      string // file of earlier input; empty: none is kept
	Greeting     string // printed first, a line or a few
	// Leaving is printed at the end if a turn is still running.
	Leaving string

	In            io.Reader // nil: the terminal
	Out           io.Writer // nil: standard output
	Width, Height int       // of Out if it is not a terminal, which knows its own size
	Environ       []string  // nil: the process's own
}

// Run shows the chat until the person leaves or ctx is done.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m, err := newChat(ctx, o)
	if err != nil {
		return err
	}
	// The renderer wakes up for each frame, also when nothing happens.
	opts := []tea.ProgramOption{tea.WithContext(ctx), tea.WithoutSignalHandler(), tea.WithFPS(30), tea.WithWindowSize(o.Width, o.Height), tea.WithFilter(rawPaste)}
	in := o.In
	if in == nil {
		in = os.Stdin
	}
	opts = append(opts, tea.WithInput(keepPastes(in)))
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
		return nil // ended from outside
	}
	return err
}

// elapsed formats how long something took.
func elapsed(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
