package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/internal/app"
	"steward/internal/cli/command"
	"steward/internal/daemon"
	"steward/internal/fault"
	"steward/internal/settings"
)

func (a *program) serviceCommand() *cobra.Command {
	return command.Group(&cobra.Command{
		Use: "service", Short: "Keep Steward running from login on", GroupID: "keep",
		Long: "Have steward serve run as a service of yours: from login on, and again after a crash. Then reminders\n" +
			"go off, queued work goes on and other programs reach Steward while no chat is open; a chat joins it. On\n" +
			"Linux it is a unit of systemd --user, on macOS an agent of launchd. Nothing secret is written into it.",
	}, a.installService(), a.uninstallService(), a.serviceStatus())
}

func (a *program) installService() *cobra.Command {
	var force, show bool
	c := &cobra.Command{
		Use: "install", Short: "Install the service, or update it", Args: cobra.NoArgs,
		Long: "Write the service and start it. It runs this program with the settings file, the data folder, the model,\n" +
			"the agents and the MCP files that are named here. Installing again updates it, as after Steward has been\n" +
			"moved. A service that you have edited stays as it is. While a chat or another Steward uses the data\n" +
			"folder, the service waits for its end.",
		Example: "  steward service install\n  steward service install --data /srv/steward\n  steward service install --print",
		RunE: func(c *cobra.Command, _ []string) error {
			if show {
				return a.printService()
			}
			return a.startService(c.Context(), force)
		},
	}
	c.Flags().BoolVar(&force, "force", false, "replace a service that you have edited")
	c.Flags().BoolVar(&show, "print", false, "print what would be written, and write nothing")
	return c
}

// printService prints the unit.
func (a *program) printService() error {
	set, err := a.Settings()
	if err != nil {
		return err
	}
	m, s, err := a.serviceOf(set)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(map[string]string{"file": m.File, "text": m.Unit(s)})
	}
	a.Note("%s:", m.File)
	return a.Print(m.Unit(s))
}

// serviceOf returns the manager of services, and the service that is kept running.
func (a *program) serviceOf(set *settings.Loaded) (*daemon.Manager, daemon.Service, error) {
	s, err := a.Service(set)
	if err != nil {
		return nil, s, err
	}
	m, err := a.ServiceManager()
	return m, s, byHand(err, s)
}

// byHand adds to an error, if services cannot be installed here, what to do instead.
func byHand(err error, s daemon.Service) error {
	if fault.HasCode(err, "service_unsupported") {
		s.Args = slices.DeleteFunc(s.Args, func(arg string) bool { return arg == "--wait" }) // each login would leave one waiting
		return fault.Of(err).WithHint("start it at login yourself, for example with this line in ~/.profile: %s >/dev/null 2>&1 &", s.Command())
	}
	return err
}

// startService installs the service, waits until it serves, and says what a person should know.
func (a *program) startService(ctx context.Context, force bool) error {
	set, err := a.Settings()
	if err != nil {
		return err
	}
	m, s, err := a.serviceOf(set)
	if err != nil {
		return err
	}
	if err := a.MakeData(set); err != nil { // what a unit names has to be there
		return err
	}
	if err := m.Install(ctx, s, force); err != nil {
		return byHand(err, s)
	}
	st, err := a.awaitService(ctx, m, set)
	if err != nil {
		return err
	}
	if err := a.PrintDone(st, nil, "✓ %s", strings.TrimSpace(st.text())); err != nil || a.JSON {
		return err
	}
	if m.Always != "" {
		a.Note("It runs while you are logged in. %s lets it run without that, from the start of this machine on.", m.Always)
	}
	a.noteVariables(set)
	return nil
}

// serviceStartFor is how long a service may take until it serves: it looks for models first.
const serviceStartFor = 20 * time.Second

// awaitService waits until the service serves, or waits itself for another Steward.
func (a *program) awaitService(ctx context.Context, m *daemon.Manager, set *settings.Loaded) (serviceState, error) {
	ctx, cancel := context.WithTimeout(ctx, serviceStartFor)
	defer cancel()
	for {
		st, err := a.lookAtService(ctx, m, set)
		if err == nil && st.Running && st.URL != "" {
			return st, nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			if cause := context.Cause(ctx); !errors.Is(cause, context.DeadlineExceeded) {
				return st, cause
			}
			if st.Running { // it may still be asking a server for models
				return st, nil
			}
			return st, errors.Join(err, fault.New(fault.Unavailable, "service_failed", "the service is installed, but does not run").
				WithHint("%s shows why", m.Logs))
		}
	}
}

// noteVariables says which settings come from variables of this shell. The service does not have these.
func (a *program) noteVariables(set *settings.Loaded) {
	file := settings.UserFile(a.Environ)
	var others []string
	for _, v := range set.Values() {
		name, secret := v.Source.Where, strings.HasSuffix(v.Key, ".key")
		switch {
		case v.Source.Kind == settings.FromEnv:
		case strings.HasPrefix(v.Value, "env:"):
			name, secret = strings.TrimPrefix(v.Value, "env:"), true
		case strings.HasSuffix(v.Key, ".key_env") && v.Value != "":
			name, secret = v.Value, true
			v.Key = strings.TrimSuffix(v.Key, "_env")
		default:
			continue
		}
		switch stored := strings.ToLower(name); {
		case v.Key == "data" || a.Getenv(name) == "":
		case secret:
			a.Note("! The service does not see %s, which is set in your shell. Store it once, and name it in %s:\n    steward secrets set %s\n    %s: store:%s",
				name, file, stored, v.Key, stored)
		case !slices.Contains(others, name):
			others = append(others, name)
			a.Note("! The service does not see %s, which is set in your shell. Write %s into %s.", name, v.Key, file)
		}
	}
}

