package client

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"
)

// Message is a message that a person sends to an agent. Replace names the message that this one
// replaces. Regenerate names the answer to generate again; Content is then empty.
type Message struct {
	ID           string  `json:"message_id,omitzero"` // the sender's own id: sending it again has no further effect
	Conversation string  `json:"conversation_id,omitzero"`
	Content      []Block `json:"content,omitempty"`
	Agent        string  `json:"agent,omitzero"`
	Model        string  `json:"model,omitzero"`
	Plan         bool    `json:"plan,omitzero"` // a person decides about the agent's plan before it is carried out
	Replace      string  `json:"replace,omitzero"`
	Regenerate   string  `json:"regenerate,omitzero"`
	Unattended   bool    `json:"unattended,omitzero"` // nobody is present to be asked for approval
}

// Block is one part of a message's content: a text, an image or a file.
type Block struct {
	Type string `json:"type"`
	Text string `json:"text,omitzero"`
	MIME string `json:"mime,omitzero"`
	Name string `json:"name,omitzero"`
	Data []byte `json:"data,omitempty"`
	URL  string `json:"url,omitzero"`
}

// Accepted reports that a message has been stored durably.
type Accepted struct {
	Conversation string   `json:"conversation_id"`
	Interaction  string   `json:"interaction_id"`
	Message      string   `json:"message_id"` // empty if an answer is regenerated
	Duplicate    bool     `json:"duplicate"`
	Hidden       []string `json:"hidden"` // names of the secrets that were removed from it
	Cursor       string   `json:"cursor"`
}

// The types of a Frame.
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
	FramePlanned   = "plan_task"
	FrameOpened    = "opened"
	FrameMemory    = "memory"
)

// The status of a tool call before it has a result.
const (
	CallWriting  = "writing"
	CallRunning  = "running"
	CallAwaiting = "awaiting_approval"
)

