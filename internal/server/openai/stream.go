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

// stream answers with server-sent events, which tell writes. An error before the first piece has an HTTP
// status of its own; fail writes a later one as an event.
func (f *server) stream(r *http.Request, p *pipe, from events, tell func(llm.Event) (bool, error), fail func(*fault.Error)) error {
	stop := p.keepAlive(f.KeepAlive)
	defer stop()
	err := p.run(from, tell)
	if err == nil || r.Context().Err() != nil {
		return nil // sent, or the client has gone
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.started {
		return err
	}
	httpauth.Log(r, f.Logger, err)
	fail(httpauth.Public(err))
	return nil
}

// pipe sends server-sent events.
type pipe struct {
	w  http.ResponseWriter
	rc *http.ResponseController

	mu      sync.Mutex // against the keep-alive
	started bool       // the header and at least one byte were sent
	gone    error      // the client has stopped reading
}

// sse writes the chunks of one answer.
type sse struct {
	*pipe
	answer *answer
	usage  bool // the caller requested the usage
	begun  bool // the first chunk, with the role, was sent
	shown  bool // a part of the answer was sent
	texted bool // a part of its text was sent
	calls  map[int]*streamedCall
}

type streamedCall struct {
	index int
	args  strings.Builder // the arguments sent so far
}

// run calls tell, with p locked, for each event until it has done.
func (p *pipe) run(from events, tell func(llm.Event) (bool, error)) error {
	for ev, err := range from {
		if err != nil {
			return err
		}
		p.mu.Lock()
		done, err := tell(ev)
		p.mu.Unlock()
		if done || err != nil {
			return err
		}
	}
	return brokenOff()
}

func (s *sse) tell(ev llm.Event) (done bool, err error) {
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
		s.event("", encode(o))
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
	s.event("", encode(o))
}

// event sends an event, of a type or without one.
func (p *pipe) event(typ string, data []byte) {
	b := make([]byte, 0, len(typ)+len(data)+16)
	if typ != "" {
		b = append(append(append(b, "event: "...), typ...), '\n')
	}
	b = append(append(append(b, "data: "...), data...), "\n\n"...)
	p.write(b)
}

// write sends bytes at once. The caller holds p.mu.
func (p *pipe) write(b []byte) {
	if p.gone != nil {
		return
	}
	if !p.started {
		p.started = true
		h := p.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Accel-Buffering", "no") // otherwise nginx buffers streams
		p.w.WriteHeader(http.StatusOK)
	}
	if _, err := p.w.Write(b); err != nil {
		p.gone = goneAway(err)
		return
	}
	if err := p.rc.Flush(); err != nil {
		p.gone = goneAway(err)
	}
}

func goneAway(err error) error {
	return fault.New(fault.Cancelled, "client_gone", "the client does not read any more: %w", err)
}

// keepAlive sends a comment whenever nothing else was sent for a while, so that proxies do not take a
// thinking model for a dead connection.
func (p *pipe) keepAlive(every time.Duration) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				p.mu.Lock()
				p.write([]byte(": still here\n\n"))
				p.mu.Unlock()
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
