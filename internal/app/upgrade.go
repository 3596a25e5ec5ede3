package app

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"steward/internal/fault"
	"steward/internal/lifetime/disk"
	"steward/internal/memory/documents"
	"steward/internal/search/fts"
	"steward/internal/search/vector"
	"steward/internal/settings"
	"steward/internal/store/backup"
	"steward/internal/store/postgres"
	"steward/internal/store/sqlite"
)

// A newer program on an older data folder makes a backup first (beforeUpgrade), which is checked like any other. The
// database is then migrated in one transaction, which checks itself before it commits. If the node cannot be opened
// over it, the database is put back as it was (undoUpgrade), so that the older program goes on.

// beforeUpgrade returns what is called before the database is migrated: it backs the data folder up.
func (a *App) beforeUpgrade(ctx context.Context, set *settings.Loaded, log *slog.Logger) func(from, to int) error {
	return func(from, to int) error {
		a.Note("steward: backing up %s before it is upgraded from version %d of its database to %d", set.Data, from, to)
		made, err := backup.Make(ctx, a.Backups(set, log).Options(backup.Own(set.Data), backup.Upgrade))
		if err != nil {
			e := fault.Of(err)
			return fault.New(e.Kind, e.Code, "the data folder is not upgraded, because it cannot be backed up first: %w", err).
				WithHint("nothing was changed; the Steward that wrote it still opens it")
		}
		a.upgraded = made.Path
		log.Info("backed up before the upgrade", "backup", made.Path, "from", from, "to", to)
		return nil
	}
}

// migrated returns the version of the database file that this opening has migrated; 0: it has not. PostgreSQL
// undoes a migration that fails by itself.
func migrated(st Store) int {
	if file, ok := st.(*sqlite.Store); ok {
		return file.Migrated()
	}
	return 0
}

// undoUpgrade puts the database back as it was before it was migrated, if it was. The store is closed.
func (a *App) undoUpgrade(st Store, set *settings.Loaded, log *slog.Logger) error {
	if migrated(st) == 0 || a.upgraded == "" {
		return nil
	}
	if err := backup.PutBack(a.upgraded, set.Data, nil); err != nil {
		return fault.New(fault.Internal, "upgrade_not_undone", "the upgrade failed, and the database could not be put back: %w", err).
			WithHint("restore it with the Steward that wrote it, or this one: steward restore %s --replace", a.upgraded)
	}
	log.Warn("the upgrade was undone: the database is as it was", "version", migrated(st))
	a.Note("steward: the upgrade failed and was undone: the data is as it was, and the Steward that wrote it still opens it")
	return nil
}

// upgradesKept is how many of the backups from before upgrades are kept.
const upgradesKept = 2

// afterUpgrade says where the backup is, once the node is open.
func (a *App) afterUpgrade(st Store, set *settings.Loaded, log *slog.Logger) {
	if migrated(st) == 0 || a.upgraded == "" {
		return
	}
	a.Note("steward: upgraded; the data as it was before is in %s", a.upgraded)
	if _, err := backup.Prune(backup.Own(set.Data), backup.Upgrade, backup.Retention{Last: upgradesKept}, time.Local, nil); err != nil {
		log.Warn("old backups from before upgrades cannot be removed", "error", err)
	}
}

// UpgradeStep is something that an upgrade would change.
type UpgradeStep struct {
	What string `json:"what"`
	Have int    `json:"have"` // the version in the data folder; 0: there is none
	Want int    `json:"want"` // the version that this program writes
	Then string `json:"then"` // what happens to it; empty: nothing
}

// UpgradePlan is what this program would change in a data folder.
type UpgradePlan struct {
	Data    string        `json:"data"`
	Steps   []UpgradeStep `json:"steps"`
	Changes bool          `json:"changes"`
	Bytes   int64         `json:"bytes"` // that the backup before it, its check and the migration need at most
	Free    int64         `json:"free"`
	Seconds float64       `json:"seconds"` // how long it will take, roughly
	Problem string        `json:"problem,omitzero"`
}

// upgradeRate is how many bytes of a data folder are backed up, checked and migrated in a second, on a slow machine.
// docs/operations/benchmarks.md has measured figures.
const upgradeRate = 20e6

