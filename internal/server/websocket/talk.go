package websocket

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"steward/internal/events"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/lifetime/telemetry"
	"steward/internal/turn"
)

type (
	stopFrame struct {
		head
		Conversation string `json:"conversation_id"`
	}
	resumeFrame struct {
		head
		Conversation string `json:"conversation_id"`
		Cursor       string `json:"cursor"`
	}
)

// liveConversation is one conversation on one connection: the messages that are being sent to it, and the watch
// that follows it.
type liveConversation struct {
	mu       sync.Mutex
	watching *watching
	sending  []*sending
	accepted map[id.ID]struct{} // messages of this connection that the watch has not seen yet
	lanes    [2]chan struct{}   // per lane (waiting, steering): closed when its last message has been handed over
	used     uint64             // the connection's count at the last use; guarded by the connection
	running  atomic.Bool        // a turn has been sent in part
}

// watching is a running watch or observation.
type watching struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// sending is a message that is being handed to the runtime, which may take as long as the turn
// before it.
type sending struct {
	turn  turn.Input
	trace string        // the client's position in a trace; may be empty
	done  chan struct{} // closed when the client has been answered
	ok    bool          // it was accepted; read after done
}

// matches reports whether a frame announces this very message: by the client's id or, if there is none,
// because it holds the blocks that were sent.
func (s *sending) matches(f *turn.Frame) bool {
	if s.turn.ClientID != "" || f.ClientID != "" {
		return s.turn.ClientID == f.ClientID
	}
	return f.Stored != nil && len(f.Stored.Blocks) > 0 && len(s.turn.Content) > 0 && f.Stored.Blocks[0] == s.turn.Content[0]
}

// conversation finds or makes the talk of a conversation. If there are too many, it replaces the least
// recently used one that is idle.
func (c *conn) conversation(conv id.ID) (*liveConversation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.conversations[conv]
	if t == nil {
		if len(c.conversations) >= maxConversations && !c.dropIdle() {
			return nil, fault.New(fault.Exhausted, "too_many_conversations", "one connection follows at most %d conversations", maxConversations).
				WithHint("open another connection")
		}
		t = &liveConversation{accepted: map[id.ID]struct{}{}}
		c.conversations[conv] = t
	}
	c.uses++
	t.used = c.uses
	return t, nil
}

// dropIdle stops following the least recently used idle conversation. It returns false if there is
// none. The caller holds mu.
func (c *conn) dropIdle() bool {
	var oldest id.ID
	var found *liveConversation
	for conv, t := range c.conversations {
		if t.running.Load() || found != nil && t.used > found.used {
			continue
		}
		t.mu.Lock()
		if len(t.sending) == 0 {
			oldest, found = conv, t
		}
		t.mu.Unlock()
	}
	if found == nil {
		return false
	}
	delete(c.conversations, oldest)
	found.mu.Lock()
	defer found.mu.Unlock()
	if found.watching != nil {
		found.watching.cancel()
	}
	return true
}

// begin sends a turn to the runtime. Messages of one conversation are sent in the order in which
// they arrived; steering messages do not wait for others.
func (c *conn) begin(re, trace string, turn turn.Input) error {
	if c.pending.Add(1) > maxPending {
		c.pending.Add(-1)
		return tooManyPending()
	}
	if !turn.Regenerate.Zero() {
		turn.Opens = id.New() // no message announces this turn: its frames are recognized by it
	}
	s := &sending{turn: turn, trace: trace, done: make(chan struct{})}
	var before chan struct{}
	if !turn.Conversation.Zero() {
		t, err := c.conversation(turn.Conversation)
		if err != nil {
			c.pending.Add(-1)
			return err
		}
		lane := 0
		if turn.Steer {
			lane = 1
		}
		t.mu.Lock()
		t.sending = append(t.sending, s)
		before, t.lanes[lane] = t.lanes[lane], s.done
		t.mu.Unlock()
	}
	room := c.takeRoom()
	c.work.Go(func() {
		defer c.pending.Add(-1)
		c.send(re, s, before, room)
	})
	return nil
}

func tooManyPending() error {
	return fault.New(fault.RateLimited, "too_many_pending", "%d frames are already waiting", maxPending).
		WithHint("wait until one is answered").Retrying(fault.RetryBackoff, 0)
}

