package turn

import (
	"context"
	"iter"
	"slices"

	"steward/internal/conversation"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/store"
)

// Watch yields what happens in a conversation: first what is durable after the
// cursor, then what is being written, then everything as it happens. It ends when
// the loop is left, or without an error when ctx is done. No frame is repeated or
// missing. If a crash lost part of a message that the cursor had seen, a
// FrameReset announces it. Where several nodes share the store, it ends with ErrClosed when this one lets the user
// go: another one continues from the cursor.
func (e *Engine) Watch(ctx context.Context, user string, conv id.ID, from Cursor) iter.Seq2[Frame, error] {
	return e.WatchReady(ctx, user, conv, from, func() {})
}

// WatchReady is Watch. It calls ready once when it has caught up: whoever calls CatchUp after that, and takes what
// is yielded after that, misses nothing.
func (e *Engine) WatchReady(ctx context.Context, user string, conv id.ID, from Cursor, ready func()) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		c, leave, err := e.enterExisting(ctx, user, conv)
		if err != nil {
			yield(Frame{}, err)
			return
		}
		defer leave()
		w := c.Feed.Join()
		defer c.Feed.Leave(w)
		left := e.life.Left(user)
		at := e.position(ctx, user, conv, from, yield)
		var frames []Frame
		for first := true; ; first = false {
			if err := e.catchUp(ctx, c, w, at); err != nil || at.stopped {
				if err != nil && ctx.Err() == nil {
					yield(Frame{}, err)
				}
				return
			}
			if first {
				ready()
			}
			for ok := true; ok; {
				if frames, ok = c.Feed.take(w, frames[:0]); len(frames) == 0 && ok {
					select {
					case <-w.Wake:
						continue
					case <-ctx.Done():
						return
					case <-left:
						yield(Frame{}, ErrClosed)
						return
					}
				}
				for i := range frames {
					if !at.emit(frames[i]) {
						return
					}
				}
				clear(frames)
			}
		}
	}
}

// CatchUp yields what Watch yields before it waits: what is durable after the cursor, and what is being written.
func (e *Engine) CatchUp(ctx context.Context, user string, conv id.ID, from Cursor) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		c, leave, err := e.enterExisting(ctx, user, conv)
		if err != nil {
			yield(Frame{}, err)
			return
		}
		defer leave()
		w := c.Feed.Join()
		defer c.Feed.Leave(w)
		at := e.position(ctx, user, conv, from, yield)
		if err := e.catchUp(ctx, c, w, at); err != nil && !at.stopped && ctx.Err() == nil {
			yield(Frame{}, err)
		}
	}
}

func (e *Engine) position(ctx context.Context, user string, conv id.ID, from Cursor, yield func(Frame, error) bool) *position {
	return &position{Cursor: from, conversation: conv, summary: e.requests.WorkLog(user).Summary, facts: e.shower(ctx, user), yield: yield}
}

// Position returns the current cursor. A Watch from it yields only what is new.
func (e *Engine) Position(ctx context.Context, user string, conv id.ID) (Cursor, error) {
	if _, err := e.conversations.Get(ctx, store.ForUser(user), conv); err != nil {
		return Cursor{}, err
	}
	page, _, err := e.conversations.Messages(ctx, store.ForUser(user), conv, "", 1, true)
	if err != nil || len(page) == 0 {
		return Cursor{}, err
	}
	return Cursor{Seq: page[0].Seq}, nil
}

// enterExisting enters a conversation that exists. The returned function leaves it.
func (e *Engine) enterExisting(ctx context.Context, user string, conv id.ID) (*Conversation, func(), error) {
	c := e.Enter(user, conv)
	if !c.exists() {
		if _, err := e.conversations.Get(ctx, store.ForUser(user), conv); err != nil {
			e.Exit(c)
			return nil, nil, err
		}
	}
	return c, func() { e.Exit(c) }, nil
}

