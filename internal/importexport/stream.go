package importexport

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/fault"
)

// lenientText returns the options for other programs' files, which hold whatever those programs
// wrote.
func lenientText() []jsontext.Options {
	return []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
}

// stream reads the JSON values of a file one after the other. It holds little more of the file in
// memory than the value it returns.
type stream struct {
	*jsontext.Decoder
	in   *meter
	name string
	line int // of the first byte, counted from 1
}

func newStream(r io.Reader, name string, total int64) *stream {
	buf := bufio.NewReaderSize(r, 64<<10)
	if r != nil {
		if head, _ := buf.Peek(3); string(head) == "\xef\xbb\xbf" { // a byte order mark; an error comes again
			buf.Discard(3) //nolint:errcheck // it is buffered
		}
	}
	in := &meter{r: buf, total: total, upto: total}
	return &stream{jsontext.NewDecoder(in, lenientText()...), in, name, 1}
}

// meter counts the bytes read, and stops reading at its limits.
type meter struct {
	r     io.Reader
	off   int64 // bytes read
	total int64 // bytes that may be read
	upto  int64 // the offset by which the current value must have ended
	lines int
	err   error // an error of r other than io.EOF
}

var (
	errTotal    = errors.New("the input is too large")
	errOversize = errors.New("too large") // of a single value, which can be skipped
)

func (m *meter) Read(p []byte) (int, error) {
	switch {
	case m.off > m.total:
		return 0, errTotal
	case m.off >= m.upto && m.upto < m.total:
		return 0, errOversize
	}
	p = p[:min(int64(len(p)), m.total+1-m.off)]
	n, err := m.r.Read(p)
	m.off += int64(n)
	m.lines += bytes.Count(p[:n], []byte{'\n'})
	if err != io.EOF {
		m.err = err
	}
	return n, err
}

// slack is how far beyond a value's limit the stream reads before it gives up, in bytes.
const slack = 64 << 10

// bound limits the size of the next value or token.
func (s *stream) bound(most int) { s.in.upto = s.InputOffset() + int64(most) + slack }

// value reads the next value of at most most bytes. For a larger value it returns errOversize,
// after skipping the value.
func (s *stream) value(most int) ([]byte, error) {
	s.bound(most)
	v, err := s.ReadValue()
	switch {
	case errors.Is(err, errOversize):
		if err := s.leave(s.StackDepth(), most); err != nil {
			return nil, err
		}
		return nil, errOversize
	case err != nil:
		return nil, s.fault(err)
	case len(v) > most:
		return nil, errOversize
	}
	return bytes.Clone(v), nil
}

// leave reads tokens of at most most bytes each until it is back at a depth. It reads at least one.
func (s *stream) leave(depth, most int) error {
	for {
		s.bound(most)
		if _, err := s.ReadToken(); err != nil {
			return s.fault(err)
		}
		if s.StackDepth() <= depth {
			return nil
		}
	}
}

// expect reads the next token, which must be of a kind.
func (s *stream) expect(want jsontext.Kind) error {
	s.bound(0)
	if t, err := s.ReadToken(); err != nil {
		return s.fault(err)
	} else if t.Kind() != want {
		return s.broken("there is %s in place of %s", t.Kind(), want)
	}
	return nil
}

// memberName reads the name of a member.
func (s *stream) memberName() (string, error) {
	s.bound(0)
	t, err := s.ReadToken()
	if err != nil {
		return "", s.fault(err)
	}
	return t.String(), nil
}

// next returns the kind of the next token, or io.EOF at the end of the file.
func (s *stream) next() (jsontext.Kind, error) {
	s.bound(0)
	k := s.PeekKind()
	if k != 0 {
		return k, nil
	}
	_, err := s.ReadToken() // it returns the reason
	if err == io.EOF {
		return 0, err
	}
	return 0, s.fault(err)
}

// more reports whether a list or an object continues. It reads the end token.
func (s *stream) more() (bool, error) {
	k, err := s.next()
	switch {
	case err == io.EOF:
		return false, s.fault(err)
	case err != nil:
		return false, err
	case k == '}' || k == ']':
		_, err := s.ReadToken()
		return false, err
	}
	return true, nil
}

// fault converts a read error to a coded error.
func (s *stream) fault(err error) error {
	var syntax *jsontext.SyntacticError
	err = cmp.Or(s.in.err, err)
	switch {
	case errors.Is(err, errTotal):
		return fault.New(fault.TooLarge, "import_too_large", "%s is larger than %d bytes", s.name, s.in.total).
			WithHint("split it and import the parts one by one")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return s.broken("it ends in the middle")
	case errors.Is(err, errOversize):
		return s.broken("a text or a number there is too long")
	case errors.As(err, &syntax):
		return s.broken("it is not valid JSON: %s", syntax.Err)
	case fault.Of(err).Code != "internal": // it has its own hint, for example a size limit of the server
		return fault.Of(err)
	}
	return fault.New(fault.Unavailable, "import_unreadable", "%s cannot be read any further than line %d: %w", s.name, s.line+s.in.lines, err).
		WithHint("check that it is complete, and import it again")
}

// broken returns the error for invalid JSON, with the place.
func (s *stream) broken(format string, args ...any) error {
	return fault.New(fault.Invalid, "import_not_json", "%s%s", s.at(), fmt.Sprintf(format, args...)).
		WithHint("check that the file is complete: an export ends with a closing bracket")
}

// at returns the position of the next value for error messages.
func (s *stream) at() string {
	rest := s.UnreadBuffer()
	from := bytes.TrimLeft(rest, " \t\r\n,:")
	if line := s.line + s.in.lines - bytes.Count(from, []byte{'\n'}); line > 1 {
		return fmt.Sprintf("%s, line %d: ", s.name, line)
	}
	return fmt.Sprintf("%s, byte %d: ", s.name, s.InputOffset()+int64(len(rest)-len(from)))
}

// lines returns a reader of the remaining lines.
func (s *stream) lines() *bufio.Reader {
	s.in.upto = s.in.total
	return bufio.NewReader(io.MultiReader(bytes.NewReader(bytes.Clone(s.UnreadBuffer())), s.in))
}

// lineBytes reads the rest of a line. It returns nothing for a line of more than most bytes.
func lineBytes(r *bufio.Reader, most int) (line []byte, err error) {
	size := 0
	for more := true; more; {
		var part []byte
		if part, more, err = r.ReadLine(); err != nil {
			return nil, err
		}
		if size += len(part); size <= most {
			line = append(line, part...)
		}
	}
	if size > most {
		return nil, errOversize
	}
	return line, nil
}
