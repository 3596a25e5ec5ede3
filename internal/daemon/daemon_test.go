package daemon_test

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/daemon"
	"steward/internal/fault"
)

// fakes are the programs of the managers. Each records its calls in the file calls of HOME. The files
// running, loaded and absent say how it answers.
var fakes = map[string]string{
	"systemctl": `#!/bin/sh
cd "$HOME" || exit 9
echo "$@" >> calls
[ -e absent ] && { echo "Failed to connect to bus" >&2; exit 1; }
case "$*" in
*ActiveState*) if [ -e running ]; then printf 'UnitFileState=enabled\nMainPID=42\nActiveState=active\n'
	else printf 'UnitFileState=disabled\nMainPID=0\nActiveState=%s\n' "$(cat failed 2>/dev/null || echo inactive)"; fi ;;
*enable\ --now*) rm -f running failed; [ -e broken ] && { echo "unit is broken" >&2; exit 1; }; touch running ;;
*disable\ --now*) rm -f running ;;
esac
exit 0
`,
	"launchctl": `#!/bin/sh
cd "$HOME" || exit 9
echo "$@" >> calls
[ -e absent ] && { echo "Could not find domain" >&2; exit 1; }
case "$1 $2" in
"print gui/7") ;;
print*) [ -e running ] || exit 113; printf 'gui/7/local.steward = {\n\tstate = running\n\tpid = 42\n}\n' ;;
bootstrap*) [ -e busy ] && { rm busy; echo "Operation already in progress" >&2; exit 37; }; touch running ;;
bootout*) rm running; touch busy ;;
esac
exit 0
`,
}

// place is a person's home with a manager.
type place struct {
	*daemon.Manager
	t    *testing.T
	home string
}

func newPlace(t *testing.T, system string) *place {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the managers are shell scripts here")
	}
	home := t.TempDir()
	for name, text := range fakes {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m, err := daemon.For(daemon.Options{System: system, UID: 7, Environ: []string{"HOME=" + home, "PATH=" + home + ":/usr/bin:/bin"}})
	if err != nil {
		t.Fatal(err)
	}
	return &place{m, t, home}
}

// set makes a file of the home, by which the fakes answer.
func (p *place) set(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.home, name), []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// calls returns what the manager was called with since the last time, without questions.
func (p *place) calls() []string {
	p.t.Helper()
	b, _ := os.ReadFile(filepath.Join(p.home, "calls")) // there were none
	os.Remove(filepath.Join(p.home, "calls"))
	return slices.DeleteFunc(strings.Split(strings.TrimSpace(string(b)), "\n"), func(call string) bool {
		return call == "" || strings.Contains(call, "show ") || strings.HasPrefix(call, "print")
	})
}

func (p *place) text() string {
	p.t.Helper()
	text, err := p.Text()
	if err != nil {
		p.t.Fatal(err)
	}
	return text
}

func (p *place) state() daemon.State {
	p.t.Helper()
	s, err := p.State(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

var tea = daemon.Service{Program: "/opt/a b/steward", Args: []string{"serve", "--data", `/x/50% "$HOME" & <y>`}, Env: []string{"PATH=/bin:/a b"}, Log: "/x/serve.log", Grace: 80 * time.Second}

// units are the parts of a unit that matter.
var units = map[string][]string{
	"linux": {"\nExecStart=\"/opt/a b/steward\" serve --data \"/x/50%% \\\"$$HOME\\\" & <y>\"\n", "\nEnvironment=\"PATH=/bin:/a b\"\n", "\nRestart=on-failure\n", "\nStartLimitBurst=5\n",
		"\nKillSignal=SIGTERM\nKillMode=mixed\nTimeoutStopSec=80\n", "\nWantedBy=default.target\n"},
	"darwin": {"<string>/opt/a b/steward</string>\n\t\t<string>serve</string>\n\t\t<string>--data</string>\n\t\t<string>/x/50% &#34;$HOME&#34; &amp; &lt;y&gt;</string>",
		"<key>PATH</key>\n\t\t<string>/bin:/a b</string>", "<key>SuccessfulExit</key>\n\t\t<false/>", "<key>ExitTimeOut</key>\n\t<integer>80</integer>", "<key>StandardErrorPath</key>\n\t<string>/x/serve.log</string>"},
}

// A service is installed, updated, and removed without a trace. Both managers are told what they need.
func TestLife(t *testing.T) {
	for system, want := range map[string]struct{ file, install, again, uninstall string }{
		"linux": {".config/systemd/user/steward.service", "--user daemon-reload|--user enable --now steward.service",
			"--user daemon-reload|--user enable --now steward.service|--user restart steward.service", "--user disable --now steward.service|--user daemon-reload"},
		"darwin": {"Library/LaunchAgents/local.steward.plist", "enable gui/7/local.steward|bootstrap gui/7 FILE",
			"enable gui/7/local.steward|bootout gui/7/local.steward|bootstrap gui/7 FILE|bootstrap gui/7 FILE", "bootout gui/7/local.steward"},
	} {
		t.Run(system, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, system)
			if p.File != filepath.Join(p.home, want.file) || p.state() != (daemon.State{}) {
				t.Errorf("%s %+v", p.File, p.state())
			}
			said := func() string { return strings.ReplaceAll(strings.Join(p.calls(), "|"), p.File, "FILE") }
			said()
			for _, calls := range []string{want.install, want.again} {
				if err := p.Install(t.Context(), tea, false); err != nil {
					t.Fatal(err)
				}
				if got := said(); got != calls {
					t.Errorf("%s\nwant %s", got, calls)
				}
			}
			if s := p.state(); s != (daemon.State{Installed: true, Enabled: true, Running: true, PID: 42}) {
				t.Errorf("%+v", s)
			}
			for _, part := range units[system] {
				if !strings.Contains(p.text(), part) {
					t.Errorf("no %s in\n%s", part, p.text())
				}
			}
			for flag, want := range map[string]bool{tea.Args[2]: true, "/x": false} {
				if got, err := p.Passes("--data", flag); got != want || err != nil {
					t.Errorf("%s: %v %v", flag, got, err)
				}
			}
			said()
			for _, was := range []bool{true, false} {
				if got, err := p.Uninstall(t.Context(), false); got != was || err != nil {
					t.Errorf("%v %v", got, err)
				}
			}
			if got := said(); got != want.uninstall {
				t.Errorf("%s", got)
			}
			if left, err := os.ReadDir(filepath.Dir(p.File)); len(left) > 0 || err != nil {
				t.Errorf("left behind: %v %v", left, err)
			}
		})
	}
}

