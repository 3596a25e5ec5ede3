package talk

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/app"
	"steward/internal/cli/activity"
	"steward/internal/cli/command"
	"steward/internal/cli/node"
	"steward/internal/llm"
	"steward/internal/settings"
	"steward/internal/terminal"
)

func (a *program) chatCommand() *cobra.Command {
	var which string
	var last bool
	c := &cobra.Command{
		Use: "chat", Short: "Chat in the terminal", GroupID: "talk", Args: cobra.NoArgs,
		Long: "Chat in the terminal. Meanwhile Steward serves on loopback, so that other commands and\n" +
			"programs can join; if a Steward already serves the data folder, the chat joins that one. /help\n" +
			"lists the commands. Without a terminal, each line of standard input is a message in your own\n" +
			"words: do not pipe in what others wrote (use steward ask for that).",
		Example: "  steward chat\n  steward chat --continue\n  steward chat --model openai/gpt-5\n" +
			"  steward chat --agent personal_assistant/email",
		RunE: func(c *cobra.Command, _ []string) error {
			return a.chat(c.Context(), which, last)
		},
	}
	a.conversationFlags(c, &which, &last)
	a.agentFlag(c)
	return c
}

// agentFlag adds the flag that chooses the agent to talk to.
func (a *program) agentFlag(c *cobra.Command) {
	c.Flags().StringVar(&a.agent, "agent", "", "`PATH` of the agent to talk to: NAME, or NAME/NAME for an agent inside another")
}

// conversationFlags adds the flags that choose a conversation.
func (a *program) conversationFlags(c *cobra.Command, which *string, last *bool) {
	c.Flags().StringVar(which, "conversation", "", "`ID` of the conversation to continue")
	c.Flags().BoolVar(last, "continue", false, "continue the conversation that was used last")
	c.MarkFlagsMutuallyExclusive("conversation", "continue")
	command.CompleteFlag(c, "conversation", a.CompleteConversations)
}

func (a *program) chat(ctx context.Context, which string, last bool) error {
	set, err := a.Settings()
	if err != nil {
		return err
	}
	interactive := app.IsTerminal(a.Stdin) && app.IsTerminal(a.Stdout) && a.Getenv("TERM") != "dumb"
	if interactive && which == "" && !last && a.agent == "" && node.FirstRun(set) {
		if err := node.Setup(ctx, a.Program, false, true); err != nil {
			return err
		}
		if set, err = a.Settings(); err != nil {
			return err
		}
	}
	log := a.Logger(set, a.Stderr)
	if interactive {
		file, err := a.logFile(set)
		if err != nil {
			return err
		}
		defer file.Close()
		log = a.Logger(set, file)
	}
	s, err := a.Connect(ctx, set, command.NeedNode, log)
	if err != nil {
		return err
	}
	served, greeting := a.serveBesideChat(ctx, set, s, log)
	err = a.runChat(ctx, set, s, which, last, interactive, greeting)
	if served != nil {
		err = errors.Join(err, served.Close())
	}
	return errors.Join(err, s.End())
}

// logFile receives the log while the chat uses the screen.
func (a *program) logFile(set *settings.Loaded) (*os.File, error) {
	if err := a.MakeData(set); err != nil {
		return nil, err
	}
	return os.OpenFile(filepath.Join(set.Data, "chat.log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
}

// serveBesideChat serves beside a chat of this process: at the address of the settings, or at a
// free loopback port if that address is not available.
func (a *program) serveBesideChat(ctx context.Context, set *settings.Loaded, own *command.Session, log *slog.Logger) (*app.Server, string) {
	l := own.Local
	if l == nil {
		return nil, "joined the Steward at " + own.Server.URL
	}
	s, err := a.Listen(ctx, set, l, set.Listen, log)
	if err != nil {
		log.Info("the chat serves at a free port", "because", err)
		if s, err = a.Listen(ctx, set, l, net.JoinHostPort("127.0.0.1", "0"), log); err != nil {
			log.Warn("the chat does not serve", "because", err)
			return nil, a.greeting(ctx, l, "")
		}
	}
	return s, a.greeting(ctx, l, s.URL)
}

func (a *program) greeting(ctx context.Context, l *app.Local, url string) string {
	name := "Steward"
	if v := a.VersionText(); v != "unknown" {
		name += " " + v
	}
	lines := []string{name + " · " + strings.Join(l.Found.Aliases["default"].Models, ", then ")}
	if l.Found.OfflineOnly() {
		lines = append(lines, "No language model was found: the offline provider answers, by rules. "+
			"steward setup helps to get a real one.")
	}
	if url != "" {
		lines = append(lines, "serving at "+url)
		if link, err := l.SignInLink(ctx, url); err == nil && app.IsTerminal(a.Stdout) {
			lines = append(lines, "in a browser: "+link)
		}
	}
	return strings.Join(lines, "\n")
}

func (a *program) runChat(ctx context.Context, set *settings.Loaded, s *command.Session, which string, last, interactive bool, greeting string) error {
	if last {
		which = "last"
	}
	conv, err := s.ResolveConversation(ctx, which)
	if err != nil {
		return err
	}
	o := terminal.Options{Client: s.Client, Log: chatLog(s), Cost: a.costOf(s), Window: a.windowOf(s, set), Conversation: conv, Model: a.Model, Agent: a.agent}
	for _, v := range app.Vendors() {
		if v.Access != llm.BuiltIn {
			o.Providers = append(o.Providers, v.Name)
		}
	}
	if s.Local != nil {
		o.Tools = s.Local.ToolLines
		o.Leaving = "the answer continues when Steward starts again"
	}
	if !interactive {
		a.Note("steward: not a terminal: each line is a message, and actions that need approval are not done")
		notes := a.Stderr
		if a.Quiet {
			notes = io.Discard
		}
		return terminal.Plain(ctx, o, a.Stdin, a.Stdout, notes)
	}
	o.Private = a.Unseen(set)
	o.Folder = func(path string, write bool) (string, error) { return a.GrantFolder(path, write, s.Local) }
	o.Greeting, o.History = greeting, app.HistoryFile(set)
	o.In, o.Out, o.Environ = app.FileOf(a.Stdin), app.FileOf(a.Stdout), a.Environ
	return terminal.Run(ctx, o)
}

// maxChatLog is how many calls /log shows in a chat.
const maxChatLog = 20

// chatLog returns a function that shows the last tool calls of a conversation.
func chatLog(s *command.Session) func(ctx context.Context, conv string, width int) (string, error) {
	return func(ctx context.Context, conv string, width int) (string, error) {
		list, err := s.Log(ctx, client.LogQuery{Conversation: conv}, maxChatLog)
		if err != nil || len(list) == 0 {
			return "", err
		}
		slices.Reverse(list)
		return activity.LogTable(list, width, false, time.Now()), nil
	}
}
