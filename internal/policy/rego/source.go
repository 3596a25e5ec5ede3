package rego

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"steward/internal/catalog/watch"
	"steward/internal/fault"
	"steward/internal/strict"
)

//go:embed bundle/*.rego
var bundled embed.FS

// DefaultPrefix is the prefix of the names of the default bundle's files.
const DefaultPrefix = "default/"

// Limits on what is read from the user's folder.
const (
	maxFile  = 1 << 20
	maxFiles = 256
	dataFile = "data.json"
)

// sources are policies as they were written.
type sources struct {
	names       []string // of the files, sorted; the default bundle's come first
	text        map[string]string
	tests       map[string]string // the user's *_test.rego, which decide nothing
	data        []byte            // data.json; nil: there is none
	fingerprint string            // state of the user's folder when it was read
}

// makeDir creates the user's folder, so that it can be watched.
func makeDir(dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fault.New(fault.Invalid, "policy_unreadable", "cannot create the folder of policies: %w", err).
			WithHint("make the data folder writable, or name another one with --data")
	}
	return nil
}

// readSources reads the default bundle and the user's folder.
func readSources(dir string) (*sources, error) {
	s := &sources{text: map[string]string{}, tests: map[string]string{}}
	files, err := fs.Glob(bundled, "bundle/*.rego")
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		b, err := bundled.ReadFile(f)
		if err != nil {
			return nil, err
		}
		s.add(DefaultPrefix+path.Base(f), b)
	}
	if dir == "" {
		return s, nil
	}
	return s, s.readDir(dir)
}

func (s *sources) add(name string, b []byte) {
	s.names = append(s.names, name)
	s.text[name] = string(b)
}

// readDir reads the user's files. If the folder has disappeared, that is an error: otherwise
// everything that its policies forbade would be allowed.
func (s *sources) readDir(dir string) error {
	s.fingerprint = watch.Digest(dir)
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(dir, p)
		if err = errors.Join(err, relErr); err != nil {
			return err
		}
		base, rel := filepath.Base(p), filepath.ToSlash(rel)
		switch {
		case p == dir:
			return nil
		case strings.HasPrefix(base, ".") && e.IsDir():
			return fs.SkipDir
		case e.IsDir() || strings.HasPrefix(base, "."):
			return nil
		case rel == dataFile:
			s.data, err = readFile(p)
			return err
		case !strings.HasSuffix(base, ".rego"):
			return nil
		}
		b, err := readFile(p)
		switch {
		case err != nil:
			return err
		case len(s.names)+len(s.tests) >= maxFiles:
			return fmt.Errorf("there are more than %d files", maxFiles)
		case strings.HasSuffix(base, "_test.rego"):
			s.tests[rel] = string(b)
		case strings.HasPrefix(rel, DefaultPrefix):
			return fmt.Errorf("%s: the folder default is reserved for the policies that come with Steward", rel)
		default:
			s.add(rel, b)
		}
		return nil
	})
	if err != nil {
		return fault.New(fault.Invalid, "policy_unreadable", "the policies in %s cannot be read: %w", dir, err).
			WithHint("fix the folder; until then the earlier policies stay in force")
	}
	return nil
}

func readFile(name string) ([]byte, error) {
	b, err := strict.ReadText(name, maxFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return b, nil
}

// documents returns the data that policies see: the user's, and the settings.
func (s *sources) documents(settings map[string]any) (map[string]any, error) {
	data := map[string]any{}
	bad := func(format string, args ...any) error {
		return fault.New(fault.Invalid, "policy_invalid", dataFile+": "+format, args...).WithHint("fix the file; policies see its members as data.NAME")
	}
	if s.data != nil {
		if err := json.Unmarshal(s.data, &data); err != nil {
			return nil, bad("%w", err)
		}
		if data == nil {
			return nil, bad("it is not a JSON object")
		}
	}
	for _, name := range []string{"settings", packageName} {
		if _, taken := data[name]; taken {
			return nil, bad("the member %q is reserved", name)
		}
	}
	if settings == nil {
		settings = map[string]any{}
	}
	b, err := json.Marshal(settings) // plain JSON, as policies see it
	if err != nil {
		return nil, fmt.Errorf("the settings that policies see: %w", err)
	}
	var plain any
	if err := json.Unmarshal(b, &plain); err != nil {
		return nil, err
	}
	data["settings"] = plain
	return data, nil
}

// version returns a digest over everything that affects decisions.
func (s *sources) version(data map[string]any) (string, error) {
	h := sha256.New()
	for _, name := range s.names {
		fmt.Fprintf(h, "%d %s %d %s", len(name), name, len(s.text[name]), s.text[name])
	}
	b, err := json.Marshal(data)
	if err != nil {
		return "", err
	}
	h.Write(b)
	return hex.EncodeToString(h.Sum(nil))[:12], nil
}
