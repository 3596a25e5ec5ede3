package agents

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/app"
	"steward/internal/catalog"
	"steward/internal/cli/command"
	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/settings"
	"steward/internal/terminal"
)

func (a *program) testAgents() *cobra.Command {
	var act bool
	c := &cobra.Command{
		Use: "test [PATH…]", Short: "Run the examples of agents as tests", ValidArgsFunction: a.completeAgents(),
		Long: "Run the examples of agents as tests. Each example is sent to the agent in a new conversation, in a\n" +
			"temporary data folder with an empty workspace, without your accounts, folders and notifications. It\n" +
			"passes if the tools that it names were called in this order and the answer contains what it expects; it\n" +
			"is skipped if it names a tool that needs what is left out. Without a PATH, all agents that may be used\n" +
			"are tested. Actions that change something outside are denied unless --act is given.",
		Example: "  steward agents test personal_assistant/email\n  steward agents test --act --model offline/default",
		RunE:    func(c *cobra.Command, args []string) error { return a.tryAgents(c.Context(), args, act) },
	}
	c.Flags().BoolVar(&act, "act", false, "allow actions that change something, without asking")
	return c
}

// trial is one example and its result.
type trial struct {
	Agent      string   `json:"agent"`
	Say        string   `json:"say"`
	Passed     bool     `json:"passed"`
	Skipped    bool     `json:"skipped,omitempty"`
	Why        string   `json:"why,omitempty"`
	Tools      []string `json:"tools"`
	Answer     string   `json:"answer"`
	DurationMS int64    `json:"duration_ms"`
}

func (a *program) tryAgents(ctx context.Context, paths []string, act bool) (err error) {
	set, err := a.Settings()
	if err != nil {
		return err
	}
	var list []catalog.Listing
	if err := a.With(ctx, command.NeedAgents, func(s *command.Session) error {
		list, err = allAgents(ctx, s)
		return err
	}); err != nil {
		return err
	}
	tested, err := testable(list, paths)
	if err != nil {
		return err
	}
	l, done, err := a.trialNode(ctx, set, list, tested)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	trials := []trial{}
	for _, t := range tested {
		for _, e := range t.Examples {
			out := try(ctx, l, t.Path, a.Model, e, act)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			trials = append(trials, out)
			if !a.JSON {
				if err := a.Print(out.line(a.Width())); err != nil {
					return err
				}
			}
		}
	}
	return a.reportTrials(trials, tested)
}

// testable returns the agents to test.
func testable(list []catalog.Listing, paths []string) ([]catalog.Listing, error) {
	var out []catalog.Listing
	for _, l := range list {
		if l.Kind == catalog.KindAgent && (slices.Contains(paths, l.Path) || len(paths) == 0 && l.Usable) {
			out = append(out, l)
		}
	}
	for _, path := range paths {
		i := slices.IndexFunc(out, func(l catalog.Listing) bool { return l.Path == path })
		switch {
		case i < 0:
			return nil, fault.New(fault.NotFound, "agent_not_found", "there is no agent %.200s", path).WithHint("steward agents list shows all")
		case !out[i].Usable:
			return nil, fault.New(fault.Denied, "agent_not_approved", "%s may not be used: it is %s", path, terminal.StatusWords(out[i])).
				WithHint("steward agents approve %s --all", strings.SplitN(path, "/", 2)[0])
		}
	}
	if len(out) == 0 {
		return nil, fault.New(fault.NotFound, "agent_not_found", "no agent is usable").
			WithHint("steward agents new NAME creates one; steward agents approve approves it")
	}
	return out, nil
}

