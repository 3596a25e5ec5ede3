package page

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/turn"
)

// flushEvery is how often a growing text is shown again. A long one is shown less often, since all of it is read each
// time: a stream takes at most a tenth of a processor.
const flushEvery = 70 * time.Millisecond

// wait is how long a flush waits.
func (t *follower) wait() time.Duration { return min(max(flushEvery, 10*t.cost), 10*time.Second) }

// follower turns what happens in a conversation into patches.
type follower struct {
	*visit
	tell func(event []byte) error
	// tellText tells what has changed of the texts that are being written. whole has all of them.
	tellText func(event []byte, whole func() []byte) error

	conv   id.ID
	seq    uint64 // of the last frame: a stream that begins again begins here
	texts  map[string]*growing
	order  []string // of texts
	opened map[id.ID]bool
	due    bool                 // a flush is due
	cost   time.Duration        // of the last flush
	began  map[string]time.Time // of the calls that run, by their id
	branch string               // that the page shows
	rests  bool                 // the last answer is complete
}

// branched tells the page to load again if the conversation goes on in another branch: a message was edited, or an
// answer asked for again, on another page.
func (t *follower) branched() error {
	_, now, err := t.Node.Branches(t.ctx(), t.caller.User, t.conv)
	if err != nil || now == t.branch {
		return err
	}
	t.branch = now
	return t.tell(event("", "branched", []byte("{}")))
}

func newFollower(v *visit, conv id.ID) *follower {
	return &follower{visit: v, conv: conv, texts: map[string]*growing{}, opened: map[id.ID]bool{}, began: map[string]time.Time{}}
}

// growing is a text that is being written.
type growing struct {
	message   id.ID
	block     int
	reasoning bool
	text      []byte
	shown     []string // the blocks that the page has
	fresh     bool     // it has grown since
}

// take takes a frame. It reports whether something waits for a flush that is not planned yet.
func (t *follower) take(f *turn.Frame) (soon bool, err error) {
	if f.Kind == turn.FrameToken || f.Kind == turn.FrameReasoning {
		t.seq = f.Cursor.Seq
		t.grow(f)
		soon, t.due = !t.due, true
		return soon, nil
	}
	// The text goes out with the position before this frame: a page that closes between the two must see the frame.
	if err := t.flush(); err != nil {
		return false, err
	}
	t.seq = f.Cursor.Seq
	return false, t.show(f)
}

func (t *follower) grow(f *turn.Frame) {
	at := blockID(f.Message, f.Block)
	x := t.texts[at]
	if x == nil {
		x = &growing{message: f.Message, block: f.Block, reasoning: f.Kind == turn.FrameReasoning}
		t.texts[at] = x
		t.order = append(t.order, at)
	}
	x.text, x.fresh = append(x.text, f.Text...), true
}

// flush sends what has changed of the texts.
func (t *follower) flush() error {
	t.due = false
	defer func(began time.Time) { t.cost = time.Since(began) }(time.Now())
	var out, opened []patch
	for _, at := range t.order {
		x := t.texts[at]
		if !x.fresh {
			continue
		}
		x.fresh = false
		article := t.open(x.message)
		out, opened = append(out, article...), append(opened, article...)
		if x.reasoning {
			out = append(out, t.whole(at))
			continue
		}
		blocks := t.markdown.blocks(string(x.text))
		if x.shown == nil {
			x.shown = blocks
			out = append(out, t.whole(at))
		} else {
			for i, b := range blocks {
				if i >= len(x.shown) || x.shown[i] != b {
					out = append(out, put(partID(at, i), at, part(at, i, b)))
				}
			}
			for i := len(blocks); i < len(x.shown); i++ {
				out = append(out, patch{ID: partID(at, i)})
			}
		}
		x.shown = blocks
	}
	if len(out) == 0 {
		return nil
	}
	busy := t.busy(true)
	return t.tellText(patchEvent(t.position(), append(out, busy)), func() []byte {
		all := opened // the other articles were there when the page joined, or were told since
		for _, at := range t.order {
			all = append(all, t.whole(at))
		}
		return patchEvent(t.position(), append(all, busy))
	})
}

// whole shows all of a text.
func (t *follower) whole(at string) patch {
	x := t.texts[at]
	if x.reasoning {
		return put(at, bodyID(x.message), t.reasoning(x.message, x.block, string(x.text)))
	}
	return put(at, bodyID(x.message), Div(ID(at), Class("text"), g.Group(parts(at, x.shown))))
}

