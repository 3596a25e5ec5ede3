package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/kits"
	planning "steward/internal/plan"
	"steward/internal/record"
	"steward/internal/routing"
)

func (a *program) plansCommand() *cobra.Command {
	return group(&cobra.Command{
		Use: "plans", Short: "Show executed plans and their results", GroupID: "look",
		Long: "Each executed plan is recorded: the request, the plan, the tools that its agents used, what\n" +
			"it cost, and its result. A record is named by its id, or by at least the first 8 characters of it.\n" +
			"steward agents keep makes an agent of what was designed for a request.",
	}, a.listPlans(), a.showPlan())
}

func (a *program) listPlans() *cobra.Command {
	var limit int
	c := &cobra.Command{Use: "list", Short: "List executed plans, newest first",
		RunE: func(c *cobra.Command, _ []string) error {
			list, err := readList(c.Context(), a, func(s *session) ([]client.Plan, error) { return s.Plans(c.Context(), limit) })
			return printList(a, list, err, "no plan was executed yet", func(list []client.Plan) string {
				rows := make([][]string, len(list))
				for i, p := range list {
					rows[i] = []string{p.Ended.Local().Format("01-02 15:04"), requestRef(p.ID), p.Outcome, planCost(&p), plainLine(p.Request)}
				}
				lines, _ := table([]column{{}, {}, {}, {right: true}, {least: minWhat}}, rows, a.width())
				return strings.Join(lines, "\n") + "\n"
			})
		}}
	limitFlag(c, &limit, 50, "list at most `N`")
	return c
}

// planCost returns what a plan cost: money, or tokens if these have no price.
func planCost(p *client.Plan) string {
	if p.Cost > 0 {
		return fmt.Sprintf("$%.4f", p.Cost)
	}
	return fmt.Sprintf("%d tokens", p.Tokens)
}

func (a *program) showPlan() *cobra.Command {
	return a.apiCommand(needReadOnly, &cobra.Command{Use: "show RECORD", Short: "Show an executed plan and the results of its tasks", ValidArgsFunction: a.completePlans(),
		Long: "Show an executed plan: the request, the plan, the result of each task, and what it took.\n" +
			"last is the newest record."},
		func(ctx context.Context, s *session, args []string) error {
			p, err := plannedBefore(ctx, s, args[0])
			return printValue(a, p, err, func(p client.Plan) string { return planText(&p, a.width()) })
		})
}

// plannedBefore returns a plan that was carried out.
func plannedBefore(ctx context.Context, s *session, which string) (client.Plan, error) {
	if which == "last" {
		list, err := s.Plans(ctx, 1)
		if err != nil || len(list) == 0 {
			return client.Plan{}, cmp.Or[error](err, fault.New(fault.NotFound, "plan_not_found", "no plan was executed yet").WithHint(`have something planned: steward plan "…"`))
		}
		which = list[0].ID
	}
	return s.Plan(ctx, which)
}

// withCode returns an outcome with its error code in brackets, if it has one.
func withCode(outcome, code string) string {
	if code == "" {
		return outcome
	}
	return outcome + " (" + code + ")"
}

func planText(p *client.Plan, width int) string {
	edited := ""
	if p.Edited {
		edited = "by you, before it began"
	} else if p.Fallback {
		edited = "by Steward, since planning failed"
	}
	text := fields(13, [][2]string{{"record", p.ID}, {"conversation", p.Conversation}, {"request", p.Request}, {"edited", edited},
		{"outcome", withCode(p.Outcome, p.Error)}, {"took", p.Ended.Sub(p.Started).Round(time.Millisecond).String()}, {"cost", planCost(p)},
		{"model calls", fmt.Sprint(p.Iterations)}, {"actions", fmt.Sprint(p.Intents)}, {"corrections", fmt.Sprint(p.Corrections)}, {"labels", strings.Join(p.Labels, ", ")}})
	rows := [][]string{{"task", "outcome", "agent", "tools used"}}
	for _, t := range p.Tasks {
		agent := t.Agent
		if agent == "" {
			agent = "designed"
		}
		rows = append(rows, []string{plainLine(t.Name), withCode(t.State, t.Error), plainLine(agent), plainLine(strings.Join(t.Tools, ", "))})
	}
	lines, _ := table([]column{{}, {}, {}, {least: minWhat}}, rows, width)
	text += "\n" + strings.Join(lines, "\n") + "\n"
	if d, err := planning.Parse(p.Plan); err == nil {
		text += "\n"
		for line := range strings.Lines(d.Text()) {
			text += plainLine(strings.TrimSuffix(line, "\n")) + "\n"
		}
	}
	return text
}

// completePlans offers the newest plans that were carried out.
func (a *program) completePlans() completer {
	return offers(a, needReadOnly, func(ctx context.Context, s *session) ([]client.Plan, error) { return s.Plans(ctx, 30) },
		func(p *client.Plan) (string, string) { return requestRef(p.ID), p.Request })
}

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
			err := a.with(c.Context(), needIdleNode, func(s *session) error {
				return s.Call(c.Context(), "POST /route", nil, map[string]any{"text": strings.Join(args, " ")}, &d)
			})
			return printValue(a, d, err, decisionShown)
		},
	}
	c.AddCommand(&cobra.Command{Use: "stats", Short: "Show how messages were routed", Args: cobra.NoArgs,
		Long: "Show how your newest messages that named no agent were routed (at most 1,000): what decided, how often you\n" +
			"then named another agent for the same words, and how long it took.",
		RunE: func(c *cobra.Command, _ []string) error {
			var st routing.Stats
			err := a.withStored(c.Context(), needReadOnly, func(s *session) error { return s.Call(c.Context(), "GET /route", nil, nil, &st) })
			return printValue(a, st, err, routeStats)
		}})
	return c
}

// maxRanked is how many agents an explanation shows.
const maxRanked = 8

// decisionShown explains a decision.
func decisionShown(d routing.Decision) string {
	if len(d.Ranked) == 0 {
		return plainLine(d.Agent) + " answers: you have no agents of your own, and there is no model for those that are built in\n"
	}
	var b strings.Builder
	for _, x := range d.Ranked[:min(len(d.Ranked), maxRanked)] {
		fmt.Fprintf(&b, "%5.1f %%  %s\n", 100*x.P, plainLine(x.Agent))
	}
	why := map[string]string{
		record.RouteLocal:   fmt.Sprintf("the words are clear (%.1f %%)", 100*d.P),
		record.RouteDefault: "nothing is clear",
	}[d.Path]
	if d.Asks {
		fmt.Fprintf(&b, "the words are not clear: the fast model decides, and if it is not certain, %s answers\n", plainLine(d.Agent))
		return b.String()
	}
	fmt.Fprintf(&b, "%s answers: %s; decided in %.1f ms\n", plainLine(d.Agent), why, d.Millis)
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
		fmt.Fprintf(&b, "  %-10s %5.1f %%\n", plainLine(path), share(st.Paths[path]))
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
