package openai

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/server/httpauth"
)

// stream answers with server-sent events, one for each piece. An error before the first piece has an
// HTTP status of its own; a later one is an event.
func (f *server) stream(w http.ResponseWriter, r *http.Request, a *answer, from events, usage bool) error {
	s := &sse{w: w, rc: http.NewResponseController(w), answer: a, usage: usage, calls: map[int]*streamedCall{}}
	stop := s.keepAlive(f.KeepAlive)
	defer stop()
	err := s.run(from)
	if err == nil || r.Context().Err() != nil {
		return nil // sent, or the client has gone
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started {
		return err
	}
	httpauth.Log(r, f.Logger, err)
	e := httpauth.Public(err)
	s.event(errorBody(status(e), e))
	return nil
}

// sse writes the events of one answer.
type sse struct {
	w      http.ResponseWriter
	rc     *http.ResponseController
	answer *answer
	usage  bool // the caller requested the usage

	mu      sync.Mutex // against the keep-alive
	started bool       // the header and at least one byte were sent
	gone    error      // the client has stopped reading
	begun   bool       // the first chunk, with the role, was sent
	shown   bool       // a part of the answer was sent
	texted  bool       // a part of its text was sent
	calls   map[int]*streamedCall
}

type streamedCall struct {
	index int
	args  strings.Builder // the arguments sent so far
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
		if ev.Text != "" {
			s.texted = true
			s.delta(said{Content: ev.Text})
		}
	case llm.ReasoningDelta:
		if ev.Text != "" {
			s.delta(said{Reasoning: ev.Text})
		}
	case llm.CallStart:
		s.call(ev.Block, ev.CallID, ev.Name)
	case llm.CallArgs:
		s.args(ev.Block, ev.Text)
	case llm.Reset:
		if s.shown { // the protocol cannot retract what was sent
			return true, brokenOff()
		}
		s.calls = map[int]*streamedCall{}
	case llm.Notice:
		s.answer.Steward.Notices = append(s.answer.Steward.Notices, ev.Text)
	case llm.Done:
		s.done(ev.Reply)
		return true, s.gone
	}
	return false, s.gone
}

// delta sends a piece of the answer.
func (s *sse) delta(d said) {
	s.begin()
	s.shown = true
	s.chunk(&d, nil)
}

// begin sends the first chunk, which has the role.
func (s *sse) begin() {
	if !s.begun {
		s.begun = true
		s.chunk(&said{Role: "assistant", Content: "", Refusal: null}, nil)
	}
}

// call sends the beginning of a tool call.
func (s *sse) call(block int, id, name string) *streamedCall {
	if c, ok := s.calls[block]; ok {
		return c
	}
	if s.answer.single && len(s.calls) > 0 {
		s.calls[block] = nil // the caller allows only one
		return nil
	}
	c := &streamedCall{index: len(s.calls)}
	s.calls[block] = c
	told := s.answer.call(id, name, "")
	told.Index = &c.index
	s.delta(said{Calls: []called{told}})
	return c
}

// args sends a piece of a call's arguments.
func (s *sse) args(block int, text string) {
	c := s.calls[block]
	if c == nil || text == "" {
		return
	}
	c.args.WriteString(text)
	told := called{Index: &c.index}
	told.Function.Arguments = text
	s.delta(said{Calls: []called{told}})
}

// done sends the parts of the answer that were not streamed, and the end.
func (s *sse) done(r *llm.Reply) {
	if text, _ := textOf(r.Blocks); !s.texted && text != "" {
		s.delta(said{Content: text})
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
	if s.begin(); len(annotations(r.Blocks)) > 0 {
		s.delta(said{Annotations: annotations(r.Blocks)})
	}
	s.chunk(&said{}, finish(r.Stop, calls))
	if s.usage {
		o := s.answer.completed
		o.Object, o.Choices, o.Usage, o.Steward = chunkObject, []choice{}, usageOf(r.Usage), notices{}
		s.event(encode(o))
	}
	s.write([]byte("data: [DONE]\n\n"))
}

const chunkObject = "chat.completion.chunk"

// chunk sends a chunk; the last one has a finish reason.
func (s *sse) chunk(delta *said, finish *string) {
	o := s.answer.completed
	o.Object, o.Choices = chunkObject, []choice{{Delta: delta, Logprobs: null, Finish: finish}}
	if s.usage {
		o.Usage = null
	}
	if finish == nil {
		o.Steward = notices{}
	}
	s.event(encode(o))
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
		h.Set("X-Accel-Buffering", "no") // otherwise nginx buffers streams
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

// keepAlive sends a comment whenever nothing else was sent for a while, so that proxies do not take a
// thinking model for a dead connection.
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
