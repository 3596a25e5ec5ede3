package api

import (
	"context"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/identity"
)

// Backups makes backups of the data folder.
type Backups interface {
	Make(ctx context.Context, b client.NewBackup) (client.Backup, error)
	List(ctx context.Context) (client.Backups, error)
}

// backups returns what makes backups. A backup holds the keys and secrets of everybody, and is written where the
// caller says: only the machine's own user may ask for one.
func (f *server) backups(c *call) (Backups, error) {
	if c.User != identity.Local || !c.Admin {
		return nil, fault.New(fault.Denied, "admin_only", "only the machine's own user makes backups").WithHint("run steward backup on the machine that Steward runs on")
	}
	if f.Backups == nil {
		return nil, unsupported("backup", "backups are not served here")
	}
	return f.Backups, nil
}

func (f *server) makeBackup(ctx context.Context, c *call, in struct {
	Body client.NewBackup `body:""`
}) (client.Backup, error) {
	b, err := f.backups(c)
	if err != nil {
		return client.Backup{}, err
	}
	return b.Make(ctx, in.Body)
}

func (f *server) listBackups(ctx context.Context, c *call, _ struct{}) (client.Backups, error) {
	b, err := f.backups(c)
	if err != nil {
		return client.Backups{}, err
	}
	return b.List(ctx)
}
