package talk

import (
	"github.com/spf13/cobra"

	"steward/internal/app"
	"steward/internal/cli/command"
	"steward/internal/cli/node"
)

func (a *program) setupCommand() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use: "setup", Short: "Find a model, choose a folder, and try both", GroupID: "talk",
		Long: "Find the keys in the environment, an Ollama and servers of your own, ask which model to use and\n" +
			"which folder Steward may work in, call the model once to see that it works, and write the answers\n" +
			"into your settings file. Enter accepts what is suggested. Nothing is stored before the last question\n" +
			"is answered. A key that you type is not shown, and is stored as a secret, not in the settings.\n" +
			"Then a chat begins.",
		Example: "  steward setup\n  steward setup --yes",
		RunE: func(c *cobra.Command, _ []string) error {
			asks := app.IsTerminal(a.Stdin) && app.IsTerminal(a.Stdout)
			if !asks && !yes {
				return command.Usage("setup asks questions, but this is not a terminal; --yes accepts what is suggested")
			}
			if err := node.Setup(c.Context(), a.Program, yes, false); err != nil || !asks || yes {
				return err
			}
			return a.chat(c.Context(), "", false)
		},
	}
	command.YesFlag(c, &yes)
	return c
}
