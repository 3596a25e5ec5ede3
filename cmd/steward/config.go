package main

import (
	"github.com/spf13/cobra"

	"steward/internal/settings"
)

func (a *app) configCommand() *cobra.Command {
	return group(&cobra.Command{
		Use: "config", Short: "Show the settings", GroupID: "look",
	}, &cobra.Command{
		Use: "show", Short: "Show each effective setting and where it comes from", Args: cobra.NoArgs,
		Long: "Show each effective setting and where it comes from: a flag, the environment, the project's\n" +
			"file (./steward.yaml, or the one named with --config), the user's file, or the default.\n" +
			"Keys are masked. docs/reference/settings.md describes all settings.",
		RunE: func(*cobra.Command, []string) error {
			set, err := a.settings()
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(struct {
					Files    []string         `json:"files"`
					Notices  []string         `json:"notices"`
					Settings []settings.Value `json:"settings"`
				}{orEmpty(set.Files), orEmpty(set.Notices), set.Values()})
			}
			var rows [][]string
			for _, v := range set.Values() {
				rows = append(rows, []string{v.Key, orDash(v.Value), v.Source.String()})
			}
			return a.print(columns(rows, 0))
		},
	})
}
