package edge

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/coder/websocket"
)

// Conn is a WebSocket connection to a node.
type Conn struct {
	t  testing.TB
	ws *websocket.Conn
}

// Frame is a frame that Steward sent. Raw is the whole frame.
type Frame struct {
	Type, Re, ID, Name, Status, Result, Code, Message, Text, Stop, Remedy, Cursor string

	Conversation string `json:"conversation_id"`
	Interaction  string `json:"interaction_id"`
	MessageID    string `json:"message_id"`
	Args         json.RawMessage
	Content      json.RawMessage
	Approval     *Approval
	Raw          []byte `json:"-"`
}

// Approval is a question to a person.
type Approval struct {
	ID, Hash, Reason, Agent, Tool string
	Args                          json.RawMessage
}

// Dial opens a WebSocket with the token, or with another credential.
func (n *Node) Dial(credential ...string) *Conn {
	n.T.Helper()
	token := ""
	if len(credential) > 0 {
		token = credential[0]
	} else {
		token = n.Token()
	}
	ctx := n.T.Context()
	ws, _, err := websocket.Dial(ctx, n.URL+"/ws", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + token}}})
	if err != nil {
		n.T.Fatal(err)
	}
	ws.SetReadLimit(256 << 20)
	n.T.Cleanup(func() { ws.CloseNow() }) //nolint:errcheck // it may be closed
	return &Conn{n.T, ws}
}

// Close closes the connection without a closing handshake.
func (c *Conn) Close() { c.ws.CloseNow() } //nolint:errcheck // it may be closed

// Send sends a frame.
func (c *Conn) Send(frame map[string]any) {
	c.t.Helper()
	b, err := json.Marshal(frame)
	if err == nil {
		err = c.ws.Write(c.t.Context(), websocket.MessageText, b)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// Read reads the next frame.
func (c *Conn) Read() Frame {
	c.t.Helper()
	ctx := c.t.Context()
	_, b, err := c.ws.Read(ctx)
	f := Frame{Raw: b}
	if err == nil {
		err = json.Unmarshal(b, &f)
	}
	if err != nil {
		c.t.Fatalf("%v: %s", err, b)
	}
	return f
}

// Ended reads until the connection ends and returns its close code, or -1 if
// there is none.
func (c *Conn) Ended() int {
	c.t.Helper()
	ctx := c.t.Context()
	for {
		if _, _, err := c.ws.Read(ctx); err != nil {
			if ctx.Err() != nil {
				c.t.Fatal("the connection does not end")
			}
			return int(websocket.CloseStatus(err))
		}
	}
}

// Answer is the outcome of a turn.
type Answer struct {
	Conversation string
	Results      []Frame    // frames of type tool_result, in order of arrival
	Asked        []Approval // the questions
	Text         string
	Stop         string
	Code         string // of an error
	Frames       []Frame
}

// Turn sends a message and follows its turn to the end. decide answers each
// question: "approve", "deny" or "" (no answer; the turn then ends only if
// somebody else decides). A nil decide denies all.
func (c *Conn) Turn(message map[string]any, decide func(Approval) string) Answer {
	c.t.Helper()
	frame := map[string]any{"type": "message", "id": "turn"}
	for k, v := range message {
		frame[k] = v
	}
	c.Send(frame)
	var a Answer
	asked := map[string]bool{}
	for {
		f := c.Read()
		a.Frames = append(a.Frames, f)
		if f.Conversation != "" {
			a.Conversation = f.Conversation
		}
		switch f.Type {
		case "tool_call":
			if f.Approval == nil || f.Status != "awaiting_approval" || asked[f.Approval.Hash] {
				break
			}
			asked[f.Approval.Hash] = true
			a.Asked = append(a.Asked, *f.Approval)
			how := "deny"
			if decide != nil {
				how = decide(*f.Approval)
			}
			if how != "" {
				c.Send(map[string]any{"type": how, "approval_id": f.Approval.ID, "hash": f.Approval.Hash})
			}
		case "tool_result":
			a.Results = append(a.Results, f)
		case "complete":
			a.Stop = f.Stop
			if err := json.Unmarshal(f.Content, &a.Text); err != nil {
				a.Text = string(f.Content)
			}
			return a
		case "error":
			a.Code, a.Text = f.Code, f.Message
			return a
		}
	}
}

// Ask makes one turn of a new conversation over its own connection.
func (n *Node) Ask(text string, decide func(Approval) string) Answer {
	n.T.Helper()
	c := n.Dial()
	defer c.Close()
	return c.Turn(map[string]any{"content": text}, decide)
}
