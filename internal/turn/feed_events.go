package turn

import (
	"cmp"
	"slices"
	"strings"

	"steward/internal/agent"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/requests"
)

// beginTurn records that a turn's first message is durable, and pushes the message.
func (f *Feed) beginTurn(m *message.Message, inter id.ID, seq uint64, clientID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known, f.seq, f.inter, f.failure, f.parked, f.storedNotices = true, seq, inter, nil, false, nil
	switch {
	case m == nil: // an answer is regenerated
	case isFromUser(m):
		f.push(Frame{Kind: FrameUser, Message: m.ID, Stored: m, ClientID: clientID})
	case opensTurn(m):
		f.push(Frame{Kind: FrameOpened, Message: m.ID, Stored: m})
	}
}

// Resumed records that a run continues after a restart, starting with the calls
// that have no result yet.
func (f *Feed) Resumed(inter id.ID, open []message.Call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inter, f.failure, f.parked, f.open = inter, nil, false, nil
	for _, c := range open {
		f.open = append(f.open, callView(c, CallRunning))
	}
}

// publish turns an event of the agent loop into frames.
func (f *Feed) publish(ev agent.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch ev.Kind {
	case agent.Delta:
		f.delta(ev.ID, ev.Stream)
	case agent.Stored:
		f.messageStored(ev.Message, ev.Seq)
	case agent.Calling:
		f.updateCall(ev)
	case agent.Finished:
		if ev.Message != nil {
			f.messageStored(ev.Message, ev.Seq)
			f.push(Frame{Kind: FrameComplete, Message: ev.Message.ID, Stored: ev.Message})
		}
		f.finish(ev.Err)
	}
}

// notice shows the person a text about the running turn. waiting says whether the
// turn waits for its model.
func (f *Feed) notice(text string, waiting bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fr := Frame{Kind: FrameNotice, Text: text, Waiting: waiting}
	f.notices = append(f.notices, fr)
	f.push(fr)
}

// memory shows the person what was done with facts.
func (f *Feed) memory(v *MemoryView) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.push(Frame{Kind: FrameMemory, Memory: v})
}

// watched reports whether anybody watches.
func (f *Feed) watched() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.watchers) > 0
}

// Park reports that a turn was not resumed, and why. Until the turn is resumed or
// cancelled, every new watcher gets this error, whatever its cursor has seen: the
// person's answer to it may have been lost in the next crash.
func (f *Feed) Park(inter id.ID, why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inter = inter
	f.finish(why)
	f.parked = true
}

// Unpark removes the parked error, because the turn continues or ends. It reports whether it was parked here.
func (f *Feed) Unpark() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.parked
	f.parked = false
	return was
}

func (f *Feed) isParked() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.parked
}

// fail reports that a turn could not continue and has ended.
func (f *Feed) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.finish(err)
}

// finish clears the in-flight state when a run ends, and pushes its error, if any.
// The error's cursor names the interaction, so that a returning watcher is known
// to have seen it.
func (f *Feed) finish(err error) {
	f.withdrawDraft()
	f.open, f.notices, f.planned, f.parked = nil, nil, nil, false
	if err != nil {
		f.failure = &Frame{Kind: FrameError, Err: fault.Of(err), Cursor: Cursor{Seq: f.seq, Message: f.inter}}
		f.push(*f.failure)
	}
}

// failed reports whether there is a failure that a later watcher may have to see.
func (f *Feed) failed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failure != nil
}

// Failure returns the failure of the last turn, if that turn was the given
// interaction.
func (f *Feed) Failure(inter id.ID) *fault.Error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failure == nil || f.failure.Cursor.Message != inter {
		return nil
	}
	return f.failure.Err
}

// withdrawDraft withdraws a draft that did not become a message.
func (f *Feed) withdrawDraft() {
	if f.draft != nil {
		f.push(Frame{Kind: FrameReset, Message: f.draft.message})
		f.draft = nil
	}
}

func (f *Feed) delta(msg id.ID, ev llm.Event) {
	switch ev.Kind {
	case llm.Notice:
		fr := Frame{Kind: FrameNotice, Message: msg, Text: ev.Text}
		f.notices = append(f.notices, fr)
		f.push(fr)
		return
	case llm.Reset:
		f.withdrawDraft()
		return
	case llm.TextDelta, llm.ReasoningDelta, llm.CallStart, llm.CallArgs:
	default:
		return
	}
	if f.draft == nil || f.draft.message != msg {
		f.draft = &draft{message: msg}
	}
	for len(f.draft.blocks) <= ev.Block {
		f.draft.blocks = append(f.draft.blocks, draftBlock{})
	}
	b := &f.draft.blocks[ev.Block]
	switch ev.Kind {
	case llm.CallStart:
		b.kind = llm.CallStart
		f.push(Frame{Kind: FrameCall, Message: msg, Block: ev.Block,
			Call: &CallView{ID: requests.CallID(message.Ref{Message: msg, Block: ev.Block}), Name: ev.Name, Status: callWriting}})
	case llm.TextDelta, llm.ReasoningDelta:
		b.kind = ev.Kind
		b.text = append(b.text, ev.Text...)
		f.push(textFrame(Cursor{Seq: f.seq, Message: msg, Block: ev.Block, Offset: len(b.text)}, ev.Kind, ev.Text))
	}
}

