package agents

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"steward/internal/app"
	"steward/internal/catalog"
	"steward/internal/cli/command"
	"steward/internal/fault"
	"steward/internal/terminal"
	"steward/internal/tool"
)

func (a *program) agentsCommand() *cobra.Command {
	return command.Group(&cobra.Command{
		Use: "agents", Aliases: []string{"agent"}, Short: "List, inspect and approve agents and tool sources", GroupID: "keep",
		Long: "An agent is a folder with an agent.yaml. It is in the folder agents of the data folder, or in a\n" +
			"folder named by the setting agents; agents inside it lie in its own folder agents. The MCP servers\n" +
			"and gRPC endpoints of the settings are listed as mcp:NAME and grpc:NAME. None of them is used, or\n" +
			"even started, until you have approved it as it is. If a byte of it changes, you are asked again.",
	}, a.listAgents(), a.showAgent(), a.approveAgents(),
		a.refuseAgent("deny", "Deny an agent or a tool source", "You are not asked about it again until it changes."),
		a.refuseAgent("revoke", "Revoke an approval at once", "Running turns continue, but cannot call its tools any more."),
		a.newAgent(), a.keepAgent(), a.testAgents())
}

func allAgents(ctx context.Context, s *command.Session) ([]catalog.Listing, error) {
	var out struct{ Agents []catalog.Listing }
	err := s.Call(ctx, "GET /agents", nil, nil, &out)
	return out.Agents, err
}

func inspect(ctx context.Context, s *command.Session, path string) (out catalog.Inspection, err error) {
	err = s.Call(ctx, "POST /agents/inspect", nil, map[string]string{"path": path}, &out)
	return out, err
}

func (a *program) listAgents() *cobra.Command {
	return a.APICommand(command.NeedAgents, &cobra.Command{Use: "list", Short: "List agents and tool sources, and whether each is approved"},
		func(ctx context.Context, s *command.Session, _ []string) error {
			list, err := allAgents(ctx, s)
			err = command.PrintList(a.Program, list, err, "there are no agents; steward agents new NAME creates one",
				func(list []catalog.Listing) string { return agentTable(list, a.Width()) })
			if n := app.Waiting(list); err == nil && n > 0 && !a.JSON {
				a.Note("%s for your approval: steward agents approve PATH, or --all", app.Counted(n, "waits", "wait"))
			}
			return err
		})
}

// agentTable formats agents in columns, each below its parent.
func agentTable(list []catalog.Listing, width int) string {
	rows := [][]string{{"AGENT", "STATUS", "TOOLS", "WHAT IT DOES"}}
	for _, l := range list {
		tools, text := "", command.PlainLine(command.FirstLine(l.Description))
		if l.Status == catalog.Approved {
			tools = fmt.Sprint(len(l.Tools))
		}
		if text == "" && l.Kind == catalog.KindSource {
			text = "from " + command.PlainLine(l.Dir)
		}
		name := strings.Repeat("  ", strings.Count(l.Path, "/")) + l.Path[strings.LastIndexByte(l.Path, '/')+1:]
		rows = append(rows, []string{name, terminal.StatusWords(l), tools, command.Cell(text, command.MaxGist)})
	}
	var out strings.Builder
	for i, line := range command.Grid(rows, width) {
		out.WriteString(line + "\n")
		if i > 0 {
			for _, p := range list[i-1].Problems {
				out.WriteString("    " + command.PlainLine(p.String()) + "\n")
			}
		}
	}
	return out.String()
}

func (a *program) showAgent() *cobra.Command {
	return a.APICommand(command.NeedAgents, &cobra.Command{Use: "show PATH", Short: "Show everything that an approval covers", ValidArgsFunction: a.completeAgents(),
		Long: "Show everything that an approval covers: the definition, the prompt, the programs, and the announced\n" +
			"tools. The agent's servers are started to list their tools. Invisible characters are written out, for\n" +
			"example ‹U+202E›."},
		func(ctx context.Context, s *command.Session, args []string) error {
			insp, err := inspect(ctx, s, args[0])
			return command.PrintValue(a.Program, insp, err, func(insp catalog.Inspection) string { return terminal.Inspected(insp, true) })
		})
}

