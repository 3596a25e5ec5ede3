package cli

import (
	"bufio"
	"context"
	"strings"

	"github.com/spf13/cobra"

	"steward/internal/app"
	"steward/internal/catalog"
	"steward/internal/fault"
	"steward/internal/terminal"
	"steward/internal/tool"
)

// approving holds the flags of an approval.
type approving struct {
	all, yes bool
	hash     string
	tools    []string
}

func (a *program) approveAgents() *cobra.Command {
	var o approving
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
		return a.with(c.Context(), toManage, func(s *session) error { return a.approveEach(c.Context(), s, args, o, set) })
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
func (a *program) approveEach(ctx context.Context, s *session, args []string, o approving, set map[string]catalog.ToolSetting) error {
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
		take := len(args) == 0 && l.Waits()
		for _, arg := range args {
			if l.Path == arg {
				take, found[arg] = true, true
			}
			take = take || all && strings.HasPrefix(l.Path, arg+"/") && l.Waits()
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
func (a *program) approveOne(ctx context.Context, s *session, path string, o approving, set map[string]catalog.ToolSetting, in *bufio.Reader) (catalog.Listing, bool, error) {
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
			if ok, err := a.agrees(in, path); !ok {
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

// agrees asks the user at a terminal.
func (a *program) agrees(in *bufio.Reader, path string) (bool, error) {
	if !app.IsTerminal(a.stdin) {
		return false, fault.New(fault.Invalid, "approval_unattended", "approving %s needs your answer, and there is no terminal to ask at", path).
			WithHint("add --yes, or --hash with the hash that steward agents show prints")
	}
	ok, err := a.confirm(in, "\nMay %s be used as it is shown?", path)
	if err == nil && !ok {
		a.Note("%s is not approved", path)
	}
	return ok, err
}
