package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"

	"steward/internal/fault"
	"steward/internal/secret"
	"steward/internal/settings"
	"steward/internal/store"
	"steward/internal/store/postgres"
	"steward/internal/store/sqlite"
	"steward/internal/store/transfer"
)

// ToSQLite is the name of the database in the data folder as a place to migrate to.
const ToSQLite = "sqlite"

// source is a store that is being copied.
type source interface {
	Store
	transfer.Reader
}

// target is what it becomes.
type target interface {
	transfer.Target
	Close() error
}

// Migrate copies the store: from the data folder to a PostgreSQL database, or from the database of the
// setting store to the data folder. It keeps the data folder locked meanwhile, and changes nothing in the
// source. told is called now and then with the number of entries copied, and of all entries.
func (a *App) Migrate(ctx context.Context, set *settings.Loaded, to string, told func(done, all uint64)) (r transfer.Result, err error) {
	if err := a.MakeData(set); err != nil {
		return r, err
	}
	file := Database(set.Data)
	var from source
	var into target
	if to == ToSQLite {
		from, into, err = a.migrateBack(ctx, set, file)
	} else {
		from, into, err = a.migrateAway(ctx, set, file, to)
	}
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, into.Close(), from.Close()) }()
	name, all, err := nameOf(ctx, from)
	if err != nil {
		return r, err
	}
	return transfer.Copy(ctx, from, name, into, func(done uint64) { told(done, all) })
}

// nameOf returns a name of the source that changes when something is written to it, and its newest entry.
func nameOf(ctx context.Context, from source) (name string, last uint64, err error) {
	if name, err = transfer.Name(ctx, from); err != nil {
		return "", 0, err
	}
	page, err := from.Log(ctx, store.ForNode("system"), store.LogQuery{Reverse: true, Limit: 1})
	if err == nil && len(page.Entries) > 0 {
		last = page.Entries[0].Seq
	}
	return fmt.Sprintf("%s at %d", name, last), last, err
}

// migrateAway opens the database of the data folder, and the one to fill. The address may not hold a
// password, since other users of the machine can read what a program is started with.
func (a *App) migrateAway(ctx context.Context, set *settings.Loaded, file, to string) (source, target, error) {
	if !secret.IsReference(to) {
		u, err := url.Parse(to)
		if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
			return nil, nil, fault.New(fault.Invalid, "store_invalid", "a store cannot be migrated to %.40q", to).
				WithHint("name %s, an address such as env:STEWARD_STORE or store:NAME, or postgres://ROLE@HOST/DATABASE", ToSQLite)
		}
		if _, told := u.User.Password(); told || u.Query().Has("password") {
			return nil, nil, fault.New(fault.Invalid, "password_exposed", "the address holds a password, which other users of this machine can read on the command line").
				WithHint("put the address into a variable and name that: --to env:STEWARD_STORE")
		}
	}
	o, err := a.storeOptions(ctx, set)
	if err == nil {
		o.URL, err = a.storeAddress(ctx, set, settings.Secret(to))
	}
	if err != nil {
		return nil, nil, err
	}
	lock, err := sqlite.TakeLock(file + ".lock")
	if err != nil {
		return nil, nil, err
	}
	from, err := sqlite.Open(ctx, sqlite.Options{Path: file, ReadOnly: true})
	if err != nil {
		return nil, nil, errors.Join(err, lock.Release())
	}
	into, err := postgres.NewTransfer(ctx, o)
	if err != nil {
		return nil, nil, errors.Join(err, from.Close(), lock.Release())
	}
	return lockedFile{from, lock}, into, nil
}

// migrateBack opens the database of the setting store, and the file to fill.
func (a *App) migrateBack(ctx context.Context, set *settings.Loaded, file string) (source, target, error) {
	if set.Store == "" {
		return nil, nil, fault.New(fault.Invalid, "store_missing", "the store is in the data folder already: the setting store names no other").
			WithHint("set STEWARD_STORE to the address of the database to copy from")
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fault.New(fault.Conflict, "transfer_refused", "there is a database at %s already", file).
			WithHint("move it away, for example to %s.old", file)
	}
	o, err := a.storeOptions(ctx, set)
	if err != nil {
		return nil, nil, err
	}
	o.Owner, o.ReadOnly = "", true
	from, err := postgres.Open(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	if err := from.Claim(ctx); err != nil {
		return nil, nil, errors.Join(err, from.Close())
	}
	into, err := sqlite.NewTransfer(file)
	if err != nil {
		return nil, nil, errors.Join(err, from.Close())
	}
	return from, into, nil
}

// lockedFile is a database of a data folder that is locked.
type lockedFile struct {
	*sqlite.Store
	lock *sqlite.FileLock
}

// Close closes the database, then gives the data folder free.
func (s lockedFile) Close() error { return errors.Join(s.Store.Close(), s.lock.Release()) }
