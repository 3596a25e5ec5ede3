//go:build long

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// frame holds the fields of a server frame that the client reads.
type frame struct {
	Type         string `json:"type"`
	Conversation string `json:"conversation_id"`
	Cursor       string `json:"cursor"`
	Client       string `json:"client_message_id"`
	Interaction  string `json:"interaction_id"`
	Message      string `json:"message_id"`
	Content      json.RawMessage
	ID           string `json:"id"`
	Status       string `json:"status"`
	Code         string `json:"code"`
	Text         string `json:"message"`
	Result       json.RawMessage
	Approval     *question  `json:"approval"`
	Approvals    []question `json:"approvals"`
}

// question is a question to a person.
type question struct {
	ID           string `json:"id"`
	Hash         string `json:"hash"`
	Conversation string `json:"conversation"`
}

// turn is a turn that a client has sent.
type turn struct {
	token    string
	tools    string
	accepted bool
	opened   string // its interaction
	answer   string // content of the complete frame
	statuses map[string]string
	killed   bool      // killed after it was acknowledged
	since    time.Time // time of the restart from which its end is awaited
}

// client drives one conversation: it sends a turn, approves its questions,
// waits for the answer and sends the next one. When Steward dies, the client
// reconnects, repeats what was not acknowledged, and resumes.
type client struct {
	number int
	board  *board
	addr   func() string
	tools  func() string
	rest   func() time.Duration // pause between turns

	mu     sync.Mutex
	conv   string
	cursor string
	turns  []*turn
	errors map[string]int
	early  map[string]json.RawMessage // by interaction: answers to a turn that was not acknowledged yet
	late   []string                   // turns that took longer than restartLimit after a restart
	slow   time.Duration              // the longest time from a restart to the end of a turn
}

