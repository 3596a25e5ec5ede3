package terminal

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

const (
	keptLines = 1000
	maxOne    = 64 << 10 // bytes; longer texts are not kept in the file
)

// history is the earlier input, oldest first. Its file has a JSON string per line.
type history struct {
	file  string
	lines []string
	at    int       // the line that is shown; len(lines): the new text
	draft string    // the new text while another line is shown
	used  time.Time // when the person wrote something last, before this chat; zero: unknown
}

// openHistory reads the file and skips lines that it cannot read.
func openHistory(file string) (*history, error) {
	h := &history{file: file}
	if file == "" {
		return h, nil
	}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the input history: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil {
		h.used = info.ModTime()
	}
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 8*maxOne)
	for sc.Scan() {
		var s string
		if json.Unmarshal(sc.Bytes(), &s) == nil && s != "" {
			h.lines = append(h.lines, s)
		}
	}
	if n := len(h.lines) - keptLines; n > 0 {
		h.lines = h.lines[n:]
		if err := h.rewrite(); err != nil {
			return nil, err
		}
	}
	h.at = len(h.lines)
	return h, sc.Err()
}

// rewrite replaces the file's content by the lines.
func (h *history) rewrite() error {
	var text []byte
	for _, s := range h.lines {
		text = append(text, line(s)...)
	}
	if err := os.WriteFile(h.file+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(h.file+".new", h.file)
}

func line(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // impossible for a string
	}
	return append(b, '\n')
}

// add appends a text, unless it repeats the one before.
func (h *history) add(s string) error {
	defer func() { h.at, h.draft = len(h.lines), "" }()
	if len(h.lines) > 0 && h.lines[len(h.lines)-1] == s {
		return nil
	}
	h.lines = append(h.lines, s)
	if h.file == "" || len(s) > maxOne {
		return nil
	}
	f, err := os.OpenFile(h.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(line(s))
	return errors.Join(err, f.Close())
}

// keep appends a text that was not sent, so that Up recalls it. It does not write
// to the file.
func (h *history) keep(s string) {
	h.lines = append(h.lines, s)
	h.at, h.draft = len(h.lines), ""
}

// move goes back (-1) or forward (+1) from the text in the input.
func (h *history) move(by int, now string) (string, bool) {
	next := h.at + by
	if next < 0 || next > len(h.lines) {
		return "", false
	}
	if h.at == len(h.lines) {
		h.draft = now
	}
	h.at = next
	if next == len(h.lines) {
		return h.draft, true
	}
	return h.lines[next], true
}
