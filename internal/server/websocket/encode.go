package websocket

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/server/auth"
	"steward/internal/turn"
)

// The members that all frames of a conversation have are appended by hand, and so are pieces of text.
// Most frames are such pieces, and encoding them by reflection would dominate their cost.

// appendFrame appends the JSON of a frame of the runtime.
func appendFrame(dst []byte, f *turn.Frame) []byte {
	dst = append(dst, `{"type":"`...)
	dst = append(dst, f.Kind...)
	dst = append(dst, '"')
	dst = appendID(dst, "conversation_id", f.Conversation)
	dst = appendID(dst, "interaction_id", f.Interaction)
	dst = appendID(dst, "message_id", f.Message)
	switch f.Kind {
	case turn.FrameToken, turn.FrameReasoning:
		dst = append(dst, `,"block":`...)
		dst = strconv.AppendInt(dst, int64(f.Block), 10)
		dst = appendText(dst, "text", f.Text)
	case turn.FrameError:
		if f.Err != nil {
			dst = auth.AppendMembers(append(dst, ','), auth.Public(f.Err))
		}
	default:
		dst = appendMembers(dst, membersOf(f))
	}
	dst = append(dst, `,"cursor":"`...)
	dst = f.Cursor.AppendText(dst)
	return append(dst, `"}`...)
}

// membersOf returns the members of a frame beside its ids, or nil.
func membersOf(f *turn.Frame) any {
	switch {
	case f.Kind == turn.FrameNotice:
		return struct {
			Text    string `json:"text"`
			Waiting bool   `json:"waiting,omitzero"`
		}{f.Text, f.Waiting}
	case f.Kind == turn.FrameMemory && f.Memory != nil:
		return struct {
			turn.MemoryView
			Text string `json:"text"`
		}{*f.Memory, f.Text}
	case f.Kind == turn.FrameUser:
		u := struct {
			ClientID string  `json:"client_message_id,omitzero"`
			Content  []block `json:"content,omitzero"`
		}{ClientID: f.ClientID}
		if f.Stored != nil {
			u.Content = blocksOf(f.Stored.Blocks)
		}
		return u
	case (f.Kind == turn.FrameCall || f.Kind == turn.FrameResult) && f.Call != nil:
		return callOf(f.Call)
	case f.Kind == turn.FrameTask && f.Task != nil:
		return taskOf(f.Task)
	case f.Kind == turn.FramePlanned && f.Planned != nil:
		return f.Planned
	case f.Kind == turn.FrameOpened && f.Stored != nil:
		opened := struct {
			Origin  string    `json:"origin,omitzero"` // the tool, agent or alarm that has opened the turn
			At      time.Time `json:"at,omitzero"`
			Content []block   `json:"content"`
		}{Content: blocksOf(f.Stored.Blocks), At: f.Stored.At}
		if len(f.Stored.Blocks) > 0 {
			opened.Origin = f.Stored.Blocks[0].Base().Origin
		}
		return opened
	case f.Kind == turn.FrameComplete && f.Stored != nil:
		return completeOf(f.Stored)
	}
	return nil
}

type complete struct {
	Content   string             `json:"content"`
	Model     string             `json:"model,omitzero"`
	Stop      message.Stop       `json:"stop,omitzero"`
	Approach  string             `json:"approach,omitzero"`
	Took      int64              `json:"duration_ms"`
	Citations []message.Citation `json:"citations,omitempty"`
	Usage     struct {
		Input      int64 `json:"input"`
		Output     int64 `json:"output"`
		Reasoning  int64 `json:"reasoning,omitzero"`
		CacheRead  int64 `json:"cache_read,omitzero"`
		CacheWrite int64 `json:"cache_write,omitzero"`
		Searches   int64 `json:"searches,omitzero"`
	} `json:"usage"`
	Context int64 `json:"context,omitzero"` // tokens of the context window that the last call of the model took
}

func completeOf(m *message.Message) complete {
	c := complete{Content: m.Text(), Model: m.Model, Stop: m.Stop, Approach: m.Approach, Took: m.Took.Milliseconds(), Citations: m.Citations()}
	u := m.TurnUsage()
	c.Usage.Input, c.Usage.Output, c.Usage.Reasoning = u.Input, u.Output, u.Reasoning
	c.Usage.CacheRead, c.Usage.CacheWrite, c.Usage.Searches = u.CacheRead, u.CacheWrite, u.Searches
	c.Context = m.Usage.Input + m.Usage.Output
	return c
}

type call struct {
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Args     json.RawMessage `json:"args"`
	Summary  string          `json:"summary,omitzero"`
	Status   string          `json:"status"`
	Message  string          `json:"message,omitzero"`
	Fraction fraction        `json:"progress,omitzero"`
	Approval *approval       `json:"approval,omitzero"`
	Result   *string         `json:"result,omitzero"`
	Content  []block         `json:"content,omitempty"`
	Rest     string          `json:"rest,omitzero"`
	Denied   []string        `json:"denied,omitempty"`
}

