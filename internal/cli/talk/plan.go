package talk

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/cli/command"
	"steward/internal/kits"
	"steward/internal/record"
	"steward/internal/routing"
)

func (a *program) planCommand() *cobra.Command {
	o := askFlags{plan: true}
	c := &cobra.Command{
		Use: "plan TEXT…", Short: "Have a request planned, and decide about the plan before it is carried out", GroupID: "talk", Args: cobra.MinimumNArgs(1),
		Long: "Have a request planned. The plan is shown before any of it begins: approve it, reject it, or edit it\n" +
			"(as JSON, in the program that EDITOR names). Its questions are asked here, too. Without a terminal\n" +
			"the plan is printed and waits: steward approvals approves, edits or denies it.\n" +
			"steward ask --plan is the same.",
		Example: "  steward plan 'Check the weather in Graz and then set a timer for 10 minutes'",
		RunE:    func(c *cobra.Command, args []string) error { return a.ask(c.Context(), args, &o) },
	}
	a.conversationFlags(c, &o.which, &o.last)
	c.Flags().StringArrayVar(&o.files, "file", nil, "attach a `FILE`: text, an image, a recording, a PDF or a Word file; - is standard input")
	return c
}

// errPlanWaits means that a plan was shown where nobody could answer.
var errPlanWaits = errors.New("the plan waits for an answer")

// planned turns a message into one whose plan the person decides about.
func planned(m *client.Message) {
	m.Agent, m.Plan, m.Unattended = kits.PlannerAgent, true, false
}

func (a *program) routeCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "route TEXT…", Short: "Explain which agent answers a message", GroupID: "look", Args: cobra.MinimumNArgs(1),
		Long: "Explain which agent answers a message that names none and begins a conversation: how likely each agent is by\n" +
			"the words alone, and what decides. Nothing is run, and no model is asked.",
		Example: "  steward route 'Will it rain in Graz tomorrow?'\n" +
			"  steward route stats",
		RunE: func(c *cobra.Command, args []string) error {
			var d routing.Decision
			err := a.With(c.Context(), command.NeedIdleNode, func(s *command.Session) error {
				return s.Call(c.Context(), "POST /route", nil, map[string]any{"text": strings.Join(args, " ")}, &d)
			})
			return command.PrintValue(a.Program, d, err, decisionShown)
		},
	}
	c.AddCommand(&cobra.Command{Use: "stats", Short: "Show how messages were routed", Args: cobra.NoArgs,
		Long: "Show how your newest messages that named no agent were routed (at most 1,000): what decided, how often you\n" +
			"then named another agent for the same words, and how long it took.",
		RunE: func(c *cobra.Command, _ []string) error {
			var st routing.Stats
			err := a.WithStored(c.Context(), command.NeedReadOnly, func(s *command.Session) error { return s.Call(c.Context(), "GET /route", nil, nil, &st) })
			return command.PrintValue(a.Program, st, err, routeStats)
		}})
	return c
}

// maxRanked is how many agents an explanation shows.
const maxRanked = 8

// decisionShown explains a decision.
func decisionShown(d routing.Decision) string {
	if len(d.Ranked) == 0 {
		return command.PlainLine(d.Agent) + " answers: you have no agents of your own, and there is no model for those that are built in\n"
	}
	var b strings.Builder
	for _, x := range d.Ranked[:min(len(d.Ranked), maxRanked)] {
		fmt.Fprintf(&b, "%5.1f %%  %s\n", 100*x.P, command.PlainLine(x.Agent))
	}
	why := map[string]string{
		record.RouteLocal:   fmt.Sprintf("the words are clear (%.1f %%)", 100*d.P),
		record.RouteDefault: "nothing is clear",
	}[d.Path]
	if d.Asks {
		fmt.Fprintf(&b, "the words are not clear: the fast model decides, and if it is not certain, %s answers\n", command.PlainLine(d.Agent))
		return b.String()
	}
	fmt.Fprintf(&b, "%s answers: %s; decided in %.1f ms\n", command.PlainLine(d.Agent), why, d.Millis)
	return b.String()
}

// routeStats shows the figures of routing.
func routeStats(st routing.Stats) string {
	if st.Decisions == 0 {
		return "no message was routed yet\n"
	}
	var b strings.Builder
	share := func(n int) float64 { return 100 * float64(n) / float64(st.Decisions) }
	fmt.Fprintf(&b, "%d messages were routed\n", st.Decisions)
	for _, path := range slices.Sorted(maps.Keys(st.Paths)) {
		fmt.Fprintf(&b, "  %-10s %5.1f %%\n", command.PlainLine(path), share(st.Paths[path]))
	}
	fmt.Fprintf(&b, "corrected: %d, so %.1f %% were right as far as is known; you named an agent for %d messages\n",
		st.Corrected, 100-share(min(st.Corrected, st.Decisions)), st.Taught)
	if st.Fallbacks > 0 {
		fmt.Fprintf(&b, "planning failed for %d messages, and the fallback agent answered\n", st.Fallbacks)
	}
	for _, kind := range []string{"route", "direct", "planned"} {
		x, ok := st.Times[kind]
		if !ok {
			continue
		}
		fmt.Fprintf(&b, "%-8s P50 %-9s P95 %s\n", kind, millis(x.P50), millis(x.P95))
	}
	return b.String()
}

func millis(ms float64) string {
	return time.Duration(ms * float64(time.Millisecond)).Round(10 * time.Microsecond).String()
}
