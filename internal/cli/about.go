package cli

import (
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"steward/internal/server/auth"
	"steward/internal/settings"
)

func (a *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Show the version", GroupID: "look",
		RunE: func(*cobra.Command, []string) error {
			v := map[string]string{"version": a.VersionText(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
			return printValue(a, v, nil, func(v map[string]string) string {
				return fmt.Sprintf("steward %s (%s, %s)\n", v["version"], v["go"], v["platform"])
			})
		},
	}
}

func (a *program) configCommand() *cobra.Command {
	return group(&cobra.Command{
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
			}{orEmpty(set.Files), orEmpty(set.Notices), set.Values()}
			var rows [][]string
			for _, v := range out.Settings {
				rows = append(rows, []string{v.Key, orDash(v.Value), v.Source.String()})
			}
			return printValue(a, any(out), nil, func(any) string { return columns(rows, 0) })
		},
	})
}

func (a *program) tokenCommand() *cobra.Command {
	var replace bool
	c := &cobra.Command{
		Use: "token", Short: "Print your token for curl and other programs", GroupID: "keep",
		Long: "Print the token of this machine's own user. Steward asks every program for a credential, on this\n" +
			"machine too; its own commands and the chat read the token automatically. Anyone who has the token may\n" +
			"do everything that you may do. It is stored in the file token in the data folder, and created at the\n" +
			"first start. --new replaces it: the old token becomes invalid, and connections opened with it are\n" +
			"closed. For other people create keys (steward keys create).",
		Example: "  TOKEN=$(steward token)\n  steward token --new",
		RunE: func(*cobra.Command, []string) error {
			set, err := a.Settings()
			if err != nil {
				return err
			}
			get := auth.MakeToken
			if replace {
				get = auth.NewToken
			}
			token, err := get(set.Data)
			return printValue(a, map[string]string{"token": token}, err, func(map[string]string) string { return token + "\n" })
		},
	}
	c.Flags().BoolVar(&replace, "new", false, "replace the token")
	return c
}

func (a *program) manCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "man FOLDER", Short: "Write the manual pages to a folder", GroupID: "look",
		Long:    "Write a manual page for each command to a folder, which is created if it is missing.",
		Example: "  steward man ~/.local/share/man/man1",
		RunE: func(_ *cobra.Command, args []string) error {
			dir := a.Path(args[0])
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			// A fixed date: the pages of one version are the same everywhere.
			date := time.Unix(0, 0)
			head := &doc.GenManHeader{Title: "STEWARD", Section: "1", Source: "Steward " + a.VersionText(), Manual: "Steward", Date: &date}
			if err := doc.GenManTree(root, head, dir); err != nil {
				return fmt.Errorf("writing the manual pages: %w", err)
			}
			a.Note("the manual pages are in %s", dir)
			return nil
		},
	}
}
