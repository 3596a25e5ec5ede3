package main

import (
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/identity"
	"steward/internal/secret"
	"steward/internal/settings"
)

func withoutRemedy(e *fault.Error) string {
	c := *e
	c.Remedy = ""
	return c.Error()
}

// app is what the settings, the environment and the flags of one process make of Steward: they
// are read once, and a node and its servers are opened from them.
type app struct {
	stderr  io.Writer // for notes and the log
	environ []string
	dir     string // the current folder; empty: the process's
	version string
	serving bool // the command is serve
	process bool // the process is this program's alone, and so are the logs of libraries

	// Global flags.
	config, data, model string
	quiet               bool
	agentFolders        []string // besides those of the settings
	alsoPrivate         []string // besides the places of these settings
	mcpFiles            []string

	knockFor, listFor time.Duration // limits of the search for models; zero: knockTimeout, listTimeout

	idle  bool            // do not resume interrupted work
	flags []settings.Flag // the command's flags that are settings
	set   *settings.Loaded

	masker      *secret.Masker         // hides the secrets of this run; see hidden
	credentials map[string]*credential // of providers, whose keys may be replaced while Steward runs
}

// loadSettings loads the settings from all their sources.
func (a *app) loadSettings() (*settings.Loaded, error) {
	flags := a.flags
	if a.data != "" {
		flags = append(flags, settings.Flag{Key: "data", Value: a.data, Name: "--data"})
	}
	if a.model != "" && a.model != "default" {
		flags = append(flags, settings.Flag{Key: "models.default.use", Value: a.model, Name: "--model"})
	}
	return settings.Load(settings.Options{File: a.config, Dir: a.dir, Environ: a.environ, Flags: flags})
}

// settings loads the settings, once.
func (a *app) settings() (*settings.Loaded, error) {
	if a.set != nil {
		return a.set, nil
	}
	set, err := a.loadSettings()
	if err != nil {
		return nil, err
	}
	if set.Data == "" {
		return nil, fault.New(fault.Invalid, "data_unknown", "the data folder is unknown: HOME is not set").
			WithHint("name a folder with --data")
	}
	a.set = set
	for _, n := range set.Notices {
		a.note("steward: %s", n)
	}
	a.learn(set)
	return set, nil
}

// private returns the places of Steward's own, which no tool and no program sees. It makes the folder of
// the settings first: what is missing cannot be kept from a program, which could make it.
func (a *app) private(set *settings.Loaded) []string {
	if dir := set.Folder(); dir != "" {
		_ = os.MkdirAll(dir, 0o700) // where Steward may not make it, a program of the same user may not either
	}
	return append(set.Private(), a.alsoPrivate...)
}

// user returns the user that the commands act for. Whoever can read the data folder is
// the local user.
func (a *app) user() string { return identity.Local }

// getenv returns a variable of the app's own environment.
func (a *app) getenv(name string) string {
	for i := len(a.environ) - 1; i >= 0; i-- {
		if k, v, ok := strings.Cut(a.environ[i], "="); ok && k == name {
			return v
		}
	}
	return ""
}

// versionText returns the version that the linker set, or else the version of the module or
// the commit that Go recorded.
func (a *app) versionText() string {
	if a.version != "unknown" && a.version != "" {
		return a.version
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
