package httpauth

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"steward/internal/fault"
	"steward/internal/identity"
)

// tokenFile holds the admin token of the server that runs on a data folder.
const tokenFile = "admin.token"

// WriteAdminToken makes a fresh admin token and leaves it in the data folder,
// readable for the owner of the process only: who can read the file can read
// the database too. A server does so at start, which ends the old token.
func WriteAdminToken(folder string) (string, error) {
	token := identity.NewSecret()
	err := writePrivate(filepath.Join(folder, tokenFile), token+"\n")
	if err != nil {
		return "", fault.New(fault.Unavailable, "token_unwritable", "the admin token cannot be written: %w", err).
			With("make the data folder %s writable", folder)
	}
	return token, nil
}

// writePrivate puts a whole file of mode 0600 in place, or leaves what is there.
func writePrivate(path, content string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".admin-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	if _, err = f.WriteString(content); err != nil {
		f.Close()
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// ReadAdminToken returns the token of the server that runs, or last ran, on
// a data folder. Errors: token_missing (NotFound), token_unreadable.
func ReadAdminToken(folder string) (string, error) {
	b, err := os.ReadFile(filepath.Join(folder, tokenFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", fault.New(fault.NotFound, "token_missing", "no Steward has run on the data folder %s", folder).
			With("start it with steward serve, or name its folder with --data")
	}
	if err != nil {
		return "", fault.New(fault.Denied, "token_unreadable", "the admin token cannot be read: %w", err).
			With("call as the user who runs Steward")
	}
	return strings.TrimSpace(string(b)), nil
}
