package activity

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/cli/command"
	"steward/internal/fault"
	planning "steward/internal/plan"
)

func (a *program) plansCommand() *cobra.Command {
	return command.Group(&cobra.Command{
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
			list, err := command.ReadList(c.Context(), a.Program, func(s *command.Session) ([]client.Plan, error) { return s.Plans(c.Context(), limit) })
			return command.PrintList(a.Program, list, err, "no plan was executed yet", func(list []client.Plan) string {
				rows := make([][]string, len(list))
				for i, p := range list {
					rows[i] = []string{p.Ended.Local().Format("01-02 15:04"), RequestRef(p.ID), p.Outcome, planCost(&p), command.PlainLine(p.Request)}
				}
				lines, _ := command.Table([]command.Column{{}, {}, {}, {Right: true}, {Least: command.MinWhat}}, rows, a.Width())
				return strings.Join(lines, "\n") + "\n"
			})
		}}
	command.LimitFlag(c, &limit, 50, "list at most `N`")
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
	return a.APICommand(command.NeedReadOnly, &cobra.Command{Use: "show RECORD", Short: "Show an executed plan and the results of its tasks", ValidArgsFunction: CompletePlans(a.Program),
		Long: "Show an executed plan: the request, the plan, the result of each task, and what it took.\n" +
			"last is the newest record."},
		func(ctx context.Context, s *command.Session, args []string) error {
			p, err := PlannedBefore(ctx, s, args[0])
			return command.PrintValue(a.Program, p, err, func(p client.Plan) string { return planText(&p, a.Width()) })
		})
}

// PlannedBefore returns a plan that was carried out.
func PlannedBefore(ctx context.Context, s *command.Session, which string) (client.Plan, error) {
	if which == "last" {
		list, err := s.Plans(ctx, 1)
		if err != nil || len(list) == 0 {
			return client.Plan{}, cmp.Or[error](err, fault.New(fault.NotFound, "plan_not_found", "no plan was executed yet").WithHint(`have something planned: steward plan "…"`))
		}
		which = list[0].ID
	}
	return s.Plan(ctx, which)
}

func planText(p *client.Plan, width int) string {
	edited := ""
	if p.Edited {
		edited = "by you, before it began"
	} else if p.Fallback {
		edited = "by Steward, since planning failed"
	}
	text := command.Fields(13, [][2]string{{"record", p.ID}, {"conversation", p.Conversation}, {"request", p.Request}, {"edited", edited},
		{"outcome", command.WithCode(p.Outcome, p.Error)}, {"took", p.Ended.Sub(p.Started).Round(time.Millisecond).String()}, {"cost", planCost(p)},
		{"model calls", fmt.Sprint(p.Iterations)}, {"actions", fmt.Sprint(p.Intents)}, {"corrections", fmt.Sprint(p.Corrections)}, {"labels", strings.Join(p.Labels, ", ")}})
	rows := [][]string{{"task", "outcome", "agent", "tools used"}}
	for _, t := range p.Tasks {
		agent := t.Agent
		if agent == "" {
			agent = "designed"
		}
		rows = append(rows, []string{command.PlainLine(t.Name), command.WithCode(t.State, t.Error), command.PlainLine(agent), command.PlainLine(strings.Join(t.Tools, ", "))})
	}
	lines, _ := command.Table([]command.Column{{}, {}, {}, {Least: command.MinWhat}}, rows, width)
	text += "\n" + strings.Join(lines, "\n") + "\n"
	if d, err := planning.Parse(p.Plan); err == nil {
		text += "\n"
		for line := range strings.Lines(d.Text()) {
			text += command.PlainLine(strings.TrimSuffix(line, "\n")) + "\n"
		}
	}
	return text
}

// CompletePlans offers the newest plans that were carried out.
func CompletePlans(p *command.Program) command.Completer {
	return command.Offers(p, command.NeedReadOnly, func(ctx context.Context, s *command.Session) ([]client.Plan, error) { return s.Plans(ctx, 30) },
		func(p *client.Plan) (string, string) { return RequestRef(p.ID), p.Request })
}
