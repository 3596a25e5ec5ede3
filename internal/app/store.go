package app

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/url"
	"os"

	"steward/internal/secret"
	"steward/internal/settings"
	"steward/internal/store"
	"steward/internal/store/postgres"
	"steward/internal/store/sqlite"
)

// Store is the store of a node: a file in the data folder, or a PostgreSQL database.
type Store interface {
	store.Store
	store.Sealer
	Ready(ctx context.Context) error
	Head() uint64 // the newest entry of the log that this process knows
	Queued() int  // batches that wait to be committed
	Close() error
}

// OpenStore opens the store. It makes the data folder and the database in it if necessary. wrote is
// called after each write; it may be nil.
//
// With PostgreSQL the data folder holds what belongs to this node: its secrets, its copies of agents, and
// the indexes of the search, which follow the log. So it is locked for this process in any case.
func (a *App) OpenStore(ctx context.Context, set *settings.Loaded, log *slog.Logger, wrote func(store.Scope, int, int64)) (Store, error) {
	if err := a.MakeData(set); err != nil {
		return nil, err
	}
	if set.Store == "" {
		return opened(sqlite.Open(ctx, sqlite.Options{Path: Database(set.Data), Log: log, Mask: a.Hidden().MaskBytes, Wrote: wrote, Telemetry: a.telemetry, BeforeMigration: a.beforeUpgrade(ctx, set, log)}))
	}
	o, err := a.storeOptions(ctx, set)
	if err != nil {
		return nil, err
	}
	o.Log, o.Mask, o.Wrote, o.Telemetry, o.Shared = log, a.Hidden().MaskBytes, wrote, a.telemetry, set.Cluster.On()
	lock, err := sqlite.TakeLock(Database(set.Data) + ".lock")
	if err != nil {
		return nil, err
	}
	st, err := postgres.Open(ctx, o)
	if err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	return lockedStore{st, lock}, nil
}

// opened keeps a failed open from looking like a store.
func opened[S Store](st S, err error) (Store, error) {
	if err != nil {
		return nil, err
	}
	return st, nil
}

// lockedStore is a store elsewhere with the lock of the data folder here.
type lockedStore struct {
	*postgres.Store
	lock *sqlite.FileLock
}

// Close closes the store, then gives the data folder free.
func (s lockedStore) Close() error { return errors.Join(s.Store.Close(), s.lock.Release()) }

// ReadStore opens the store for reading, even while a Steward uses it. A database file that does not
// exist is database_missing.
func (a *App) ReadStore(ctx context.Context, set *settings.Loaded) (Store, error) {
	if set.Store == "" {
		return opened(sqlite.Open(ctx, sqlite.Options{Path: Database(set.Data), ReadOnly: true}))
	}
	o, err := a.storeOptions(ctx, set)
	if err != nil {
		return nil, err
	}
	o.Owner, o.ReadOnly = "", true
	return opened(postgres.Open(ctx, o))
}

// HasStore reports whether something may be stored: the database file exists, or the store is elsewhere.
func HasStore(set *settings.Loaded) bool {
	if set.Store != "" {
		return true
	}
	_, err := os.Stat(Database(set.Data))
	return !errors.Is(err, os.ErrNotExist)
}

// storeOptions resolves the addresses of the store.
func (a *App) storeOptions(ctx context.Context, set *settings.Loaded) (o postgres.Options, err error) {
	o.URL, err = a.storeAddress(ctx, set, set.Store)
	if err == nil {
		o.Owner, err = a.storeAddress(ctx, set, set.StoreOwner)
	}
	return o, err
}

// storeAddress returns an address of the store, from where the setting says it is. Its password is hidden
// from then on.
func (a *App) storeAddress(ctx context.Context, set *settings.Loaded, address settings.Secret) (text string, err error) {
	if text = address.Reveal(); secret.IsReference(text) {
		if text, err = a.Resolver(set).Resolve(ctx, text); err != nil {
			return "", err
		}
	}
	if u, err := url.Parse(text); err == nil {
		password, _ := u.User.Password()
		password = cmp.Or(password, u.Query().Get("password"))
		if secret.Check(password) == nil { // too short ones cannot be masked
			a.Hide(password, "password of the store")
		}
	}
	return text, nil
}
