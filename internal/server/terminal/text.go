package terminal

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"steward/internal/tool"
)

// safe makes text harmless for a terminal. Characters that can move the cursor,
// set the clipboard, change the direction of writing or carry text that nobody
// sees are written out; line feeds and tabs stay.
func safe(s string) string { return visible(s, Unsafe) }

// Unsafe reports whether a character of somebody else's text must not reach a
// terminal: control characters except line feed and tab, separators of lines,
// bidirectional controls, and characters that are never seen. Joiners and the
// variation selectors of emoji are safe: scripts and emoji need them.
func Unsafe(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < 0x7f && r >= 0x20:
		return false
	case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == '\u2028', r == '\u2029':
		return true
	case r == '\u200b', 0x2060 <= r && r <= 0x206f, r == '\ufeff', 0xfff9 <= r && r <= 0xfffb:
		return true
	}
	return 0xe0000 <= r && r <= 0xe0fff // tags, and the selectors that can spell bytes
}

// Visible writes out everything that is not seen in a text, for what a person
// decides about: also characters that join or that change the direction of
// writing.
func Visible(s string) string {
	return visible(s, func(r rune) bool { return r != '\n' && tool.Unseen(r) })
}

func visible(s string, hidden func(rune) bool) string {
	clean := true
	for i, r := range s {
		if hidden(r) || r == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd") {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, "<%02X>", s[i])
		case !hidden(r):
			b.WriteString(s[i : i+n])
		case r < 0x20:
			b.WriteRune('\u2400' + r)
		case r == 0x7f:
			b.WriteRune('\u2421')
		default:
			fmt.Fprintf(&b, "<U+%04X>", r)
		}
		i += n
	}
	return b.String()
}

// oneLine joins the words of a text and cuts it after so many cells.
func oneLine(s string, cells int) string {
	return cut(strings.Join(strings.Fields(safe(s)), " "), cells)
}

// Screen writes to a terminal. Commands print text of others everywhere, in
// answers, titles, tables, errors and log lines, so all that they print goes
// through here: what is unsafe is written out, whoever printed it (see
// Unsafe). Safe for concurrent use.
type Screen struct {
	File *os.File // the terminal itself, for those who draw on it

	mu   sync.Mutex
	held []byte // the beginning of a character or of a line's end, at the end of the last write
}

// NewScreen returns a Screen for f.
func NewScreen(f *os.File) *Screen { return &Screen{File: f} }

// Write implements io.Writer.
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := append(s.held, p...)
	s.held = nil
	if n := unfinished(text); n > 0 {
		s.held = bytes.Clone(text[len(text)-n:])
		text = text[:len(text)-n]
	}
	if err := s.put(text); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush writes what Write has kept back.
func (s *Screen) Flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.held
	s.held = nil
	return s.put(text)
}

func (s *Screen) put(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	_, err := s.File.WriteString(safe(string(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")))))
	return err
}

// unfinished is how many bytes at the end of a text mean something else with
// what comes next.
func unfinished(text []byte) int {
	if bytes.HasSuffix(text, []byte("\r")) {
		return 1
	}
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if end := text[len(text)-n:]; utf8.RuneStart(end[0]) {
			if utf8.FullRune(end) {
				return 0
			}
			return n
		}
	}
	return 0
}
