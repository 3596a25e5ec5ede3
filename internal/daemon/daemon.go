// Package daemon keeps a program running as a service of one user: from login on, and again after
// a crash. It asks the manager of services that the system has: systemd's user manager on Linux,
// launchd on macOS.
//
// A service is one file, the unit. It names the program, its arguments and the few variables that it
// needs, and nothing secret. Install writes the unit and has the manager start it. A service that is
// there already is replaced and started again, so installing twice is updating. Uninstall stops the
// service and removes the unit.
//
// The unit belongs to the person as soon as the person has edited it. One of its lines holds a hash
// over the others. If the hash does not match, Install and Uninstall leave the unit alone
// (service_edited) unless they are forced.
package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"steward/internal/fault"
)

// Service is the program that is kept running.
type Service struct {
	Program string        // absolute path
	Args    []string      // without the program
	Env     []string      // NAME=VALUE, besides what the manager gives every service; nothing secret
	Log     string        // file for its output, where the manager keeps none
	Grace   time.Duration // for its end, after SIGTERM
}

// Command returns the command line that starts the service, for a POSIX shell.
func (s Service) Command() string {
	words := []string{shellWord(s.Program)}
	for _, arg := range s.Args {
		words = append(words, shellWord(arg))
	}
	return strings.Join(words, " ")
}

var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

func shellWord(text string) string {
	if plain.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// State is what is known of the service.
type State struct {
	Installed bool // the unit is there
	Edited    bool // by a person
	Enabled   bool // it starts at login
	Running   bool
	PID       int // of the program that runs
}

// Options say where the manager works.
type Options struct {
	System  string   // as runtime.GOOS
	Environ []string // of the person: HOME and PATH, and for systemd XDG_CONFIG_HOME and XDG_RUNTIME_DIR
	UID     int
	Run     Runner // nil: runs programs
}

// Manager is the manager of services of one user.
type Manager struct {
	Name   string // for people
	File   string // the unit
	Logs   string // the command that shows what the service prints
	Always string // the command that keeps it running while nobody is logged in; empty: there is none
	system
}

// system is one kind of manager.
type system interface {
	// unit returns the text of the unit, with a line that holds mark in a comment.
	unit(s Service, mark string) string
	// words returns arguments as they stand in the unit.
	words(args []string) string
	// ready fails if the manager cannot be reached.
	ready(ctx context.Context) error
	// start makes the manager read the unit again, and starts the service, now and at each login.
	start(ctx context.Context) error
	// stop ends the service, now and for each login.
	stop(ctx context.Context) error
	// forget makes the manager notice that the unit is gone.
	forget(ctx context.Context) error
	// state fills in what the manager knows.
	state(ctx context.Context, s *State)
}

// For returns the manager of a system. Error code: service_unsupported.
func For(o Options) (*Manager, error) {
	if o.Run == nil {
		o.Run = programs{o.Environ}
	}
	home := variable(o.Environ, "HOME")
	if home == "" {
		return nil, fault.New(fault.Invalid, "service_unsupported", "HOME is not set, so there is no place for a service")
	}
	switch o.System {
	case "linux":
		return newSystemd(o, home), nil
	case "darwin":
		return newLaunchd(o, home), nil
	}
	return nil, fault.New(fault.Unsupported, "service_unsupported", "Steward installs no service on %s", o.System)
}

// mark begins the part of a unit's line that holds the hash over the other lines.
const mark = "Written by steward service install, which leaves it alone once you have edited it. sha256:"

var marked = regexp.MustCompile(`(?m)^.*` + regexp.QuoteMeta(mark) + `([0-9a-f]*).*\n`)

// Unit returns the text of the unit.
func (m *Manager) Unit(s Service) string {
	text := m.unit(s, mark)
	return strings.Replace(text, mark, mark+hashOf(text), 1)
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(marked.ReplaceAllString(text, "")))
	return hex.EncodeToString(sum[:])
}

// Edited reports whether somebody has changed a text that Unit has returned.
func Edited(text string) bool {
	found := marked.FindStringSubmatch(text)
	return found == nil || found[1] != hashOf(text)
}

// Text returns the installed unit; empty: there is none. It asks no program.
func (m *Manager) Text() (string, error) {
	b, err := os.ReadFile(m.File)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(b), err
}

// Passes reports whether the installed unit gives these arguments, one after the other, to the program.
func (m *Manager) Passes(args ...string) (bool, error) {
	text, err := m.Text()
	return strings.Contains(text, m.words(args)), err
}

// Ready fails if services cannot be installed here, as in a container. Error code: service_unsupported.
func (m *Manager) Ready(ctx context.Context) error {
	if err := m.ready(ctx); err != nil {
		return fault.New(fault.Unsupported, "service_unsupported", "%s does not run here: %w", m.Name, err)
	}
	return nil
}

// Install writes the unit and starts the service. Error codes: service_unsupported, service_edited,
// service_failed.
func (m *Manager) Install(ctx context.Context, s Service, force bool) error {
	if err := m.Ready(ctx); err != nil {
		return err
	}
	if err := m.ours(force, "replaces"); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(m.File), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(m.File+".new", []byte(m.Unit(s)), 0o644); err != nil {
		return err
	}
	if err := os.Rename(m.File+".new", m.File); err != nil {
		return err
	}
	return m.failed(m.start(ctx))
}

// Uninstall stops the service and removes the unit. It reports whether there was one. Error codes: as of
// Install.
func (m *Manager) Uninstall(ctx context.Context, force bool) (bool, error) {
	text, err := m.Text()
	if err != nil || text == "" {
		return false, err
	}
	if err := m.ours(force, "removes"); err != nil {
		return true, err
	}
	if err := m.Ready(ctx); err != nil {
		return true, err
	}
	if err := m.stop(ctx); err != nil {
		return true, m.failed(err)
	}
	if err := os.Remove(m.File); err != nil {
		return true, err
	}
	return true, m.failed(m.forget(ctx))
}

// ours fails if the unit is there and is not as it was written.
func (m *Manager) ours(force bool, does string) error {
	text, err := m.Text()
	if err != nil || force || text == "" || !Edited(text) {
		return err
	}
	return fault.New(fault.Conflict, "service_edited", "%s has been edited, or was not written by Steward", m.File).
		WithHint("--force %s it all the same", does)
}

func (m *Manager) failed(err error) error {
	if err == nil {
		return nil
	}
	return fault.New(fault.Unavailable, "service_failed", "%s: %w", m.Name, err).WithHint("%s shows why", m.Logs)
}

// State returns the state of the service.
func (m *Manager) State(ctx context.Context) (State, error) {
	text, err := m.Text()
	if err != nil || text == "" {
		return State{}, err
	}
	s := State{Installed: true, Edited: Edited(text)}
	m.state(ctx, &s)
	return s, nil
}
