package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"steward/internal/app"
	"steward/internal/catalog"
	"steward/internal/terminal"
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
	return a.over(toManage, &cobra.Command{Use: "list", Short: "List agents and tool sources, and whether each is approved"},
		func(ctx context.Context, s *session, _ []string) error {
			list, err := s.agents(ctx)
			err = tellList(a, list, err, "there are no agents; steward agents new NAME creates one",
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
		rows = append(rows, []string{name, terminal.StatusWords(l), tools, cell(text, mostGist)})
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
	return a.over(toManage, &cobra.Command{Use: "show PATH", Short: "Show everything that an approval covers", ValidArgsFunction: a.completeAgents(),
		Long: "Show everything that an approval covers: the definition, the prompt, the programs, and the announced\n" +
			"tools. The agent's servers are started to list their tools. Invisible characters are written out, for\n" +
			"example ‹U+202E›."},
		func(ctx context.Context, s *session, args []string) error {
			insp, err := s.inspect(ctx, args[0])
			return tell(a, insp, err, func(insp catalog.Inspection) string { return terminal.Inspected(insp, true) })
		})
}

// refuseAgent makes a command that denies agents and sources or revokes their approvals.
func (a *program) refuseAgent(verb, short, long string) *cobra.Command {
	var reason string
	c := a.over(toManage, &cobra.Command{Use: verb + " PATH…", Short: short, Long: short + ". " + long, ValidArgsFunction: a.completeAgents()},
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
	return offers(a, toManage, func(ctx context.Context, s *session) ([]catalog.Listing, error) { return s.agents(ctx) },
		func(l *catalog.Listing) (string, string) { return l.Path, terminal.StatusWords(*l) })
}
