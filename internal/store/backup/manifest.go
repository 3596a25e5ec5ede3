package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/lifetime/disk"
	"steward/internal/store"
)

// Format is the version of the form of a backup that this package writes. It reads all versions up to it.
const Format = 1

// The names inside a backup.
const (
	manifestName = "manifest.json"
	dataName     = "data"
	settingsName = "settings"
)

// Manifest describes a backup.
type Manifest struct {
	Format  int       `json:"format"`
	Program string    `json:"program"` // the version of the Steward that made it
	Made    time.Time `json:"made"`
	Kind    Kind      `json:"kind,omitzero"`
	Log     Log       `json:"log"`
	Bytes   int64     `json:"bytes"` // of all files
	Files   []File    `json:"files"`
	LeftOut []string  `json:"left_out,omitempty"` // what is not in it: sockets, "NAME (damaged)", and "NAME -> PLACE" where a link leads out of the data folder
	Sum     string    `json:"sum"`                // SHA-256 of the manifest, with this member empty
}

// Log says what the log in a backup is.
type Log struct {
	Store   string     `json:"store,omitzero"` // where it is, if it is not in the backup, for example "postgres"
	Schema  int        `json:"schema"`         // of the database; 0: it is not in the backup
	Entries uint64     `json:"entries"`        // the number of the last one
	Head    store.Head `json:"head,omitzero"`  // the newest sealed entry; zero: nothing is sealed, or the schema is older than this program
}

// File is one file, folder or link of a backup.
type File struct {
	Path string      `json:"path"` // with slashes, below the backup's own folder
	Mode os.FileMode `json:"mode"` // permissions
	At   time.Time   `json:"at"`   // when it was changed
	Size int64       `json:"size,omitzero"`
	Hash string      `json:"sha256,omitzero"`
	Dir  bool        `json:"dir,omitzero"`
	Link string      `json:"link,omitzero"`   // where a symbolic link leads
	SQL  bool        `json:"sqlite,omitzero"` // it is an SQLite database
}

// seal sets the manifest's own hash.
func (m *Manifest) seal() ([]byte, error) {
	m.Sum = ""
	b, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b)
	m.Sum = hex.EncodeToString(sum[:])
	return json.MarshalIndent(m, "", " ")
}

// write writes the manifest into a folder and syncs it, as the last file of a backup.
func (m *Manifest) write(o *Options, folder string) error {
	b, err := m.seal()
	if err != nil {
		return err
	}
	if len(b) > maxManifest {
		return fault.New(fault.TooLarge, "backup_too_large", "the data folder has too many files for a backup").WithHint("remove what is not needed from the folders of agents")
	}
	_, err = writeFile(steps(o.Step), filepath.Join(folder, manifestName), 0o600, strings.NewReader(string(b)))
	if err != nil {
		return err
	}
	return disk.SyncFolder(folder)
}

// readManifest reads the manifest of a backup that is a folder.
func readManifest(folder string) (Manifest, error) {
	f, err := os.Open(filepath.Join(folder, manifestName))
	if err != nil {
		hint := fmt.Sprintf("name a folder with a %s in it", manifestName)
		if list, err := List(folder); err == nil && len(list) > 0 {
			hint = "name one of the backups in it, such as " + list[0].Path
		}
		return Manifest{}, fault.New(fault.NotFound, "not_a_backup", "%s is not a complete backup: %w", folder, err).WithHint("%s", hint)
	}
	m, err := parseManifest(f)
	return m, errors.Join(err, f.Close())
}

// parseManifest reads a manifest and checks it.
func parseManifest(r io.Reader) (m Manifest, err error) {
	b, err := io.ReadAll(io.LimitReader(r, maxManifest+1))
	if err != nil {
		return m, err
	}
	var form struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(b, &form); err != nil || form.Format < 1 || len(b) > maxManifest {
		return m, damaged("its manifest cannot be read")
	}
	if form.Format > Format {
		return m, fault.New(fault.Unsupported, "backup_too_new", "the backup has the form %d, but this Steward reads forms up to %d", form.Format, Format).
			WithHint("install the Steward that made it, or a newer one")
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return m, damaged("its manifest cannot be read")
	}
	said := m.Sum
	again, err := m.seal()
	if err != nil || m.Sum != said || string(again) != string(b) {
		return m, damaged("its manifest was changed")
	}
	if len(m.Files) > maxFiles {
		return m, damaged("its manifest lists too many files")
	}
	return m, nil
}

func damaged(format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, "backup_damaged", "the backup is damaged: %s", fmt.Sprintf(format, args...)).
		WithHint("use another backup; nothing was changed")
}

// Count returns how many files a backup has.
func (m *Manifest) Count() (n int) {
	for _, f := range m.Files {
		if !f.Dir {
			n++
		}
	}
	return n
}
