package websocket_test

import (
	"context"
	"encoding/binary"
	"iter"
	"strings"
	"sync"
	"time"

	api "steward/client"
	"steward/internal/effect"
	"steward/internal/events"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/store"
	"steward/internal/turn"
	"steward/test/served"
)

// double stands in for the runtime. It stores what was sent, replays it to watchers
// from any cursor, and answers by a script. Ids and log positions count up from
// one.
type double struct {
	reply   func(d *double, t accepted) // sends the frames of a turn; runs in its own goroutine
	hold    chan struct{}               // when set, Send takes one token before it accepts
	fail    error                       // when set, every call fails with it
	changes *served.Events

	mu       sync.Mutex
	changed  chan struct{} // closed when something is added
	talks    map[id.ID]*script
	ids      uint64
	seq      uint64
	sending  int // Sends that wait for hold
	turns    []turn.Input
	verdicts []effect.Decision
	stops    []id.ID
	running  sync.WaitGroup
}

type script struct {
	owner  string
	frames []turn.Frame
	sent   map[string]turn.Accepted // by client id
}

// accepted is a turn that was accepted.
type accepted struct {
	turn.Input
	turn.Accepted
	ctx context.Context
}

func newDouble(reply func(*double, accepted)) *double {
	return &double{reply: reply, changed: make(chan struct{}), talks: map[id.ID]*script{}}
}

func number(n uint64) (x id.ID) {
	x[6], x[8] = 0x70, 0x80
	binary.BigEndian.PutUint16(x[14:], uint16(n))
	return x
}

func (d *double) newID() id.ID {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ids++
	return number(d.ids)
}

// last returns the last accepted turn.
func (d *double) last() turn.Input {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.turns[len(d.turns)-1]
}

func absent(conv id.ID) error {
	return fault.New(fault.NotFound, "conversation_not_found", "there is no conversation %s", conv)
}

func (d *double) Send(ctx context.Context, user string, t turn.Input) (turn.Accepted, error) {
	if d.fail != nil {
		return turn.Accepted{}, d.fail
	}
	if d.hold != nil {
		d.mu.Lock()
		d.sending++
		d.mu.Unlock()
		defer func() {
			d.mu.Lock()
			d.sending--
			d.mu.Unlock()
		}()
		if !t.Steer {
			select {
			case <-d.hold:
			case <-ctx.Done():
				return turn.Accepted{}, ctx.Err()
			}
		}
	}
	d.mu.Lock()
	if t.Conversation.Zero() {
		d.ids++
		t.Conversation = number(d.ids)
		d.talks[t.Conversation] = &script{owner: user, sent: map[string]turn.Accepted{}}
	}
	s := d.talks[t.Conversation]
	if s == nil || s.owner != user {
		d.mu.Unlock()
		return turn.Accepted{}, absent(t.Conversation)
	}
	if acc, ok := s.sent[t.ClientID]; ok && t.ClientID != "" {
		d.mu.Unlock()
		acc.Duplicate = true
		return acc, nil
	}
	d.seq++
	d.ids += 2
	acc := turn.Accepted{Conversation: t.Conversation, Interaction: number(d.ids - 1), Message: number(d.ids), Seq: d.seq}
	if !t.Regenerate.Zero() {
		acc.Interaction, acc.Message = t.Opens, id.ID{}
	}
	s.sent[t.ClientID] = acc
	d.turns = append(d.turns, t)
	if m := (&message.Message{ID: acc.Message, Role: message.User, Blocks: t.Content}); !m.ID.Zero() {
		s.frames = append(s.frames, turn.Frame{Kind: turn.FrameUser, Conversation: t.Conversation, Interaction: acc.Interaction,
			Message: acc.Message, Stored: m, ClientID: t.ClientID, Cursor: turn.Cursor{Seq: acc.Seq}})
	}
	d.wake()
	d.mu.Unlock()
	if d.reply != nil {
		d.running.Go(func() { d.reply(d, accepted{t, acc, ctx}) })
	}
	return acc, nil
}