// run drives the conversation until stop is closed and the last turn has ended.
func (c *client) run(ctx context.Context, stop <-chan struct{}) error {
	for {
		if err := c.connected(ctx, stop); err == nil {
			return nil
		} else if ctx.Err() != nil {
			return fmt.Errorf("conversation %d: %w; in turn %+v; errors: %v", c.number, ctx.Err(), c.turns[len(c.turns)-1], c.errors)
		} else {
			c.errors[err.Error()]++
		}
		select { // Steward is down; retry soon
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// connected runs for one connection. It returns nil if all is done.
func (c *client) connected(ctx context.Context, stop <-chan struct{}) error {
	ws, _, err := websocket.Dial(ctx, "ws://"+c.addr()+"/ws", nil)
	if err != nil {
		return err
	}
	defer ws.CloseNow()
	ws.SetReadLimit(32 << 20)
	if err := c.resume(ctx, ws, stop); err != nil {
		return err
	}
	for {
		if c.done(stop) {
			return nil
		}
		_, b, err := ws.Read(ctx)
		if err != nil {
			return err
		}
		var f frame
		if err := json.Unmarshal(b, &f); err != nil {
			return fmt.Errorf("%s: %w", b, err)
		}
		if err := c.handle(ctx, ws, f, stop); err != nil {
			return err
		}
	}
}

func (c *client) done(stop <-chan struct{}) bool {
	select {
	case <-stop:
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.turns) > 0 && c.turns[len(c.turns)-1].answer != ""
	default:
		return false
	}
}

func (c *client) resume(ctx context.Context, ws *websocket.Conn, stop <-chan struct{}) error {
	c.mu.Lock()
	conv, cursor := c.conv, c.cursor
	var last *turn
	if len(c.turns) > 0 {
		last = c.turns[len(c.turns)-1]
	}
	c.mu.Unlock()
	if conv != "" {
		if err := write(ctx, ws, map[string]any{"type": "resume", "conversation_id": conv, "cursor": cursor}); err != nil {
			return err
		}
	}
	switch {
	case last == nil || last.answer != "":
		return c.next(ctx, ws, stop)
	case !last.accepted:
		return c.send(ctx, ws, last)
	}
	return nil
}

// next sends the next turn unless stop is closed and there was one.
func (c *client) next(ctx context.Context, ws *websocket.Conn, stop <-chan struct{}) error {
	select {
	case <-stop:
		if len(c.turns) > 0 {
			return nil
		}
	default:
	}
	c.mu.Lock()
	t := &turn{token: fmt.Sprintf("t%d-%d", c.number, len(c.turns)), tools: c.tools(), statuses: map[string]string{}}
	c.turns = append(c.turns, t)
	c.mu.Unlock()
	return c.send(ctx, ws, t)
}

func (c *client) send(ctx context.Context, ws *websocket.Conn, t *turn) error {
	c.board.set(t.token, sending)
	m := map[string]any{"type": "message", "content": t.tools + " " + t.token, "message_id": t.token}
	if t.tools == tree {
		m["agent"] = "planner"
	}
	if c.conv != "" {
		m["conversation_id"] = c.conv
	}
	return write(ctx, ws, m)
}

func write(ctx context.Context, ws *websocket.Conn, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return ws.Write(ctx, websocket.MessageText, b)
}

func (c *client) handle(ctx context.Context, ws *websocket.Conn, f frame, stop <-chan struct{}) error {
	c.mu.Lock()
	t := c.turns[len(c.turns)-1]
	if f.Cursor != "" && f.Type != "accepted" {
		c.cursor = f.Cursor
	}
	c.mu.Unlock()
	switch f.Type {
	case "accepted":
		c.mu.Lock()
		t.accepted, t.opened, c.conv = true, f.Interaction, f.Conversation
		if c.cursor == "" {
			c.cursor = f.Cursor
		}
		early := c.early[f.Interaction]
		c.mu.Unlock()
		if early != nil && t.answer == "" {
			return c.complete(ctx, ws, t, early, stop)
		}
	case "tool_call":
		if f.Approval != nil && f.Status == "awaiting_approval" {
			c.board.set(t.token, awaiting)
			return write(ctx, ws, map[string]any{"type": "approve", "approval_id": f.Approval.ID, "hash": f.Approval.Hash})
		}
	case "tool_result":
		c.mu.Lock()
		t.statuses[f.ID] = f.Status
		c.mu.Unlock()
	case "complete":
		c.mu.Lock()
		if !t.accepted { // a repeated message is acknowledged beside what is resumed, perhaps later
			c.early[f.Interaction] = f.Content
		}
		own := t.accepted && f.Interaction == t.opened && t.answer == ""
		c.mu.Unlock()
		if own { // not of an earlier turn, repeated, or of one that reports a queued action
			return c.complete(ctx, ws, t, f.Content, stop)
		}
	case "error":
		switch f.Code {
		case "approval_decided", "approval_settled", "approval_not_found":
			return nil // answered before the kill
		case "turn_parked": // two crashes in a row; resume it as a person would
			return write(ctx, ws, map[string]any{"type": "resume_turn", "request_id": f.Interaction})
		case "request_not_parked": // resumed by the previous connection
			return nil
		}
		return fmt.Errorf("error frame %s: %s", f.Code, f.Text)
	}
	return nil
}

// complete takes the answer to the last turn, and sends the next one.
func (c *client) complete(ctx context.Context, ws *websocket.Conn, t *turn, content json.RawMessage, stop <-chan struct{}) error {
	c.mu.Lock()
	if err := json.Unmarshal(content, &t.answer); err != nil {
		c.mu.Unlock()
		return fmt.Errorf("the answer is %s: %w", content, err)
	}
	if t.killed {
		c.slow = max(c.slow, time.Since(t.since))
	}
	if t.killed && time.Since(t.since) > restartLimit {
		c.late = append(c.late, fmt.Sprintf("%s took %s", t.token, time.Since(t.since)))
	}
	c.mu.Unlock()
	c.board.set(t.token, settled)
	c.board.trees.over(t.token)
	pause(ctx, c.rest())
	return c.next(ctx, ws, stop)
}

// answerAll approves every question until ctx is done, as a person does beside
// the conversations: those from before a restart, and those of actions that were
// queued.
func answerAll(ctx context.Context, addr func() string) {
	for answerSome(ctx, addr()) != nil {
		pause(ctx, 10*time.Millisecond) // Steward is down
	}
}

func answerSome(ctx context.Context, addr string) error {
	ws, _, err := websocket.Dial(ctx, "ws://"+addr+"/ws", nil)
	if err != nil && ctx.Err() != nil { // no question was left
		return nil
	}
	if err != nil {
		return err
	}
	defer ws.CloseNow()
	ws.SetReadLimit(32 << 20)
	if err := write(ctx, ws, map[string]any{"type": "approvals", "follow": true}); err != nil && ctx.Err() == nil {
		return err
	}
	for {
		_, b, err := ws.Read(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		var f frame
		if err := json.Unmarshal(b, &f); err != nil {
			return fmt.Errorf("%s: %w", b, err)
		}
		for _, q := range f.Approvals[:min(len(f.Approvals), 20)] { // the list comes again when they are answered
			if err := write(ctx, ws, map[string]any{"type": "approve", "approval_id": q.ID, "hash": q.Hash}); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

// struck records that Steward was killed and restarted at the given time.
func (c *client) struck(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.turns); n > 0 && c.turns[n-1].answer == "" {
		c.turns[n-1].killed, c.turns[n-1].since = true, at
	}
}