// refuseAgent makes a command that denies agents and sources or revokes their approvals.
func (a *program) refuseAgent(verb, short, long string) *cobra.Command {
	var reason string
	c := a.APICommand(command.NeedAgents, &cobra.Command{Use: verb + " PATH…", Short: short, Long: short + ". " + long, ValidArgsFunction: a.completeAgents()},
		func(ctx context.Context, s *command.Session, args []string) error {
			var done []catalog.Listing
			for _, path := range args {
				var l catalog.Listing
				if err := s.Call(ctx, "POST /agents/"+verb, nil, map[string]string{"path": path, "reason": reason}, &l); err != nil {
					return err
				}
				done = append(done, l)
				if !a.JSON {
					a.Note("%s is %s", l.Path, l.Status)
				}
			}
			if a.JSON {
				return a.PrintJSON(done)
			}
			return nil
		})
	c.Flags().StringVar(&reason, "reason", "", "the reason, in your own `WORDS`")
	return c
}

// completeAgents offers the paths of agents and sources.
func (a *program) completeAgents() command.Completer {
	return command.Offers(a.Program, command.NeedAgents, func(ctx context.Context, s *command.Session) ([]catalog.Listing, error) { return allAgents(ctx, s) },
		func(l *catalog.Listing) (string, string) { return l.Path, terminal.StatusWords(*l) })
}

// approvalFlags holds the flags of an approval.
type approvalFlags struct {
	all, yes bool
	hash     string
	tools    []string
}

func (a *program) approveAgents() *cobra.Command {
	var o approvalFlags
	c := &cobra.Command{
		Use: "approve [PATH…]", Short: "Review agents and tool sources, and approve them as they are", ValidArgsFunction: a.completeAgents(),
		Long: "Show everything that would be approved, or how it differs from what was approved before, and ask about\n" +
			"each. --all includes the agents below; without a PATH it means everything that waits for approval.\n" +
			"--tool overrides how the source proposes to use its tools: query, action, ask (before each call),\n" +
			"noask or off, or several of them, separated by commas. NAME may be a glob; if several match a tool,\n" +
			"the most specific one applies. yields:private+untrusted, reach:here and targets:to+cc override what\n" +
			"is proposed for the tools' data.",
		Example: "  steward agents approve personal_assistant --all\n" +
			"  steward agents approve mcp:docs --tool docs.write_file=ask --tool docs.move_file=off\n" +
			"  steward agents approve mcp:sim --yes --tool 'sim.*=query,noask'",
	}
	f := c.Flags()
	f.BoolVar(&o.all, "all", false, "include the agents below; without a PATH, everything that waits for approval")
	command.YesFlag(c, &o.yes)
	f.StringVar(&o.hash, "hash", "", "approve only what has this `HASH`, without asking")
	f.StringArrayVar(&o.tools, "tool", nil, "`NAME=HOW` to use tools: query, action, ask, noask or off; NAME may be a glob")
	c.RunE = func(c *cobra.Command, args []string) error {
		switch {
		case len(args) == 0 && !o.all:
			return command.Usage("name what to approve, or give --all")
		case o.hash != "" && (len(args) != 1 || o.all):
			return command.Usage("--hash needs exactly one PATH, without --all")
		}
		set, err := toolSettings(o.tools)
		if err != nil {
			return err
		}
		return a.With(c.Context(), command.NeedAgents, func(s *command.Session) error { return a.approveEach(c.Context(), s, args, o, set) })
	}
	return c
}

// toolSettings parses the --tool flags.
func toolSettings(flags []string) (map[string]catalog.ToolSetting, error) {
	out := map[string]catalog.ToolSetting{}
	yes, no := true, false
	for _, f := range flags {
		name, how, _ := strings.Cut(f, "=")
		s := out[name]
		for word := range strings.SplitSeq(how, ",") {
			switch strings.TrimSpace(word) {
			case "query":
				s.Effect = tool.Query
			case "action":
				s.Effect = tool.Action
			case "ask":
				s.Asks = &yes
			case "noask":
				s.Asks = &no
			case "off":
				s.Off = true
			default:
				key, list, _ := strings.Cut(strings.TrimSpace(word), ":")
				words := strings.FieldsFunc(list, func(c rune) bool { return c == '+' })
				switch key {
				case "yields":
					s.Yields = &words
				case "reach":
					s.Reach = tool.Reach(list)
				case "targets":
					s.Targets = &words
				default:
					return nil, command.Usage("--tool must be NAME=query, action, ask, noask, off, yields:LABEL+LABEL, reach:here, reach:out or targets:ARG+ARG, or several with commas, not %q", f)
				}
			}
		}
		out[name] = s
	}
	return out, nil
}

