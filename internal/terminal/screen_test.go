package terminal_test

import (
	"bytes"
	"context"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/charmbracelet/x/vt"

	"steward/internal/terminal"
)

// screen is a terminal with the chat in it. It lives in a synctest bubble: the clock
// moves only when nothing else happens, so what is on the screen after a pause depends
// on no machine's speed.
type screen struct {
	t    *testing.T
	in   *io.PipeWriter // the keyboard
	over chan struct{}  // closed when the chat has ended
	err  error          // how; valid when it has ended
	was  string         // what was shown before the last keys

	mu  sync.Mutex
	vt  *vt.Emulator
	raw bytes.Buffer // every byte that was written
}

// Write implements io.Writer: the chat draws. A line feed begins a line, as in a
// terminal that nobody has put into raw mode.
func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.raw.Write(b)
	if _, err := s.vt.Write(bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n"))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// start begins a chat, which ends with the test at the latest.
func start(t *testing.T, o terminal.Options) *screen {
	t.Helper()
	o.Width, o.Height = 80, 24
	return startSized(t, o)
}

// startSized is start on a screen of the size in the options.
func startSized(t *testing.T, o terminal.Options) *screen {
	t.Helper()
	in, keyboard := io.Pipe()
	s := &screen{t: t, in: keyboard, over: make(chan struct{}), vt: vt.NewEmulator(o.Width, o.Height)}
	go io.Copy(io.Discard, s.vt) // its replies to the program's queries
	o.In, o.Out = in, s
	o.Environ = []string{"TERM=xterm-256color", "NO_COLOR=1", "TTY_FORCE=1"}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(s.over)
		s.err = terminal.Run(ctx, o)
	}()
	t.Cleanup(func() {
		cancel()
		<-s.over
		keyboard.Close()
		s.vt.InputPipe().(io.Closer).Close()
		time.Sleep(time.Minute) // the program's timers end by themselves, on the bubble's clock
	})
	s.pause()
	s.pause() // the chat waits for its first frame before it shows anything else
	return s
}

// pause lets 100 ms pass: all that was to happen has happened, and is drawn.
func (s *screen) pause() {
	synctest.Wait()
	time.Sleep(100 * time.Millisecond) // on the bubble's clock
	synctest.Wait()
}

// all returns the scrollback and the screen as text.
func (s *screen) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out strings.Builder
	for _, line := range s.vt.Scrollback().Lines() {
		out.WriteString(line.String() + "\n")
	}
	return out.String() + s.vt.String()
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

// wait checks that each of the texts has come, in order, since the last keys.
func (s *screen) wait(texts ...string) {
	s.t.Helper()
	s.pause()
	all := s.all()
	if missing := lacking(added(s.was, all), texts); missing != "" {
		s.t.Fatalf("%s did not come:\n%s", missing, all)
	}
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

// rests checks that the chat shows neither that something is being sent nor that a
// turn runs.
func (s *screen) rests() {
	s.t.Helper()
	s.pause()
	if all := s.all(); strings.Contains(all, "sending: ") || strings.Contains(all, "Esc stops") {
		s.t.Fatalf("it does not rest:\n%s", all)
	}
}

// hangingIndent makes the model hang, and waits until it does.
func (s *screen) hangingIndent(n node) {
	s.t.Helper()
	s.rests()
	s.keys("hang\r")
	<-n.hangs
	s.shows("Esc stops")
}

// keys types, and lets the chat take its time.
func (s *screen) keys(keys string) {
	s.t.Helper()
	s.was = s.all()
	if _, err := io.WriteString(s.in, keys); err != nil {
		s.t.Fatal(err)
	}
	s.pause()
}

// enter types a line and checks that each of the texts has come.
func (s *screen) enter(line string, texts ...string) {
	s.t.Helper()
	s.keys(line + "\r")
	s.wait(texts...)
}

// end checks that the chat has ended.
func (s *screen) end() {
	s.t.Helper()
	s.pause()
	select {
	case <-s.over:
		if s.err != nil {
			s.t.Error(s.err)
		}
	default:
		s.t.Fatalf("the chat does not end:\n%s", s.all())
	}
}

const hint = "/help"
