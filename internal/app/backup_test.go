package app

import (
	"log/slog"
	"strings"
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

// An upgrade says who backs the database up before it: Steward a file, and the operator one in PostgreSQL.
func TestAnUpgradeSaysWhoBacksUp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		have, want int
		inPostgres bool
		then       string
	}{
		{0, 2, false, ""}, {2, 2, false, ""}, {1, 2, false, "it is backed up"},
		{0, 2, true, ""}, {2, 2, true, ""}, {1, 2, true, "make a dump with pg_dump first"},
	} {
		got := databaseStep(c.have, c.want, c.inPostgres)
		if got.Have != c.have || got.Want != c.want || c.then == "" && got.Then != "" || !strings.Contains(got.Then, c.then) {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}