// wake wakes the watchers. The caller holds d.mu.
func (d *double) wake() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// tell adds a frame of a turn. If stored is set, the frame belongs to a durable
// message and takes a log position.
func (d *double) tell(t accepted, stored bool, f turn.Frame) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if stored {
		d.seq++
	}
	f.Conversation, f.Interaction, f.Cursor.Seq = t.Accepted.Conversation, t.Interaction, d.seq
	s := d.talks[f.Conversation]
	s.frames = append(s.frames, f)
	d.wake()
}

// text adds a piece of text that ends at the offset.
func (d *double) text(t accepted, msg id.ID, kind turn.FrameKind, block int, text string, end int) {
	d.tell(t, false, turn.Frame{Kind: kind, Message: msg, Block: block, Text: text,
		Cursor: turn.Cursor{Message: msg, Block: block, Offset: end}})
}

func (d *double) complete(t accepted, msg id.ID, text string, stop message.Stop) {
	d.tell(t, true, turn.Frame{Kind: turn.FrameComplete, Message: msg, Stored: &message.Message{
		ID: msg, Role: message.Assistant, Final: true, Blocks: []message.Block{&message.Text{Text: text}},
		Model: "offline/steward", Stop: stop, Usage: message.Usage{Input: 30, Output: 12}, Approach: "direct", Took: 42 * time.Millisecond}})
}

