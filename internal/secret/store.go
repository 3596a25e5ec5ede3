package secret

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"steward/internal/fault"
	"steward/internal/lifetime/disk"
)

// Store keeps each secret in a file of its own, which only the owner can read.
type Store struct {
	dir string
}

// Folder returns the folder of the secrets in a data folder.
func Folder(data string) string { return filepath.Join(data, "secrets") }

// NewStore returns the store in a folder. The folder is created when needed.
func NewStore(dir string) *Store { return &Store{dir} }

// Info describes a secret without its value.
type Info struct {
	Name    string    `json:"name"`
	Changed time.Time `json:"changed"`
}

var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// path returns the file of a secret (secret_name_invalid).
func (s *Store) path(name string) (string, error) {
	if !namePattern.MatchString(name) {
		return "", fault.New(fault.Invalid, "secret_name_invalid", "%.80q is not a secret name", name).
			WithHint("use up to 64 letters, digits, '_', '-' and '.', beginning with a letter or digit")
	}
	return filepath.Join(s.dir, name), nil
}

// Set stores a secret, and atomically replaces one of the same name. The secret
// is durable when Set returns.
func (s *Store) Set(name, value string) (err error) {
	path, err := s.path(name)
	if err != nil {
		return err
	}
	if err := Check(value); err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return unwritable(err)
	}
	if err := os.Chmod(s.dir, 0o700); err != nil {
		return unwritable(err)
	}
	f, err := os.CreateTemp(s.dir, ".new-*") // of mode 0600
	if err != nil {
		return unwritable(err)
	}
	_, err = io.WriteString(f, value)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return unwritable(errors.Join(err, os.Remove(f.Name())))
	}
	return s.sync()
}

// sync makes the names of files durable.
func (s *Store) sync() error {
	if err := disk.SyncFolder(s.dir); err != nil {
		return unwritable(err)
	}
	return nil
}

func unwritable(err error) error {
	return fault.New(fault.Unavailable, "secret_unwritable", "the secret cannot be stored: %w", err).
		WithHint("make the data folder writable, and check whether the disk is full")
}

// Get returns a secret (secret_missing, secret_exposed).
func (s *Store) Get(name string) (string, error) {
	path, err := s.path(name)
	if err != nil {
		return "", err
	}
	b, err := ReadPrivate(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", missing(name)
	case errors.As(err, new(*fs.PathError)):
		return "", fault.New(fault.Unavailable, "secret_missing", "the secret %s cannot be read: %w", name, err).
			WithHint("check the permissions of %s", path)
	}
	return string(b), err
}

// ReadPrivate reads a regular file that only its owner can read. The owner must
// be root or the user that this process runs as (secret_exposed). ReadPrivate
// returns at most the first MaxLength+2 bytes.
func ReadPrivate(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // opening a pipe would wait for its writer
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		err = exposed(path, info)
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, MaxLength+2))
}

// Remove deletes a secret (secret_missing).
func (s *Store) Remove(name string) error {
	path, err := s.path(name)
	if err != nil {
		return err
	}
	switch err := os.Remove(path); {
	case errors.Is(err, fs.ErrNotExist):
		return missing(name)
	case err != nil:
		return unwritable(err)
	}
	return s.sync()
}

// List returns the names of all secrets, sorted, without their values.
func (s *Store) List() ([]Info, error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "secret_missing", "the secrets cannot be listed: %w", err).
			WithHint("check the permissions of %s", s.dir)
	}
	var out []Info
	for _, e := range entries {
		if !namePattern.MatchString(e.Name()) {
			continue // left by Set in a crash
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			out = append(out, Info{Name: e.Name(), Changed: info.ModTime().UTC()})
		}
	}
	slices.SortFunc(out, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Learn adds all secrets to a masker. If some cannot be read, it adds the others
// and joins the errors.
func (s *Store) Learn(m *Masker) error {
	list, err := s.List()
	for _, one := range list {
		err = errors.Join(err, s.learn(one.Name, m))
	}
	return err
}

func (s *Store) learn(name string, m *Masker) error {
	value, err := s.Get(name)
	if err != nil {
		return err
	}
	return m.Add(name, value)
}