// PlanUpgrade finds out what this program would change in the data folder. It changes nothing. Errors: those of a
// database that this program cannot open, such as database_too_new.
func (a *App) PlanUpgrade(ctx context.Context, set *settings.Loaded) (UpgradePlan, error) {
	p := UpgradePlan{Data: set.Data, Steps: []UpgradeStep{}}
	have, want, err := a.schemaOf(ctx, set)
	if err != nil {
		return p, err
	}
	step := databaseStep(have, want, set.Store != "")
	p.Changes = step.Then != ""
	p.Steps = append(p.Steps, step)
	for _, x := range []struct {
		what, file, then string
		want             int
	}{
		{"index of the words of messages", searchFile(set.Data), "it is built anew in the background; searches find less until then", fts.IndexVersion()},
		{"index of vectors", vectorsFile(set.Data), "it is built anew in the background, which the model for vectors is paid for", vector.IndexVersion()},
		{"index of documents", documentsFile(set.Data), "it is built anew at the first search", documents.IndexVersion()},
	} {
		step := UpgradeStep{What: x.what, Want: x.want}
		if _, err := os.Stat(x.file); err == nil {
			if step.Have, err = sqlite.UserVersion(x.file); err != nil {
				return p, fault.New(fault.Internal, "index_unreadable", "%s cannot be read: %w", x.file, err).WithHint("stop Steward and delete it; it is then rebuilt")
			}
		}
		if step.Have != 0 && step.Have != step.Want {
			step.Then, p.Changes = x.then, true
		}
		p.Steps = append(p.Steps, step)
	}
	size, err := sizeOf(set.Data)
	if err != nil {
		return p, err
	}
	if p.Steps[0].Then != "" && set.Store == "" {
		p.Bytes, p.Seconds = 3*size, 1+float64(size)/upgradeRate
	}
	if free, err := disk.Free(set.Data); err == nil {
		p.Free = free
		if p.Bytes > p.Free {
			p.Problem = "there is too little room on the disk"
		}
	}
	return p, nil
}

// databaseStep is what happens to a database: a file, or one in PostgreSQL.
func databaseStep(have, want int, inPostgres bool) UpgradeStep {
	step := UpgradeStep{What: "database", Have: have, Want: want}
	switch {
	case have == 0 || have == want:
	case inPostgres:
		step.Then = "its tables are changed in one transaction, as the role in STEWARD_STORE_OWNER; Steward does not back it up: make a dump with pg_dump first"
	default:
		step.Then = "it is backed up, migrated in one transaction, and checked"
	}
	return step
}

// schemaOf returns the version of the database, and the one that this program needs.
func (a *App) schemaOf(ctx context.Context, set *settings.Loaded) (have, want int, err error) {
	if set.Store == "" {
		return sqlite.SchemaOf(Database(set.Data))
	}
	o, err := a.storeOptions(ctx, set)
	if err != nil {
		return 0, 0, err
	}
	return postgres.SchemaOf(ctx, o.URL)
}

// sizeOf returns the size of what a backup of a data folder holds.
func sizeOf(data string) (n int64, err error) {
	err = filepath.WalkDir(data, func(at string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || at == data {
			return err
		}
		rel, err := filepath.Rel(data, at)
		if err != nil {
			return err
		}
		switch backup.SortOf(filepath.ToSlash(rel)) {
		case backup.Derived, backup.Passing, backup.Aside:
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			n += info.Size()
		}
		return nil
	})
	return n, err
}

// TryUpgrade backs the data folder up into a temporary folder and migrates that copy, to find out whether it works.
func (a *App) TryUpgrade(ctx context.Context, set *settings.Loaded, log *slog.Logger) (err error) {
	if set.Store != "" {
		return fault.New(fault.Unsupported, "upgrade_not_tried", "a database in PostgreSQL is not copied, so its upgrade cannot be tried here").
			WithHint("restore a dump of it into another database, and start this version with STEWARD_STORE and STEWARD_STORE_OWNER set to that one")
	}
	temp, err := os.MkdirTemp("", "steward-upgrade-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	made, err := backup.Make(ctx, a.Backups(set, log).Options(filepath.Join(temp, "backup"), backup.Manual))
	if err != nil {
		return err
	}
	st, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(made.Path, "data", filepath.Base(Database(set.Data)))})
	if err != nil {
		return err
	}
	return st.Close()
}
