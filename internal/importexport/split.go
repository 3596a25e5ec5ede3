package importexport

import (
	"bufio"
	"cmp"
	"errors"
	"io"

	"steward/internal/fault"
)

// splitter cuts a stream into JSON values without understanding them, so that
// one that is broken or too large can be left out and the next one read. It
// holds no more of the stream than the value it returns.
type splitter struct {
	r     *bufio.Reader
	name  string
	off   int64 // bytes read
	total int64 // bytes that may be read
	line  int   // counted from 1
}

func newSplitter(r io.Reader, name string, total int64) *splitter {
	return &splitter{r: bufio.NewReaderSize(r, 64<<10), name: name, total: total, line: 1}
}

// errOversize is returned by value for one that was skipped.
var errOversize = errors.New("too large")

// next returns the first byte that is not white space, without taking it;
// io.EOF at the end.
func (s *splitter) next() (byte, error) {
	for {
		c, err := s.take()
		if err != nil {
			return 0, err
		}
		switch c {
		case '\n', ' ', '\t', '\r':
		default:
			s.giveBack(c)
			return c, nil
		}
	}
}

// take reads one byte.
func (s *splitter) take() (byte, error) {
	if s.off >= s.total {
		return 0, s.overTotal()
	}
	c, err := s.r.ReadByte()
	if err != nil {
		return 0, s.ioError(err)
	}
	s.off++
	if c == '\n' {
		s.line++
	}
	return c, nil
}

// giveBack undoes take.
func (s *splitter) giveBack(c byte) {
	s.r.UnreadByte() //nolint:errcheck // a byte was just read
	s.off--
	if c == '\n' {
		s.line--
	}
}

func (s *splitter) overTotal() error {
	return fault.New(fault.TooLarge, "import_too_large", "%s is larger than %d bytes", s.name, s.total).
		WithHint("split it and import the parts one by one")
}

func (s *splitter) ioError(err error) error {
	if err == io.EOF {
		return err
	}
	if fault.Of(err).Code != "internal" { // one that tells what to do, such as a bound on the way here
		return err
	}
	return fault.New(fault.Unavailable, "import_unreadable", "%s cannot be read any further than line %d: %w", s.name, s.line, err).
		WithHint("see that it is whole, and import it again")
}

// broken says where the stream is no JSON.
func (s *splitter) broken(format string, args ...any) error {
	e := fault.New(fault.Invalid, "import_not_json", format, args...)
	e.Message = s.at() + e.Message
	return e.WithHint("see that the file is whole: an export ends with a closing bracket")
}

func (s *splitter) at() string { return place(s.name, s.line, s.off) }

// expect takes one byte that has to be there.
func (s *splitter) expect(want byte) error {
	c, err := s.next()
	if err == io.EOF {
		return s.broken("it ends where %q should stand", want)
	}
	if err != nil {
		return err
	}
	if c != want {
		return s.broken("%q stands where %q should", c, want)
	}
	_, err = s.take()
	return err
}

// more reports whether a list or an object that ends with end goes on: it
// takes the comma before the next member, or the end.
func (s *splitter) more(end byte, first bool) (bool, error) {
	c, err := s.next()
	switch {
	case err == io.EOF:
		return false, s.broken("it ends in the middle")
	case err != nil:
		return false, err
	case c == end:
		_, err = s.take()
		return false, err
	case first:
		return true, nil
	}
	return true, s.expect(',')
}

// value takes the next value, whatever it is, up to most bytes; of a larger
// one it returns errOversize when it has read over it. Brackets are counted,
// not matched: what stands between them is judged by whoever decodes it.
func (s *splitter) value(most int) ([]byte, error) {
	if _, err := s.next(); err == io.EOF {
		return nil, s.broken("it ends where a value should stand")
	} else if err != nil {
		return nil, err
	}
	var v valueScan
	out := bounded{most: most}
	for !v.done {
		c, err := s.take()
		if err == io.EOF && out.size > 0 && v.depth == 0 && !v.text {
			break // a bare value, which ends where the stream does
		}
		if err == io.EOF {
			return nil, s.broken("it ends in the middle of a value")
		}
		if err != nil {
			return nil, err
		}
		if !v.belongs(c) {
			s.giveBack(c)
			break
		}
		out.add(c)
	}
	if out.size == 0 {
		c, _ := s.take()
		return nil, s.broken("%q stands where a value should", c)
	}
	return out.bytes()
}

// lineBytes takes what is left of the line, up to most bytes; at the end of the
// stream it returns io.EOF, too.
func (s *splitter) lineBytes(most int) ([]byte, error) {
	out := bounded{most: most}
	for {
		c, err := s.take()
		if err != nil && err != io.EOF {
			return nil, err
		}
		if err == nil {
			out.add(c)
		}
		if err == nil && c != '\n' {
			continue
		}
		line, over := out.bytes()
		return line, cmp.Or(over, err)
	}
}

// bounded keeps bytes up to a bound, and none of what is larger.
type bounded struct {
	most, size int
	kept       []byte
}

func (b *bounded) add(c byte) {
	if b.size++; b.size > b.most {
		b.kept = nil
		return
	}
	b.kept = append(b.kept, c)
}

func (b *bounded) bytes() ([]byte, error) {
	if b.size > b.most {
		return nil, errOversize
	}
	return b.kept, nil
}

// valueScan finds the end of a value.
type valueScan struct {
	depth  int
	text   bool // inside a string
	escape bool // behind a backslash
	done   bool
}

// belongs looks at one byte; false when it does not belong to the value.
func (v *valueScan) belongs(c byte) bool {
	if v.text {
		switch {
		case v.escape:
			v.escape = false
		case c == '\\':
			v.escape = true
		case c == '"':
			v.text = false
			v.done = v.depth == 0
		}
		return true
	}
	switch c {
	case '"':
		v.text = true
	case '{', '[':
		v.depth++
	case '}', ']':
		if v.depth == 0 {
			return false
		}
		v.depth--
		v.done = v.depth == 0
	case ',', ':', ' ', '\n', '\t', '\r':
		return v.depth > 0
	}
	return true
}
