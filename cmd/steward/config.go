package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"steward/internal/settings"
)

func (a *app) configCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "config", Short: "Show the settings", GroupID: "look", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(&cobra.Command{
		Use: "show", Short: "Show each effective setting and where it comes from", Args: cobra.NoArgs,
		Long: "Show each effective setting and where it comes from: a flag, the environment, the project's\n" +
			"file (./steward.yaml, or the one named with --config), the user's file, or the default.\n" +
			"Keys are masked. docs/settings.md describes all settings.",
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
			w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
			for _, v := range set.Values() {
				fmt.Fprintf(w, "%s\t%s\t%s\n", v.Key, orDash(v.Value), v.Source)
			}
			return w.Flush()
		},
	})
	return c
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
