// Package app makes a node and its servers of the settings: it is the wiring, and knows all
// packages below it.
//
// App holds what one process was started with. Settings reads the settings once. OpenLocal opens
// the data folder for this process alone: the store, the policies, the providers (models.go), the
// tools (tools.go has their table), the agents and at last the node over them. Local is the result
// and closes its parts in the opposite order. Listen opens the servers over a Local (server.go).
// Commands that need less open less: Stored the database alone, OpenCatalog the agents too.
//
// Everything that leaves the process passes through Hidden: the log, notes, answers and what
// models are sent (secrets_hide.go).
package app

import (
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/identity"
	"steward/internal/lifetime/telemetry"
	"steward/internal/secret"
	"steward/internal/settings"
	"steward/internal/store/backup"
)

// WithoutRemedy returns the text of an error without the advice what to do.
func WithoutRemedy(e *fault.Error) string {
	c := *e
	c.Remedy = ""
	return c.Error()
}

// App is what the settings, the environment and the flags of one process make of Steward: they
// are read once, and a node and its servers are opened from them.
type App struct {
	Stderr  io.Writer // for notes and the log
	Environ []string
	Dir     string // the current folder; empty: the process's
	Version string
	Serving bool // the command is serve
	Process bool // the process is this program's alone, and so are the logs of libraries

	// Global flags.
	Config, Data, Model string
	Quiet               bool
	AgentFolders        []string // besides those of the settings
	AlsoPrivate         []string // besides the places of these settings
	MCPFiles            []string

	ProbeTimeout, ListTimeout time.Duration // limits of the search for models; zero: probeTimeout, listTimeout

	Outside Outside

	Idle  bool            // do not resume interrupted work
	Flags []settings.Flag // the command's flags that are settings
	Set   *settings.Loaded

	levels      *logLevels             // of the log of this run; nil: there is none yet
	telemetry   *telemetry.Telemetry   // nil: nothing is counted
	upgraded    string                 // the backup that was made before the database was migrated; empty: it was not
	masker      *secret.Masker         // hides the secrets of this run; see hidden
	credentials map[string]*credential // of providers, whose keys may be replaced while Steward runs
}

// loadSettings loads the settings from all their sources.
func (a *App) loadSettings() (*settings.Loaded, error) {
	flags := a.Flags
	if a.Data != "" {
		flags = append(flags, settings.Flag{Key: "data", Value: a.Data, Name: "--data"})
	}
	if a.Model != "" && a.Model != "default" {
		flags = append(flags, settings.Flag{Key: "models.default.use", Value: a.Model, Name: "--model"})
	}
	return settings.Load(settings.Options{File: a.Config, Dir: a.Dir, Environ: a.Environ, Flags: flags, Vendors: Vendors()})
}

// Settings loads the settings, once.
func (a *App) Settings() (*settings.Loaded, error) {
	if a.Set != nil {
		return a.Set, nil
	}
	set, err := a.loadSettings()
	if err != nil {
		return nil, err
	}
	if set.Data == "" {
		return nil, fault.New(fault.Invalid, "data_unknown", "the data folder is unknown: HOME is not set").
			WithHint("name a folder with --data")
	}
	if backup.Pending(set.Data) { // a restore was interrupted after it had happened
		if err := backup.Finish(set.Data); err != nil {
			return nil, err
		}
		a.Note("steward: finished a restore into %s that was interrupted", set.Data)
	}
	a.Set, a.levels = set, newLogLevels(set, a.Quiet)
	for _, n := range set.Notices {
		a.Note("steward: %s", n)
	}
	a.learn(set)
	return set, nil
}

// private returns the places of Steward's own, which no tool and no program sees. It makes the folder of
// the settings first: what is missing cannot be kept from a program, which could make it.
func (a *App) private(set *settings.Loaded) []string {
	if dir := set.Folder(); dir != "" {
		_ = os.MkdirAll(dir, 0o700) // where Steward may not make it, a program of the same user may not either
	}
	if dir := set.Backup.Folder; dir != "" {
		_ = os.Mkdir(dir, 0o700) // backups hold what the data folder holds
	}
	return append(set.Private(), a.AlsoPrivate...)
}

// User returns the user that the commands act for. Whoever can read the data folder is
// the local user.
func (a *App) User() string { return identity.Local }

// Getenv returns a variable of the app's own environment.
func (a *App) Getenv(name string) string {
	for i := len(a.Environ) - 1; i >= 0; i-- {
		if k, v, ok := strings.Cut(a.Environ[i], "="); ok && k == name {
			return v
		}
	}
	return ""
}

// VersionText returns the version that the linker set, or else the version of the module or
// the commit that Go recorded.
func (a *App) VersionText() string {
	if a.Version != "unknown" && a.Version != "" {
		return a.Version
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		if v := info.Main.Version; v != "" && v != "(devel)" {
			return v // Go derives it from the tag, or from the commit and its time
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				return s.Value[:12]
			}
		}
	}
	return "unknown"
}
