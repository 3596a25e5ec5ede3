package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"steward/internal/catalog"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/runtime"
	"steward/internal/server/terminal"
	"steward/internal/settings"
)

func (a *app) chatCommand() *cobra.Command {
	var which string
	var last bool
	c := &cobra.Command{
		Use: "chat", Short: "Chat in the terminal", GroupID: "talk", Args: cobra.NoArgs,
		Long: "Chat in the terminal. Steward serves on loopback meanwhile, so that other commands and programs\n" +
			"can join; where one serves the data folder already, the chat joins it. /help tells what can be\n" +
			"done. Without a terminal each line of standard input is a message in your own words: pipe in nothing\n" +
			"that others wrote (steward ask takes that).",
		Example: "  steward chat\n  steward chat --continue\n  steward chat --model openai/gpt-5\n" +
			"  steward chat --agent personal_assistant/email",
		RunE: func(c *cobra.Command, _ []string) error {
			return a.chat(c.Context(), which, last)
		},
	}
	a.whichFlags(c, &which, &last)
	a.agentFlag(c)
	return c
}

// agentFlag is the flag by which the agent to talk to is chosen.
func (a *app) agentFlag(c *cobra.Command) {
	c.Flags().StringVar(&a.agent, "agent", "", "`PATH` of the agent to talk to: NAME, or NAME/NAME for one below another")
}

// whichFlags are the flags by which a conversation is chosen.
func (a *app) whichFlags(c *cobra.Command, which *string, last *bool) {
	c.Flags().StringVar(which, "conversation", "", "`ID` of the conversation to go on with")
	c.Flags().BoolVar(last, "continue", false, "go on with the conversation that was used last")
	c.MarkFlagsMutuallyExclusive("conversation", "continue")
	complete(c, "conversation", a.completeConversations)
}

func (a *app) chat(ctx context.Context, which string, last bool) error {
	set, err := a.settings()
	if err != nil {
		return err
	}
	interactive := isTerminal(a.stdin) && isTerminal(a.stdout) && a.getenv("TERM") != "dumb"
	log := a.logger(set, a.stderr)
	if interactive {
		file, err := a.logFile(set)
		if err != nil {
			return err
		}
		defer file.Close()
		log = a.logger(set, file)
	}
	b, err := a.open(ctx, set, log)
	if err != nil {
		return err
	}
	s, greeting := a.alongside(ctx, set, b, log)
	err = a.talk(ctx, set, b, which, last, interactive, greeting)
	if s != nil {
		err = errors.Join(err, s.Close())
	}
	return errors.Join(err, b.Close())
}

