package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"steward/client"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/runtime"
	"steward/internal/settings"
	"steward/internal/store/sqlite"
	"steward/internal/tool"
)

// notice is what a Steward that serves leaves in its data folder, so that
// commands find it.
type notice struct {
	URL     string `json:"url"`
	PID     int    `json:"pid"`
	Version string `json:"version"`
}

func noticeFile(data string) string { return filepath.Join(data, "server.json") }

func readNotice(data string) (notice, error) {
	var n notice
	b, err := os.ReadFile(noticeFile(data))
	if err != nil {
		return n, err
	}
	if err := json.Unmarshal(b, &n); err != nil || n.URL == "" {
		return n, fmt.Errorf("%s is damaged", noticeFile(data))
	}
	return n, nil
}

// remote is the Steward that serves the data folder, for a chat. What was said
// it reads from the folder; all else goes over the wire.
type remote struct {
	*session
	shelf
	store *sqlite.Store // for reading
}

var _ backend = (*remote)(nil)

// joinChat joins the Steward that has the data folder in use.
func (a *app) joinChat(set *settings.Loaded, log *slog.Logger) (*remote, error) {
	s, err := a.join(set)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	st, err := sqlite.Open(ctx, sqlite.Options{Path: database(set.Data), ReadOnly: true, Log: log})
	if err != nil {
		return nil, err
	}
	return &remote{session: s, shelf: a.shelf(st), store: st}, nil
}

func (r *remote) api() *session { return r.session }

// Close ends the connections.
func (r *remote) Close() error { return errors.Join(r.end(), r.store.Close()) }

// frame is a frame of the WebSocket server, in either direction, or the body of
// an error; docs/reference/websocket.md describes the members.
type frame struct {
	Type         string          `json:"type"`
	ID           string          `json:"id"`
	Conversation string          `json:"conversation_id"`
	Interaction  string          `json:"interaction_id"`
	Message      string          `json:"message_id"`
	Client       string          `json:"client_message_id"`
	Duplicate    bool            `json:"duplicate"`
	Hidden       []string        `json:"hidden"`
	Cursor       string          `json:"cursor"`
	Block        int             `json:"block"`
	Text         string          `json:"text"`
	Name         string          `json:"name"`
	Args         json.RawMessage `json:"args"`
	Status       string          `json:"status"`
	Result       string          `json:"result"`
	Rest         string          `json:"rest"`
	Denied       []string        `json:"denied"`
	Content      json.RawMessage `json:"content"`
	Approval     *wireApproval   `json:"approval"`
	Model        string          `json:"model"`
	Stop         message.Stop    `json:"stop"`
	Approach     string          `json:"approach"`
	Duration     int64           `json:"duration_ms"`
	Usage        message.Usage   `json:"usage"`
	Citations    []message.Citation
	Call         string  `json:"call_id"`
	Tool         string  `json:"tool"`
	Progress     float64 `json:"progress"`
	Origin       string  `json:"origin"`
	errorFrame
}

// errorFrame are the members of a frame that tells an error. Its message is
// that of other frames too.
type errorFrame struct {
	Code    string         `json:"code"`
	Say     string         `json:"message"`
	Kind    fault.Kind     `json:"kind"`
	Remedy  string         `json:"remedy"`
	Retry   fault.Retry    `json:"retry"`
	After   int64          `json:"retry_after_ms"`
	Details map[string]any `json:"details"`
}

func (e errorFrame) fault() *fault.Error {
	return &fault.Error{Kind: e.Kind, Code: e.Code, Message: e.Say, Remedy: e.Remedy, Retry: e.Retry,
		After: time.Duration(e.After) * time.Millisecond, Details: e.Details}
}

// ask sends one frame over a connection of its own and waits for its answer.
func (r *remote) ask(ctx context.Context, v any) (frame, error) {
	c, err := r.Dial(ctx)
	if err != nil {
		return frame{}, err
	}
	defer c.Close()
	if err := c.Send(ctx, v); err != nil {
		return frame{}, err
	}
	for {
		var f frame
		switch err := c.Receive(ctx, &f); {
		case err != nil:
			return f, err
		case f.Type == "error":
			return f, f.fault()
		case f.Type == "accepted", f.Type == "ok":
			return f, nil // how the connection ends is of no interest any more
		}
	}
}

