package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"filippo.io/age"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/identity"
	"steward/internal/record"
	"steward/internal/settings"
	"steward/internal/store"
	"steward/internal/store/audit"
	"steward/internal/store/backup"
)

// Backups makes backups as the settings say.
type Backups struct {
	app *App
	set *settings.Loaded
	log *slog.Logger
}

// Backups returns what makes backups of the data folder of the settings.
func (a *App) Backups(set *settings.Loaded, log *slog.Logger) Backups { return Backups{a, set, log} }

// Options returns the options of a backup in a folder.
func (b Backups) Options(folder string, kind backup.Kind, to ...age.Recipient) backup.Options {
	o := backup.Options{Data: b.set.Data, Folder: folder, Kind: kind, Version: b.app.VersionText(), Settings: map[string]string{}, Age: to}
	for _, file := range b.set.Files {
		name := filepath.Base(file)
		for n := 2; o.Settings[name] != ""; n++ {
			name = fmt.Sprintf("%d-%s", n, filepath.Base(file))
		}
		o.Settings[name] = file
	}
	if b.set.Store != "" {
		o.Log = b.logElsewhere
	}
	return o
}

// inPostgres is how a manifest names the store that is not in the data folder.
const inPostgres = "postgres"

// logElsewhere describes the log in PostgreSQL.
func (b Backups) logElsewhere(ctx context.Context) (l backup.Log, err error) {
	st, err := b.app.ReadStore(ctx, b.set)
	if err != nil {
		return l, err
	}
	l.Store, l.Entries = inPostgres, st.Head()
	l.Head, err = st.Seal(ctx)
	return l, errors.Join(err, st.Close())
}

