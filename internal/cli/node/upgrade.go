package node

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/internal/app"
	"steward/internal/cli/command"
	"steward/internal/fault"
)

func (a *program) upgradeCommand() *cobra.Command {
	return command.Group(&cobra.Command{
		Use: "upgrade", Short: "See what this version would change in the data folder", GroupID: "look",
		Long: "A newer Steward upgrades the data folder when it first opens it: it backs the folder up into backups in\n" +
			"the data folder, migrates the database in one transaction, and checks the result before it counts. If\n" +
			"anything fails, the data is as it was. docs/operations/upgrade.md tells more.",
	}, a.upgradeCheck())
}

func (a *program) upgradeCheck() *cobra.Command {
	var try bool
	c := &cobra.Command{Use: "check", Short: "Say what an upgrade would change, without changing anything", Args: cobra.NoArgs,
		Long: "Compare the data folder with what this version of Steward writes: the database, the indexes of searches,\n" +
			"and the settings. Say what would be changed, how long it takes and how much room it needs. With --try,\n" +
			"also upgrade a copy. The exit code is 1 if the upgrade could not work.",
		Example: "  ./steward-new upgrade check\n  ./steward-new upgrade check --try",
		RunE:    func(c *cobra.Command, _ []string) error { return a.checkUpgrade(c.Context(), try) }}
	c.Flags().BoolVar(&try, "try", false, "upgrade a copy in a temporary folder")
	return c
}

func (a *program) checkUpgrade(ctx context.Context, try bool) error {
	set, err := a.Settings() // settings that this version does not know are an error, with the remedy
	if err != nil {
		return err
	}
	p, err := a.PlanUpgrade(ctx, set)
	if err != nil {
		return err
	}
	if try {
		if err := a.TryUpgrade(ctx, set, slog.New(slog.DiscardHandler)); err != nil {
			return err
		}
	}
	if p.Problem != "" {
		return fault.New(fault.NoSpace, "disk_full", "%s: the upgrade needs up to %s, and %s are free", p.Problem, bytesOf(p.Bytes), bytesOf(p.Free)).
			WithHint("free some space first; nothing was changed")
	}
	return command.PrintValue(a.Program, p, nil, func(p app.UpgradePlan) string { return upgradeText(&p, len(set.Notices), try) })
}

func upgradeText(p *app.UpgradePlan, notices int, tried bool) string {
	var b strings.Builder
	for _, s := range p.Steps {
		switch {
		case s.Have == 0:
			fmt.Fprintf(&b, "%s: none yet\n", s.What)
		case s.Then == "":
			fmt.Fprintf(&b, "%s: version %d, which stays\n", s.What, s.Have)
		default:
			fmt.Fprintf(&b, "%s: version %d becomes %d: %s\n", s.What, s.Have, s.Want, s.Then)
		}
	}
	if notices == 0 {
		b.WriteString("settings: all of them are known\n")
	}
	if p.Seconds > 0 {
		fmt.Fprintf(&b, "it takes about %s and needs up to %s of room; %s are free\n", time.Duration(p.Seconds*float64(time.Second)).Round(time.Second), bytesOf(p.Bytes), bytesOf(p.Free))
	}
	switch {
	case tried && p.Changes:
		b.WriteString("a copy was upgraded, and is sound\n")
	case tried:
		b.WriteString("a copy was opened, and is sound\n")
	}
	if p.Changes {
		b.WriteString("nothing was changed; the first start of this version does it\n")
	} else {
		b.WriteString("this version has nothing to change\n")
	}
	return b.String()
}
