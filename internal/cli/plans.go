package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/kits"
	planning "steward/internal/plan"
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