// Fits reports why the store of the settings does not fit a backup. A database in PostgreSQL is restored by itself, and
// must not be older than the files of the backup. Errors: store_elsewhere, store_missing, store_behind_backup,
// store_differs, and those of opening the store.
func (b Backups) Fits(ctx context.Context, l backup.Log) (err error) {
	switch {
	case l.Store == "" && b.set.Store == "":
		return nil
	case l.Store == "":
		return fault.New(fault.Conflict, "store_elsewhere", "the backup holds a database, but the setting store names another one, in PostgreSQL").
			WithHint("unset STEWARD_STORE, restore, and copy it with steward migrate; or add --no-store-check, and the database of the backup is not used")
	case b.set.Store == "":
		return fault.New(fault.Conflict, "store_missing", "the database of this backup is in PostgreSQL, but the setting store names none").
			WithHint("restore that database first and set STEWARD_STORE to it; --no-store-check restores the files without it")
	}
	const first = "restore the database first, to a moment after the backup (docs/operations/postgres.md); --no-store-check restores the files in any case"
	st, err := b.app.ReadStore(ctx, b.set)
	if err != nil {
		return fault.Of(err).WithHint(first)
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if last := st.Head(); last < l.Entries {
		return fault.New(fault.Conflict, "store_behind_backup", "the database ends at entry %d of the log, but the backup was made at entry %d: the database is older than the files", last, l.Entries).WithHint(first)
	}
	var heads []store.Head
	if l.Head.Seq > 0 {
		heads = append(heads, l.Head)
	}
	v, err := st.Verify(ctx, heads...)
	if err != nil {
		return err
	}
	if v.Flaw != nil {
		return fault.New(fault.Conflict, "store_differs", "the log in the database is not the one that the backup belongs to: entry %d: %s", v.Flaw.Seq, v.Flaw.What).WithHint(first)
	}
	return nil
}

// Make makes a backup that somebody asked for.
func (b Backups) Make(ctx context.Context, in client.NewBackup) (client.Backup, error) {
	folder := cmp.Or(in.Folder, b.set.Backup.Folder)
	if folder == "" {
		return client.Backup{}, fault.New(fault.Invalid, "backup_nowhere", "no folder for backups is named or set").
			WithHint("name one: steward backup FOLDER; or set backup.folder, best on another disk")
	}
	if !filepath.IsAbs(folder) {
		return client.Backup{}, fault.New(fault.Invalid, "path_invalid", "%.200q is not an absolute path", folder)
	}
	keys := in.Recipients
	if len(keys) == 0 {
		keys = b.set.Backup.Recipients
	}
	return b.make(ctx, folder, backup.Manual, keys)
}

func (b Backups) make(ctx context.Context, folder string, kind backup.Kind, keys []string) (client.Backup, error) {
	to, err := backup.Recipients(keys)
	if err != nil {
		return client.Backup{}, err
	}
	made, err := backup.Make(ctx, b.Options(folder, kind, to...))
	if err != nil {
		return client.Backup{}, err
	}
	return BackupView(made, len(to) > 0), nil
}

// BackupView describes a backup that was made.
func BackupView(made backup.Made, encrypted bool) client.Backup {
	m := &made.Manifest
	v := client.Backup{Path: made.Path, Made: m.Made, Kind: string(m.Kind), Encrypted: encrypted, Bytes: m.Bytes, Files: m.Count(), Entries: m.Log.Entries,
		Store: m.Log.Store, LeftOut: m.LeftOut, Checked: made.Checked, Seconds: made.Took.Seconds()}
	if m.Log.Head.Seq > 0 {
		v.Head = audit.FormatHead(m.Log.Head)
	}
	return v
}

// List lists the backups in the folder of the settings and in the data folder.
func (b Backups) List(context.Context) (client.Backups, error) {
	out := client.Backups{Folder: b.set.Backup.Folder, Backups: []client.Backup{}}
	for _, folder := range []string{b.set.Backup.Folder, backup.Own(b.set.Data)} {
		if folder == "" {
			continue
		}
		list, err := backup.List(folder)
		if err != nil {
			return out, err
		}
		for _, e := range list {
			out.Backups = append(out.Backups, client.Backup{Path: e.Path, Made: e.Made, Kind: string(e.Kind), Encrypted: e.Encrypted, Bytes: e.Bytes})
		}
	}
	if last, ok := LastBackup(b.set); ok {
		out.Last = &last
	}
	return out, nil
}

// lastBackup is the file that says how the last scheduled backup ended.
func lastBackup(set *settings.Loaded) string { return filepath.Join(set.Data, "backup.json") }

// LastBackup returns how the last scheduled backup ended, if there was one.
func LastBackup(set *settings.Loaded) (end client.BackupEnd, ok bool) {
	b, err := os.ReadFile(lastBackup(set))
	return end, err == nil && json.Unmarshal(b, &end) == nil
}

// scheduled makes the backup of the job, removes those that no rule keeps, and notes how it ended. It returns a
// sentence about it.
func (b Backups) scheduled(ctx context.Context) (string, error) {
	keep := b.set.Backup.Keep
	made, err := b.make(ctx, b.set.Backup.Folder, backup.Job, b.set.Backup.Recipients)
	said := fmt.Sprintf("%s, %d bytes, checked", made.Path, made.Bytes)
	if len(made.LeftOut) > 0 {
		said += "; not in it: " + Some(made.LeftOut)
	}
	if err == nil {
		old, e := backup.Prune(b.set.Backup.Folder, backup.Job, backup.Retention{Last: keep.Last, Daily: keep.Daily, Weekly: keep.Weekly, Monthly: keep.Monthly}, time.Local, nil)
		if err = e; len(old) > 0 {
			said += fmt.Sprintf("; removed %s", Counted(len(old), "old one", "old ones"))
		}
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	end, _ := LastBackup(b.set)
	end.At, end.Code, end.Message = time.Now().UTC().Truncate(time.Second), "", ""
	if err != nil {
		e := fault.Of(err)
		end.Code, end.Message = e.Code, e.Message
	} else {
		end.Good, end.Path = end.At, made.Path
	}
	text, e := json.Marshal(end)
	if e == nil {
		if e = os.WriteFile(lastBackup(b.set)+".new", append(text, '\n'), 0o600); e == nil {
			e = os.Rename(lastBackup(b.set)+".new", lastBackup(b.set))
		}
	}
	return said, errors.Join(err, e)
}

// BackupJob is the name of the job that makes backups.
const BackupJob = "backup"

// keepBackupJob adds the job that makes backups if the settings name a folder, changes it if they name another
// time, and removes it if they name no folder any more. A person may pause it.
func (l *Local) keepBackupJob(ctx context.Context, set *settings.Loaded) error {
	old, err := l.alarms.Job(ctx, identity.Local, BackupJob)
	found := err == nil
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	switch every := int(set.Backup.Every / time.Second); {
	case found && old.Kind != record.KindBackup:
		if set.Backup.Folder == "" {
			return nil
		}
		return fault.New(fault.Conflict, "name_taken", "no backups are made: you have a job %q of your own", BackupJob).WithHint("remove it, and add it again under another name")
	case set.Backup.Folder == "" && found:
		_, err = l.alarms.RemoveJob(ctx, identity.Local, BackupJob)
		return err
	case set.Backup.Folder == "" || found && old.Every == every:
		return nil
	default:
		_, err = l.alarms.SetJob(ctx, record.Job{User: identity.Local, Name: BackupJob, Kind: record.KindBackup, Creator: "user", Text: "Back up the data folder",
			Trigger: record.Trigger{Every: every}, Zone: "UTC", Missed: record.MissedOnce, Overlap: record.OverlapSkip, Retries: 2})
		return err
	}
}