func (a *program) uninstallService() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use: "uninstall", Short: "Stop the service and remove it", Args: cobra.NoArgs,
		Long: "Stop the service and remove what steward service install has written. Turns that run are suspended, and go\n" +
			"on when Steward starts again. Your conversations and settings stay.",
		RunE: func(c *cobra.Command, _ []string) error {
			m, err := a.ServiceManager()
			if err != nil {
				return err
			}
			was, err := m.Uninstall(c.Context(), force)
			out := struct {
				File    string `json:"file"`
				Removed bool   `json:"removed"`
			}{m.File, was}
			if !was {
				return a.PrintDone(out, err, "the service is not installed")
			}
			return a.PrintDone(out, err, "the service has been stopped, and %s removed", m.File)
		},
	}
	c.Flags().BoolVar(&force, "force", false, "remove a service that you have edited")
	return c
}

func (a *program) serviceStatus() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show whether the service is installed and runs", Args: cobra.NoArgs,
		Long: "Show whether the service is installed, starts at login and runs: since when, under which process id and\n" +
			"address. If it does not run, the output says what to do.",
		RunE: func(c *cobra.Command, _ []string) error {
			set, err := a.Settings()
			if err != nil {
				return err
			}
			m, s, err := a.serviceOf(set)
			if err == nil {
				err = byHand(m.Ready(c.Context()), s)
			}
			if fault.HasCode(err, "service_unsupported") {
				st := a.noticed(set)
				st.Advice = fault.Of(err).Message + "; " + fault.Of(err).Remedy
				return command.PrintValue(a.Program, st, nil, serviceState.text)
			}
			if err != nil {
				return err
			}
			st, err := a.lookAtService(c.Context(), m, set)
			return command.PrintValue(a.Program, st, err, serviceState.text)
		},
	}
}

// serviceState is what status tells.
type serviceState struct {
	Manager   string     `json:"manager,omitempty"`
	File      string     `json:"file,omitempty"`
	Installed bool       `json:"installed"`
	Edited    bool       `json:"edited,omitempty"`
	Enabled   bool       `json:"enabled"`
	Running   bool       `json:"running"`
	PID       int        `json:"pid,omitempty"`
	URL       string     `json:"url,omitempty"`   // of the Steward that uses the data folder
	Since     *time.Time `json:"since,omitempty"` // likewise
	Other     int        `json:"other_pid,omitempty"`
	Advice    string     `json:"advice,omitempty"`
}

// lookAtService returns the state of the service. The server's own notice says where it serves.
func (a *program) lookAtService(ctx context.Context, m *daemon.Manager, set *settings.Loaded) (serviceState, error) {
	s, err := m.State(ctx)
	if err != nil {
		return serviceState{}, err
	}
	st := a.noticed(set)
	st.Manager, st.File, st.Installed, st.Edited, st.Enabled, st.Running, st.PID = m.Name, m.File, s.Installed, s.Edited, s.Enabled, s.Running, s.PID
	if st.Other == st.PID {
		st.Other = 0
	}
	covers, err := a.ServiceCovers(m, set)
	switch {
	case err != nil:
		return st, err
	case !st.Installed:
		st.Advice = "steward service install has Steward run from login on"
	case !covers:
		st.URL, st.Since, st.Other = "", nil, 0
		st.Advice = "it serves another data folder than " + set.Data
	case !st.Running:
		st.Advice = m.Logs + " shows why; steward service install starts it again"
	case !st.Enabled:
		st.Advice = "steward service install has it start at login again"
	}
	return st, nil
}

// noticed returns which Steward uses the data folder, as its notice says.
func (a *program) noticed(set *settings.Loaded) (st serviceState) {
	n, err := app.ReadNotice(set.Data)
	if err != nil || !command.Alive(n.PID) {
		return st
	}
	st.URL, st.Other = n.URL, n.PID
	if info, err := os.Stat(app.NoticeFile(set.Data)); err == nil {
		since := info.ModTime()
		st.Since = &since
	}
	return st
}

// text says the state in a line or two.
func (st serviceState) text() string {
	var b strings.Builder
	switch {
	case !st.Installed:
		b.WriteString("the service is not installed")
	case !st.Running:
		b.WriteString("the service is installed, but does not run")
	default:
		fmt.Fprintf(&b, "the service runs (pid %d)", st.PID)
	}
	switch at := st.URL; {
	case at == "":
	case st.Other != 0 && st.Running:
		fmt.Fprintf(&b, ", and waits until the Steward at %s (pid %d) ends", at, st.Other)
	case st.Other != 0:
		fmt.Fprintf(&b, "; a Steward that was started by hand serves at %s (pid %d, since %s)", at, st.Other, command.MinuteOf(*st.Since))
	default:
		fmt.Fprintf(&b, " at %s since %s", at, command.MinuteOf(*st.Since))
	}
	if st.Enabled {
		b.WriteString(", and starts at each login")
	}
	b.WriteByte('\n')
	if st.Edited {
		fmt.Fprintf(&b, "%s has been edited\n", st.File)
	}
	if st.Advice != "" {
		b.WriteString(st.Advice + "\n")
	}
	return b.String()
}
