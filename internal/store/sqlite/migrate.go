package sqlite

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"steward/internal/fault"
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

// migrate applies the steps after a version in one transaction. It first makes a
// backup, unless the database is empty.
func migrate(c *conn, path string, from int, steps []string) (backup string, err error) {
	if from == len(steps) {
		return "", nil
	}
	if from > 0 {
		if backup, err = backUp(c, path, from); err != nil {
			return "", err
		}
	}
	if err := c.exec("BEGIN IMMEDIATE"); err != nil {
		return backup, err
	}
	for _, step := range steps[from:] {
		if err = c.exec(step); err != nil {
			break
		}
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
	return backup, err
}

// backUp writes a copy of the database next to it and syncs it.
func backUp(c *conn, path string, version int) (string, error) {
	name := path + ".v" + strconv.Itoa(version) + "-" + time.Now().UTC().Format("20060102T150405.000000") + ".backup"
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	defer f.Close()
	err = c.prepare("VACUUM INTO CAST(? AS TEXT)").argText(name).run()
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return "", errors.Join(err, os.Remove(name))
	}
	return name, nil
}

// syncDir makes the names of new files in a folder durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
