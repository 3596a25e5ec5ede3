package openai

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/server/httpauth"
)

// stream answers with server-sent events, one chunk for each piece. An error
// before the first has a status of its own; a later one is an event.
func (f *server) stream(w http.ResponseWriter, r *http.Request, a *answer, from events, usage bool) error {
	s := &sse{w: w, rc: http.NewResponseController(w), answer: a, usage: usage, calls: map[int]*streamedCall{}}
	stop := s.keepAlive(f.KeepAlive)
	defer stop()
	err := s.run(from)
	if err == nil || r.Context().Err() != nil {
		return nil // told, or nobody is there any more
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started {
		return err
	}
	httpauth.Log(r, f.Logger, err)
	e := httpauth.Public(err)
	s.event(appendError(nil, status(e), e))
	return nil
}

// sse writes the events of one answer.
type sse struct {
	w      http.ResponseWriter
	rc     *http.ResponseController
	answer *answer
	usage  bool // the caller wants to know the usage

	mu      sync.Mutex // against the keep-alive
	started bool       // the head and at least one byte have left
	gone    error      // the client does not read any more
	begun   bool       // the first chunk, with the role, has left
	shown   bool       // some of the answer has left
	texted  bool       // some of its text has
	calls   map[int]*streamedCall
	buf     []byte
}

type streamedCall struct {
	index int
	args  strings.Builder // that have left
}

func (s *sse) run(from events) error {
	for ev, err := range from {
		if err != nil {
			return err
		}
		if done, err := s.tell(ev); done || err != nil {
			return err
		}
	}
	return brokenOff()
}

func (s *sse) tell(ev llm.Event) (done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch ev.Kind {
	case llm.TextDelta:
		s.texted = s.texted || ev.Text != ""
		s.delta(`{"content":`, ev.Text)
	case llm.ReasoningDelta:
		s.delta(`{"reasoning_content":`, ev.Text)
	case llm.CallStart:
		s.call(ev.Block, ev.CallID, ev.Name)
	case llm.CallArgs:
		s.args(ev.Block, ev.Text)
	case llm.Reset:
		if s.shown { // a client of this protocol cannot be told to forget
			return true, brokenOff()
		}
		s.calls = map[int]*streamedCall{}
	case llm.Notice:
		s.answer.notices = append(s.answer.notices, ev.Text)
	case llm.Done:
		s.done(ev.Reply)
		return true, s.gone
	}
	return false, s.gone
}

// delta sends a piece of text.
func (s *sse) delta(open, text string) {
	if text == "" {
		return
	}
	s.begin()
	s.shown = true
	s.buf = quote(append(s.buf[:0], open...), text)
	s.chunk(append(s.buf, '}'), "")
}

// call tells that a tool is asked for.
func (s *sse) call(block int, id, name string) *streamedCall {
	if c, ok := s.calls[block]; ok {
		return c
	}
	if s.answer.single && len(s.calls) > 0 {
		s.calls[block] = nil // asked for at most one
		return nil
	}
	c := &streamedCall{index: len(s.calls)}
	s.calls[block] = c
	s.begin()
	s.shown = true
	b := strconv.AppendInt(append(s.buf[:0], `{"tool_calls":[{"index":`...), int64(c.index), 10)
	b = quote(append(b, `,"id":`...), callID(id))
	b = quote(append(b, `,"type":"function","function":{"name":`...), s.answer.name(name))
	s.buf = append(b, `,"arguments":""}}]}`...)
	s.chunk(s.buf, "")
	return c
}

// args sends a piece of a call's arguments.
func (s *sse) args(block int, text string) {
	c := s.calls[block]
	if c == nil || text == "" {
		return
	}
	c.args.WriteString(text)
	b := strconv.AppendInt(append(s.buf[:0], `{"tool_calls":[{"index":`...), int64(c.index), 10)
	b = quote(append(b, `,"function":{"arguments":`...), text)
	s.buf = append(b, "}}]}"...)
	s.chunk(s.buf, "")
}

// done sends what has not been streamed of the whole answer, and the end.
func (s *sse) done(r *llm.Reply) {
	if !s.texted {
		text, _ := textOf(r.Blocks)
		s.delta(`{"content":`, text)
	}
	calls := false
	for i, b := range r.Blocks {
		t, ok := b.(*message.ToolCall)
		if !ok {
			continue
		}
		calls = true
		if c := s.call(i, t.CallID, t.Name); c != nil {
			if rest, ok := strings.CutPrefix(string(t.Args), c.args.String()); ok {
				s.args(i, rest)
			}
		}
	}
	s.begin()
	if notes := annotations(r.Blocks); notes != nil {
		s.chunk(append(append([]byte(`{"annotations":`), notes...), '}'), "")
	}
	s.chunk([]byte("{}"), finish(r.Stop, calls))
	if s.usage {
		b := append(s.answer.head(s.buf[:0], "chat.completion.chunk"), `,"choices":[],"usage":`...)
		s.event(append(appendUsage(b, r.Usage), '}'))
	}
	s.write([]byte("data: [DONE]\n\n"))
}

// begin sends the first chunk, which says who speaks.
func (s *sse) begin() {
	if !s.begun {
		s.begun = true
		s.chunk([]byte(`{"role":"assistant","content":"","refusal":null}`), "")
	}
}

// chunk sends a chunk with a delta; the last one has a finish reason.
func (s *sse) chunk(delta []byte, finish string) {
	b := append(s.answer.head(nil, "chat.completion.chunk"), `,"choices":[{"index":0,"delta":`...)
	b = append(b, delta...)
	if finish == "" {
		b = append(b, `,"logprobs":null,"finish_reason":null}]`...)
	} else {
		b = append(b, `,"logprobs":null,"finish_reason":"`...)
		b = append(append(b, finish...), `"}]`...)
	}
	if s.usage {
		b = append(b, `,"usage":null`...)
	}
	if finish != "" {
		b = s.answer.appendNotices(b)
	}
	s.event(append(b, '}'))
}

func (s *sse) event(data []byte) {
	b := make([]byte, 0, len(data)+8)
	b = append(append(append(b, "data: "...), data...), "\n\n"...)
	s.write(b)
}

// write sends bytes at once. The caller holds s.mu.
func (s *sse) write(b []byte) {
	if s.gone != nil {
		return
	}
	if !s.started {
		s.started = true
		h := s.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Accel-Buffering", "no") // nginx holds streams back otherwise
		s.w.WriteHeader(http.StatusOK)
	}
	if _, err := s.w.Write(b); err != nil {
		s.gone = goneAway(err)
		return
	}
	if err := s.rc.Flush(); err != nil {
		s.gone = goneAway(err)
	}
}

func goneAway(err error) error {
	return fault.New(fault.Cancelled, "client_gone", "the client does not read any more: %w", err)
}

// keepAlive sends a comment whenever nothing else has been sent for a while,
// so that nobody on the way takes a thinking model for a dead connection.
func (s *sse) keepAlive(every time.Duration) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.mu.Lock()
				s.write([]byte(": still here\n\n"))
				s.mu.Unlock()
			case <-quit:
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}