// position tracks how far a watcher has come.
type position struct {
	Cursor
	conversation id.ID
	summary      func(message.Call) string
	facts        func(*Frame) // fills in what was recalled
	yield        func(Frame, error) bool
	stopped      bool // the consumer left the loop
}

func (p *position) emit(f Frame) bool {
	if p.stopped {
		return false
	}
	f.Conversation = p.conversation
	if f.Cursor.Seq == 0 {
		f.Cursor.Seq = p.Seq
	}
	p.Cursor = f.Cursor
	if f.Kind == FrameCall && f.Call.Args != "" {
		v := *f.Call // other watchers have the same one
		v.Summary = p.summary(message.Call{ToolCall: &message.ToolCall{Common: message.Common{Labels: v.labels}, Name: v.Name, Args: []byte(v.Args)}})
		f.Call = &v
	}
	if f.Kind == FrameMemory {
		if p.facts(&f); f.Memory == nil || len(f.Memory.Facts) == 0 { // it was forgotten
			return true
		}
	}
	p.stopped = !p.yield(f, nil)
	return !p.stopped
}

// catchUp yields what lies between the watcher's cursor and now.
func (e *Engine) catchUp(ctx context.Context, c *Conversation, w *watcher, at *position) error {
	if !c.Feed.copyState(w).known {
		now, err := e.Position(ctx, c.User, c.ID)
		if err != nil {
			return err
		}
		c.Feed.SetSeq(now.Seq)
	}
	snap := c.Feed.copyState(w)
	start := at.Cursor
	var msgs []conversation.Entry
	if snap.seq > at.Seq {
		var err error
		if msgs, err = e.conversations.Since(ctx, store.ForUser(c.User), c.ID, at.Seq); err != nil {
			return err
		}
	}
	for len(msgs) > 0 && msgs[len(msgs)-1].Seq > snap.seq {
		msgs = msgs[:len(msgs)-1] // it arrives as a live frame
	}
	if !start.Message.Zero() && !snap.isDraft(start.Message) && !snap.failed(start.Message) && !containsMessage(msgs, start.Message) {
		// It was in flight when the cursor was made, and never became a message.
		at.emit(Frame{Kind: FrameReset, Message: start.Message, Cursor: Cursor{Seq: at.Seq}})
	}
	at.replay(msgs, start, snap.storedNotices)
	for _, f := range snap.notices {
		if f.Message != start.Message { // a cursor within the message comes after its notices
			f.Interaction, f.Cursor = snap.inter, at.Cursor
			at.emit(f)
		}
	}
	if snap.draft != nil {
		at.emitDraft(snap, start)
	}
	for i := range snap.open {
		at.emit(Frame{Kind: FrameCall, Interaction: snap.inter, Call: &snap.open[i], Cursor: at.Cursor})
	}
	for _, f := range append(snap.tasks, snap.planned...) {
		f.Cursor = at.Cursor
		at.emit(f)
	}
	if snap.failure != nil && (snap.parked || !snap.failed(start.Message)) {
		f := *snap.failure
		f.Interaction = snap.inter
		at.emit(f)
	}
	return nil
}

// failed reports whether inter is the failed turn, which means that the cursor
// has seen its failure.
func (s *snapshot) failed(inter id.ID) bool {
	return s.failure != nil && s.failure.Cursor.Message == inter
}

func (s *snapshot) isDraft(msg id.ID) bool { return s.draft != nil && s.draft.message == msg }

func containsMessage(msgs []conversation.Entry, msg id.ID) bool {
	return slices.ContainsFunc(msgs, func(e conversation.Entry) bool { return e.ID == msg })
}

