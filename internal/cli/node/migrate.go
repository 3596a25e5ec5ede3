package node

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"steward/internal/app"
	"steward/internal/cli/command"
	"steward/internal/store/transfer"
)

func (a *program) migrateCommand() *cobra.Command {
	var to string
	c := &cobra.Command{
		Use: "migrate", Short: "Copy everything that is stored to PostgreSQL, or back", GroupID: "keep",
		Long: "Copy everything that is stored to a PostgreSQL database, or from there to the data folder. No Steward\n" +
			"may run meanwhile. The source is not changed. Both sides are read again and compared by counts and\n" +
			"hashes; only then is the copy a store that can be opened. Run the command again to continue one that\n" +
			"was interrupted.\n\n" +
			"The setting store decides which of the two Steward uses. docs/operations/postgres.md explains both.",
		Example: "  steward migrate --to env:STEWARD_STORE\n  steward migrate --to sqlite",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.migrate(c.Context(), to) },
	}
	c.Flags().StringVar(&to, "to", "", "copy to `PLACE`: sqlite, or where the address of a database is, such as env:STEWARD_STORE")
	return c
}

// migrateReport is what steward migrate --json writes.
type migrateReport struct {
	Entries   int64  `json:"entries"`
	Resources int64  `json:"resources"`
	Seals     int64  `json:"seals"`
	Bytes     int64  `json:"bytes"`
	Hash      string `json:"hash"`
	Resumed   bool   `json:"resumed,omitzero"`
}

func (a *program) migrate(ctx context.Context, to string) error {
	if to == "" {
		return command.Usage("name the place to copy to: --to sqlite, or --to env:STEWARD_STORE")
	}
	set, err := a.Settings()
	if err != nil {
		return err
	}
	tenth := uint64(0)
	r, err := a.Migrate(ctx, set, to, func(done, all uint64) {
		if n := done * 10 / max(all, 1); n > tenth && n < 10 {
			tenth = n
			a.Note("steward: %d of %d entries copied", done, all)
		}
	})
	next := "unset STEWARD_STORE, or remove store from the settings, to use it"
	if to != app.ToSQLite {
		next = "set STEWARD_STORE to that address to use it; the data folder stays as it was"
	}
	return command.PrintValue(a.Program, reportOf(r), err, func(m migrateReport) string {
		again := ""
		if m.Resumed {
			again = ", continuing an earlier copy"
		}
		return fmt.Sprintf("copied and compared %d entries, %d resources and %d seals (%d bytes of bodies)%s\nhash of the entries: %s\n%s\n",
			m.Entries, m.Resources, m.Seals, m.Bytes, again, m.Hash, next)
	})
}

func reportOf(r transfer.Result) migrateReport {
	return migrateReport{Entries: r.Entries.Count, Resources: r.Nodes.Count, Seals: r.Seals.Count, Bytes: r.Bytes, Hash: r.Entries.Hash.String(), Resumed: r.Resumed}
}
