package audit

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/store"
)

// FormatHead formats a head as SEQ:HASH, for people to keep.
func FormatHead(h store.Head) string { return strconv.FormatUint(h.Seq, 10) + ":" + h.Hash.String() }

// ParseHead parses the format of FormatHead (head_invalid).
func ParseHead(s string) (h store.Head, err error) {
	seq, hash, ok := strings.Cut(s, ":")
	if h.Seq, err = strconv.ParseUint(seq, 10, 64); err == nil && ok {
		err = h.Hash.UnmarshalText([]byte(hash))
	}
	if err != nil || !ok {
		return store.Head{}, fault.New(fault.Invalid, "head_invalid", "invalid head of the log %.100q", s).
			WithHint("give SEQ:HASH, as `steward audit head` prints it")
	}
	return h, nil
}

// Anchor appends the head to a file, with the time, and syncs it. If the file
// already ends with this head, it is not written again.
func (l *Log) Anchor(ctx context.Context, file string) error {
	head, err := l.Head(ctx)
	if err != nil || head.Seq == 0 {
		return err
	}
	known, err := ReadAnchors(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if n := len(known); n > 0 && known[n-1] == head {
		return nil
	}
	if err := appendLine(file, time.Now().UTC().Format(time.RFC3339)+" "+FormatHead(head)+"\n"); err != nil {
		return fault.New(fault.Unavailable, "anchor_unwritable", "cannot write the head of the log to %s: %w", file, err).
			WithHint("make the folder writable, or change audit.anchor_file in the settings")
	}
	return nil
}

// appendLine appends a line, after a line break if the file does not end with
// one.
func appendLine(file, text string) (err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if size, err := f.Seek(0, 2); err == nil && size > 0 {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, size-1); err == nil && last[0] != '\n' {
			text = "\n" + text // a crash cut the last line off
		}
	}
	if _, err := f.WriteString(text); err != nil {
		return err
	}
	return f.Sync()
}

// ReadAnchors reads the heads from a file that Anchor has written: the last word
// of each line. It skips lines that a crash cut off, and refuses a file without
// any head (head_invalid).
func ReadAnchors(file string) ([]store.Head, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fault.New(fault.NotFound, "anchors_missing", "the heads of the log cannot be read: %w", err).
			WithHint("name the file that audit.anchor_file in the settings names")
	}
	defer f.Close()
	var out []store.Head
	lines, bad := bufio.NewScanner(f), ""
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) == 0 {
			continue
		}
		h, err := ParseHead(words[len(words)-1])
		if err != nil {
			bad = lines.Text()
			continue
		}
		out = append(out, h)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if out == nil && bad != "" {
		_, err := ParseHead(bad)
		return nil, err
	}
	return out, nil
}
