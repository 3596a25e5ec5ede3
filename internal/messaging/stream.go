package messaging

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/turn"
)

// Pauses of what is shown while an answer is being written.
const (
	typingEvery = 4 * time.Second
	firstDraft  = time.Second // before a draft is posted: a short answer needs none
	minDraft    = 20          // bytes of the first draft
)

// stream shows an answer while it is being written: that Steward types, then a draft, then its edits. The
// draft is a post of the outbox; the first post of the answer replaces it. Edits of the draft are not
// recorded, because the last one counts. Nothing is shown in a group before it is known whether it may be.
type stream struct {
	e       *Engine
	ctx     context.Context
	a       *account
	u       *update
	message id.ID // that is being written
	text    strings.Builder
	shown   string // the text of the last draft
	draft   *post  // nil: none
	timer   *time.Timer
	tries   sync.WaitGroup
	busy    atomic.Bool // a request is in progress
	typed   time.Time
	begun   time.Time
	paused  atomic.Int64 // until when the service wants no edits, in Unix nanoseconds
}

func (e *Engine) newStream(ctx context.Context, a *account, u *update) *stream {
	s := &stream{e: e, ctx: ctx, a: a, u: u, begun: time.Now()}
	s.timer = time.NewTimer(100 * time.Millisecond) // typing is shown at once, except for answers that come at once
	return s
}

// due is ready when show should be called.
func (s *stream) due() <-chan time.Time { return s.timer.C }

// wait ends the stream, and waits for its requests.
func (s *stream) wait() {
	s.timer.Stop()
	s.tries.Wait()
}

// take adds what a frame tells.
func (s *stream) take(f turn.Frame) {
	switch f.Kind {
	case turn.FrameToken:
		if f.Message != s.message { // a text before tool calls is replaced by the one after them
			s.message = f.Message
			s.text.Reset()
		}
		s.text.WriteString(f.Text)
	case turn.FrameReset:
		s.text.Reset()
	}
}

// show posts, edits or types, whichever is due.
func (s *stream) show() {
	every := max(s.a.limits.EditEvery, 500*time.Millisecond)
	s.timer.Reset(every)
	now := time.Now()
	if s.busy.Load() || now.UnixNano() < s.paused.Load() {
		return
	}
	text := s.text.String()
	edits := s.a.limits.EditEvery > 0 && !s.u.Group
	switch {
	case edits && s.draft == nil && len(text) >= minDraft && now.Sub(s.begun) >= firstDraft:
		s.post(s.first(text))
	case edits && s.draft != nil && s.draft.sentAs() != "":
		if part := s.first(text); part != "" && part != s.shown {
			s.shown = part
			s.try(func(ctx context.Context) error {
				return s.a.Channel.Edit(ctx, s.u.Address, s.draft.sentAs(), s.draft.outgoing(part))
			})
		}
	case s.draft == nil && now.Sub(s.typed) >= typingEvery:
		s.typed = now
		s.try(func(ctx context.Context) error { return s.a.Channel.Typing(ctx, s.u.Address) })
	}
}

// first returns the first message of a text that is being written.
func (s *stream) first(text string) string {
	if s.e.opt.Mask != nil {
		text = s.e.opt.Mask(text)
	}
	for _, part := range s.a.Channel.Render(text) {
		if strings.TrimSpace(part) != "" {
			return part
		}
	}
	return ""
}

// post records the draft and has it sent.
func (s *stream) post(part string) {
	if part == "" || !s.e.Connects() { // its ID in the service, which edits need, is known where it is sent
		return
	}
	p := &post{ID: draftID(s.a, s.u), Account: s.a.Name, At: s.u.Address, User: s.u.User, Text: part, State: pending, Draft: true, sent: make(chan struct{})}
	if err := s.e.record(s.ctx, s.u.User, []*post{p}); err == nil && p.Order != 0 { // it is not one of an earlier process
		s.draft, s.shown = p, part
	}
}

// try makes a request that may fail.
func (s *stream) try(do func(context.Context) error) {
	s.busy.Store(true)
	s.tries.Go(func() {
		defer s.busy.Store(false)
		ctx, cancel := context.WithTimeout(s.ctx, 10*time.Second)
		defer cancel()
		if err := do(ctx); fault.Is(err, fault.RateLimited) {
			s.paused.Store(time.Now().Add(max(fault.Of(err).After, time.Second)).UnixNano())
		}
	})
}
