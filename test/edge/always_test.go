package edge

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// startsServices plays systemctl: it starts what the unit says, and knows its process id.
const startsServices = `#!/bin/sh
cd "$HOME" || exit 9
case "$*" in
*ActiveState*)
	printf 'ActiveState=active\nUnitFileState=enabled\nMainPID=%s\n' "$(cat pid 2>/dev/null || echo 0)" ;;
*enable\ --now*)
	$(sed -n 's/^ExecStart=//p' .config/systemd/user/steward.service) </dev/null >/dev/null 2>&1 &
	echo $! > pid ;;
esac
`

// TestSetupOffersTheService: whoever says yes at the end of setup has a service, and the chat joins it.
// Whoever presses Enter has none.
func TestSetupOffersTheService(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("systemd is of Linux")
	}
	t.Parallel()
	const question = "Keep Steward running from login on"
	for _, c := range []struct{ name, types, sees string }{
		{"no", "\r", "serving at http"},
		{"yes", "y\r", "joined the Steward at http"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newcomer(t, Options{Settings: "listen: 127.0.0.1:0\n"})
			bin := filepath.Dir(n.Write(startsServices, "bin", "systemctl"))
			n.Env = append(n.Env, "PATH="+bin+":"+os.Getenv("PATH"))
			t.Cleanup(func() { stopService(t, n) })
			s := n.sit(t, "setup")
			s.asked("Enter continues without", "\r")
			s.takesTheFolder()
			s.asked("Topic of the app ntfy", "\r")
			s.asked(question, c.types)
			s.sees(c.sees, "Ask something")
			s.types("/quit\r")
			s.left()
			unit, err := os.ReadFile(filepath.Join(n.Dir, ".config", "systemd", "user", "steward.service"))
			if installed := err == nil; installed != (c.name == "yes") || installed && !strings.Contains(string(unit), " serve --wait\n") {
				t.Errorf("%v %s", err, unit)
			}
		})
	}
}

// stopService ends the service that was started, and waits for it.
func stopService(t *testing.T, n *Node) {
	b, err := os.ReadFile(filepath.Join(n.Dir, "pid"))
	if err != nil {
		return
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	syscall.Kill(pid, syscall.SIGTERM) //nolint:errcheck // the end of the terminal may have ended it
	n.Until("the service has ended", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
}

// TestATimerIsShownWhileAQuestionIsOpen: the chat shows a timer that goes off at once, and the question stays
// below it.
func TestATimerIsShownWhileAQuestionIsOpen(t *testing.T) {
	t.Parallel()
	n := New(t, Options{Model: Script(t, func(in Asked) Reply {
		switch in.Rounds() {
		case 0:
			return Reply{Calls: []Call{{Name: "timer.set", Args: map[string]any{"seconds": 1, "name": "tea"}}}}
		case 1:
			return Reply{Calls: []Call{{Name: "files.write", Args: map[string]any{"path": "a.txt", "content": "x"}}}}
		}
		return Reply{Text: "It is written."}
	})})
	s := n.sit(t, "chat")
	s.sees("Ask something")
	s.types("set it, and write\r")
	s.sees(`The timer "tea" is over.`, "Allow it? y/n")
	screen := s.screen()
	if told, asks := strings.Index(screen, "⏰"), strings.LastIndex(screen, "Allow it?"); told < 0 || told > asks {
		t.Errorf("the question does not stand below:\n%s", screen)
	}
	s.types("\x03\x03")
	s.left()
}
