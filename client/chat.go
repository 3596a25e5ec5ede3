package client

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"
)

// Message is what a person says, and to whom. Replace names a message that it
// is written in place of, Regenerate an answer that is to be given anew; then
// there is no Content.
type Message struct {
	ID           string  `json:"message_id,omitzero"` // the sender's own: sent again, it does nothing twice
	Conversation string  `json:"conversation_id,omitzero"`
	Content      []Block `json:"content,omitempty"`
	Agent        string  `json:"agent,omitzero"`
	Model        string  `json:"model,omitzero"`
	Replace      string  `json:"replace,omitzero"`
	Regenerate   string  `json:"regenerate,omitzero"`
	Unattended   bool    `json:"unattended,omitzero"` // nobody is there who could be asked for approval
}

// Block is a part of what is said: a text, an image or a file.
type Block struct {
	Type string `json:"type"`
	Text string `json:"text,omitzero"`
	MIME string `json:"mime,omitzero"`
	Name string `json:"name,omitzero"`
	Data []byte `json:"data,omitempty"`
	URL  string `json:"url,omitzero"`
}

// Accepted says that a message is durable.
type Accepted struct {
	Conversation string   `json:"conversation_id"`
	Interaction  string   `json:"interaction_id"`
	Message      string   `json:"message_id"` // empty where an answer is given anew
	Duplicate    bool     `json:"duplicate"`
	Hidden       []string `json:"hidden"` // names of secrets that stood in it, and do not any more
	Cursor       string   `json:"cursor"`
}

// What a Frame tells of.
const (
	FrameUser      = "user"
	FrameToken     = "token"
	FrameReasoning = "reasoning"
	FrameCall      = "tool_call"
	FrameResult    = "tool_result"
	FrameComplete  = "complete"
	FrameError     = "error"
	FrameReset     = "reset"
	FrameNotice    = "notice"
	FrameTask      = "task"
	FrameOpened    = "opened"
)

// The status of a tool call before it has a result.
const (
	CallWriting  = "writing"
	CallRunning  = "running"
	CallAwaiting = "awaiting_approval"
)

// Frame is one thing that happens in a conversation; docs/reference/websocket.md says
// which members each type has.
type Frame struct {
	Type         string          `json:"type"`
	Cursor       string          `json:"cursor"` // to go on behind it
	Conversation string          `json:"conversation_id"`
	Interaction  string          `json:"interaction_id"`
	MessageID    string          `json:"message_id"`
	Text         string          `json:"text"`
	Content      Content         `json:"content"`
	ID           string          `json:"id"` // of a call or a task
	Name         string          `json:"name"`
	Tool         string          `json:"tool"`
	Args         json.RawMessage `json:"args"`
	Status       string          `json:"status"`
	Progress     float64         `json:"progress"`
	Approval     *Approval       `json:"approval"`
	Result       string          `json:"result"`
	Denied       []string        `json:"denied"`
	Model        string          `json:"model"`
	Stop         string          `json:"stop"`
	DurationMS   int64           `json:"duration_ms"`
	Usage        Usage           `json:"usage"`
	Citations    []Citation      `json:"citations"`

	Message string `json:"message"` // how far a call or a task is; of an error, what is wrong
	Err     error  `json:"-"`       // of the type FrameError
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *Frame) UnmarshalJSON(b []byte) error {
	type plain Frame
	if err := json.Unmarshal(b, (*plain)(f)); err != nil || f.Type != FrameError {
		return err
	}
	e := &Error{}
	f.Err = e
	return json.Unmarshal(b, e)
}

// Content is a list of blocks; a text alone is one block.
type Content []Block

// UnmarshalJSON implements json.Unmarshaler.
func (c *Content) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		*c = Content{{Type: "text", Text: text}}
		return nil
	}
	return json.Unmarshal(b, (*[]Block)(c))
}

// Text is what the blocks of text say.
func (c Content) Text() (text string) {
	for _, b := range c {
		text += b.Text
	}
	return text
}

// Arguments are those of the call, as JSON or as what the model wrote instead.
func (f *Frame) Arguments() string { return argsText(f.Args) }

func argsText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// Citation is a source that a provider names.
type Citation struct {
	URL   string `json:"url,omitzero"`
	Title string `json:"title,omitzero"`
	Text  string `json:"text,omitzero"`
}