func (d *double) find(user string, conv id.ID) (*script, error) {
	if d.fail != nil {
		return nil, d.fail
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.talks[conv]; s != nil && s.owner == user {
		return s, nil
	}
	return nil, absent(conv)
}

func (d *double) Watch(ctx context.Context, user string, conv id.ID, from turn.Cursor) iter.Seq2[turn.Frame, error] {
	return func(yield func(turn.Frame, error) bool) {
		s, err := d.find(user, conv)
		if err != nil {
			yield(turn.Frame{}, err)
			return
		}
		d.mu.Lock()
		at := 0
		for i, f := range s.frames {
			if f.Cursor == from { // frames with the same cursor follow it
				at = i + 1
				break
			}
			if f.Cursor.Seq < from.Seq {
				at = i + 1
			}
		}
		d.mu.Unlock()
		for {
			d.mu.Lock()
			frames, changed := s.frames[at:], d.changed
			d.mu.Unlock()
			for _, f := range frames {
				at++
				if !yield(f, nil) {
					return
				}
			}
			if d.failed() != nil {
				yield(turn.Frame{}, d.failed())
				return
			}
			if len(frames) > 0 {
				continue
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}
}

func (d *double) failed() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fail
}

// breakDown makes everything fail from now on.
func (d *double) breakDown(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = err
	d.wake()
}

func (d *double) Position(_ context.Context, user string, conv id.ID) (turn.Cursor, error) {
	s, err := d.find(user, conv)
	if err != nil {
		return turn.Cursor{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return s.frames[len(s.frames)-1].Cursor, nil
}

func (d *double) Stop(_ context.Context, user string, conv id.ID) error {
	if _, err := d.find(user, conv); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stops = append(d.stops, conv)
	d.wake()
	return nil
}

func (d *double) Decide(_ context.Context, _ store.Scope, v effect.Decision) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.verdicts) > 0 {
		return fault.New(fault.Conflict, "approval_settled", "this has been decided")
	}
	d.verdicts = append(d.verdicts, v)
	d.wake()
	return nil
}

func (d *double) Observe(ctx context.Context, user string, f events.ChangeFilter, from events.Cursor) iter.Seq2[events.Batch, error] {
	return d.changes.Observe(ctx, user, f, from)
}

var (
	counting = api.Request{ID: number(17).String(), Kind: record.RequestTask, Agent: "assistant", Tool: "archive.count", Call: number(16).String() + "/0",
		Conversation: number(1).String(), Interaction: number(15).String(), State: record.RequestOpen, Status: record.TaskRunning, Progress: 0.5,
		Started: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}
	asking = api.Request{ID: number(15).String(), Kind: record.RequestTurn, Title: "How many words has the archive?", Origin: "user", Agent: "assistant",
		Conversation: number(1).String(), Interaction: number(15).String(), State: record.RequestAnswered, Outcome: "answered",
		Started: time.Date(2030, 1, 2, 3, 4, 4, 0, time.UTC), Ended: time.Date(2030, 1, 2, 3, 4, 6, 0, time.UTC),
		Usage: api.Usage{Input: 60, Output: 24}, Below: []api.Request{counting}}
)

func (d *double) Requests(context.Context, string, bool, int) ([]api.Request, error) {
	return []api.Request{counting}, d.failed()
}

func (d *double) RequestTree(_ context.Context, _, which string) (api.Request, error) {
	if !strings.HasPrefix(asking.ID, which) {
		return api.Request{}, fault.New(fault.NotFound, "request_not_found", "there is no request %q", which)
	}
	return asking, nil
}

func (d *double) ResumeRequest(ctx context.Context, user, which string) error {
	return d.CancelRequest(ctx, user, which)
}

func (d *double) CancelRequest(_ context.Context, _, which string) error {
	if counting.ID != which {
		return fault.New(fault.NotFound, "request_not_found", "there is no request %q", which)
	}
	return nil
}

// until waits until a condition holds.
func (d *double) until(what func() bool) {
	for {
		d.mu.Lock()
		ok, changed := what(), d.changed
		d.mu.Unlock()
		if ok {
			return
		}
		<-changed
	}
}

// documented answers as docs/reference/websocket.md shows.
func documented(d *double, t accepted) {
	switch said := t.Content[0].(*message.Text).Text; {
	case strings.Contains(said, "12 times 12"):
		msg := d.newID()
		call := turn.CallView{ID: msg.String() + "/1", Name: "math.multiply", Status: "writing"}
		d.text(t, msg, turn.FrameReasoning, 0, "That is a multiplication.", 25)
		d.tell(t, false, turn.Frame{Kind: turn.FrameCall, Message: msg, Block: 1, Call: &call, Cursor: turn.Cursor{Message: msg, Block: 1}})
		running := call
		running.Status, running.Args, running.Summary = "running", "{\"a\": 12,\n \"b\": 12}", "Multiply 12 by 12"
		d.tell(t, true, turn.Frame{Kind: turn.FrameCall, Message: msg, Block: 1, Call: &running})
		result := running
		result.Status, result.Summary, result.Result = "ok", "", &message.ToolResult{Content: []message.Block{&message.Text{Text: "144"}}}
		d.tell(t, true, turn.Frame{Kind: turn.FrameResult, Message: d.newID(), Call: &result})
		msg = d.newID()
		d.text(t, msg, turn.FrameToken, 0, "It is ", 6)
		d.text(t, msg, turn.FrameToken, 0, "144.", 10)
		d.complete(t, msg, "It is 144.", message.StopEnd)
	case strings.Contains(said, "What is this"):
		msg := d.newID()
		d.tell(t, false, turn.Frame{Kind: turn.FrameNotice, Message: msg, Text: "offline/steward sees no images"})
		d.text(t, msg, turn.FrameToken, 0, "A pic", 5)
		d.tell(t, false, turn.Frame{Kind: turn.FrameReset, Message: msg})
		d.tell(t, false, turn.Frame{Kind: turn.FrameError, Err: fault.New(fault.Unavailable, "stream_broken", "the model broke off").
			WithHint("send the message again").Retrying(fault.RetryBackoff, 0)})
	case strings.Contains(said, "archive"):
		msg := d.newID()
		call := turn.CallView{ID: msg.String() + "/0", Name: "archive.count", Args: "{}", Status: "running"}
		d.tell(t, true, turn.Frame{Kind: turn.FrameCall, Message: msg, Call: &call})
		task := turn.TaskView{ID: d.newID(), Call: call.ID, Tool: call.Name, Status: record.TaskAcknowledged}
		d.tell(t, false, turn.Frame{Kind: turn.FrameTask, Task: &task})
		result := call
		result.Status, result.Result = "accepted", &message.ToolResult{Content: []message.Block{&message.Text{Text: "Acknowledged: …"}}}
		d.tell(t, true, turn.Frame{Kind: turn.FrameResult, Message: d.newID(), Call: &result})
		d.complete(t, d.newID(), "It is under way.", message.StopEnd)
		half, end := task, task
		half.Status, half.Message, half.Fraction = record.TaskRunning, "page 200 of 400", 0.5
		d.tell(t, false, turn.Frame{Kind: turn.FrameTask, Task: &half})
		end.Status, end.Message, end.Fraction = record.TaskCompleted, "81,204 words", 1
		d.tell(t, false, turn.Frame{Kind: turn.FrameTask, Task: &end})
		t.Interaction = d.newID()
		m := &message.Message{ID: d.newID(), Role: message.User, Blocks: []message.Block{&message.Text{
			Common: message.Common{Origin: "tool:archive.count"}, Text: "archive.count has ended: it was done. …"}}}
		d.tell(t, true, turn.Frame{Kind: turn.FrameOpened, Message: m.ID, Stored: m})
		d.complete(t, d.newID(), "The archive has 81,204 words.", message.StopEnd)
	case strings.Contains(said, "trip"):
		msg := d.newID()
		call := turn.CallView{ID: msg.String() + "/0", Name: "plan.start", Args: `{"plan":"look, then note"}`, Status: "running"}
		d.tell(t, true, turn.Frame{Kind: turn.FrameCall, Message: msg, Call: &call})
		one := turn.PlannedView{Call: call.ID, Order: 1, Task: api.Request{ID: d.newID().String(), Kind: "plan_task", Title: "weather", Agent: "designed",
			State: record.RequestOpen, Status: "running", Started: time.Date(2030, 1, 2, 3, 4, 4, 0, time.UTC)}}
		two := turn.PlannedView{Call: call.ID, Order: 2, Task: api.Request{ID: d.newID().String(), Kind: "plan_task", Title: "calendar", Agent: "designed",
			State: record.RequestOpen, Status: "pending"}}
		d.tell(t, false, turn.Frame{Kind: turn.FramePlanned, Planned: &one})
		d.tell(t, false, turn.Frame{Kind: turn.FramePlanned, Planned: &two})
		done, asks := one, two
		done.Task.State, done.Task.Status, done.Task.Outcome, done.Task.Ended = "closed", "done", "answered", time.Date(2030, 1, 2, 3, 4, 6, 0, time.UTC)
		done.Task.Usage, done.Task.Cost = api.Usage{Input: 30, Output: 12}, 0.0012
		asks.Approval, asks.Task.Status, asks.Task.Started = "cld:effect.Intent.2", "awaiting_approval", done.Task.Ended
		d.tell(t, false, turn.Frame{Kind: turn.FramePlanned, Planned: &done})
		d.tell(t, false, turn.Frame{Kind: turn.FramePlanned, Planned: &asks})
		d.complete(t, d.newID(), "It is not done yet.", message.StopEnd)
	case strings.Contains(said, "note"):
		msg := d.newID()
		call := turn.CallView{ID: msg.String() + "/0", Name: "files.write", Args: `{"path":"note.txt","text":"hello"}`, Status: "awaiting_approval",
			Approval: &turn.ApprovalView{ID: "cld:effect.Intent.1", Hash: "9f86d081", Summary: "Write note.txt, 1 line", Why: "It changes a file.", Reason: "files.write changes something",
				Expires: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}}
		d.tell(t, true, turn.Frame{Kind: turn.FrameCall, Message: msg, Call: &call})
		d.until(func() bool { return len(d.verdicts) > 0 })
		running := call
		running.Status, running.Approval = "running", nil
		d.tell(t, false, turn.Frame{Kind: turn.FrameCall, Message: msg, Call: &running})
		result := running
		result.Status, result.Result = "ok", &message.ToolResult{Content: []message.Block{&message.Text{Text: "written"}}}
		d.tell(t, true, turn.Frame{Kind: turn.FrameResult, Message: d.newID(), Call: &result})
		d.complete(t, d.newID(), "Done.", message.StopEnd)
	}
}
