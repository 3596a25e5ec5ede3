//go:build linux

package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// Turn is a turn that a Client has sent.
type Turn struct {
	Token    string
	Tools    []string // that it calls; nil: it is a tree
	Answer   string
	Statuses map[string]string // of its calls, by id

	accepted bool
	opened   string // its interaction
}

// Client holds one conversation. It sends a turn and waits for the answer; when its node does not answer, it goes to
// another one, repeats what was not acknowledged, and resumes.
type Client struct {
	Number int
	User   string
	Key    string
	Tree   bool // its turns are trees
	Calls  int  // of each turn

	Conversation string
	Turns        []*Turn
	Errors       map[string]int // what nodes answered in place of what was asked

	mu     sync.Mutex // held while a frame is handled
	rig    *Rig
	load   *Load
	random *rand.Rand
	cursor string
	early  map[string]json.RawMessage // by interaction: answers to a turn that was not acknowledged yet
}

// NewClient returns a client that draws its nodes from a seed.
func NewClient(r *Rig, l *Load, number int, user, key string, seed uint64) *Client {
	return &Client{Number: number, User: user, Key: key, rig: r, load: l, random: rand.New(rand.NewPCG(seed, uint64(number))),
		Errors: map[string]int{}, early: map[string]json.RawMessage{}}
}

// patience is how long a client waits for a word before it tries another node.
const patience = 6 * time.Second

// Say makes one turn and returns when it is answered.
func (c *Client) Say(ctx context.Context) error {
	t := &Turn{Token: fmt.Sprintf("t%d-%d", c.Number, len(c.Turns)), Statuses: map[string]string{}}
	if !c.Tree {
		t.Tools = toolsOf(t.Token, c.Calls)
	}
	c.mu.Lock()
	c.Turns = append(c.Turns, t)
	c.mu.Unlock()
	c.load.sent(t.Token)
	for t.Answer == "" {
		err := c.connected(ctx, t)
		if ctx.Err() != nil {
			return fmt.Errorf("conversation %d of %s: turn %s is not answered: %+v; errors: %v; the last: %w", c.Number, c.User, t.Token, *t, c.Errors, err)
		}
		if err != nil {
			c.mu.Lock()
			c.Errors[err.Error()]++
			c.mu.Unlock()
			pause(ctx, time.Duration(20+c.random.IntN(200))*time.Millisecond)
		}
	}
	c.load.over(t.Token)
	return nil
}

// String says where the conversation stands.
func (c *Client) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.Turns) == 0 {
		return fmt.Sprintf("conversation %d of %s has not begun", c.Number, c.User)
	}
	t := c.Turns[len(c.Turns)-1]
	return fmt.Sprintf("conversation %d of %s (%s): turn %s, interaction %q, accepted %v, answer %q, calls %v; errors %v", c.Number, c.User, c.Conversation, t.Token, t.opened, t.accepted, t.Answer, t.Statuses, c.Errors)
}

// frame holds the fields of a server frame that the client reads.
type frame struct {
	Type         string `json:"type"`
	Conversation string `json:"conversation_id"`
	Cursor       string `json:"cursor"`
	Interaction  string `json:"interaction_id"`
	Content      json.RawMessage
	ID           string `json:"id"`
	Status       string `json:"status"`
	Code         string `json:"code"`
	Text         string `json:"message"`
	Approval     *struct {
		ID   string `json:"id"`
		Hash string `json:"hash"`
	} `json:"approval"`
}

// connected follows a turn over one connection. It returns nil when the turn is answered.
func (c *Client) connected(ctx context.Context, t *Turn) error {
	node := c.rig.Nodes[c.random.IntN(len(c.rig.Nodes))]
	url := node.URL()
	if url == "" {
		return fmt.Errorf("the node is down")
	}
	dialing, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ws, _, err := websocket.Dial(dialing, "ws"+strings.TrimPrefix(url, "http")+"/ws", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + c.Key}}})
	if err != nil {
		return shorten(err)
	}
	defer ws.CloseNow()
	ws.SetReadLimit(32 << 20)
	if c.Conversation != "" {
		if err := write(ctx, ws, map[string]any{"type": "resume", "conversation_id": c.Conversation, "cursor": c.cursor}); err != nil {
			return shorten(err)
		}
	}
	if !t.accepted {
		if err := c.send(ctx, ws, t); err != nil {
			return shorten(err)
		}
	}
	for t.Answer == "" {
		reading, cancel := context.WithTimeout(ctx, patience)
		_, b, err := ws.Read(reading)
		cancel()
		if err != nil {
			return shorten(err)
		}
		var f frame
		if err := json.Unmarshal(b, &f); err != nil {
			return fmt.Errorf("%s: %w", b, err)
		}
		if err := c.handle(ctx, ws, f, t); err != nil {
			return err
		}
	}
	return nil
}

// shorten leaves the end of an error, which says what happened, so that equal ones can be counted.
func shorten(err error) error {
	s := err.Error()
	if i := strings.LastIndex(s, ": "); i >= 0 {
		s = s[i+2:]
	}
	return fmt.Errorf("%s", s)
}

func (c *Client) send(ctx context.Context, ws *websocket.Conn, t *Turn) error {
	m := map[string]any{"type": "message", "content": "run " + t.Token + " " + strings.Join(t.Tools, ","), "message_id": t.Token}
	if t.Tools == nil {
		m["content"], m["agent"] = "tree "+t.Token, "planner"
	}
	if c.Conversation != "" {
		m["conversation_id"] = c.Conversation
	}
	return write(ctx, ws, m)
}

func write(ctx context.Context, ws *websocket.Conn, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return ws.Write(ctx, websocket.MessageText, b)
}

func (c *Client) handle(ctx context.Context, ws *websocket.Conn, f frame, t *Turn) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.Cursor != "" && f.Type != "accepted" {
		c.cursor = f.Cursor
	}
	switch f.Type {
	case "accepted":
		t.accepted, t.opened, c.Conversation = true, f.Interaction, f.Conversation
		if c.cursor == "" {
			c.cursor = f.Cursor
		}
		c.load.hear(t.Token, "")
		if early := c.early[f.Interaction]; early != nil {
			return json.Unmarshal(early, &t.Answer)
		}
	case "tool_call":
		if f.Approval != nil && f.Status == "awaiting_approval" {
			return write(ctx, ws, map[string]any{"type": "approve", "approval_id": f.Approval.ID, "hash": f.Approval.Hash})
		}
	case "tool_result":
		t.Statuses[f.ID] = f.Status
	case "complete":
		if !t.accepted { // a repeated message is acknowledged beside what is resumed, perhaps later
			c.early[f.Interaction] = f.Content
		}
		if t.accepted && f.Interaction == t.opened {
			return json.Unmarshal(f.Content, &t.Answer)
		}
	case "error":
		switch f.Code {
		case "approval_decided", "approval_settled", "approval_not_found":
			return nil // answered before
		case "turn_parked": // two crashes in a row; resume it as a person would
			c.Errors[f.Code]++
			return write(ctx, ws, map[string]any{"type": "resume_turn", "request_id": f.Interaction})
		case "request_not_parked": // resumed by the previous connection
			return nil
		}
		t.accepted = false // it is sent again, as the answer says
		return fmt.Errorf("error frame %s: %s", f.Code, f.Text)
	}
	return nil
}
