package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"iter"

	"steward/internal/llm"
)

// Event is one server-sent event. Its fields are valid until the next step of the loop.
type Event struct {
	Type []byte // empty for "message"
	Data []byte // the data lines, joined by \n
}

// Events yields the answer as server-sent events (WHATWG HTML, 9.2.6), however its bytes are split.
// An event that the end of the body interrupts is dropped, as the standard requires. The loop then
// ends without an error, so only the vendor's own end mark shows that the answer is complete.
// Errors are coded and come last. After the loop is left early, the caller still has to call Close
// or Finish.
func (a *Answer) Events() iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		l := a.lines(false)
		defer l.release()
		var ev Event
		lines := 0 // of data in this event
		for l.next() {
			if len(l.line) == 0 {
				if lines > 0 && !yield(ev, nil) {
					return
				}
				ev.Type, ev.Data, lines = ev.Type[:0], ev.Data[:0], 0
				l.held = 0
				continue
			}
			name, value, _ := bytes.Cut(l.line, []byte{':'})
			value = bytes.TrimPrefix(value, []byte{' '})
			switch string(name) {
			case "data":
				if lines++; lines > 1 {
					ev.Data = append(ev.Data, '\n')
				}
				ev.Data = append(ev.Data, value...)
			case "event":
				ev.Type = append(ev.Type[:0], value...)
			}
			// id and retry serve reconnecting, which is impossible for a model's answer. A line
			// without a name is a comment, and other names must be ignored.
			if lines == 0 {
				l.held = 0
			}
		}
		if l.err != nil {
			yield(Event{}, l.err)
		}
	}
}

// Follow calls event with the data of each server-sent event until it reports that the answer is
// complete. It returns false if the body ended before, and neither an error nor the consumer ended
// the assembly.
func (a *Answer) Follow(asm *Assembly, event func(data []byte) (complete bool)) bool {
	for ev, err := range a.Events() {
		if err != nil {
			asm.Fail(err)
		} else if len(ev.Data) > 0 && event(ev.Data) {
			a.Finish()
			return true
		}
		if asm.Gone {
			return true
		}
	}
	return false
}

// Lines yields the answer's lines that are not blank (newline-delimited JSON), however its bytes
// are split. A line is valid until the next step of the loop. A last line without a line end is
// yielded, too: its JSON shows whether it is complete. Errors are coded and come last.
func (a *Answer) Lines() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		l := a.lines(true)
		defer l.release()
		for l.next() {
			l.held = 0
			if line := bytes.TrimSpace(l.line); len(line) > 0 && !yield(line, nil) {
				return
			}
		}
		if l.err != nil {
			yield(nil, l.err)
		}
	}
}

// lineReader splits a body into lines that end in LF, CR or CRLF.
type lineReader struct {
	*bufio.Scanner
	answer *Answer
	pooled *[]byte
	line   []byte
	first  bool // a byte order mark may come
	rest   bool // a last line without its end counts
	skipLF bool // the last line ended in CR: an LF that follows belongs to it
	seen   int  // where the search for the end of the line has stopped
	held   int  // bytes read since the last event; the caller resets it
	err    error
}

func (a *Answer) lines(rest bool) *lineReader {
	p, _ := a.client.bufs.Get().(*[]byte)
	if p == nil {
		b := make([]byte, 16<<10)
		p = &b
	}
	l := &lineReader{answer: a, pooled: p, first: true, rest: rest}
	l.Scanner = bufio.NewScanner(l)
	l.Buffer(*p, maxEvent)
	l.Split(l.split)
	return l
}

func (l *lineReader) release() { l.answer.client.bufs.Put(l.pooled) }

// next finds the next line. It returns false at the end of the body and on an error.
func (l *lineReader) next() bool {
	more := l.Scan()
	if l.line = l.Bytes(); l.first {
		l.line, l.first = bytes.TrimPrefix(l.line, []byte("\xEF\xBB\xBF")), false
	}
	if err := l.Err(); errors.Is(err, bufio.ErrTooLong) || l.held > maxEvent {
		l.err = tooLarge("an event of the model's stream has more than %d MiB", maxEvent>>20)
	} else if err != nil {
		l.err = err
	}
	return more && l.err == nil
}

// split is a bufio.SplitFunc.
func (l *lineReader) split(data []byte, end bool) (advance int, line []byte, err error) {
	start := 0
	if l.skipLF && len(data) > 0 && data[0] == '\n' {
		start = 1
	}
	l.seen = max(l.seen, start)
	if i := bytes.IndexAny(data[l.seen:], "\r\n"); i >= 0 {
		i += l.seen
		l.seen, l.skipLF = 0, data[i] == '\r'
		return i + 1, data[start:i:i], nil
	}
	l.seen = len(data)
	if end && l.rest && l.seen > start {
		l.seen = 0
		return len(data), data[start:], nil
	}
	return 0, nil, nil
}

// Read reads the body for the scanner, within the bounds of a stream.
func (l *lineReader) Read(p []byte) (int, error) {
	n, err := l.answer.Read(p)
	l.held += n
	switch {
	case l.answer.read > maxStream:
		return 0, tooLarge("the model's stream has more than %d MiB", maxStream>>20)
	case err != nil && err != io.EOF:
		l.rest = false
		return n, l.answer.fail(err)
	case l.held > 16<<10:
		if full := llm.Hold(l.answer.ctx, n); full != nil {
			return 0, l.answer.fail(full)
		}
	}
	return n, err
}
