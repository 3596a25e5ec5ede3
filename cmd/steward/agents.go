package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"

	"steward/internal/catalog"
	"steward/internal/face/terminal"
	"steward/internal/identity"
	"steward/internal/llm"
	"steward/internal/settings"
	"steward/internal/store/sqlite"
)

func (a *app) agentsCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "agents", Aliases: []string{"agent"}, Short: "List, look at and approve agents and sources of tools", GroupID: "keep", Args: cobra.NoArgs,
		Long: "An agent is a folder with an agent.yaml in the folder agents of the data folder, or in one that the\n" +
			"setting agents names; agents inside it lie in its own folder agents. MCP servers and gRPC endpoints\n" +
			"that the settings name are listed as mcp:NAME and grpc:NAME. None of them is used, or even started,\n" +
			"before you have approved it as it is. When a byte of it changes, you are asked again.",
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.listAgents(), a.showAgent(), a.approveAgents(), a.denyAgent(), a.revokeAgent(), a.newAgent(), a.testAgents())
	return c
}

// withAgents runs do with the API of what decides about agents: of the
// Steward that has the data folder in use, or of the folder itself.
func (a *app) withAgents(ctx context.Context, do func(caller) error) error {
	set, err := a.settings()
	if err != nil {
		return err
	}
	return a.withStore(ctx, set, a.logger(set, a.stderr), func(st *sqlite.Store) error { return a.withCatalog(ctx, set, st, do) },
		func(r *remote) error { return do(r) })
}

// withCatalog runs do over the agents of a data folder that nobody else uses.
func (a *app) withCatalog(ctx context.Context, set *settings.Loaded, st *sqlite.Store, do func(caller) error) error {
	log := slog.New(slog.DiscardHandler) // what is wrong is listed
	l := &local{store: st, keys: identity.New(st), log: log, shelf: a.shelf(st)}
	tools, err := l.tools(set)
	if err == nil {
		err = l.openPolicies(set, log)
	}
	if err == nil {
		find := sync.OnceValues(func() (*supply, error) { return a.supplyUnder(ctx, set, l.judge, log) })
		l.resolve = func(name string) (llm.Resolved, error) {
			found, err := find()
			if err != nil {
				return llm.Resolved{}, err
			}
			return found.Resolve(name)
		}
		err = l.openAgents(ctx, a, set, tools, log)
	}
	if err != nil {
		return errors.Join(err, l.closePolicies())
	}
	err = do(within(nil, l.keys, l.catalog, l.user, log, l.judge))
	return errors.Join(err, l.closeAgents(), l.closePolicies())
}

func agentList(ctx context.Context, c caller) ([]catalog.Listing, error) {
	var out struct{ Agents []catalog.Listing }
	err := c.call(ctx, http.MethodGet, "/agents", nil, &out)
	return out.Agents, err
}

func inspectAgent(ctx context.Context, c caller, path string) (catalog.Inspection, error) {
	var out catalog.Inspection
	err := c.call(ctx, http.MethodPost, "/agents/inspect", map[string]string{"path": path}, &out)
	return out, err
}

func (a *app) listAgents() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List agents and sources, and how far each is allowed", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withAgents(c.Context(), func(api caller) error {
				list, err := agentList(c.Context(), api)
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(list)
				}
				if len(list) == 0 {
					a.note("there are no agents; steward agents new NAME makes one")
					return nil
				}
				if _, err := io.WriteString(a.stdout, agentTable(list, a.width())); err != nil {
					return err
				}
				if n := waiting(list); n > 0 {
					a.note("%s for your approval: steward agents approve PATH, or --all", counted(n, "waits", "wait"))
				}
				return nil
			})
		},
	}
}

// waiting counts what a person has to decide about.
func waiting(list []catalog.Listing) int {
	return len(catalog.Waiting(list))
}

