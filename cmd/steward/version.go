package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Show the version", GroupID: "look",
		RunE: func(*cobra.Command, []string) error {
			v := map[string]string{"version": a.versionText(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
			return tell(a, v, nil, func(v map[string]string) string {
				return fmt.Sprintf("steward %s (%s, %s)\n", v["version"], v["go"], v["platform"])
			})
		},
	}
}

// versionText returns the version that the linker set, or else the version of the module or
// the commit that Go recorded.
func (a *app) versionText() string {
	if a.version != "unknown" && a.version != "" {
		return a.version
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		if v := info.Main.Version; v != "" && v != "(devel)" {
			return v // Go derives it from the tag, or from the commit and its time
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				return s.Value[:12]
			}
		}
	}
	return "unknown"
}
