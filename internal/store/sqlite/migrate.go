package sqlite

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"steward/internal/fault"
	"steward/internal/store/chain"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// applicationID marks a database as Steward's in its header ("Stwd").
const applicationID = 0x53747764

// schema returns the migration steps from an empty database to the current
// schema. The version of a database is the number of steps applied to it.
func schema() ([]string, error) {
	names, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	steps := make([]string, len(names))
	for i, n := range names {
		b, err := migrationFiles.ReadFile(n)
		if err != nil {
			return nil, err
		}
		steps[i] = string(b)
	}
	return steps, nil
}

// versionOf returns the schema version of the database, 0 if it is empty. It
// refuses a database of another program, or of a newer Steward.
func versionOf(c *conn, path string, newest int) (int, error) {
	app, err := c.number("PRAGMA application_id")
	if err != nil {
		return 0, err
	}
	version, err := c.number("PRAGMA user_version")
	if err != nil {
		return 0, err
	}
	objects, err := c.number("SELECT count(*) FROM sqlite_schema")
	if err != nil {
		return 0, err
	}
	switch {
	case app == 0 && version == 0 && objects == 0:
		return 0, nil
	case app != applicationID || version < 1:
		return 0, notADatabase(path, errors.New("it is a database of another program"))
	case int(version) > newest:
		return 0, fault.New(fault.Unsupported, "database_too_new",
			"%s has version %d, but this Steward supports versions up to %d; the file was not changed", path, version, newest).
			Detail("version", version).WithHint("install the Steward that wrote it, or a newer one")
	}
	return int(version), nil
}

// migrate applies the steps after a version in one transaction, and checks the result before it commits. If anything
// fails or the process is killed, the database is as it was.
func (s *Store) migrate(c *conn, from int, steps []string) error {
	if from == len(steps) {
		return nil
	}
	if from > 0 && s.beforeMigration != nil {
		if err := s.beforeMigration(from, len(steps)); err != nil {
			return err
		}
	}
	if err := c.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	before, err := countLog(c)
	for _, step := range steps[from:] {
		if err == nil {
			err = c.exec(step)
		}
	}
	if err == nil && from > 0 {
		err = s.checkMigrated(c, before)
	}
	if err == nil {
		err = c.exec(fmt.Sprintf("PRAGMA application_id=%d; PRAGMA user_version=%d", applicationID, len(steps)))
	}
	if err == nil {
		err = c.exec("COMMIT")
	}
	if err != nil && c.inTransaction() {
		err = errors.Join(err, c.exec("ROLLBACK"))
	}
	if err == nil && from > 0 {
		s.migrated = from
	}
	return err
}

// logCount is how much the log holds, and whether it is sealed.
type logCount struct{ entries, last, resources, seals int64 }

func countLog(c *conn) (n logCount, err error) {
	for _, q := range []struct {
		table, sql string
		to         *int64
	}{
		{"log", "SELECT count(*) FROM log", &n.entries},
		{"log", "SELECT max(seq) FROM log", &n.last},
		{"tree", "SELECT count(*) FROM tree", &n.resources},
		{"seal", "SELECT count(*) FROM seal", &n.seals},
	} {
		there, err := c.prepare("SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = CAST(? AS TEXT)").argText(q.table).number()
		if err == nil && there > 0 {
			*q.to, err = c.number(q.sql)
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// checkMigrated checks a database in the transaction that has migrated it: the file is intact, the log and the tree
// hold as much as before, and the log that was sealed is what was written.
func (s *Store) checkMigrated(c *conn, before logCount) error {
	found, err := damage(c)
	if err != nil {
		return err
	}
	after, err := countLog(c)
	if err != nil {
		return err
	}
	what := ""
	switch {
	case len(found) > 0:
		what = found[0]
	case after != before && before.seals > 0, after.entries != before.entries, after.last != before.last, after.resources != before.resources:
		what = fmt.Sprintf("it has %d entries up to %d about %d resources, and had %d up to %d about %d", after.entries, after.last, after.resources, before.entries, before.last, before.resources)
	case before.seals > 0:
		l := s.ledgerIn(c, 0)
		v := chain.NewVerifier(l, 1)
		err = v.Verify(nil, l.tree)
		l.close()
		if err == nil && v.Flaw != nil {
			what = fmt.Sprintf("entry %d of the log: %s", v.Flaw.Seq, v.Flaw.What)
		}
	}
	if err == nil && what != "" {
		return fault.New(fault.Internal, "migration_failed", "%s did not pass the check after its migration: %s", s.path, what).
			WithHint("nothing was changed: go on with the Steward that wrote it, and report this")
	}
	return err
}