// Send implements terminal.Node.
func (r *remote) Send(ctx context.Context, t runtime.Turn) (runtime.Accepted, error) {
	out := map[string]any{"type": "message", "id": "1"}
	if t.Regenerate.Zero() {
		out["content"] = json.RawMessage(message.AppendBlocks(nil, t.Content))
	}
	for name, value := range map[string]string{"message_id": t.ClientID, "model": t.Model, "agent": t.Agent, "conversation_id": t.Conversation.String(),
		"replace": t.Replace.String(), "regenerate": t.Regenerate.String()} {
		if value != "" {
			out[name] = value
		}
	}
	if t.Steer {
		out["steer"] = true
	}
	f, err := r.ask(ctx, out)
	if err != nil {
		return runtime.Accepted{}, err
	}
	at, err := runtime.ParseCursor(f.Cursor)
	return runtime.Accepted{Conversation: parseID(f.Conversation), Interaction: parseID(f.Interaction),
		Message: parseID(f.Message), Seq: at.Seq, Duplicate: f.Duplicate, Hidden: f.Hidden}, err
}

// Stop implements terminal.Node.
func (r *remote) Stop(ctx context.Context, conv id.ID) error {
	_, err := r.ask(ctx, map[string]any{"type": "stop", "id": "1", "conversation_id": conv.String()})
	return err
}

// Position implements terminal.Node.
func (r *remote) Position(ctx context.Context, conv id.ID) (runtime.Cursor, error) {
	if _, err := r.Conversation(ctx, conv); err != nil {
		return runtime.Cursor{}, err
	}
	page, _, err := r.engine.Messages(ctx, r.scope(), conv, "", 1, true)
	if err != nil || len(page) == 0 {
		return runtime.Cursor{}, err
	}
	return runtime.Cursor{Seq: page[0].Seq}, nil
}

// Watch implements terminal.Node. A connection that breaks is made again and
// goes on where it was; it gives up after a few attempts in a row.
func (r *remote) Watch(ctx context.Context, conv id.ID, from runtime.Cursor) iter.Seq2[runtime.Frame, error] {
	return func(yield func(runtime.Frame, error) bool) {
		const most = 10
		for failed := 0; ctx.Err() == nil; {
			before := from
			err := r.watch(ctx, conv, &from, yield)
			switch {
			case errors.Is(err, errLeft) || ctx.Err() != nil:
				return
			case from != before:
				failed = 0
			}
			if failed++; failed > most || fault.Of(err).Code != "server_unreachable" {
				yield(runtime.Frame{}, err)
				return
			}
			select {
			case <-time.After(min(time.Second, 50*time.Millisecond<<failed)):
			case <-ctx.Done():
			}
		}
	}
}

// errLeft says that the consumer of a watch broke its loop off.
var errLeft = errors.New("left")

// watch watches over one connection until it breaks.
func (r *remote) watch(ctx context.Context, conv id.ID, at *runtime.Cursor, yield func(runtime.Frame, error) bool) error {
	c, err := r.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	hello := map[string]any{"type": "resume", "id": "1", "conversation_id": conv.String()}
	if *at != (runtime.Cursor{}) {
		hello["cursor"] = at.String()
	}
	if err := c.Send(ctx, hello); err != nil {
		return err
	}
	for {
		var f frame
		switch err := c.Receive(ctx, &f); {
		case err != nil:
			return err
		case f.Type == "error" && f.Cursor == "":
			return f.fault() // of the connection, not of a turn
		case f.Type == "ok", f.Type == "accepted", f.Type == "pong", f.Type == "agents_waiting":
			continue
		}
		out, err := f.decode()
		if err != nil {
			return err
		}
		*at = out.Cursor
		if !yield(out, nil) {
			return errLeft
		}
	}
}

func parseID(s string) id.ID {
	x, _ := id.Parse(s) // the zero id where there is none
	return x
}

// decode turns a frame of the wire into one of the runtime.
func (f *frame) decode() (runtime.Frame, error) {
	at, err := runtime.ParseCursor(f.Cursor)
	out := runtime.Frame{Kind: runtime.FrameKind(f.Type), Cursor: at, Block: f.Block, Text: f.Text, ClientID: f.Client,
		Conversation: parseID(f.Conversation), Interaction: parseID(f.Interaction), Message: parseID(f.Message)}
	switch out.Kind {
	case runtime.FrameUser:
		out.Stored = &message.Message{ID: out.Message, Role: message.User, Blocks: blocks(f.Content)}
	case runtime.FrameComplete:
		out.Stored = &message.Message{ID: out.Message, Role: message.Assistant, Final: true, Model: f.Model, Stop: f.Stop,
			Usage: f.Usage, Approach: f.Approach, Took: time.Duration(f.Duration) * time.Millisecond, Blocks: blocks(f.Content)}
		for _, b := range out.Stored.Blocks {
			if t, ok := b.(*message.Text); ok {
				t.Citations = f.Citations
			}
		}
	case runtime.FrameCall, runtime.FrameResult:
		out.Call = f.call()
	case runtime.FrameTask:
		out.Task = f.task()
	case runtime.FrameOpened:
		out.Stored = f.opened()
	case runtime.FrameError:
		out.Err = f.fault()
	}
	return out, err
}

