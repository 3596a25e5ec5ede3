package auth

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"steward/internal/fault"
	"steward/internal/identity"
	"steward/internal/secret"
)

// tokenFile holds the token of the machine's own user. It is in the data folder, because whoever
// can read it can read the database too. The token is made at the first start and kept until
// NewToken replaces it. The file is read again for every request, so that a running server accepts
// a new token, and refuses the old one, at once.
const tokenFile = "token"

// TokenFile returns the path of the token in a data folder.
func TokenFile(folder string) string { return filepath.Join(folder, tokenFile) }

// ReadToken returns the token of a data folder. It refuses a file that users other than its owner
// can read, that belongs to somebody else, or that does not hold exactly one token. Errors:
// token_missing (NotFound), token_unusable (Denied; Unavailable if the system could not read the
// file now).
func ReadToken(folder string) (string, error) { return readSecret(folder, tokenFile) }

func readSecret(folder, name string) (string, error) {
	path := filepath.Join(folder, name)
	kind := fault.Denied
	b, err := secret.ReadPrivate(path)
	token := strings.TrimSpace(string(b))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fault.New(fault.NotFound, "token_missing", "the data folder %s has no %s", folder, name).
			WithHint("steward token creates one; --data names another folder")
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.EIO):
		kind = fault.Unavailable
	case err != nil:
	case !identity.WellFormed(token):
		err = fmt.Errorf("%s is damaged", path)
	default:
		return token, nil
	}
	return "", fault.New(kind, "token_unusable", "the %s cannot be used: %w", name, err).
		WithHint("call as the user who runs Steward; steward token --new replaces a token")
}

// MakeToken returns the token of a data folder, and makes it if there is none. Errors:
// token_unusable, token_unwritable.
func MakeToken(folder string) (string, error) { return MakeSecret(folder, tokenFile) }

// MakeSecret is MakeToken for a secret in a file of another name.
func MakeSecret(folder, name string) (string, error) {
	if token, err := readSecret(folder, name); !fault.HasCode(err, "token_missing") {
		return token, err
	}
	// If two processes create it at the same time, one wins and both read its token.
	if err := writeSecret(folder, name, os.Link); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", unwritable(folder, err)
	}
	return readSecret(folder, name)
}

// NewToken replaces the token of a data folder. Errors: token_unwritable.
func NewToken(folder string) (string, error) {
	if err := writeSecret(folder, tokenFile, os.Rename); err != nil {
		return "", unwritable(folder, err)
	}
	return ReadToken(folder)
}

func unwritable(folder string, err error) error {
	return fault.New(fault.Unavailable, "token_unwritable", "the token cannot be written: %w", err).
		WithHint("make the data folder %s writable", folder)
}

// writeSecret writes a complete file of mode 0600 and then moves it into place.
func writeSecret(folder, name string, place func(from, to string) error) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(folder, ".token-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(identity.NewSecret() + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return place(f.Name(), filepath.Join(folder, name))
}