// trialNode opens a node over a temporary data folder, and copies the approvals that the
// tests need to it.
func (a *program) trialNode(ctx context.Context, set *settings.Loaded, list, tested []catalog.Listing) (*app.Local, func() error, error) {
	dir, err := os.MkdirTemp("", "steward-test-")
	if err != nil {
		return nil, nil, fmt.Errorf("making a folder for the tests: %w", err)
	}
	t := *a.Program
	t.Set, t.Data, t.Quiet = nil, filepath.Join(dir, "data"), true
	t.AlsoPrivate = set.Private()
	t.AgentFolders = append([]string{app.AgentsFolder(set.Data)}, a.AgentFolders...)
	t.MCPFiles = append([]string{filepath.Join(set.Data, "mcp.json")}, a.MCPFiles...)
	inner, err := t.Settings()
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	inner.Mail, inner.Calendars, inner.Contacts, inner.Notify, inner.Home = nil, nil, nil, settings.Notify{}, settings.Home{}
	inner.Store, inner.StoreOwner, inner.Cluster = "", "", settings.Cluster{}
	inner.Folders, inner.Workspace = nil, filepath.Join(dir, "workspace")
	l, err := t.OpenLocal(ctx, inner, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	done := func() error { return errors.Join(l.Close(), os.RemoveAll(dir)) }
	for _, x := range list {
		if !x.Usable || !needed(x.Path, tested) {
			continue
		}
		if _, err := l.Catalog.Approve(ctx, a.User(), x.Path, x.Hash, x.Settings); err != nil {
			return nil, nil, errors.Join(err, done())
		}
	}
	return l, done, nil
}

// needed reports whether an agent is a tested one, or above or below one.
func needed(path string, tested []catalog.Listing) bool {
	return slices.ContainsFunc(tested, func(t catalog.Listing) bool {
		return path == t.Path || strings.HasPrefix(path, t.Path+"/") || strings.HasPrefix(t.Path, path+"/")
	})
}

// try runs one example.
func try(ctx context.Context, l *app.Local, path, model string, e catalog.Example, act bool) trial {
	out := trial{Agent: path, Say: e.Say, Tools: []string{}}
	for _, name := range e.Tools {
		if group, _, _ := strings.Cut(name, "."); slices.Contains(l.Off, group) {
			out.Skipped, out.Why = true, group+" is not available in a test"
			return out
		}
	}
	began := time.Now()
	var denied []string
	answered := false
	m := client.Message{Agent: path, Model: model, Unattended: !act, Content: terminal.Words(e.Say)}
	_, err := terminal.Follow(ctx, l.Own.Client, m, func(f client.Frame) error {
		switch {
		case f.Type == client.FrameComplete && !answered:
			answered, out.Answer = true, f.Content.Text()
		case f.Type == client.FrameResult:
			out.Tools = append(out.Tools, f.Name)
			if f.Status == string(message.DeniedCall) {
				denied = append(denied, f.Name)
			}
		}
		if !act || f.Type != client.FrameCall || f.Approval == nil || f.Status != client.CallAwaiting {
			return nil
		}
		return l.Own.AnswerApproval(ctx, f.Approval.ID, client.Answer{Hash: f.Approval.Hash, Approve: true})
	})
	out.DurationMS = time.Since(began).Milliseconds()
	if err != nil {
		out.Why = app.WithoutRemedy(fault.Of(err))
	} else {
		out.Why = failureOf(e, out)
	}
	if out.Passed = out.Why == ""; !out.Passed && len(denied) > 0 {
		out.Why += "; denied without --act: " + strings.Join(denied, ", ")
	}
	return out
}

// failureOf returns how an answer fails an example, or "" if it passes.
func failureOf(e catalog.Example, t trial) string {
	next := 0
	for _, name := range t.Tools {
		if next < len(e.Tools) && name == e.Tools[next] {
			next++
		}
	}
	if next < len(e.Tools) {
		if len(t.Tools) == 0 {
			return e.Tools[next] + " was not called, nor was any other tool"
		}
		return fmt.Sprintf("%s was not called, only %s", e.Tools[next], strings.Join(t.Tools, ", "))
	}
	if !strings.Contains(strings.ToLower(t.Answer), strings.ToLower(e.Expect)) {
		return fmt.Sprintf("the answer does not contain %q: %s", e.Expect, command.Cell(command.PlainLine(command.FirstLine(t.Answer)), 120))
	}
	return ""
}

// line formats a trial for people.
func (t trial) line(width int) string {
	mark := "FAIL "
	switch {
	case t.Passed:
		mark = "ok   "
	case t.Skipped:
		mark = "skip "
	}
	head := mark + t.Agent + "  "
	say := command.PlainLine(t.Say)
	if width > 0 {
		say = command.Cell(say, max(command.MinWhat, width-lipgloss.Width(head)))
	}
	if t.Passed {
		return head + say + "\n"
	}
	return head + say + "\n       " + command.PlainLine(t.Why) + "\n"
}

// reportTrials prints a summary of the trials.
func (a *program) reportTrials(trials []trial, tested []catalog.Listing) error {
	failed, skipped := 0, 0
	for _, t := range trials {
		switch {
		case t.Skipped:
			skipped++
		case !t.Passed:
			failed++
		}
	}
	if a.JSON {
		if err := a.PrintJSON(trials); err != nil {
			return err
		}
	}
	for _, t := range tested {
		if len(t.Examples) == 0 {
			a.Note("%s declares no examples", t.Path)
		}
	}
	if failed > 0 {
		a.Note("%d of %s failed", failed, app.Counted(len(trials), "example", "examples"))
		return command.ExitCode(command.ExitFailed)
	}
	if passed := len(trials) - skipped; passed > 0 {
		a.Note("%s passed", app.Counted(passed, "example", "examples"))
	}
	return nil
}
