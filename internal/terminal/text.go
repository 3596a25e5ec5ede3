package terminal

import (
	"bytes"
	"os"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"steward/internal/tool"
)

// safe makes text harmless for a terminal. It writes out characters that can move
// the cursor, set the clipboard, change the direction of writing or carry
// invisible text. It keeps line feeds and tabs.
func safe(s string) string { return tool.WriteOut(s, Unsafe) }

// Unsafe reports whether a character of untrusted text must not reach a terminal:
// control characters except line feed and tab, line separators, bidirectional
// controls, and invisible characters. Joiners and the variation selectors of emoji
// are safe, because scripts and emoji need them.
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

// Visible writes out all invisible characters of a text that a person decides
// about, even joiners.
func Visible(s string) string { return tool.Visible(s) }

// oneLine joins the words of a text and cuts it to a number of cells.
func oneLine(s string, cells int) string {
	return cut(strings.Join(strings.Fields(safe(s)), " "), cells)
}

// Screen writes to a terminal. Commands print untrusted text everywhere: in
// answers, titles, tables, errors and log lines. Screen therefore writes out
// everything that is Unsafe. It is safe for concurrent use.
type Screen struct {
	File *os.File // the terminal itself, to draw on

	mu   sync.Mutex
	held []byte // an incomplete character or line end at the end of the last write
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

// Flush writes what Write has held back.
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

// unfinished returns the number of bytes at the end of a text that depend on what
// follows.
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