func callOf(v *turn.CallView) call {
	c := call{ID: v.ID, Name: v.Name, Args: argsOf(v.Args), Summary: v.Summary, Status: v.Status, Message: v.Message, Fraction: progress(v.Fraction), Approval: approvalOf(v.Approval, true)}
	if r := v.Result; r != nil {
		text := r.Text()
		c.Result, c.Rest, c.Denied = &text, r.Rest, r.Denied
		if !textOnly(r.Content) {
			c.Content = blocksOf(r.Content)
		}
	}
	return c
}

type task struct {
	ID       id.ID           `json:"id"`
	Call     string          `json:"call_id"`
	Tool     string          `json:"tool"`
	Status   string          `json:"status"`
	Message  string          `json:"message,omitzero"`
	Fraction fraction        `json:"progress,omitzero"`
	Args     json.RawMessage `json:"args,omitempty"` // of a call that waits for approval
	Approval *approval       `json:"approval,omitzero"`
}

func taskOf(v *turn.TaskView) task {
	t := task{ID: v.ID, Call: v.Call, Tool: v.Tool, Status: v.Status, Message: v.Message, Fraction: progress(v.Fraction), Approval: approvalOf(v.Approval, false)}
	if v.Approval != nil {
		t.Args = argsOf(v.Approval.Args)
	}
	return t
}

// approval is the question about the call of its frame or, if Agent is set, about another call below
// it.
type approval struct {
	turn.ApprovalView
	Args json.RawMessage `json:"args,omitempty"`
}

// approvalOf includes another call's tool and arguments only if below is set.
func approvalOf(a *turn.ApprovalView, below bool) *approval {
	if a == nil {
		return nil
	}
	out := &approval{ApprovalView: *a}
	out.Expires = a.Expires.UTC().Truncate(time.Second)
	if below && a.Agent != "" {
		out.Args = argsOf(a.Args)
	} else {
		out.Agent, out.Tool = "", ""
	}
	return out
}

// fraction is the progress of something, written with four digits.
type fraction float64

func progress(f float64) fraction {
	if f > 0 && f <= 1 {
		return fraction(f)
	}
	return 0 // unknown
}

// MarshalJSON implements json.Marshaler.
func (f fraction) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(f), 'g', 4, 64), nil
}

// argsOf returns the arguments of a call as an object, or as a string if they are not one (yet).
func argsOf(args string) json.RawMessage {
	if v := jsontext.Value(args); v.Kind() == '{' && v.IsValid() {
		return json.RawMessage(v) // encode removes the model's own line breaks
	}
	if args == "" {
		return json.RawMessage("{}")
	}
	quoted, _ := jsontext.AppendQuote(nil, args)
	return quoted
}

func textOnly(blocks []message.Block) bool {
	for _, b := range blocks {
		if _, ok := b.(*message.Text); !ok {
			return false
		}
	}
	return true
}

// acceptedFrame returns the frame that reports that a message is durable.
func acceptedFrame(a turn.Accepted, re, clientID string) []byte {
	raw, _ := encode(struct { // texts and ids: cannot fail
		Type         string   `json:"type"`
		Re           string   `json:"re,omitzero"`
		Conversation id.ID    `json:"conversation_id,omitzero"`
		Interaction  id.ID    `json:"interaction_id,omitzero"`
		Message      id.ID    `json:"message_id,omitzero"`
		ClientID     string   `json:"client_message_id,omitzero"`
		Duplicate    bool     `json:"duplicate"`
		Cursor       string   `json:"cursor"`
		Hidden       []string `json:"hidden,omitempty"`
	}{"accepted", re, a.Conversation, a.Interaction, a.Message, clientID, a.Duplicate, turn.Cursor{Seq: a.Seq}.String(), a.Hidden})
	return raw
}

// errorFrame returns the frame of an error, of a client's frame or of the watch of a conversation.
func errorFrame(err error, re string, conv id.ID) []byte {
	raw, _ := encode(answer{Type: "error", Re: re, Conversation: conv}) // texts and ids: cannot fail
	return append(auth.AppendMembers(append(raw[:len(raw)-1], ','), auth.Public(err)), '}')
}

// encode writes JSON without escapes for HTML.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fault.New(fault.Internal, "answer_unwritable", "cannot write the answer: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// appendMembers appends the members of an object to one that is being written.
func appendMembers(dst []byte, v any) []byte {
	if b, err := encode(v); err == nil && len(b) > 2 && b[0] == '{' { // texts, numbers, and what was read from JSON
		dst = append(append(dst, ','), b[1:len(b)-1]...)
	}
	return dst
}

func appendText(dst []byte, name, s string) []byte {
	dst = append(append(append(dst, `,"`...), name...), `":`...)
	dst, _ = jsontext.AppendQuote(dst, s) // replaces invalid UTF-8 by U+FFFD, and reports only that
	return dst
}

func appendID(dst []byte, name string, x id.ID) []byte {
	if x.Zero() {
		return dst
	}
	dst = append(append(append(dst, `,"`...), name...), `":"`...)
	return append(x.AppendText(dst), '"')
}