// Frame is one event in a conversation. docs/reference/websocket.md lists the members that each
// type has.
type Frame struct {
	Type         string          `json:"type"`
	Cursor       string          `json:"cursor"` // resume after this position
	Conversation string          `json:"conversation_id"`
	Interaction  string          `json:"interaction_id"`
	MessageID    string          `json:"message_id"`
	Text         string          `json:"text"`
	Content      Content         `json:"content"`
	ID           string          `json:"id"` // of the call or task
	Name         string          `json:"name"`
	Tool         string          `json:"tool"`
	Args         json.RawMessage `json:"args"`
	Summary      string          `json:"summary"` // what a call does, in words for a person
	Status       string          `json:"status"`
	Progress     float64         `json:"progress"`
	Approval     *Approval       `json:"approval"`
	Result       string          `json:"result"`
	Denied       []string        `json:"denied"`
	Model        string          `json:"model"`
	Stop         string          `json:"stop"`
	DurationMS   int64           `json:"duration_ms"`
	Usage        Usage           `json:"usage"`
	Context      int64           `json:"context"` // tokens of the model's context window that are used
	Origin       string          `json:"origin"`  // who opened the turn: "tool:NAME", "agent:PATH", "alarm:ID", "job:ID"
	At           time.Time       `json:"at"`      // when it was opened
	Citations    []Citation      `json:"citations"`

	CallID string   `json:"call_id"` // that a task of a plan belongs to
	Order  int      `json:"order"`   // of the task, among the others
	Task   *Request `json:"task"`    // how it stands

	Did   string     `json:"did"`   // what was done with facts: MemoryRecalled, …
	Facts []FactNews `json:"facts"` // that were recalled, saved, undone or forgotten

	Message string `json:"message"` // the progress of a call or a task; of an error, its message
	Err     error  `json:"-"`       // a FrameError
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

// Content is a list of blocks. A JSON string decodes to a single text block.
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

// Text returns the text of the text blocks.
func (c Content) Text() (text string) {
	for _, b := range c {
		text += b.Text
	}
	return text
}

// Arguments returns the arguments of the call: JSON, or what the model wrote instead.
func (f *Frame) Arguments() string { return argsText(f.Args) }

func argsText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// Citation is a source that a provider cites.
type Citation struct {
	URL   string `json:"url,omitzero"`
	Title string `json:"title,omitzero"`
	Text  string `json:"text,omitzero"`
}

// Approval asks a person to approve a call. Agent, Tool and Args are set if the call is made by an
// agent that the call shown has invoked.
type Approval struct {
	ID        string          `json:"id"`
	Hash      string          `json:"hash"` // over everything that is asked; an answer repeats it
	Reason    string          `json:"reason"`
	Expires   time.Time       `json:"expires"`
	Rule      string          `json:"rule"`
	Labels    []string        `json:"labels"`
	Read      []string        `json:"read"`
	Approvers string          `json:"approvers"`
	Foreign   bool            `json:"foreign"`
	Preview   string          `json:"preview"` // what would change, such as a diff
	Pattern   json.RawMessage `json:"pattern"`
	NoGrant   string          `json:"no_grant"`
	Each      []Argument      `json:"arguments"` // the call's arguments, in order
	Agent     string          `json:"agent"`
	Tool      string          `json:"tool"`
	Args      json.RawMessage `json:"args"`
	Summary   string          `json:"summary"` // what the call does, in a sentence
	Why       string          `json:"why"`     // why it is asked about
	Values    []Value         `json:"values"`  // arguments that neither Summary nor Preview shows, what matters first
	More      int             `json:"more"`    // how many others there are
	Widths    []Width         `json:"widths"`  // what a standing approval is offered for, the narrowest first
}

// Value is an argument as a question shows it. Invisible characters in it are written out.
type Value struct {
	Name  string   `json:"name"`
	Text  string   `json:"text"`
	Cut   bool     `json:"cut"` // Text is only the beginning
	Size  int      `json:"size"`
	Marks []string `json:"marks"`
}

// Width is a range of calls that a standing approval can be given for.
type Width struct {
	Name    string          `json:"name"`
	Pattern json.RawMessage `json:"pattern"`
}

// Arguments returns the arguments of the agent's call.
func (a *Approval) Arguments() string { return argsText(a.Args) }

// Reminder is an alarm that has gone off. Its message follows in its conversation, when no turn runs
// there any more.
type Reminder struct {
	Conversation string    `json:"conversation_id"`
	Message      string    `json:"message_id"`
	Text         string    `json:"text"`
	At           time.Time `json:"at"`
}

// Reminders yields the caller's reminders as they go off, beginning with those whose messages are not
// recorded yet. It reconnects for as long as necessary, and may then yield a reminder again.
func (c *Client) Reminders(ctx context.Context) iter.Seq2[Reminder, error] {
	return func(yield func(Reminder, error) bool) {
		for pause := 50 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, 5*time.Second) {
			err := c.reminders(ctx, yield)
			var broke BrokenError
			if err == nil || ctx.Err() != nil {
				return
			} else if !errors.As(err, &broke) {
				yield(Reminder{}, err)
				return
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
	}
}

// reminders listens over one connection until it breaks. It returns nil if the consumer stopped the
// loop.
func (c *Client) reminders(ctx context.Context, yield func(Reminder, error) bool) error {
	s, err := c.Dial(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Send(ctx, map[string]string{"type": "reminders", "id": "1"}); err != nil {
		return err
	}
	for {
		var f struct {
			Type string `json:"type"`
			Reminder
		}
		if err := s.Receive(ctx, &f); err != nil {
			return err
		}
		if f.Type == "reminder" && !yield(f.Reminder, nil) {
			return nil
		}
	}
}

// Answer is a person's answer to an approval request. An answer that approves may also cover later
// calls: Standing is conversation or always, and Pattern says which calls it covers.
type Answer struct {
	Approve  bool            `json:"approve"`
	Hash     string          `json:"hash"` // the hash of the approval that was shown
	Reason   string          `json:"reason,omitzero"`
	Standing string          `json:"standing,omitzero"`
	Pattern  any             `json:"pattern,omitempty"`
	Until    string          `json:"until,omitzero"` // when a standing approval expires: RFC 3339
	Args     json.RawMessage `json:"args,omitempty"` // arguments to use instead of those asked about
}

// AnswerApproval answers an approval request.
func (c *Client) AnswerApproval(ctx context.Context, which string, a Answer) error {
	return c.Call(ctx, "POST /approvals/{id}", Params{"id": which}, a, nil)
}

// Argument is the size of an argument in bytes, and what is unusual about it.
type Argument struct {
	Name  string   `json:"name"`
	Size  int      `json:"size"`
	Marks []string `json:"marks"`
}

// exchange sends one frame over a connection of its own and waits for the answer.
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

// Say sends a message. It returns as soon as the message is durable; use Watch to follow the
// answer.
func (c *Client) Say(ctx context.Context, m Message) (out Accepted, err error) {
	err = c.exchange(ctx, struct {
		Type string `json:"type"`
		Re   string `json:"id"`
		Message
	}{"message", "1", m}, &out)
	return out, err
}

// Stop stops the turn that is running in a conversation.
func (c *Client) Stop(ctx context.Context, conv string) error {
	return c.exchange(ctx, map[string]string{"type": "stop", "id": "1", "conversation_id": conv}, &Accepted{})
}

// Position returns the cursor of the present: a Watch from it yields only what is new.
func (c *Client) Position(ctx context.Context, conv string) (string, error) {
	var at Accepted
	err := c.exchange(ctx, map[string]string{"type": "resume", "id": "1", "conversation_id": conv, "cursor": "now"}, &at)
	return at.Cursor, err
}

// Watch yields what happens in a conversation after a cursor; the cursor "" is the beginning of the
// conversation. If the connection breaks, Watch reconnects and resumes where it was. It gives up
// after a few failed attempts in a row.
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

// watch reads frames from one connection until it breaks. It returns nil if the consumer stopped
// the loop.
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
			continue // not an event of the conversation
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