// send sends patches with the position that the stream has reached.
func (t *follower) send(list []patch) error { return t.tell(patchEvent(t.position(), list)) }

func (t *follower) position() string { return strconv.FormatUint(t.seq, 10) }

// open makes the article of an answer that is being written, once.
func (t *follower) open(m id.ID) []patch {
	if t.opened[m] {
		return nil
	}
	t.opened[m] = true
	if err := t.branched(); err != nil {
		t.Logger.Debug("the branch of a conversation is unknown", "error", err)
	}
	return []patch{put(articleID(m), threadID, t.answer(m, nil))}
}

func (t *follower) forget(m id.ID) {
	delete(t.opened, m)
	kept := t.order[:0]
	for _, at := range t.order {
		if t.texts[at].message == m {
			delete(t.texts, at)
		} else {
			kept = append(kept, at)
		}
	}
	t.order = kept
}

// show shows a frame that is not text.
func (t *follower) show(f *turn.Frame) error {
	switch f.Kind {
	case turn.FrameUser, turn.FrameOpened:
		if err := t.branched(); err != nil {
			return err
		}
		if n := t.said(f.Stored, t.foot(f.Stored, t.versions(f.Stored))); n != nil {
			var out []patch
			if t.rests { // the plan of an earlier answer does not belong below this message
				out, t.rests = []patch{put("plan", "", Div(ID("plan")))}, false
			}
			return t.send(append(out, []patch{{ID: "welcome"}, put(articleID(f.Message), threadID, n), t.busy(true), {ID: "failure"}}...))
		}
	case turn.FrameCall:
		out := t.open(f.Message)
		c, err := t.liveCall(f.Call)
		if err != nil {
			return err
		}
		if _, seen := t.began[c.id]; !seen {
			t.began[c.id] = time.Now()
		}
		return t.send(append(out, put(cardID(f.Call.ID), bodyID(f.Message), t.card(c)), t.busy(true)))
	case turn.FrameResult:
		c, err := t.liveCall(f.Call)
		if err != nil {
			return err
		}
		if began, seen := t.began[c.id]; seen && f.Stored != nil {
			c.took = f.Stored.At.Sub(began)
			delete(t.began, c.id)
		}
		return t.send([]patch{put(cardID(f.Call.ID), threadID, t.card(c))})
	case turn.FrameComplete:
		t.rests = true
		t.forget(f.Message)
		return t.send([]patch{put(articleID(f.Message), threadID, t.article(f.Stored, nil, t.foot(f.Stored, t.versions(f.Stored)))), t.busy(false), {ID: "notice"}})
	case turn.FrameReset:
		t.forget(f.Message)
		return t.send([]patch{{ID: articleID(f.Message)}})
	case turn.FrameError:
		return t.send([]patch{put("failure", "end", t.failure(f.Err)), t.busy(false), {ID: "notice"}})
	case turn.FrameNotice:
		return t.send([]patch{put("notice", "end", Div(ID("notice"), Class("notice"), ownText(f.Text)))})
	case turn.FrameMemory:
		return t.send(t.memoryFrame(f))
	case turn.FrameTask:
		return t.send(t.task(f.Task))
	case turn.FramePlanned:
		link := A(ID("plan-link"), Href("/plans/"+record.IDOf(f.Planned.At, record.TypeInteraction).String()), g.Text(t.t("Open the plan")))
		return t.send([]patch{put("plan-link", "plan", link), put(nodeID(&f.Planned.Task), "plan", t.plannedTask(&f.Planned.Task))})
	}
	return nil
}

// endedFrom is how long before a stream began ends are told again.
const endedFrom = 2 * time.Minute

