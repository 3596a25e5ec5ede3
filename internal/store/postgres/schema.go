package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"

	"steward/internal/fault"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// schemaName is the schema of all tables. Existing databases have it.
const schemaName = "steward"

// steps returns the statements of each migration, from an empty database on. The
// version of a database is the number of steps applied to it.
func steps() ([]string, error) {
	names, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	out := make([]string, len(names))
	for i, n := range names {
		b, err := migrationFiles.ReadFile(n)
		if err != nil {
			return nil, err
		}
		out[i] = string(b)
	}
	return out, nil
}

// grants is what the role of the node may do with each table. It cannot delete or
// rewrite an entry of the log, but only empty its body; and the owner's other
// rights are not its own.
var grants = []string{
	"GRANT USAGE ON SCHEMA " + schemaName + " TO %[1]s",
	"GRANT SELECT ON ALL TABLES IN SCHEMA " + schemaName + " TO %[1]s",
	"GRANT INSERT, UPDATE (body) ON log TO %[1]s",
	"GRANT INSERT, UPDATE ON tree, seal TO %[1]s",
	"GRANT INSERT, UPDATE, DELETE ON place TO %[1]s",
	"GRANT INSERT, DELETE ON term, transfer, silent TO %[1]s",
	"GRANT INSERT ON space, scar TO %[1]s",
	"GRANT UPDATE ON sealed TO %[1]s",
}

// The advisory locks in a database: of those who prepare it, of those who write to
// its log, and of the Steward whose database it is.
const (
	prepareLock = 0x53747764 + iota // "Stwd"
	logLock
	storeLock
)

// Prepare makes the tables of a database, or brings those of an older Steward up
// to date, as their owner, and lets a role use them. It does all of it, or nothing.
// Errors: store_unreachable, store_refused, database_too_new, store_broken.
func Prepare(ctx context.Context, owner, role string) error {
	all, err := steps()
	if err != nil {
		return err
	}
	config, err := parse(owner)
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return coded(err)
	}
	defer disconnect(conn)
	tx, err := conn.Begin(ctx)
	if err != nil {
		return coded(err)
	}
	if err := prepare(ctx, tx, all, role); err != nil {
		return errors.Join(coded(err), tx.Rollback(context.WithoutCancel(ctx)))
	}
	return coded(tx.Commit(ctx))
}

func prepare(ctx context.Context, tx pgx.Tx, all []string, role string) error {
	if _, err := tx.Exec(ctx, takeLock, int64(prepareLock)); err != nil {
		return err
	}
	version, err := versionOf(ctx, tx)
	if err != nil {
		return err
	}
	if version > len(all) {
		return tooNew(version, len(all))
	}
	if version == 0 {
		_, err = tx.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+schemaName+"; CREATE TABLE version (version integer NOT NULL); INSERT INTO version VALUES (0)")
	}
	for _, step := range all[version:] {
		if err == nil {
			_, err = tx.Exec(ctx, step)
		}
	}
	if err == nil {
		_, err = tx.Exec(ctx, fmt.Sprintf("UPDATE version SET version = %d", len(all)))
	}
	for _, grant := range grants {
		if err == nil {
			_, err = tx.Exec(ctx, fmt.Sprintf(grant, pgx.Identifier{role}.Sanitize()))
		}
	}
	return err
}

// SchemaOf returns the version of the tables of a database, and the one that this program needs. The version is 0 if
// there are no tables. Nothing is changed. Errors: store_unreachable, store_refused.
func SchemaOf(ctx context.Context, url string) (version, newest int, err error) {
	all, err := steps()
	if err != nil {
		return 0, 0, err
	}
	config, err := parse(url)
	if err != nil {
		return 0, 0, err
	}
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return 0, 0, coded(err)
	}
	defer disconnect(conn)
	if version, err = versionOf(ctx, conn); err == nil && version > len(all) {
		err = tooNew(version, len(all))
	}
	return version, len(all), coded(err)
}

// querier is a connection or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// versionOf returns the version of the tables, 0 if there are none.
func versionOf(ctx context.Context, q querier) (version int, err error) {
	var exists bool
	if err := q.QueryRow(ctx, "SELECT to_regclass('"+schemaName+".version') IS NOT NULL").Scan(&exists); err != nil || !exists {
		return 0, err
	}
	err = q.QueryRow(ctx, "SELECT version FROM "+schemaName+".version").Scan(&version)
	return version, err
}

func tooNew(version, newest int) error {
	return fault.New(fault.Unsupported, "database_too_new",
		"the database has version %d, but this Steward supports versions up to %d; it was not changed", version, newest).
		Detail("version", version).WithHint("install the Steward that wrote it, or a newer one")
}

// checkRole refuses a database that is not prepared, and a role that the policies
// do not bind.
func checkRole(ctx context.Context, q querier, newest int) error {
	version, err := versionOf(ctx, q)
	if err != nil {
		return err
	}
	switch {
	case version > newest:
		return tooNew(version, newest)
	case version < newest:
		return fault.New(fault.Unsupported, "store_not_prepared",
			"the database has the tables of version %d, but this Steward needs version %d", version, newest).
			WithHint("set STEWARD_STORE_OWNER to the address of the database for the role that owns it, and start again")
	}
	var role string
	var strong bool
	err = q.QueryRow(ctx, `SELECT current_user, rolsuper OR rolbypassrls
			OR pg_has_role(current_user, (SELECT relowner FROM pg_class WHERE oid = '`+schemaName+`.log'::regclass), 'MEMBER')
		FROM pg_roles WHERE rolname = current_user`).Scan(&role, &strong)
	if err == nil && strong {
		return fault.New(fault.Denied, "store_role_too_strong", "the role %s owns the tables or is above the policies of the database", role).
			WithHint("name another role in the setting store: one that is no superuser and owns nothing; the owner belongs into STEWARD_STORE_OWNER")
	}
	return err
}

// takeLock takes an advisory lock until the end of the transaction.
const takeLock = "SELECT pg_advisory_xact_lock($1)"
