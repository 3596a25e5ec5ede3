package client

import (
	"context"
	"time"
)

// NewBackup says where a backup is put, and for whom it is encrypted.
type NewBackup struct {
	Folder     string   `json:"folder,omitzero"`      // empty: that of the settings
	Recipients []string `json:"recipients,omitempty"` // public keys of age; none: those of the settings
}

// Backup is a backup of the data folder.
type Backup struct {
	Path      string    `json:"path,omitzero"`
	Made      time.Time `json:"made"`
	Kind      string    `json:"kind,omitzero"` // "job", "upgrade", or empty if somebody asked for it
	Encrypted bool      `json:"encrypted,omitzero"`
	Bytes     int64     `json:"bytes,omitzero"`
	Files     int       `json:"files,omitzero"`
	Entries   uint64    `json:"entries,omitzero"`  // of the log
	Store     string    `json:"store,omitzero"`    // where the log is, if it is not in the backup: "postgres"
	Head      string    `json:"head,omitzero"`     // the sealed head of the log, as steward audit head writes it
	LeftOut   []string  `json:"left_out,omitzero"` // what is not in it: sockets, "NAME (damaged)", and "NAME -> PLACE" where a link leads out of the data folder
	Checked   bool      `json:"checked,omitzero"`  // it was restored into a temporary folder, and is sound
	Seconds   float64   `json:"seconds,omitzero"`
}

// Backups are the backups that there are.
type Backups struct {
	Folder  string     `json:"folder,omitzero"` // of the settings; empty: none is set, and no backups are made by themselves
	Backups []Backup   `json:"backups"`         // newest first
	Last    *BackupEnd `json:"last,omitempty"`
}

// BackupEnd is how the last scheduled backup ended.
type BackupEnd struct {
	At      time.Time `json:"at"`
	Good    time.Time `json:"good,omitzero"` // when one last succeeded
	Path    string    `json:"path,omitzero"`
	Code    string    `json:"code,omitzero"` // why it failed; empty: it succeeded
	Message string    `json:"message,omitzero"`
}

// MakeBackup makes a backup of the data folder. Only the machine's own user may.
func (c *Client) MakeBackup(ctx context.Context, b NewBackup) (Backup, error) {
	return ask[Backup](ctx, c, "POST /backups", nil, b)
}

// Backups returns the backups that there are. Only the machine's own user may.
func (c *Client) Backups(ctx context.Context) (Backups, error) {
	return ask[Backups](ctx, c, "GET /backups", nil, nil)
}
