package cli

import (
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"steward/internal/cli/command"
)

func (a *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Show the version", GroupID: "look",
		RunE: func(*cobra.Command, []string) error {
			v := map[string]string{"version": a.VersionText(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
			return command.PrintValue(&a.Program, v, nil, func(v map[string]string) string {
				return fmt.Sprintf("steward %s (%s, %s)\n", v["version"], v["go"], v["platform"])
			})
		},
	}
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