// Approval is a question about a call. Agent, Tool and Args are set where an
// agent makes it that was asked by the call which is shown.
type Approval struct {
	ID        string          `json:"id"`
	Hash      string          `json:"hash"` // over all that is asked: an answer repeats it
	Reason    string          `json:"reason"`
	Expires   time.Time       `json:"expires"`
	Rule      string          `json:"rule"`
	Labels    []string        `json:"labels"`
	Read      []string        `json:"read"`
	Approvers string          `json:"approvers"`
	Foreign   bool            `json:"foreign"`
	Pattern   json.RawMessage `json:"pattern"`
	NoGrant   string          `json:"no_grant"`
	Each      []Argument      `json:"arguments"` // of the call's arguments, in their order
	Agent     string          `json:"agent"`
	Tool      string          `json:"tool"`
	Args      json.RawMessage `json:"args"`
}

// Arguments are those of the agent's call.
func (a *Approval) Arguments() string { return argsText(a.Args) }

// Answer is what a person says to a question. Those that approve may stand for
// later calls, too: Standing is conversation or always, Pattern what they cover.
type Answer struct {
	Approve  bool            `json:"approve"`
	Hash     string          `json:"hash"` // over what was shown
	Reason   string          `json:"reason,omitzero"`
	Standing string          `json:"standing,omitzero"`
	Pattern  any             `json:"pattern,omitempty"`
	Until    string          `json:"until,omitzero"` // of one that stands: RFC 3339
	Args     json.RawMessage `json:"args,omitempty"` // other arguments than those asked about
}

// AnswerApproval answers a question.
func (c *Client) AnswerApproval(ctx context.Context, which string, a Answer) error {
	return c.Call(ctx, "POST /approvals/{id}", Params{"id": which}, a, nil)
}

// Argument is the size of an argument in bytes, and what is odd about it.
type Argument struct {
	Name  string   `json:"name"`
	Size  int      `json:"size"`
	Marks []string `json:"marks"`
}

// exchange sends one frame over a connection of its own and waits for its
// answer.
func (c *Client) exchange(ctx context.Context, ask any, answer *Accepted) error {
	s, err := c.Dial(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Send(ctx, ask); err != nil {
		return err
	}
	for {
		in := struct {
			Type string
			*Accepted
		}{Accepted: answer}
		if err := s.Receive(ctx, &in); err != nil {
			return err
		}
		if in.Type == "accepted" || in.Type == "ok" {
			return nil
		}
	}
}

// Say sends a message. It returns when that is durable; Watch tells what
// becomes of it.
func (c *Client) Say(ctx context.Context, m Message) (out Accepted, err error) {
	err = c.exchange(ctx, struct {
		Type string `json:"type"`
		Re   string `json:"id"`
		Message
	}{"message", "1", m}, &out)
	return out, err
}

// Stop stops the turn that runs in a conversation.
func (c *Client) Stop(ctx context.Context, conv string) error {
	return c.exchange(ctx, map[string]string{"type": "stop", "id": "1", "conversation_id": conv}, &Accepted{})
}

// FromNow is the cursor of what is new.
const FromNow = "now"

// Watch tells what happens in a conversation behind a cursor; "" is its
// beginning. A connection that breaks is made again and goes on where it was;
// Watch gives up after a few attempts in a row.
func (c *Client) Watch(ctx context.Context, conv, cursor string) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		const most = 10
		for failed := 0; ctx.Err() == nil; {
			before := cursor
			err := c.watch(ctx, conv, &cursor, yield)
			if err == nil || ctx.Err() != nil {
				return
			}
			if cursor != before {
				failed = 0
			}
			var broke BrokenError
			if failed++; failed > most || !errors.As(err, &broke) {
				yield(Frame{}, err)
				return
			}
			select {
			case <-time.After(min(time.Second, 50*time.Millisecond<<failed)):
			case <-ctx.Done():
			}
		}
	}
}

// watch watches over one connection, until it breaks (nil: until the consumer
// has enough).
func (c *Client) watch(ctx context.Context, conv string, cursor *string, yield func(Frame, error) bool) error {
	s, err := c.Dial(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	ask := map[string]string{"type": "resume", "id": "1", "conversation_id": conv}
	if *cursor != "" {
		ask["cursor"] = *cursor
	}
	if err := s.Send(ctx, ask); err != nil {
		return err
	}
	for {
		var f Frame
		if err := s.Receive(ctx, &f); err != nil {
			return err
		}
		if f.Cursor != "" {
			*cursor = f.Cursor
		}
		if f.Conversation == "" || f.Type == "ok" {
			continue // it tells of nothing in the conversation
		}
		var e *Error
		if errors.As(f.Err, &e) {
			f.Err = c.o.Fault(e)
		}
		if !yield(f, nil) {
			return nil
		}
	}
}