// send hands a turn to the runtime. room gives back the room that the message takes; that is done when the
// turn has ended.
func (c *conn) send(re string, s *sending, before chan struct{}, room func()) {
	free := room
	defer func() {
		free()
		c.forget(s)
		close(s.done)
	}()
	if before != nil {
		select {
		case <-before:
		case <-c.ctx.Done():
			return // never acknowledged, so the client sends it again
		}
	}
	if !s.turn.Steer {
		end, err := c.caller.Turn(c.ctx)
		if err != nil {
			return // never acknowledged
		}
		free = func() { room(); end() }
	}
	acc, err := c.server.o.Node.Send(telemetry.At(c.ctx, s.trace), c.caller.User, s.turn)
	if err == nil && c.caller.Bounded() {
		c.server.after(c.caller.User, acc, free)
		free = func() {}
	}
	if err != nil {
		c.sendError(c.ctx, err, re, s.turn.Conversation)
		return
	}
	s.ok = true
	t, err := c.conversation(acc.Conversation)
	if err != nil { // but the message was accepted
		c.sendRaw(c.ctx, acceptedFrame(acc, re, s.turn.ClientID))
		c.sendRaw(c.ctx, errorFrame(err, re, acc.Conversation))
		return
	}
	t.mu.Lock()
	if t.watching != nil && !acc.Duplicate && !acc.Message.Zero() {
		t.accepted[acc.Message] = struct{}{}
	}
	t.mu.Unlock()
	c.sendRaw(c.ctx, acceptedFrame(acc, re, s.turn.ClientID))
	c.follow(acc.Conversation, t, turn.Cursor{Seq: acc.Seq}, false)
}

// forget removes the sending after the client has been answered.
func (c *conn) forget(s *sending) {
	c.mu.Lock()
	t := c.conversations[s.turn.Conversation]
	c.mu.Unlock()
	if t != nil {
		t.mu.Lock()
		t.sending = slices.DeleteFunc(t.sending, func(x *sending) bool { return x == s })
		t.mu.Unlock()
	}
}

func (c *conn) stop(f *stopFrame) error {
	conv, err := conversationID(f.Conversation)
	if err == nil {
		err = c.server.o.Node.Stop(c.ctx, c.caller.User, conv)
	}
	return err
}

// resume follows a conversation from a cursor: "" is its beginning, "now" is the present.
func (c *conn) resume(f *resumeFrame) error {
	conv, err := conversationID(f.Conversation)
	if err != nil {
		return err
	}
	from, err := c.server.o.Node.Position(c.ctx, c.caller.User, conv) // also finds out whether the conversation exists
	if err == nil && f.Cursor != "now" {
		from, err = turn.ParseCursor(f.Cursor)
	}
	if err != nil {
		return err
	}
	t, err := c.conversation(conv)
	if err != nil {
		return err
	}
	if f.ID != "" {
		if err := c.answer(answer{Type: "ok", Re: f.ID, Conversation: conv, Cursor: events.Cursor(from.String())}); err != nil {
			return err
		}
	}
	c.follow(conv, t, from, true)
	return nil
}

// follow watches a conversation. If it is being watched already, follow does nothing unless restart is
// set, which ends the earlier watch first.
func (c *conn) follow(conv id.ID, t *liveConversation, from turn.Cursor, restart bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.watching
	if old != nil && !restart {
		return
	}
	if c.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithCancel(c.ctx)
	w := &watching{cancel: cancel, done: make(chan struct{})}
	t.watching = w
	c.work.Go(func() {
		defer close(w.done)
		defer cancel()
		if old != nil {
			old.cancel()
			<-old.done
		}
		err := c.watch(ctx, conv, t, from)
		t.mu.Lock()
		if t.watching == w {
			t.watching = nil
			t.running.Store(false)
		}
		t.mu.Unlock()
		if err != nil {
			c.sendError(ctx, err, "", conv)
		}
	})
}

// watch sends the client what happens in the conversation until ctx is done.
func (c *conn) watch(ctx context.Context, conv id.ID, t *liveConversation, from turn.Cursor) error {
	var last id.ID // the interaction of the last frame
	for f, err := range c.server.o.Node.Watch(ctx, c.caller.User, conv, from) {
		if err != nil {
			return err
		}
		if f.Interaction != last {
			last = f.Interaction
			t.answered(ctx, func(s *sending) bool { return !last.Zero() && s.turn.Opens == last })
		}
		switch f.Kind {
		case turn.FrameUser, turn.FrameOpened, turn.FrameToken, turn.FrameReasoning, turn.FrameCall:
			t.running.Store(true)
		case turn.FrameComplete, turn.FrameError:
			t.running.Store(false)
		}
		if f.Kind == turn.FrameUser && t.sentHere(ctx, &f) {
			continue // "accepted" has reported it already
		}
		if !c.enqueue(ctx, item{frame: f}) {
			return nil
		}
	}
	return nil
}

// sentHere reports whether a user message was sent by this connection.
func (t *liveConversation) sentHere(ctx context.Context, f *turn.Frame) bool {
	mine := t.answered(ctx, func(s *sending) bool { return s.matches(f) })
	if ctx.Err() != nil {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.accepted[f.Message]
	delete(t.accepted, f.Message)
	return ok || mine != nil && mine.ok
}

// answered returns the message that is being sent and that is meant, or nil. It waits until its
// client has been answered, so that the client reads "accepted" before what the message leads to.
func (t *liveConversation) answered(ctx context.Context, is func(*sending) bool) *sending {
	t.mu.Lock()
	var mine *sending
	if i := slices.IndexFunc(t.sending, is); i >= 0 {
		mine = t.sending[i]
	}
	t.mu.Unlock()
	if mine != nil {
		select {
		case <-mine.done:
		case <-ctx.Done():
		}
	}
	return mine
}
