package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

func (a *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Show the version", GroupID: "look",
		RunE: func(*cobra.Command, []string) error {
			v := map[string]string{"version": a.VersionText(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
			return tell(a, v, nil, func(v map[string]string) string {
				return fmt.Sprintf("steward %s (%s, %s)\n", v["version"], v["go"], v["platform"])
			})
		},
	}
}
