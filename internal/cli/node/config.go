package node

import (
	"github.com/spf13/cobra"

	"steward/internal/cli/command"
	"steward/internal/settings"
)

func (a *program) configCommand() *cobra.Command {
	return command.Group(&cobra.Command{
		Use: "config", Short: "Show the settings", GroupID: "look",
	}, &cobra.Command{
		Use: "show", Short: "Show each effective setting and where it comes from",
		Long: "Show each effective setting and where it comes from: a flag, the environment, the project's\n" +
			"file (./steward.yaml, or the one named with --config), the user's file, or the default.\n" +
			"Keys are masked. docs/reference/settings.md describes all settings.",
		RunE: func(*cobra.Command, []string) error {
			set, err := a.Settings()
			if err != nil {
				return err
			}
			out := struct {
				Files    []string         `json:"files"`
				Notices  []string         `json:"notices"`
				Settings []settings.Value `json:"settings"`
			}{command.OrEmpty(set.Files), command.OrEmpty(set.Notices), set.Values()}
			var rows [][]string
			for _, v := range out.Settings {
				rows = append(rows, []string{v.Key, command.OrDash(v.Value), v.Source.String()})
			}
			return command.PrintValue(a.Program, any(out), nil, func(any) string { return command.Columns(rows, 0) })
		},
	})
}
