package terminal_test

import (
	"context"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"

	"steward/internal/server/terminal"
)

// screen is a terminal with the chat in it.
type screen struct {
	t    *testing.T
	tty  *os.File // the chat's end
	pty  *os.File // the person's end
	done chan error

	mu   sync.Mutex
	text strings.Builder // written since the last keys
	was  string          // what was shown then
	vt   *vt.Emulator    // the screen's content
	more chan struct{}
}

func start(t *testing.T, o terminal.Options) *screen {
	t.Helper()
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(master, &pty.Winsize{Rows: 24, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	s := &screen{t: t, tty: tty, pty: master, done: make(chan error, 1), more: make(chan struct{}, 1), vt: vt.NewEmulator(80, 24)}
	go io.Copy(io.Discard, s.vt) // its replies to the program's queries
	go s.read()
	o.In, o.Out, o.Environ = tty, tty, []string{"TERM=xterm-256color", "NO_COLOR=1"}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { s.done <- terminal.Run(ctx, o) }()
	t.Cleanup(func() {
		cancel()
		tty.Close()
		master.Close()
	})
	return s
}

func (s *screen) read() {
	defer s.vt.InputPipe().(io.Closer).Close()
	buf := make([]byte, 4096)
	for {
		n, err := s.pty.Read(buf)
		s.mu.Lock()
		s.text.Write(buf[:n])
		s.vt.Write(buf[:n])
		s.mu.Unlock()
		select {
		case s.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// all returns the scrollback and the screen as text. The caller holds s.mu.
func (s *screen) all() string {
	var out strings.Builder
	for _, line := range s.vt.Scrollback().Lines() {
		out.WriteString(line.String() + "\n")
	}
	return out.String() + s.vt.String()
}

// patience is how long a test waits for something that must happen. It is long, for
// slow machines; fast ones do not wait that long.
const patience = 2 * time.Minute

// until waits until nothing is missing.
func (s *screen) until(missing func() string) {
	s.t.Helper()
	deadline := time.After(patience)
	for {
		s.mu.Lock()
		what, all := missing(), s.all()
		s.mu.Unlock()
		if what == "" {
			return
		}
		select {
		case <-s.more:
		case <-deadline:
			s.t.Fatalf("%s never came:\n%s", what, all)
		}
	}
}

// lacking returns the first of the texts that is not in all, below those
// before it.
func lacking(all string, texts []string) string {
	for _, w := range texts {
		var ok bool
		if _, all, ok = strings.Cut(all, w); !ok {
			return strconv.Quote(w)
		}
	}
	return ""
}

// wait waits until the chat has written each of the texts, in order, since the
// last keys.
func (s *screen) wait(texts ...string) {
	s.t.Helper()
	s.until(func() string {
		missing := lacking(s.text.String(), texts)
		if missing != "" && lacking(added(s.was, s.all()), texts) == "" {
			return "" // what stood there already was not written again
		}
		return missing
	})
}

// added returns the lines after those that both have at their beginning.
func added(before, now string) string {
	old := strings.Split(before, "\n")
	list := strings.Split(now, "\n")
	n := 0
	for n < len(old) && n < len(list) && strings.TrimRight(old[n], " ") == strings.TrimRight(list[n], " ") {
		n++
	}
	return strings.Join(list[n:], "\n")
}

// rests waits until the chat shows that nothing is being sent and no turn runs.
func (s *screen) rests() {
	s.t.Helper()
	s.until(func() string {
		if all := s.all(); strings.Contains(all, "sending: ") || strings.Contains(all, "Esc stops") {
			return "rest"
		}
		return ""
	})
}

// hang makes the model hang, and waits until the chat shows that a turn runs.
func (s *screen) hang(n node) {
	s.t.Helper()
	s.rests()
	s.keys("hang\r")
	<-n.hangs
	s.shows("Esc stops")
}

// clear forgets what was written so far.
func (s *screen) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Reset()
	s.was = s.all()
}

func (s *screen) keys(keys string) {
	s.t.Helper()
	s.clear()
	if _, err := s.pty.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// enter types a line and waits until the chat has written each of the texts.
func (s *screen) enter(line string, texts ...string) {
	s.t.Helper()
	s.keys(line + "\r")
	s.wait(texts...)
}

// end waits for the chat to end.
func (s *screen) end() {
	s.t.Helper()
	select {
	case err := <-s.done:
		if err != nil {
			s.t.Error(err)
		}
	case <-time.After(patience):
		s.t.Fatal("the chat does not end")
	}
}

const hint = "/help"
