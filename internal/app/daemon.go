package app

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"steward/internal/daemon"
	"steward/internal/settings"
)

// ServiceManager returns the manager of services that keeps steward serve running. Error code:
// service_unsupported.
func (a *App) ServiceManager() (*daemon.Manager, error) {
	return daemon.For(daemon.Options{System: runtime.GOOS, Environ: a.Environ, UID: os.Getuid()})
}

// Service returns the service that serves what these settings and flags name. A service inherits
// nothing of this shell. So it is told where the settings and the data are, and where programs are found.
func (a *App) Service(set *settings.Loaded) (daemon.Service, error) {
	s := daemon.Service{Args: []string{"serve", "--wait"}, Log: filepath.Join(set.Data, "serve.log"),
		Grace: 2*max(set.Timeouts.Shutdown, time.Second) + time.Minute} // the server and the node have a grace each, see Close
	var err error
	if s.Program, err = os.Executable(); err != nil {
		return s, err
	}
	config := a.Config
	if config == "" {
		config = a.Getenv(settings.Prefix + "CONFIG")
	}
	if config != "" {
		s.Args = append(s.Args, "--config", a.Path(config))
	}
	s.Args = append(s.Args, a.dataFlag(set)...)
	if a.Model != "" {
		s.Args = append(s.Args, "--model", a.Model)
	}
	for _, dir := range a.AgentFolders {
		s.Args = append(s.Args, "--agents", a.Path(dir))
	}
	for _, file := range a.MCPFiles {
		s.Args = append(s.Args, "--mcp", a.Path(file))
	}
	if path := a.Getenv("PATH"); path != "" {
		s.Env = append(s.Env, "PATH="+path)
	}
	if dir := a.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) && dir != filepath.Join(a.Getenv("HOME"), ".config") {
		s.Env = append(s.Env, "XDG_CONFIG_HOME="+dir)
	}
	return s, nil
}

// dataFlag returns the flag by which a service finds the data folder; none if it finds it by itself, by
// the settings file or because it is the usual one.
func (a *App) dataFlag(set *settings.Loaded) []string {
	switch set.SourceOf("data").Kind {
	case settings.FromUser, settings.FromFile:
		return nil
	}
	if set.Data == filepath.Join(a.Getenv("HOME"), ".local", "share", "steward") {
		return nil
	}
	return []string{"--data", a.Path(set.Data)}
}

// ServiceCovers reports whether the installed service serves the data folder of these settings.
func (a *App) ServiceCovers(m *daemon.Manager, set *settings.Loaded) (bool, error) {
	if flag := a.dataFlag(set); flag != nil {
		return m.Passes(flag...)
	}
	named, err := m.Passes("--data")
	return !named, err
}

// stays reports whether a Steward will be running later: this process is a server, or the service
// runs, which takes over when this process ends.
func (a *App) stays(ctx context.Context, set *settings.Loaded) bool {
	if a.Serving {
		return true
	}
	m, err := a.ServiceManager()
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	s, err := m.State(ctx)
	if err != nil || !s.Running {
		return false
	}
	covers, err := a.ServiceCovers(m, set)
	return covers && err == nil
}

// mustRun is what a person is told who sets an alarm that goes off only while Steward runs.
const mustRun = "Steward has to be running then: `steward service install`."
