package activity

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/cli/command"
)

func (a *program) logLevel() *cobra.Command {
	var agent string
	c := &cobra.Command{Use: "level [LEVEL]", Short: "Show or change which lines a running Steward writes to its log",
		Long: "Show or change the level of the log (stderr) of the Steward that runs: debug, info, warn or error; reset\n" +
			"goes back to the setting log.level. With --agent, lines that a single agent leads to have a level of their\n" +
			"own. Every line about a request has its id and its agent. A change ends with the next start.",
		Example:           "  steward log level debug\n  steward log level debug --agent mail\n  steward log level reset",
		ValidArgsFunction: command.Words("debug", "info", "warn", "error", "reset"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.With(c.Context(), command.NeedDatabase, func(s *command.Session) error {
				var l client.LogLevel
				var err error
				switch {
				case len(args) == 0 && agent != "":
					return command.Usage("--agent needs a level")
				case len(args) == 0:
					l, err = s.LogLevel(c.Context())
				default:
					l, err = s.SetLogLevel(c.Context(), agent, strings.TrimSuffix(args[0], "reset"))
				}
				return command.PrintValue(a.Program, l, err, func(l client.LogLevel) string {
					var b strings.Builder
					fmt.Fprintf(&b, "%s (settings: %s)\n", l.Level, l.Settings)
					for _, name := range slices.Sorted(maps.Keys(l.Agents)) {
						fmt.Fprintf(&b, "  %s: %s\n", command.PlainLine(name), l.Agents[name])
					}
					return b.String()
				})
			})
		}}
	c.Flags().StringVar(&agent, "agent", "", "only lines that the agent `PATH` leads to")
	return c
}