// What a person has edited, or written, is kept unless it is forced.
func TestAnEditedServiceIsKept(t *testing.T) {
	for system := range units {
		for name, edit := range map[string]func(string) string{
			"a line":   func(text string) string { return text + "\n" },
			"a number": func(text string) string { return strings.Replace(text, "80", "81", 1) },
			"all":      func(string) string { return "[Service]\nExecStart=/bin/true\n" },
		} {
			t.Run(system+", "+name, func(t *testing.T) {
				t.Parallel()
				p := newPlace(t, system)
				if err := p.Install(t.Context(), tea, false); err != nil {
					t.Fatal(err)
				}
				edited := edit(p.text())
				if err := os.WriteFile(p.File, []byte(edited), 0o600); err != nil {
					t.Fatal(err)
				}
				p.calls()
				if err := p.Install(t.Context(), tea, false); !fault.HasCode(err, "service_edited") {
					t.Error(err)
				}
				if _, err := p.Uninstall(t.Context(), false); !fault.HasCode(err, "service_edited") || fault.Of(err).Remedy == "" {
					t.Error(err)
				}
				if p.text() != edited || len(p.calls()) > 0 || !p.state().Edited {
					t.Error("it was touched")
				}
				if err := p.Install(t.Context(), tea, true); err != nil || p.state().Edited {
					t.Error(err)
				}
				if err := os.WriteFile(p.File, []byte(edited), 0o600); err != nil {
					t.Fatal(err)
				}
				if was, err := p.Uninstall(t.Context(), true); !was || err != nil || p.text() != "" {
					t.Error(was, err)
				}
			})
		}
	}
}

// Where no manager runs nothing is written, and what the manager says is told.
func TestWithoutAManager(t *testing.T) {
	for system, says := range map[string]string{"linux": "Failed to connect to bus", "darwin": "Could not find domain"} {
		p := newPlace(t, system)
		p.set("absent", "")
		if err := p.Install(t.Context(), tea, false); !fault.HasCode(err, "service_unsupported") || !strings.Contains(err.Error(), says) || p.text() != "" {
			t.Error(err)
		}
	}
	for _, o := range []daemon.Options{{System: "plan9", Environ: []string{"HOME=/x"}}, {System: "linux"}} {
		if _, err := daemon.For(o); !fault.HasCode(err, "service_unsupported") {
			t.Error(err)
		}
	}
	m, err := daemon.For(daemon.Options{System: "linux", Environ: []string{"HOME=/x", "PATH=" + t.TempDir(), "XDG_CONFIG_HOME=/y"}})
	if err != nil || m.File != "/y/systemd/user/steward.service" {
		t.Fatal(m, err)
	}
	if err := m.Ready(t.Context()); !fault.HasCode(err, "service_unsupported") || !strings.Contains(err.Error(), "there is no program systemctl") {
		t.Error(err)
	}
}

// A service that systemd has given up is started again. One that does not start says why.
func TestAFailedService(t *testing.T) {
	p := newPlace(t, "linux")
	p.set("failed", "failed")
	if err := p.Install(t.Context(), tea, false); err != nil || !slices.Contains(p.calls(), "--user reset-failed steward.service") {
		t.Error(err)
	}
	p.set("broken", "")
	if err := p.Install(t.Context(), tea, false); !fault.HasCode(err, "service_failed") || !strings.Contains(err.Error(), "unit is broken") || !strings.Contains(fault.Of(err).Remedy, "journalctl") {
		t.Error(err)
	}
}

func TestCommand(t *testing.T) {
	if got := tea.Command(); got != `'/opt/a b/steward' serve --data '/x/50% "$HOME" & <y>'` {
		t.Error(got)
	}
}