// replay yields durable messages, each preceded by its notices: a short turn may
// have ended before anybody watches it.
func (p *position) replay(msgs []conversation.Entry, start Cursor, notices []Frame) {
	args := map[message.Ref]string{}
	for i, m := range msgs {
		for _, f := range notices {
			if f.Message == m.ID && start.Message != m.ID {
				f.Interaction, f.Cursor = m.Interaction, p.Cursor
				p.emit(f)
			}
		}
		if isUnfinished(m.Message) && i+1 < len(msgs) && isFromSteward(msgs[i+1].Message) { // it was not given
			p.Cursor = Cursor{Seq: m.Seq}
			continue
		}
		start.Seq = p.Seq
		for _, f := range replayed(m, start, args) {
			f.Interaction = m.Interaction
			p.emit(f)
		}
		p.Cursor = Cursor{Seq: m.Seq}
	}
}

// isUnfinished reports whether a message of the assistant is neither an answer that was given, nor one that
// calls tools or continues.
func isUnfinished(m *message.Message) bool {
	return m.Role == message.Assistant && !m.Final && len(m.Calls()) == 0 && m.Stop != message.StopLength
}

// isFromSteward reports whether Steward itself speaks as the user.
func isFromSteward(m *message.Message) bool {
	return m.Role == message.User && len(m.Blocks) > 0 && (m.Blocks[0].Base().Origin == "system" || m.Blocks[0].Base().Origin == record.OriginMemory)
}

// replayed returns the frames of a durable message, without what the cursor has
// seen.
func replayed(m conversation.Entry, start Cursor, args map[message.Ref]string) []Frame {
	end := Cursor{Seq: m.Seq}
	switch m.Role {
	case message.User:
		if isFromUser(m.Message) {
			return []Frame{{Kind: FrameUser, Message: m.ID, Stored: m.Message, Cursor: end}}
		}
		if opensTurn(m.Message) {
			return []Frame{{Kind: FrameOpened, Message: m.ID, Stored: m.Message, Cursor: end}}
		}
		if records(m.Message) {
			return []Frame{{Kind: FrameMemory, Message: m.ID, Stored: m.Message, Cursor: end}}
		}
	case message.Tool:
		v := resultView(m.Result(), args[m.Result().Call])
		return []Frame{{Kind: FrameResult, Message: m.ID, Call: &v, Stored: m.Message, Cursor: end}}
	case message.Assistant:
		var out []Frame
		for i, b := range m.Blocks {
			if kind, text := textOf(b); kind != 0 {
				from := 0
				if start.Message == m.ID {
					from = start.skip(i, len(text))
				}
				if from < len(text) {
					// The message is not done before its last frame: a cursor
					// taken here must lead back to it.
					out = append(out, textFrame(Cursor{Seq: start.Seq, Message: m.ID, Block: i, Offset: len(text)}, kind, text[from:]))
				}
			}
		}
		for _, c := range m.Calls() {
			args[c.Ref] = string(c.Args)
			v := callView(c, CallRunning)
			out = append(out, Frame{Kind: FrameCall, Message: m.ID, Block: c.Block, Call: &v, Cursor: Cursor{Seq: start.Seq, Message: m.ID, Block: len(m.Blocks)}})
		}
		if m.Final {
			out = append(out, Frame{Kind: FrameComplete, Message: m.ID, Stored: m.Message})
		}
		if len(out) > 0 {
			out[len(out)-1].Cursor = end
		}
		return out
	}
	return nil
}

// emitDraft yields the draft's text, without what the cursor has seen.
func (p *position) emitDraft(s snapshot, start Cursor) {
	for i, b := range s.draft.blocks {
		if b.kind != llm.TextDelta && b.kind != llm.ReasoningDelta {
			continue
		}
		from := 0
		if start.Message == s.draft.message {
			from = start.skip(i, len(b.text))
		}
		if from == len(b.text) {
			continue
		}
		f := textFrame(Cursor{Seq: s.seq, Message: s.draft.message, Block: i, Offset: len(b.text)}, b.kind, string(b.text[from:]))
		f.Interaction = s.inter
		if !p.emit(f) {
			return
		}
	}
}
