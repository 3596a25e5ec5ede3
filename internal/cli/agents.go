package cli

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"steward/internal/app"
	"steward/internal/catalog"
	"steward/internal/fault"
	"steward/internal/terminal"
	"steward/internal/tool"
)

func (a *program) agentsCommand() *cobra.Command {
	return group(&cobra.Command{
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

func (s *session) agents(ctx context.Context) ([]catalog.Listing, error) {
	var out struct{ Agents []catalog.Listing }
	err := s.Call(ctx, "GET /agents", nil, nil, &out)
	return out.Agents, err
}

func (s *session) inspect(ctx context.Context, path string) (out catalog.Inspection, err error) {
	err = s.Call(ctx, "POST /agents/inspect", nil, map[string]string{"path": path}, &out)
	return out, err
}

func (a *program) listAgents() *cobra.Command {
	return a.apiCommand(needAgents, &cobra.Command{Use: "list", Short: "List agents and tool sources, and whether each is approved"},
		func(ctx context.Context, s *session, _ []string) error {
			list, err := s.agents(ctx)
			err = printList(a, list, err, "there are no agents; steward agents new NAME creates one",
				func(list []catalog.Listing) string { return agentTable(list, a.width()) })
			if n := app.Waiting(list); err == nil && n > 0 && !a.json {
				a.Note("%s for your approval: steward agents approve PATH, or --all", app.Counted(n, "waits", "wait"))
			}
			return err
		})
}

// agentTable formats agents in columns, each below its parent.
func agentTable(list []catalog.Listing, width int) string {
	rows := [][]string{{"AGENT", "STATUS", "TOOLS", "WHAT IT DOES"}}
	for _, l := range list {
		tools, text := "", plainLine(firstLine(l.Description))
		if l.Status == catalog.Approved {
			tools = fmt.Sprint(len(l.Tools))
		}
		if text == "" && l.Kind == catalog.KindSource {
			text = "from " + plainLine(l.Dir)
		}
		name := strings.Repeat("  ", strings.Count(l.Path, "/")) + l.Path[strings.LastIndexByte(l.Path, '/')+1:]
		rows = append(rows, []string{name, terminal.StatusWords(l), tools, cell(text, maxGist)})
	}
	var out strings.Builder
	for i, line := range grid(rows, width) {
		out.WriteString(line + "\n")
		if i > 0 {
			for _, p := range list[i-1].Problems {
				out.WriteString("    " + plainLine(p.String()) + "\n")
			}
		}
	}
	return out.String()
}

func (a *program) showAgent() *cobra.Command {
	return a.apiCommand(needAgents, &cobra.Command{Use: "show PATH", Short: "Show everything that an approval covers", ValidArgsFunction: a.completeAgents(),
		Long: "Show everything that an approval covers: the definition, the prompt, the programs, and the announced\n" +
			"tools. The agent's servers are started to list their tools. Invisible characters are written out, for\n" +
			"example ‹U+202E›."},
		func(ctx context.Context, s *session, args []string) error {
			insp, err := s.inspect(ctx, args[0])
			return printValue(a, insp, err, func(insp catalog.Inspection) string { return terminal.Inspected(insp, true) })
		})
}

// refuseAgent makes a command that denies agents and sources or revokes their approvals.
func (a *program) refuseAgent(verb, short, long string) *cobra.Command {
	var reason string
	c := a.apiCommand(needAgents, &cobra.Command{Use: verb + " PATH…", Short: short, Long: short + ". " + long, ValidArgsFunction: a.completeAgents()},
		func(ctx context.Context, s *session, args []string) error {
			var done []catalog.Listing
			for _, path := range args {
				var l catalog.Listing
				if err := s.Call(ctx, "POST /agents/"+verb, nil, map[string]string{"path": path, "reason": reason}, &l); err != nil {
					return err
				}
				done = append(done, l)
				if !a.json {
					a.Note("%s is %s", l.Path, l.Status)
				}
			}
			if a.json {
				return a.printJSON(done)
			}
			return nil
		})
	c.Flags().StringVar(&reason, "reason", "", "the reason, in your own `WORDS`")
	return c
}

// completeAgents offers the paths of agents and sources.
func (a *program) completeAgents() completer {
	return offers(a, needAgents, func(ctx context.Context, s *session) ([]catalog.Listing, error) { return s.agents(ctx) },
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
	yesFlag(c, &o.yes)
	f.StringVar(&o.hash, "hash", "", "approve only what has this `HASH`, without asking")
	f.StringArrayVar(&o.tools, "tool", nil, "`NAME=HOW` to use tools: query, action, ask, noask or off; NAME may be a glob")
	c.RunE = func(c *cobra.Command, args []string) error {
		switch {
		case len(args) == 0 && !o.all:
			return usage("name what to approve, or give --all")
		case o.hash != "" && (len(args) != 1 || o.all):
			return usage("--hash needs exactly one PATH, without --all")
		}
		set, err := toolSettings(o.tools)
		if err != nil {
			return err
		}
		return a.with(c.Context(), needAgents, func(s *session) error { return a.approveEach(c.Context(), s, args, o, set) })
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
					return nil, usage("--tool must be NAME=query, action, ask, noask, off, yields:LABEL+LABEL, reach:here, reach:out or targets:ARG+ARG, or several with commas, not %q", f)
				}
			}
		}
		out[name] = s
	}
	return out, nil
}

// approveEach approves the chosen agents and sources, parents first.
func (a *program) approveEach(ctx context.Context, s *session, args []string, o approvalFlags, set map[string]catalog.ToolSetting) error {
	list, err := s.agents(ctx)
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
	in := bufio.NewReader(a.stdin)
	var done []catalog.Listing
	for _, path := range paths {
		l, ok, err := a.approveOne(ctx, s, path, o, set, in)
		if err != nil && len(paths) == 1 {
			return err
		}
		if err != nil { // continue with the others
			a.explain(err, "steward agents approve")
		}
		if ok {
			done = append(done, l)
		}
	}
	if a.json {
		return a.printJSON(done)
	}
	if len(done) < len(paths) {
		return exitCode(exitFailed)
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
func (a *program) approveOne(ctx context.Context, s *session, path string, o approvalFlags, set map[string]catalog.ToolSetting, in *bufio.Reader) (catalog.Listing, bool, error) {
	hash := o.hash
	if hash == "" {
		insp, err := s.inspect(ctx, path)
		if err != nil {
			return catalog.Listing{}, false, err
		}
		if insp.Status == catalog.Invalid {
			return catalog.Listing{}, false, fault.New(fault.Invalid, "agent_invalid", "%s cannot be approved: %s", path, insp.Problems[0].String()).
				WithHint("fix it; steward agents show %s lists everything that is wrong", path)
		}
		hash = insp.Hash
		if !a.json && !a.Quiet {
			if err := a.print(terminal.Inspected(insp, false)); err != nil {
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
	if !a.json {
		a.Note("%s is approved%s", l.Path, then)
	}
	return l, true, nil
}

// confirmApproval asks the user at a terminal.
func (a *program) confirmApproval(in *bufio.Reader, path string) (bool, error) {
	if !app.IsTerminal(a.stdin) {
		return false, fault.New(fault.Invalid, "approval_unattended", "approving %s requires a terminal to ask at", path).
			WithHint("add --yes, or --hash with the hash that steward agents show prints")
	}
	ok, err := a.confirm(in, "\nMay %s be used as it is shown?", path)
	if err == nil && !ok {
		a.Note("%s is not approved", path)
	}
	return ok, err
}