// agentTable writes agents in columns, each below the one that it belongs to.
func agentTable(list []catalog.Listing, width int) string {
	type row struct{ name, status, tools, text string }
	rows := []row{{"AGENT", "STATUS", "TOOLS", "WHAT IT DOES"}}
	for _, l := range list {
		depth := strings.Count(l.Path, "/")
		r := row{name: strings.Repeat("  ", depth) + l.Path[strings.LastIndexByte(l.Path, '/')+1:], status: terminal.StatusWords(l), text: plainLine(firstLine(l.Description))}
		if l.Status == catalog.Approved {
			r.tools = fmt.Sprint(len(l.Tools))
		}
		if r.text == "" && l.Kind == catalog.KindSource {
			r.text = "from " + plainLine(l.Dir)
		}
		rows = append(rows, r)
	}
	var names, states int
	for _, r := range rows {
		names, states = max(names, lipgloss.Width(r.name)), max(states, lipgloss.Width(r.status))
	}
	var out strings.Builder
	for i, r := range rows {
		line := fill(r.name, names) + "  " + fill(r.status, states) + "  " + fill(r.tools, len("TOOLS")) + "  "
		if width > 0 {
			r.text = cell(r.text, max(leastWhat, width-lipgloss.Width(line)))
		} else {
			r.text = cell(r.text, mostGist)
		}
		out.WriteString(strings.TrimRight(line+r.text, " ") + "\n")
		if i > 0 {
			for _, p := range list[i-1].Problems {
				out.WriteString("    " + plainLine(p.String()) + "\n")
			}
		}
	}
	return out.String()
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return s
}

func (a *app) showAgent() *cobra.Command {
	return &cobra.Command{
		Use: "show PATH", Short: "Show all that an approval is about", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeAgents,
		Long: "Show all that an approval is about: the definition, the prompt, the programs, and the tools that are\n" +
			"announced. Its servers are started to learn what these are. Characters that are not seen are written\n" +
			"out, as ‹U+202E›.",
		RunE: func(c *cobra.Command, args []string) error {
			return a.withAgents(c.Context(), func(api caller) error {
				insp, err := inspectAgent(c.Context(), api, args[0])
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(insp)
				}
				_, err = io.WriteString(a.stdout, terminal.Inspected(insp, true))
				return err
			})
		},
	}
}

func (a *app) denyAgent() *cobra.Command {
	return a.refuseAgent("deny", "Say no to an agent or a source", "It is not asked for again until it changes.")
}

func (a *app) revokeAgent() *cobra.Command {
	return a.refuseAgent("revoke", "Take an approval back, at once", "What runs is not stopped, but can call none of its tools any more.")
}

func (a *app) refuseAgent(verb, short, long string) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: verb + " PATH…", Short: short, Long: short + ". " + long, Args: cobra.MinimumNArgs(1), ValidArgsFunction: a.completeAgents,
		RunE: func(c *cobra.Command, args []string) error {
			return a.withAgents(c.Context(), func(api caller) error {
				var done []catalog.Listing
				for _, path := range args {
					var l catalog.Listing
					if err := api.call(c.Context(), http.MethodPost, "/agents/"+verb, map[string]string{"path": path, "reason": reason}, &l); err != nil {
						return err
					}
					done = append(done, l)
					if !a.json {
						a.note("%s is %s", l.Path, l.Status)
					}
				}
				if a.json {
					return a.printJSON(done)
				}
				return nil
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, in your `WORDS`")
	return c
}

// completeAgents offers the paths of agents and sources.
func (a *app) completeAgents(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return offer(c, func(ctx context.Context) ([]cobra.Completion, error) {
		var out []cobra.Completion
		err := a.withAgents(ctx, func(api caller) error {
			list, err := agentList(ctx, api)
			for _, l := range list {
				if !slices.Contains(args, l.Path) {
					out = append(out, cobra.CompletionWithDesc(l.Path, terminal.StatusWords(l)))
				}
			}
			return err
		})
		return out, err
	})
}
