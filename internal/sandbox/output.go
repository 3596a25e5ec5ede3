package sandbox

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"sync"

	"steward/internal/fault"
)

// maxStderr is how much of the end of stderr is kept.
const maxStderr = 16 << 10

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

// Write implements io.Writer; it never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	if n >= maxStderr {
		t.buf, p = t.buf[:0], p[n-maxStderr:]
	} else if over := len(t.buf) + n - maxStderr; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	t.buf = append(t.buf, p...)
	return n, nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.buf), "\uFFFD")
}

// maxStderrSuffix is how much of the end of stderr appears in an error.
const maxStderrSuffix = 500

// StderrSuffix returns the end of the program's stderr as a suffix for an error: "; it said: …", or
// nothing. It omits values of secrets, and characters that could move a terminal's cursor.
func (p *Process) StderrSuffix(secrets []string) string {
	lines := strings.FieldsFunc(Mask(p.Stderr(), secrets), func(r rune) bool { return r == '\n' || r == '\r' })
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.Join(lines, " | "))
	if text = lastLines(strings.TrimSpace(text)); text == "" {
		return ""
	}
	return "; it said: " + text
}

// lastLines returns the end of a program's stderr, cut to fit into an error.
func lastLines(s string) string {
	if len(s) > maxStderrSuffix {
		s = "… " + strings.ToValidUTF8(s[len(s)-maxStderrSuffix:], "")
	}
	return s
}

// lines passes on a program's stdout and ends the program if a line is longer than limit.
type lines struct {
	from  *os.File
	limit int64
	kill  func(error)

	mu   sync.Mutex
	line int64 // bytes since the last newline
	err  error
}

// Read implements io.Reader.
func (l *lines) Read(p []byte) (int, error) {
	n, err := l.from.Read(p)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return 0, l.err
	}
	if l.tooLong(p[:n]) {
		l.err = fault.New(fault.TooLarge, "output_too_large", "the program wrote a line of more than %d bytes", l.limit).
			WithHint("shorten its output, or raise the limit output")
		l.kill(l.err)
		return 0, l.err
	}
	if errors.Is(err, os.ErrClosed) {
		err = io.EOF
	}
	if err == io.EOF {
		l.from.Close() // closing again is harmless
	}
	return n, err
}

// tooLong counts what was read and reports whether a line in it is too long.
func (l *lines) tooLong(p []byte) bool {
	last := bytes.LastIndexByte(p, '\n')
	if l.line+int64(len(p)) <= l.limit { // short enough, however it is split into lines
		if last < 0 {
			l.line += int64(len(p))
		} else {
			l.line = int64(len(p) - last - 1)
		}
		return false
	}
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			l.line += int64(len(p))
			return l.line > l.limit
		}
		if l.line+int64(i) > l.limit {
			return true
		}
		p, l.line = p[i+1:], 0
	}
	return false
}
