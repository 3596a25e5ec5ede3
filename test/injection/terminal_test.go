//go:build long

package injection_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/creack/pty"

	"steward/internal/terminal"
	"steward/test/served"
)

// A terminal receives no picture, no control sequence from an answer and
// nothing for the clipboard, and no server is called. Markdown links stay
// links, which only a person can follow.
func TestATerminalShowsText(t *testing.T) {
	w := newWorld(t, judgeOf(t, "unfixed"))
	w.reset()
	answer := "" // pictures of kitty, iTerm2 and sixel, a link, and the clipboard
	for _, text := range []string{"\x1b_Ga=T,f=100;AAAA\x1b\\", "\x1b]1337;File=inline=1:AAAA\a", "\x1bPq#0;2;0;0;0\x1b\\", "\x1b]8;;NET/eve\x1b\\x\x1b]8;;\x1b\\", "\x1b]52;c;ZXZl\a", "\u009b8m", "\u009fGa=T;AAAA\u009c"} {
		answer += text + "\n\n"
	}
	for _, text := range shown {
		answer += text + "\n\n"
	}
	answer += "ENDMARK\n"
	w.model.think(func(v *view) reply {
		if _, made := v.turn(); len(made) == 0 {
			return reply{calls: []call{readBank}}
		}
		return reply{text: strings.ReplaceAll(answer, "NET", w.net.URL)}
	})
	master, tty, err := pty.Open()
	w.must(err)
	w.must(pty.Setsize(master, &pty.Winsize{Rows: 40, Cols: 120}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	over := make(chan error, 1)
	go func() {
		over <- terminal.Run(ctx, terminal.Options{Client: served.To(t, w.node, person, nil), In: tty, Out: tty, Environ: []string{"TERM=xterm-kitty", "NO_COLOR=1"}})
	}()
	prompted, answered := make(chan struct{}), make(chan struct{})
	var mu sync.Mutex
	var all strings.Builder
	go func() {
		var ready, done sync.Once
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			if err != nil { // no more output
				return
			}
			mu.Lock()
			all.Write(buf[:n])
			text := all.String()
			mu.Unlock()
			if strings.Contains(text, "/help") {
				ready.Do(func() { close(prompted) })
			}
			if strings.Contains(text, "ENDMARK") && strings.Contains(text, "SECRET-4711") { // the end may be drawn first
				done.Do(func() { close(answered) })
			}
		}
	}()
	<-prompted
	_, err = master.WriteString("What is new?\r")
	w.must(err)
	<-answered
	cancel()
	w.must(<-over)
	mu.Lock() // the end of the output may not come: a reader of the library can keep the terminal open
	got := all.String()
	mu.Unlock()
	tty.Close()
	master.Close()
	if !strings.Contains(got, "ENDMARK") || !strings.Contains(got, "SECRET-4711") {
		t.Fatalf("the answer did not come: %q", got)
	}
	for name, seq := range map[string]string{"a picture of kitty": "\x1b_G", "a picture of iTerm2": "\x1b]1337", "a picture of sixels": "\x1bPq", "a link of the answer's own": "\x1b]8;;" + w.net.URL + "/eve\x1b", "the clipboard": "\x1b]52", "a control of C1": "\u009b", "another": "\u009f"} {
		if strings.Contains(got, seq) {
			t.Errorf("%s is written to the terminal", name)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.hits) > 0 {
		t.Errorf("somebody was called: %q", w.hits)
	}
}
