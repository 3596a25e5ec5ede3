package terminal

import (
	"bytes"
	"os"
	"sync"
	"unicode/utf8"
)

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
