package wire

import (
	"bytes"
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
		l := a.lines()
		defer l.release()
		var ev eventBuilder
		for l.next() {
			line := l.line()
			if len(line) > 0 {
				ev.add(l, line)
				continue
			}
			if e, ok := ev.take(l); ok && !yield(e, nil) {
				return
			}
			l.drop()
		}
		if l.err != nil {
			yield(Event{}, l.err)
		}
	}
}

// eventBuilder collects the lines of one event. The usual event has one data line, which stays in
// the reader's buffer: start and end are its position there. Only a second line makes it copy them
// to joined.
type eventBuilder struct {
	kind       []byte
	data       bool
	start, end int
	joined     []byte
	many       bool
}

func (e *eventBuilder) add(l *lineReader, line []byte) {
	name, value := line, []byte(nil)
	if i := bytes.IndexByte(line, ':'); i >= 0 {
		name, value = line[:i], line[i+1:]
		if len(value) > 0 && value[0] == ' ' {
			value = value[1:]
		}
	}
	switch string(name) {
	case "data":
		end := l.lineEnd
		e.addData(l, end-len(value), end)
	case "event":
		e.kind = append(e.kind[:0], value...)
	}
	// id and retry serve reconnecting, which is impossible for a model's answer. A line without a
	// name is a comment, and other names must be ignored.
	if !e.data {
		l.drop()
	}
}

func (e *eventBuilder) addData(l *lineReader, start, end int) {
	switch {
	case !e.data:
		e.data, e.start, e.end = true, start, end
		return
	case !e.many:
		e.many = true
		e.joined = append(e.joined[:0], l.buf[l.from+e.start:l.from+e.end]...)
	}
	e.joined = append(e.joined, '\n')
	e.joined = append(e.joined, l.buf[l.from+start:l.from+end]...)
}

// take returns the finished event, if it has data, and begins the next one.
func (e *eventBuilder) take(l *lineReader) (Event, bool) {
	out, ok := Event{Type: e.kind}, e.data
	switch {
	case e.many:
		out.Data = e.joined
	case e.data:
		out.Data = l.buf[l.from+e.start : l.from+e.end]
	}
	e.kind, e.data, e.many = e.kind[:0], false, false
	return out, ok
}

// Lines yields the answer's lines that are not blank (newline-delimited JSON), however its bytes
// are split. A line is valid until the next step of the loop. A last line without a line end is
// yielded, too: its JSON shows whether it is complete. Errors are coded and come last.
func (a *Answer) Lines() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		l := a.lines()
		defer l.release()
		for l.next() {
			if line := bytes.TrimSpace(l.line()); len(line) > 0 && !yield(line, nil) {
				return
			}
			l.drop()
		}
		if l.err != nil {
			yield(nil, l.err)
			return
		}
		if line := bytes.TrimSpace(l.buf[l.from:l.to]); len(line) > 0 {
			yield(line, nil)
		}
	}
}

// lineReader splits a body into lines that end in LF, CR or CRLF. The bytes between from and to are
// kept until drop, so that lines can be used in place. All positions are relative to from.
type lineReader struct {
	a         *Answer
	pooled    *[]byte
	buf       []byte
	from, to  int // the buffered bytes: buf[from:to]
	scan      int // where the next line begins
	seen      int // where the search for its end has stopped
	lineStart int
	lineEnd   int
	skipLF    bool // the last line ended in CR: an LF that follows belongs to it
	first     bool // a byte order mark may come
	eof       bool
	err       error
}

func (a *Answer) lines() *lineReader {
	p, _ := a.client.bufs.Get().(*[]byte)
	if p == nil {
		b := make([]byte, 16<<10)
		p = &b
	}
	return &lineReader{a: a, pooled: p, buf: *p, first: true}
}

// release returns the buffer to the pool, unless one huge event has made it huge.
func (l *lineReader) release() {
	if len(l.buf) <= 256<<10 {
		*l.pooled = l.buf
		l.a.client.bufs.Put(l.pooled)
	}
	l.buf = nil
}

func (l *lineReader) line() []byte { return l.buf[l.from+l.lineStart : l.from+l.lineEnd] }

// drop discards the lines up to the current one.
func (l *lineReader) drop() {
	l.from += l.scan
	l.seen -= l.scan
	l.scan = 0
}

// next finds the next complete line. It returns false at the end of the body and on an error.
func (l *lineReader) next() bool {
	for {
		if l.find() {
			return true
		}
		if l.eof || l.err != nil || !l.fill() {
			return false
		}
	}
}

// find looks for a line in the buffer.
func (l *lineReader) find() bool {
	held := l.buf[l.from:l.to]
	if l.first && len(held) > 0 {
		if !l.skipMark(held) {
			return false
		}
	}
	if l.skipLF && l.scan < len(held) {
		l.skipLF = false
		if held[l.scan] == '\n' {
			l.scan++
			l.seen = max(l.seen, l.scan)
		}
	}
	end := bytes.IndexByte(held[l.seen:], '\n')
	upto := len(held)
	if end >= 0 {
		upto = l.seen + end
	}
	if cr := bytes.IndexByte(held[l.seen:upto], '\r'); cr >= 0 {
		upto, end = l.seen+cr, cr
		l.skipLF = true
	}
	if end < 0 {
		l.seen = len(held)
		return false
	}
	l.lineStart, l.lineEnd = l.scan, upto
	l.scan = upto + 1
	l.seen = l.scan
	return true
}

// skipMark skips a byte order mark at the beginning of the body. It returns false as long as there
// are too few bytes to decide.
func (l *lineReader) skipMark(held []byte) bool {
	const mark = "\xEF\xBB\xBF"
	n := min(len(held), len(mark))
	if string(held[:n]) != mark[:n] {
		l.first = false
		return true
	}
	if n < len(mark) {
		return l.eof
	}
	l.first = false
	l.scan, l.seen = len(mark), len(mark)
	return true
}

// fill reads more. It returns false at the end and on an error.
func (l *lineReader) fill() bool {
	if l.from > 0 {
		l.to = copy(l.buf, l.buf[l.from:l.to])
		l.from = 0
	}
	if l.to == len(l.buf) {
		if len(l.buf) >= maxEvent {
			l.err = tooLarge("an event of the model's stream has more than %d MiB", maxEvent>>20)
			return false
		}
		if err := llm.Hold(l.a.ctx, len(l.buf)); err != nil {
			l.err = l.a.fail(err)
			return false
		}
		l.buf = append(l.buf, make([]byte, len(l.buf))...)
	}
	n, err := l.a.Read(l.buf[l.to:])
	l.to += n
	switch {
	case l.a.read > maxStream:
		l.err = tooLarge("the model's stream has more than %d MiB", maxStream>>20)
		return false
	case err == io.EOF:
		l.eof = true
		return n > 0
	case err != nil:
		l.err = l.a.fail(err)
		return false
	}
	return true
}