// messageStored reports that a message is durable. It first pushes the text that had not
// been streamed.
func (f *Feed) messageStored(m *message.Message, seq uint64) {
	switch m.Role {
	case message.Assistant:
		if !isUnfinished(m) { // an answer that is to be corrected is not given
			f.pushRest(m)
		}
		f.storedNotices = append(f.storedNotices, f.notices...)
		f.draft, f.notices = nil, nil
		f.seq = seq
		f.open = nil
		for _, c := range m.Calls() {
			v := callView(c, CallRunning)
			f.open = append(f.open, v)
			f.push(Frame{Kind: FrameCall, Message: m.ID, Block: c.Block, Call: &v})
		}
	case message.Tool:
		f.seq = seq
		v := resultView(m.Result(), f.callArgs(m.Result().Call))
		f.open = slices.DeleteFunc(slices.Clone(f.open), func(o CallView) bool { return o.ID == v.ID })
		f.push(Frame{Kind: FrameResult, Message: m.ID, Call: &v, Stored: m})
	case message.User:
		f.seq = seq
		if isFromUser(m) {
			f.push(Frame{Kind: FrameUser, Message: m.ID, Stored: m})
		}
		if records(m) {
			f.push(Frame{Kind: FrameMemory, Message: m.ID, Stored: m})
		}
	}
}

// pushRest pushes the text of a message that its draft lacks.
func (f *Feed) pushRest(m *message.Message) {
	if f.draft != nil && (f.draft.message != m.ID || !f.draft.isPrefixOf(m)) {
		f.withdrawDraft()
	}
	for i, b := range m.Blocks {
		kind, text := textOf(b)
		if kind == 0 {
			continue
		}
		sent := 0
		if f.draft != nil && i < len(f.draft.blocks) {
			sent = len(f.draft.blocks[i].text)
		}
		if sent < len(text) {
			f.push(textFrame(Cursor{Seq: f.seq, Message: m.ID, Block: i, Offset: len(text)}, kind, text[sent:]))
		}
	}
}

// isPrefixOf reports whether the message starts with the draft.
func (d *draft) isPrefixOf(m *message.Message) bool {
	for i, b := range d.blocks {
		if len(b.text) == 0 {
			continue
		}
		if i >= len(m.Blocks) {
			return false
		}
		if kind, text := textOf(m.Blocks[i]); kind != b.kind || !strings.HasPrefix(text, string(b.text)) {
			return false
		}
	}
	return true
}

func textOf(b message.Block) (llm.Kind, string) {
	switch b := b.(type) {
	case *message.Text:
		return llm.TextDelta, b.Text
	case *message.Reasoning:
		return llm.ReasoningDelta, b.Text
	}
	return 0, ""
}

// isFromUser reports whether a person wrote the message. Steward writes user
// messages too, for example to have a reply continued.
func isFromUser(m *message.Message) bool {
	return m.Role == message.User && len(m.Blocks) > 0 && m.Blocks[0].Base().Origin == record.OriginUser
}

// opensTurn reports whether the message opened a turn and was written by a tool,
// an agent, an intent, an alarm or a job.
func opensTurn(m *message.Message) bool {
	if m.Role != message.User || len(m.Blocks) == 0 {
		return false
	}
	from := m.Blocks[0].Base().Origin
	return strings.HasPrefix(from, "tool:") || strings.HasPrefix(from, "agent:") || strings.HasPrefix(from, "intent:") || strings.HasPrefix(from, record.OriginAlarm) ||
		strings.HasPrefix(from, record.OriginJob)
}

// updateCall updates an open call and pushes its new state, if it changed.
func (f *Feed) updateCall(ev agent.Event) {
	v := callView(ev.Call, ev.Progress.Status)
	if len(ev.Progress.Args) > 0 {
		v.Args = string(ev.Progress.Args)
	}
	v.Approval, _ = ev.Progress.Approval.(*ApprovalView)
	v.Message, v.Fraction = ev.Progress.Message, ev.Progress.Fraction
	for i := range f.open {
		if f.open[i].ID == v.ID {
			if o := &f.open[i]; o.Status == v.Status && o.Message == v.Message && o.Fraction == v.Fraction && v.Approval == nil {
				return
			}
			f.open[i] = v
		}
	}
	f.push(Frame{Kind: FrameCall, Message: ev.Call.Message, Block: ev.Call.Block, Call: &v})
}

// callArgs returns the arguments of an open call.
func (f *Feed) callArgs(ref message.Ref) string {
	for i := range f.open {
		if f.open[i].ID == requests.CallID(ref) {
			return f.open[i].Args
		}
	}
	return ""
}

// ShowTask pushes the progress of a background call, and keeps it for later watchers.
func (f *Feed) ShowTask(v TaskView, inter id.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fr := Frame{Kind: FrameTask, Interaction: inter, Task: &v}
	if i := slices.IndexFunc(f.tasks, func(x Frame) bool { return x.Task.ID == v.ID }); i >= 0 {
		if *f.tasks[i].Task == v {
			return
		}
		f.tasks[i] = fr
	} else {
		f.tasks = append(f.tasks, fr)
	}
	f.push(fr)
}

// EndTask removes a task, and pushes how it has ended, unless end is nil.
func (f *Feed) EndTask(task id.ID, end *Frame) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tasks = slices.DeleteFunc(f.tasks, func(x Frame) bool { return x.Task.ID == task })
	if end != nil {
		f.push(*end)
	}
}

// ShowPlanTask pushes the state of a task of a plan, and keeps it for later watchers.
func (f *Feed) ShowPlanTask(fr Frame) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, known := slices.BinarySearchFunc(f.planned, fr, func(a, b Frame) int {
		return cmp.Or(cmp.Compare(a.Planned.Call, b.Planned.Call), cmp.Compare(a.Planned.Order, b.Planned.Order))
	})
	if !known {
		f.planned = slices.Insert(f.planned, i, fr)
	}
	f.planned[i] = fr
	f.push(fr)
}