// approveEach approves the chosen agents and sources, parents first.
func (a *program) approveEach(ctx context.Context, s *command.Session, args []string, o approvalFlags, set map[string]catalog.ToolSetting) error {
	list, err := allAgents(ctx, s)
	if err != nil {
		return err
	}
	paths, err := chosen(list, args, o.all)
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		a.Note("nothing waits for an approval")
		return nil
	}
	in := bufio.NewReader(a.Stdin)
	var done []catalog.Listing
	for _, path := range paths {
		l, ok, err := a.approveOne(ctx, s, path, o, set, in)
		if err != nil && len(paths) == 1 {
			return err
		}
		if err != nil { // continue with the others
			a.Explain(err, "steward agents approve")
		}
		if ok {
			done = append(done, l)
		}
	}
	if a.JSON {
		return a.PrintJSON(done)
	}
	if len(done) < len(paths) {
		return command.ExitCode(command.ExitFailed)
	}
	return nil
}

// chosen returns the chosen paths, in the order of the list. Named paths are always
// included; of those that --all adds, only the ones that wait for approval.
func chosen(list []catalog.Listing, args []string, all bool) ([]string, error) {
	var out []string
	found := map[string]bool{}
	for _, l := range list {
		take := len(args) == 0 && l.NeedsDecision()
		for _, arg := range args {
			if l.Path == arg {
				take, found[arg] = true, true
			}
			take = take || all && strings.HasPrefix(l.Path, arg+"/") && l.NeedsDecision()
		}
		if take {
			out = append(out, l.Path)
		}
	}
	for _, arg := range args {
		if !found[arg] {
			return nil, fault.New(fault.NotFound, "agent_not_found", "there is no agent or source %.200s", arg).WithHint("steward agents list shows all")
		}
	}
	return out, nil
}

// approveOne shows an agent or a source, asks the user, and approves what it showed.
func (a *program) approveOne(ctx context.Context, s *command.Session, path string, o approvalFlags, set map[string]catalog.ToolSetting, in *bufio.Reader) (catalog.Listing, bool, error) {
	hash := o.hash
	if hash == "" {
		insp, err := inspect(ctx, s, path)
		if err != nil {
			return catalog.Listing{}, false, err
		}
		if insp.Status == catalog.Invalid {
			return catalog.Listing{}, false, fault.New(fault.Invalid, "agent_invalid", "%s cannot be approved: %s", path, insp.Problems[0].String()).
				WithHint("fix it; steward agents show %s lists everything that is wrong", path)
		}
		hash = insp.Hash
		if !a.JSON && !a.Quiet {
			if err := a.Print(terminal.Inspected(insp, false)); err != nil {
				return catalog.Listing{}, false, err
			}
		}
		if !o.yes {
			if ok, err := a.confirmApproval(in, path); !ok {
				return catalog.Listing{}, false, err
			}
		}
	}
	var l catalog.Listing
	err := s.Call(ctx, "POST /agents/approve", nil, map[string]any{"path": path, "hash": hash, "tools": set}, &l)
	if err != nil {
		return l, false, err
	}
	then := ""
	if !l.Usable {
		then = "; it can be used when the agents above it are approved too"
	}
	if !a.JSON {
		a.Note("%s is approved%s", l.Path, then)
	}
	return l, true, nil
}

// confirmApproval asks the user at a terminal.
func (a *program) confirmApproval(in *bufio.Reader, path string) (bool, error) {
	if !app.IsTerminal(a.Stdin) {
		return false, fault.New(fault.Invalid, "approval_unattended", "approving %s requires a terminal to ask at", path).
			WithHint("add --yes, or --hash with the hash that steward agents show prints")
	}
	ok, err := a.Confirm(in, "\nMay %s be used as it is shown?", path)
	if err == nil && !ok {
		a.Note("%s is not approved", path)
	}
	return ok, err
}