// endedBefore tells a page about calls that worked beside the conversation and ended after the page was made and
// before it was followed. Their ends are not in the log of the conversation.
func (t *follower) endedBefore() error {
	intents, err := t.intentsByCall(client.IntentQuery{Conversation: t.conv.String()})
	if err != nil {
		return err
	}
	var out []patch
	recent := map[string]bool{} // the interactions of the calls
	for call, x := range intents {
		if x.State != string(intent.Done) || time.Since(x.Changed) > endedFrom {
			continue
		}
		msg, _, _ := strings.Cut(call, "/")
		if e, err := t.find(t.conv.String(), msg); err == nil {
			recent[e.Interaction.String()] = true
		}
		out = append(out, put(stateID(call), "", Span(ID(stateID(call)), Class("state good"), g.Text(t.t("done")))))
	}
	if len(recent) == 0 {
		return nil
	}
	m, err := t.api().ConversationMemory(t.ctx(), t.conv.String())
	if err != nil {
		return err
	}
	for i := range m.Saved {
		if at, err := resource.Parse(m.Saved[i].Source); err == nil && recent[record.IDOf(at, record.TypeInteraction).String()] {
			out = append(out, put(memoryLineID(m.Saved[i].ID), threadID, t.factLine(client.MemorySaved, &m.Saved[i])))
		}
	}
	return t.tell(patchEvent("", out)) // without a position: none has been reached
}

// task shows the progress of a call that works beside the conversation, the question that it waits for, and its end.
func (t *follower) task(x *turn.TaskView) []patch {
	at := "task-" + x.ID.String()
	switch x.Status {
	case "", record.TaskAcknowledged, record.TaskRunning, turn.CallAwaiting:
	default:
		state, class := t.t("done"), "state good"
		if x.Status != record.TaskCompleted {
			state, class = t.t("failed"), "state bad"
		}
		out := []patch{{ID: at}}
		if x.Call != "" {
			out = append(out, put(stateID(x.Call), "", Span(ID(stateID(x.Call)), Class(class), g.Text(state))))
		}
		return out
	}
	if x.Approval != nil {
		q, err := t.Node.Effects.Question(context.WithoutCancel(t.ctx()), store.ForUser(t.caller.User), x.Approval.ID, nil)
		if err == nil {
			return []patch{put(at, "end", Div(ID(at), Class("call awaiting_approval"), t.question(&q)))}
		}
	}
	return []patch{put(at, "end", Div(ID(at), Class("notice task"), t.icon("spin"), ownText(cmp.Or(x.Message, x.Tool))))}
}

// failure shows why there is no answer, and what can be done now.
func (v *visit) failure(f *fault.Error) g.Node {
	var where g.Node
	switch {
	case !v.caller.Admin:
	case slices.Contains([]string{"auth_failed", "unreachable", "model_not_found", "model_unknown", "price_unknown"}, f.Code):
		where = A(Class("button"), Href("/settings/models"), g.Text(v.t("Models")))
	case f.Code == "budget_exhausted":
		where = A(Class("button"), Href("/settings/budgets"), g.Text(v.t("Budgets")))
	}
	return Div(ID("failure"), Class("failure"), Role("alert"), P(ownText(f.Message)), g.If(f.Remedy != "", P(Class("quiet"), ownText(f.Remedy))),
		Div(Class("row"), Button(Type("button"), Data("js", "retry"), g.Text(v.t("Try again"))), where))
}

// busy says whether the assistant is at work.
func (v *visit) busy(yes bool) patch { return put("state", "", v.stateSpan(yes)) }

func (v *visit) stateSpan(atWork bool) g.Node {
	word := ""
	if atWork {
		word = v.t("at work")
	}
	return Span(ID("state"), Role("status"), Data("busy", strconv.FormatBool(atWork)), g.Text(word))
}

// versions switches between the versions of a message.
func (t *follower) versions(m *message.Message) g.Node {
	branched, err := t.visit.branched(t.conv)
	if err != nil {
		return nil
	}
	return t.switcher(t.conv, m, branched)
}

// liveCall is the call of a frame.
func (t *follower) liveCall(c *turn.CallView) (call, error) {
	out := call{id: c.ID, name: c.Name, args: c.Args, sentence: c.Summary, status: c.Status, progress: c.Message, fraction: c.Fraction, result: c.Result}
	if out.sentence == "" && c.Args != "" && c.Result != nil {
		out.sentence = t.workLog().Summary(message.Call{ToolCall: &message.ToolCall{Common: c.Result.Common, Name: c.Name, Args: []byte(c.Args)}})
	}
	if c.Approval != nil {
		q, err := t.Node.Effects.Question(context.WithoutCancel(t.ctx()), store.ForUser(t.caller.User), c.Approval.ID, nil)
		if err == nil {
			out.question = t.question(&q)
		}
	}
	return out, nil
}
