package shell

import (
	"fmt"
	"io"
	"strings"
	"time"

	"steward/internal/tool"
)

// How much of the output is kept: its beginning and its end.
const (
	maxHead = 8 << 10
	maxTail = 16 << 10
)

// output keeps the beginning and the end of what a program writes, and reports its latest line.
type output struct {
	report func(tool.Progress)
	now    func() time.Time

	head, tail []byte
	dropped    int64
	reported   time.Time
}

// drain reads everything, so that the program never waits for Steward. Its errors are those of a program
// that was stopped, which Wait returns.
func (o *output) drain(r io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		o.add(buf[:n])
		if err != nil {
			return
		}
	}
}

func (o *output) add(b []byte) {
	n := min(len(b), maxHead-len(o.head))
	o.head = append(o.head, b[:n]...)
	o.tail = append(o.tail, b[n:]...)
	if over := len(o.tail) - maxTail; over > 0 {
		o.dropped += int64(over)
		o.tail = append(o.tail[:0], o.tail[over:]...)
	}
	if len(b) > 0 && o.now().Sub(o.reported) >= time.Second {
		o.reported = o.now()
		lines := strings.FieldsFunc(clean(b), func(r rune) bool { return r == '\n' || r == '\r' })
		if len(lines) > 0 {
			o.report(tool.Progress{Message: tool.Clip(lines[len(lines)-1], 200), Fraction: -1})
		}
	}
}

// String returns what is kept, as valid UTF-8 without the control characters of terminals.
func (o *output) String() string {
	if o.dropped == 0 {
		return strings.TrimRight(clean(append(o.head, o.tail...)), "\n")
	}
	return fmt.Sprintf("%s\n[… %d bytes left out …]\n%s", clean(o.head), o.dropped, strings.TrimRight(clean(o.tail), "\n"))
}

func clean(b []byte) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' && r != '\r' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(string(b), "\uFFFD"))
}
