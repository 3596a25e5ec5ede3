package app

import (
	"log/slog"
	"testing"

	"steward/internal/fault"
	"steward/internal/settings"
	"steward/internal/store/backup"
)

// A backup fits the store of the settings only if both are in the data folder, or both are in PostgreSQL.
func TestABackupFitsItsKindOfStore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ backup, settings, code string }{
		{"", "", ""},
		{"", "postgres://steward@localhost/steward", "store_elsewhere"},
		{inPostgres, "", "store_missing"},
		{inPostgres, "postgres://steward@localhost:1/steward?connect_timeout=1", "store_unreachable"},
	} {
		set := &settings.Loaded{}
		set.Store = settings.Secret(c.settings)
		err := (&App{}).Backups(set, slog.New(slog.DiscardHandler)).Fits(t.Context(), backup.Log{Store: c.backup})
		if c.code == "" && err != nil || c.code != "" && !fault.HasCode(err, c.code) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
