package openai

import (
	"cmp"
	"net/http"
	"strings"
	"sync"
	"time"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/server/auth"
	"steward/internal/turn/relay"
)

// stream answers with server-sent events. An error before the first piece has an HTTP status of its own;
// a later one is an event.
func (f *server) stream(r *http.Request, p *pipe, from events, to *feed) error {
	stop := p.keepAlive(f.KeepAlive)
	defer stop()
	err := p.run(from, to)
	if err == nil || r.Context().Err() != nil {
		return nil // sent, or the client has gone
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.started {
		return err
	}
	auth.Log(r, f.Logger, err)
	to.fail(auth.Public(err))
	return nil
}

// writer writes an answer in the form of one API.
type writer interface {
	piece(kind llm.Kind, text string) // of the text or the reasoning, not empty
	call(block int, c called)         // the beginning of a call
	args(block int, text string)      // a piece of its arguments
	shown() bool                      // something was sent, which the protocol cannot retract
	said(r *llm.Reply)                // what was not streamed of the text
	done(r *llm.Reply)                // the end
	fail(e *fault.Error)              // an end with an error
}

// feed passes the events of a model's stream to a writer: each call begins once, calls that the caller does
// not want are left out, and what was not streamed comes at the end.
type feed struct {
	writer
	answer *answer
	calls  map[int]*strings.Builder // the arguments sent so far, by block; nil for calls that are left out
}

func newFeed(w writer, a *answer) *feed { return &feed{w, a, map[int]*strings.Builder{}} }

// emit passes an event, and reports whether it was the last.
func (f *feed) emit(ev llm.Event) (done bool, err error) {
	switch ev.Kind {
	case llm.TextDelta, llm.ReasoningDelta:
		if ev.Text != "" {
			f.piece(ev.Kind, ev.Text)
		}
	case llm.CallStart:
		f.begin(ev.Block, ev.CallID, ev.Name)
	case llm.CallArgs:
		f.add(ev.Block, ev.Text)
	case llm.Reset:
		if f.shown() {
			return true, relay.Broken()
		}
	case llm.Notice:
		f.answer.Steward.Notices = append(f.answer.Steward.Notices, ev.Text)
	case llm.Done:
		f.said(ev.Reply)
		for i, b := range ev.Reply.Blocks {
			c, ok := b.(*message.ToolCall)
			if !ok {
				continue
			}
			if sent := f.begin(i, c.CallID, c.Name); sent != nil && strings.HasPrefix(string(c.Args), sent.String()) {
				f.add(i, string(c.Args[sent.Len():]))
			}
		}
		f.done(ev.Reply)
		return true, nil
	}
	return false, nil
}

// begin begins a call, unless it has begun or is left out.
func (f *feed) begin(block int, id, name string) *strings.Builder {
	sent, known := f.calls[block]
	if known {
		return sent
	}
	if !f.answer.single || len(f.calls) == 0 {
		sent = &strings.Builder{}
		f.call(block, f.answer.call(id, name, ""))
	}
	f.calls[block] = sent
	return sent
}

// add adds to the arguments of a call.
func (f *feed) add(block int, text string) {
	if sent := f.calls[block]; sent != nil && text != "" {
		sent.WriteString(text)
		f.args(block, text)
	}
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
	usage  bool        // the caller requested the usage
	begun  bool        // the first chunk, with the role, was sent
	some   bool        // a part of the answer was sent
	texted bool        // a part of its text was sent
	calls  map[int]int // the index of each call, by block
}

// run passes each event on, with p locked, until the last.
func (p *pipe) run(from events, to *feed) error {
	for ev, err := range from {
		if err != nil {
			return err
		}
		p.mu.Lock()
		done, err := to.emit(ev)
		err = cmp.Or(err, p.gone)
		p.mu.Unlock()
		if done || err != nil {
			return err
		}
	}
	return relay.Broken()
}

func (s *sse) piece(kind llm.Kind, text string) {
	if kind == llm.ReasoningDelta {
		s.delta(messageObject{Reasoning: text})
		return
	}
	s.texted = true
	s.delta(messageObject{Content: text})
}

func (s *sse) shown() bool { return s.some }

// delta sends a piece of the answer.
func (s *sse) delta(d messageObject) {
	s.begin()
	s.some = true
	s.chunk(&d, nil)
}

// begin sends the first chunk, which has the role.
func (s *sse) begin() {
	if !s.begun {
		s.begun = true
		s.chunk(&messageObject{Role: "assistant", Content: "", Refusal: null}, nil)
	}
}

func (s *sse) call(block int, c called) {
	index := len(s.calls)
	s.calls[block], c.Index = index, &index
	s.delta(messageObject{Calls: []called{c}})
}

func (s *sse) args(block int, text string) {
	index := s.calls[block]
	told := called{Index: &index}
	told.Function.Arguments = text
	s.delta(messageObject{Calls: []called{told}})
}

func (s *sse) said(r *llm.Reply) {
	if text, _ := relay.TextOf(r.Blocks); !s.texted && text != "" {
		s.delta(messageObject{Content: text})
	}
}

func (s *sse) done(r *llm.Reply) {
	if s.begin(); len(annotations(r.Blocks)) > 0 {
		s.delta(messageObject{Annotations: annotations(r.Blocks)})
	}
	s.chunk(&messageObject{}, finish(r.Stop, len(s.calls) > 0))
	if s.usage {
		o := s.answer.completed
		o.Object, o.Choices, o.Usage, o.Steward = chunkObject, []choice{}, usageOf("prompt", "completion", r.Usage), notices{}
		s.event("", encode(o))
	}
	s.write([]byte("data: [DONE]\n\n"))
}

func (s *sse) fail(e *fault.Error) { s.event("", errorBody(status(e), e)) }

const chunkObject = "chat.completion.chunk"

// chunk sends a chunk; the last one has a finish reason.
func (s *sse) chunk(delta *messageObject, finish *string) {
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
		p.gone = clientGone(err)
		return
	}
	if err := p.rc.Flush(); err != nil {
		p.gone = clientGone(err)
	}
}

func clientGone(err error) error {
	return fault.New(fault.Cancelled, "client_gone", "the client stopped reading: %w", err)
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
				p.write([]byte(": keep-alive\n\n"))
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