func (f *frame) call() *runtime.CallView {
	v := &runtime.CallView{ID: f.ID, Name: f.Name, Args: argsText(f.Args), Status: f.Status, Message: f.Say, Fraction: f.Progress}
	if a := f.Approval; a != nil {
		v.Approval = a.view()
	}
	if f.Type == string(runtime.FrameResult) {
		v.Result = &message.ToolResult{Name: f.Name, Status: message.Status(f.Status), Rest: f.Rest, Denied: f.Denied,
			Content: []message.Block{&message.Text{Text: f.Result}}}
	}
	return v
}

// argsText reads arguments: an object, or a text where the model wrote none.
func argsText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// blocks reads content: a text, or blocks of which the kind is enough.
func blocks(raw json.RawMessage) []message.Block {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []message.Block{&message.Text{Text: text}}
	}
	var list []struct{ Type, Text, Name string }
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	var out []message.Block
	for _, b := range list {
		switch b.Type {
		case "text":
			out = append(out, &message.Text{Text: b.Text})
		case "image":
			out = append(out, &message.Image{})
		case "file":
			out = append(out, &message.File{Name: b.Name})
		}
	}
	return out
}

// Rename implements terminal.Shelf.
func (r *remote) Rename(ctx context.Context, conv id.ID, title string) (record.Conversation, error) {
	if err := r.Call(ctx, "PATCH /conversations/{id}", client.Params{"id": conv.String()}, map[string]string{"title": title}, nil); err != nil {
		return record.Conversation{}, err
	}
	return r.Conversation(ctx, conv)
}

// task reads how far a task is.
func (f *frame) task() *runtime.TaskView {
	v := &runtime.TaskView{ID: parseID(f.ID), Call: f.Call, Tool: f.Tool, Status: f.Status, Message: f.Say, Fraction: f.Progress}
	if a := f.Approval; a != nil {
		v.Approval = a.view()
		v.Approval.Tool, v.Approval.Args = f.Tool, string(f.Args)
	}
	return v
}

// opened reads what a turn was opened with by a tool or an agent.
func (f *frame) opened() *message.Message {
	m := &message.Message{ID: parseID(f.Message), Role: message.User, Blocks: blocks(f.Content)}
	for _, b := range m.Blocks {
		b.Base().Origin = f.Origin
	}
	return m
}

// wireApproval is a question as a frame tells it.
type wireApproval struct {
	ID        string          `json:"id"`
	Hash      string          `json:"hash"`
	Reason    string          `json:"reason"`
	Expires   time.Time       `json:"expires"`
	Rule      string          `json:"rule"`
	Labels    []string        `json:"labels"`
	Read      []string        `json:"read"`
	Approvers string          `json:"approvers"`
	Foreign   bool            `json:"foreign"`
	Pattern   intent.Pattern  `json:"pattern"`
	NoGrant   string          `json:"no_grant"`
	Arguments []tool.Argument `json:"arguments"`

	Agent string          `json:"agent"`
	Tool  string          `json:"tool"`
	Args  json.RawMessage `json:"args"`
}

func (a *wireApproval) view() *runtime.ApprovalView {
	return &runtime.ApprovalView{ID: a.ID, Hash: a.Hash, Reason: a.Reason, Expires: a.Expires, Rule: a.Rule,
		Labels: a.Labels, Read: a.Read, Approvers: a.Approvers, Foreign: a.Foreign, Pattern: a.Pattern, NoGrant: a.NoGrant, Arguments: a.Arguments,
		Agent: a.Agent, Tool: a.Tool, Args: argsText(a.Args)}
}

// Decide implements terminal.Node.
func (r *remote) Decide(ctx context.Context, _ id.ID, v runtime.Verdict) error {
	return r.decide(ctx, v)
}

// Question implements terminal.Node.
func (r *remote) Question(ctx context.Context, which string, p intent.Pattern) (effect.Question, error) {
	return r.question(ctx, which, p)
}
