package daemon

import (
	"context"
	"encoding/xml"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// launchdLabel is the name of the agent.
const launchdLabel = "local.steward"

// launchd is launchd with the session of one user.
type launchd struct {
	run    Runner
	domain string // gui/501
	home   string
	file   string
	nap    time.Duration // between two tries to load the agent
}

func newLaunchd(o Options, home string) *Manager {
	l := launchd{run: o.Run, domain: fmt.Sprintf("gui/%d", o.UID), home: home, file: filepath.Join(home, "Library", "LaunchAgents", launchdLabel+".plist"), nap: time.Second}
	return &Manager{Name: "launchd", File: l.file, Logs: "launchctl print " + l.target(), system: l}
}

func (l launchd) target() string { return l.domain + "/" + launchdLabel }

// unit implements system. launchd starts the program again unless it ended by itself with success, at most
// once in ten seconds.
func (l launchd) unit(s Service, mark string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<?xml version="1.0" encoding="UTF-8"?>
<!-- %s -->
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
	<key>Label</key>
	<string>%s</string>
	<key>ProgramArguments</key>
	<array>
`, mark, launchdLabel)
	b.WriteString(l.words(append([]string{s.Program}, s.Args...)) + "\t</array>\n\t<key>EnvironmentVariables</key>\n\t<dict>\n")
	for _, v := range s.Env {
		name, value, _ := strings.Cut(v, "=")
		fmt.Fprintf(&b, "\t\t<key>%s</key>\n\t\t<string>%s</string>\n", escaped(name), escaped(value))
	}
	fmt.Fprintf(&b, `	</dict>
	<key>WorkingDirectory</key>
	<string>%s</string>
	<key>RunAtLoad</key>
	<true/>
	<key>KeepAlive</key>
	<dict>
		<key>SuccessfulExit</key>
		<false/>
	</dict>
	<key>ThrottleInterval</key>
	<integer>10</integer>
	<key>ExitTimeOut</key>
	<integer>%d</integer>
	<key>StandardOutPath</key>
	<string>%s</string>
	<key>StandardErrorPath</key>
	<string>%s</string>
</dict>
</plist>
`, escaped(l.home), int(s.Grace.Seconds()), escaped(s.Log), escaped(s.Log))
	return b.String()
}

// words implements system.
func (launchd) words(args []string) string {
	var b strings.Builder
	for _, word := range args {
		fmt.Fprintf(&b, "\t\t<string>%s</string>\n", escaped(word))
	}
	return b.String()
}

func escaped(text string) string {
	var b strings.Builder
	xml.EscapeText(&b, []byte(text)) //nolint:errcheck // a builder takes everything
	return b.String()
}

func (l launchd) ready(ctx context.Context) error {
	_, err := l.run.Run(ctx, "launchctl", "print", l.domain)
	return err
}

// start implements system. An agent that launchd has loaded is unloaded first: launchd reads a file once. It
// may still be busy with that when the new one is to be loaded.
func (l launchd) start(ctx context.Context) error {
	if _, err := l.run.Run(ctx, "launchctl", "enable", l.target()); err != nil {
		return err
	}
	if _, loaded := l.printed(ctx); loaded {
		if err := l.stop(ctx); err != nil {
			return err
		}
	}
	for try := 1; ; try++ {
		_, err := l.run.Run(ctx, "launchctl", "bootstrap", l.domain, l.file)
		if err == nil || try == 10 {
			return err
		}
		select {
		case <-time.After(l.nap):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l launchd) stop(ctx context.Context) error {
	if _, loaded := l.printed(ctx); !loaded {
		return nil
	}
	_, err := l.run.Run(ctx, "launchctl", "bootout", l.target())
	return err
}

func (l launchd) forget(context.Context) error { return nil }

var pidLine = regexp.MustCompile(`(?m)^\s*pid = (\d+)$`)

func (l launchd) state(ctx context.Context, s *State) {
	text, loaded := l.printed(ctx)
	s.Enabled = loaded
	if pid := pidLine.FindStringSubmatch(text); pid != nil {
		s.PID, _ = strconv.Atoi(pid[1])
	}
	s.Running = s.PID > 0
}

// printed returns what launchd tells of the agent, and whether it has loaded it.
func (l launchd) printed(ctx context.Context) (string, bool) {
	text, err := l.run.Run(ctx, "launchctl", "print", l.target())
	return text, err == nil
}
