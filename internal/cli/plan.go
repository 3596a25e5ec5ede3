package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/kits"
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
	a.whichFlags(c, &o.which, &o.last)
	c.Flags().StringArrayVar(&o.files, "file", nil, "attach a `FILE`: text, an image, a recording, a PDF or a Word file; - is standard input")
	return c
}

// errPlanWaits means that a plan was shown where nobody could answer.
var errPlanWaits = errors.New("the plan waits for an answer")

// planned turns a message into one whose plan the person decides about.
func planned(m *client.Message) {
	m.Agent, m.Plan, m.Unattended = kits.PlannerAgent, true, false
}
