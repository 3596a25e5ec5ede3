package daemon

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// systemdUnit is the name of the unit.
const systemdUnit = "steward.service"

// systemd is the user manager of systemd.
type systemd struct{ run Runner }

func newSystemd(o Options, home string) *Manager {
	config := variable(o.Environ, "XDG_CONFIG_HOME") // systemd looks there too
	if !filepath.IsAbs(config) {
		config = filepath.Join(home, ".config")
	}
	return &Manager{Name: "systemd --user", File: filepath.Join(config, "systemd", "user", systemdUnit),
		Logs: "journalctl --user -u steward", Always: "loginctl enable-linger", system: systemd{o.Run}}
}

// unit implements system. After a crash systemd starts the program again, and gives up after five
// starts in ten minutes. A usage error (2) would only repeat itself. SIGTERM goes to the program alone,
// which suspends its turns and ends the programs that it runs. What is left after the grace is killed.
func (m systemd) unit(s Service, mark string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# %s
[Unit]
Description=Steward
StartLimitIntervalSec=600
StartLimitBurst=5

[Service]
Type=exec
WorkingDirectory=~
`, mark)
	for _, v := range s.Env {
		fmt.Fprintf(&b, "Environment=%s\n", systemdWord(v))
	}
	fmt.Fprintf(&b, "ExecStart=%s%s", systemdWord(s.Program), m.words(s.Args))
	fmt.Fprintf(&b, `
Restart=on-failure
RestartSec=5
RestartPreventExitStatus=2
KillSignal=SIGTERM
KillMode=mixed
TimeoutStopSec=%d

[Install]
WantedBy=default.target
`, int(s.Grace.Seconds()))
	return b.String()
}

// words implements system. In arguments a $ stands for a variable, and $$ for itself.
func (systemd) words(args []string) string {
	var b strings.Builder
	for _, arg := range args {
		b.WriteString(" " + strings.ReplaceAll(systemdWord(arg), "$", "$$"))
	}
	return b.String()
}

// systemdWord quotes a word of a unit.
func systemdWord(text string) string {
	text = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "\n", `\n`).Replace(text)
	if plain.MatchString(text) {
		return text
	}
	return `"` + text + `"`
}

func (m systemd) do(ctx context.Context, args ...string) (string, error) {
	return m.run.Run(ctx, "systemctl", append([]string{"--user"}, args...)...)
}

func (m systemd) ready(ctx context.Context) error {
	_, err := m.do(ctx, "show", "--property=Version")
	return err
}

// start implements system. A service that runs is started again, with the program as it is now.
func (m systemd) start(ctx context.Context) error {
	before := m.properties(ctx)
	if _, err := m.do(ctx, "daemon-reload"); err != nil {
		return err
	}
	if before["ActiveState"] == "failed" { // it may have been started too often
		m.do(ctx, "reset-failed", systemdUnit) //nolint:errcheck // starting it says what is wrong
	}
	if _, err := m.do(ctx, "enable", "--now", systemdUnit); err != nil {
		return err
	}
	if before["MainPID"] == "0" || before["MainPID"] == "" {
		return nil
	}
	_, err := m.do(ctx, "restart", systemdUnit)
	return err
}

func (m systemd) stop(ctx context.Context) error {
	_, err := m.do(ctx, "disable", "--now", systemdUnit)
	return err
}

func (m systemd) forget(ctx context.Context) error {
	_, err := m.do(ctx, "daemon-reload")
	return err
}

func (m systemd) state(ctx context.Context, s *State) {
	p := m.properties(ctx)
	s.Enabled = p["UnitFileState"] == "enabled"
	s.PID, _ = strconv.Atoi(cmp.Or(p["MainPID"], "0"))
	s.Running = s.PID > 0 && p["ActiveState"] == "active"
}

// properties returns what systemd knows of the service; nothing if it cannot be asked.
func (m systemd) properties(ctx context.Context) map[string]string {
	text, err := m.do(ctx, "show", "--property=ActiveState,MainPID,UnitFileState", systemdUnit)
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok && err == nil {
			all[k] = v
		}
	}
	return all
}