// logFile takes the log while the screen belongs to the chat.
func (a *app) logFile(set *settings.Loaded) (*os.File, error) {
	if err := os.MkdirAll(set.Data, 0o700); err != nil {
		return nil, fault.New(fault.Invalid, "data_unwritable", "the data folder cannot be made: %w", err).WithHint("name another with --data")
	}
	return os.OpenFile(filepath.Join(set.Data, "chat.log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
}

// alongside serves beside a chat of this process: at the address of the
// settings, or at a free port of the loopback where that cannot be had.
func (a *app) alongside(ctx context.Context, set *settings.Loaded, b backend, log *slog.Logger) (*server, string) {
	l, ok := b.(*local)
	if !ok {
		return nil, "joined the Steward at " + b.(*remote).server.URL
	}
	s, err := a.listen(ctx, set, l, set.Listen, log)
	if err != nil {
		log.Info("the chat serves at a free port", "because", err)
		if s, err = a.listen(ctx, set, l, net.JoinHostPort("127.0.0.1", "0"), log); err != nil {
			log.Warn("the chat does not serve", "because", err)
			return nil, a.greeting(l, "")
		}
	}
	return s, a.greeting(l, s.url)
}

func (a *app) greeting(l *local, url string) string {
	lines := []string{"Steward " + a.versionText() + " · " + strings.Join(l.found.aliases["default"].Models, ", then ")}
	if l.found.offlineOnly() {
		lines = append(lines, "No language model was found: the offline provider answers, by rules. Set OPENAI_API_KEY, "+
			"ANTHROPIC_API_KEY or GEMINI_API_KEY, or start Ollama, for a real one.")
	}
	if url != "" {
		lines = append(lines, "serving at "+url)
	}
	return strings.Join(lines, "\n")
}

func (a *app) talk(ctx context.Context, set *settings.Loaded, b backend, which string, last, interactive bool, greeting string) error {
	conv, err := a.which(ctx, b, which, last)
	if err != nil {
		return err
	}
	p := pathsOf(b)
	o := terminal.Options{Node: b, Shelf: b, Paths: p, Views: p, Models: b.api().modelNames, Agents: b.api().agentLines, Log: p.chatLog, Cost: a.costOf(b),
		Conversation: conv, Model: a.model, Agent: a.agent}
	if l, ok := b.(*local); ok {
		o.Tools = l.toolLines
		o.Leaving = "the answer goes on when Steward is started again"
	}
	if !interactive {
		a.note("steward: this is no terminal: each line is a message, and nothing that needs approval is done")
		var notes io.Writer = a.stderr
		if a.quiet {
			notes = io.Discard
		}
		return terminal.Plain(ctx, o, a.stdin, a.stdout, notes)
	}
	o.Approvals = approvalsOf(b)
	o.Greeting, o.History = greeting, historyFile(set)
	o.In, o.Out, o.Environ = fileOf(a.stdin), fileOf(a.stdout), a.environ
	return terminal.Run(ctx, o)
}

// historyFile holds what was typed into the chat.
func historyFile(set *settings.Loaded) string { return filepath.Join(set.Data, "history") }

// which finds the conversation that is meant; zero: a new one.
func (a *app) which(ctx context.Context, b backend, text string, last bool) (id.ID, error) {
	if last || text == "last" {
		page, _, err := b.Conversations(ctx, "", 1)
		if err == nil && len(page) == 0 {
			err = noConversation()
		}
		if err != nil {
			return id.ID{}, err
		}
		return page[0].ID, nil
	}
	if text == "" {
		return id.ID{}, nil
	}
	conv, err := conversationID(text)
	if err == nil {
		_, err = b.Conversation(ctx, conv)
	}
	return conv, err
}

func (l *local) toolLines(context.Context) ([]terminal.ToolLine, error) {
	var out []terminal.ToolLine
	for _, t := range l.node.Tools("") {
		first, _, _ := strings.Cut(t.Description, "\n")
		out = append(out, terminal.ToolLine{Name: t.Name, Description: fmt.Sprintf("[%s] %s", t.Effect, first)})
	}
	return out, nil
}

// agentLines are the agents that may be talked to.
func (s *session) agentLines(ctx context.Context) ([]terminal.AgentLine, error) {
	list, err := s.agents(ctx)
	if err != nil {
		return nil, err
	}
	out := []terminal.AgentLine{{Path: runtime.DefaultAgent, Description: "answers when no other agent is named"}}
	for _, l := range list {
		if l.Usable && l.Kind == catalog.KindAgent {
			out = append(out, terminal.AgentLine{Path: l.Path, Description: l.Description})
		}
	}
	return out, nil
}

// modelNames are the names by which models can be asked for, the aliases first.
func (s *session) modelNames(ctx context.Context) ([]string, error) {
	var out struct {
		Aliases []string
		Models  []struct {
			Name     string
			Embedder bool
		}
	}
	if err := s.Call(ctx, "GET /models", nil, nil, &out); err != nil {
		return nil, err
	}
	names := out.Aliases
	for _, m := range out.Models {
		if !m.Embedder {
			names = append(names, m.Name)
		}
	}
	return names, nil
}
