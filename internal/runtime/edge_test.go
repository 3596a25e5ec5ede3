package runtime_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"steward/internal/agent"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/runtime"
	"steward/internal/store"
	"steward/internal/tool"
	"steward/internal/turn"
)

var full = fault.New(fault.Exhausted, "disk_full", "there is no room").WithHint("make room")

// holds reports whether a batch stores a message of the role.
func holds(b store.Batch, role message.Role) bool {
	for _, c := range b.Changes {
		if c.URI.Type() == "common.Message" && strings.Contains(string(c.Body), `"role":"`+string(role)+`"`) {
			return true
		}
	}
	return false
}

func TestUserMessageThatCannotBeStored(t *testing.T) {
	w := newWorld(t)
	conv, _ := w.turn(id.ID{}, "say one")
	w.faulty.set(func(b store.Batch) error { return full })
	if _, err := w.Send(t.Context(), "anna", turn.Input{Conversation: conv, Content: text("say two")}); !fault.HasCode(err, "disk_full") {
		t.Fatal(err)
	}
	w.faulty.set(nil)
	if _, frames := w.turn(conv, "say three"); said(frames) != "three" {
		t.Errorf("%q", said(frames))
	}
	page, _, err := w.Conversations.Messages(t.Context(), store.ForUser("anna"), conv, "", 0, false)
	if err != nil || len(page) != 4 || page[2].Text() != "say three" {
		t.Errorf("%d messages, %v", len(page), err)
	}
}

// If a run cannot be recorded, watchers get an error, the run stays open, and
// it continues before the next turn.
func TestRunThatCannotBeRecordedContinuesLater(t *testing.T) {
	for _, role := range []message.Role{message.Tool, message.Assistant} {
		t.Run(string(role), func(t *testing.T) {
			w := newWorld(t)
			conv, _ := w.turn(id.ID{}, "say one")
			w.faulty.set(func(b store.Batch) error {
				if holds(b, role) {
					return full
				}
				return nil
			})
			acc := w.send(conv, `call math.multiply {"a":6,"b":7}`)
			w.atRest(conv) // who comes only now is told, too
			frames := w.until(conv, turn.Cursor{Seq: acc.Seq}, isKind(turn.FrameError))
			if e := frames[len(frames)-1].Err; e.Code != "disk_full" || e.Remedy == "" {
				t.Errorf("%+v", e)
			}
			w.faulty.set(nil)
			acc = w.send(conv, "say next")
			frames = w.until(conv, turn.Cursor{Seq: acc.Seq - 1}, isKind(turn.FrameComplete))
			if said(frames) != "next" {
				t.Errorf("%q", said(frames))
			}
			all := w.until(conv, turn.Cursor{}, nth(isKind(turn.FrameComplete), 3))
			if !strings.Contains(said(all), "ok: 42") {
				t.Errorf("the interrupted turn was not taken up: %q", said(all))
			}
		})
	}
}

// A watcher that comes after a turn has failed gets the failure once.
func TestLaterWatcherGetsTheFailureOnce(t *testing.T) {
	w := newWorld(t)
	acc := w.send(id.ID{}, "fail")
	first := w.until(acc.Conversation, turn.Cursor{Seq: acc.Seq}, isKind(turn.FrameError))
	again := w.until(acc.Conversation, turn.Cursor{Seq: acc.Seq}, isKind(turn.FrameError))
	if len(again) != 1 || again[0].Interaction != acc.Interaction {
		t.Errorf("%+v", again)
	}
	seen := first[len(first)-1].Cursor
	w.send(acc.Conversation, "say on")
	if frames := w.until(acc.Conversation, seen, isKind(turn.FrameComplete)); count(frames, turn.FrameError) > 0 || said(frames) != "on" {
		t.Errorf("%s: %q", kinds(frames), said(frames))
	}
}

func TestReasoningNoticesAndResets(t *testing.T) {
	w := newWorld(t)
	conv, first := w.turn(id.ID{}, "say first")
	joined, got := make(chan struct{}), make(chan []turn.Frame)
	go func() {
		answered := 0
		got <- w.until(conv, turn.Cursor{}, func(f turn.Frame) bool {
			if f.Kind == turn.FrameComplete {
				if answered++; answered == 1 {
					close(joined) // the watcher has come, and misses nothing of the next turn
				}
			}
			return answered == 2
		})
	}()
	<-joined
	w.send(conv, "think deep")
	live := <-got
	for i, f := range live {
		if f.Kind == turn.FrameComplete {
			live = live[i+1:]
			break
		}
	}
	if count(live, turn.FrameNotice) != 1 || count(live, turn.FrameReset) != 1 {
		t.Errorf("%s", kinds(live))
	}
	after := live
	for i, f := range live {
		if f.Kind == turn.FrameReset {
			after = live[i:]
		}
	}
	for name, frames := range map[string][]turn.Frame{"live": after, "replayed": w.until(conv, first[len(first)-1].Cursor, isKind(turn.FrameComplete))} {
		var reasoning strings.Builder
		for _, f := range frames {
			if f.Kind == turn.FrameReasoning {
				reasoning.WriteString(f.Text)
			}
		}
		if reasoning.String() != "hm, yes" || said(frames) != "deep." {
			t.Errorf("%s: %q and %q", name, reasoning.String(), said(frames))
		}
	}
}

// A watcher that comes after a notice gets it, even after the turn. A watcher
// that has seen part of the message does not get it again.
func TestLaterWatchersGetNotices(t *testing.T) {
	w := newWorld(t)
	w.model.begun = make(chan struct{}, 1)
	acc := w.send(id.ID{}, "hang noting")
	<-w.model.begun
	frames := w.until(acc.Conversation, turn.Cursor{}, isKind(turn.FrameToken))
	if count(frames, turn.FrameNotice) != 1 {
		t.Errorf("%s", kinds(frames))
	}
	close(w.model.gate)
	frames = w.until(acc.Conversation, frames[len(frames)-1].Cursor, isKind(turn.FrameComplete))
	if count(frames, turn.FrameNotice) != 0 {
		t.Errorf("told again: %s", kinds(frames))
	}
	frames = w.until(acc.Conversation, turn.Cursor{Seq: acc.Seq}, isKind(turn.FrameComplete))
	if len(frames) == 0 || frames[0].Kind != turn.FrameNotice || count(frames, turn.FrameNotice) != 1 {
		t.Errorf("who comes when the turn is over is told %s", kinds(frames))
	}
}

func TestDraftThatDiffersIsReset(t *testing.T) {
	w := newWorld(t)
	_, frames := w.turn(id.ID{}, "differ")
	if k := kinds(frames); k != "user token reset token complete" || !strings.HasSuffix(said(frames), "other") {
		t.Errorf("%s: %q", k, said(frames))
	}
}

func TestPosition(t *testing.T) {
	w := newWorld(t)
	conv, frames := w.turn(id.ID{}, "say one")
	at, err := w.Position(t.Context(), "anna", conv)
	if err != nil || at != frames[len(frames)-1].Cursor {
		t.Errorf("%v %v, want %v", at, err, frames[len(frames)-1].Cursor)
	}
	w.reopen()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { w.send(conv, "say two"); w.send(conv, "say three") }()
	var got []turn.Frame
	for f, err := range w.Watch(ctx, "anna", conv, at) {
		ok(t, err)
		if got = append(got, f); count(got, turn.FrameComplete) == 2 {
			cancel()
		}
	}
	if said(got) != "twothree" {
		t.Errorf("%q (%s)", said(got), kinds(got))
	}
}

func TestWaitingSendEndsWithItsContext(t *testing.T) {
	w := newWorld(t)
	w.model.begun = make(chan struct{}, 1)
	acc := w.send(id.ID{}, "hang")
	<-w.model.begun
	for _, steer := range []bool{false, true} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		_, err := w.Send(ctx, "anna", turn.Input{Conversation: acc.Conversation, Content: text("say x"), Steer: steer})
		cancel()
		if !fault.Is(err, fault.Timeout) {
			t.Errorf("steer %v: %v", steer, err)
		}
	}
	waiting := make(chan error)
	node := w.Node
	go func() {
		_, err := node.Send(context.Background(), "anna", turn.Input{Conversation: acc.Conversation, Content: text("say x")})
		waiting <- err
	}()
	w.close()
	coded(t, <-waiting, "closing")
	coded(t, second(node.Send(t.Context(), "anna", turn.Input{Content: text("say x")})), "closing")
}

// A steering message whose run ends first begins a turn of its own.
func TestLateSteeringBeginsATurn(t *testing.T) {
	w := newWorld(t)
	w.model.begun = make(chan struct{}, 1)
	acc := w.send(id.ID{}, "hang")
	<-w.model.begun
	sent := make(chan turn.Accepted)
	go func() {
		got, err := w.Send(t.Context(), "anna", turn.Input{Conversation: acc.Conversation, Content: text("say late"), Steer: true})
		if err != nil {
			t.Error(err)
		}
		sent <- got
	}()
	close(w.model.gate)
	got := <-sent
	frames := w.until(acc.Conversation, turn.Cursor{Seq: got.Seq - 1}, isKind(turn.FrameComplete))
	if said(frames) != "late" {
		t.Errorf("%q", said(frames))
	}
}

func TestIdleConversationsAreEvicted(t *testing.T) {
	for name, opt := range map[string]runtime.Options{"time": {IdleFor: time.Millisecond}, "bytes": {IdleBytes: 1, IdleFor: 4 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			w := made(t, &world{opt: opt})
			w.open()
			conv, _ := w.turn(id.ID{}, "say one")
			for w.CachedConversations() > 0 {
				<-time.After(10 * time.Millisecond)
			}
			if _, frames := w.turn(conv, "say two"); said(frames) != "two" {
				t.Errorf("%q", said(frames))
			}
			if c, _ := w.Conversations.Get(t.Context(), store.ForUser("anna"), conv); c.Messages != 4 {
				t.Errorf("%+v", c)
			}
		})
	}
}

func TestAgents(t *testing.T) {
	w := made(t, &world{})
	w.opt.Agents = []agent.Definition{{Name: "reckoner", Tools: []string{"math.*"}, Limits: agent.Limits{Iterations: 1}}}
	w.open()
	if specs := w.Tools("reckoner"); len(specs) != 1 || specs[0].Name != "math.multiply" {
		t.Errorf("%v", specs)
	}
	acc := w.sent(turn.Input{Agent: "reckoner", Content: text(`call ledger.add {"what":"x"}`), Attended: true})
	frames := w.until(acc.Conversation, turn.Cursor{}, isKind(turn.FrameComplete))
	if w.ledger.list() != "" || frames[len(frames)-1].Stored.Stop != message.StopBound {
		t.Errorf("%s, ledger %q", said(frames), w.ledger.list())
	}
	// The conversation stays with its agent.
	if c, _ := w.Conversations.Get(t.Context(), store.ForUser("anna"), acc.Conversation); c.Agent != "reckoner" {
		t.Errorf("%+v", c)
	}
}

func TestOpenRefusesInvalidAgents(t *testing.T) {
	w := newWorld(t)
	for _, d := range []agent.Definition{{}, {Name: "x", Tools: []string{"no.such_tool"}}} {
		opt := w.opt
		opt.Store, opt.Tools, opt.Agents = w.store, w.tools(), []agent.Definition{d}
		if n, err := runtime.Open(t.Context(), opt); err == nil {
			n.Close(t.Context())
			t.Errorf("%+v was taken", d)
		}
	}
	var _ tool.Tool
}

func TestConversationWithFewerTools(t *testing.T) {
	w := newWorld(t)
	if _, err := w.Send(t.Context(), "anna", turn.Input{Content: text("say x"), Tools: []string{"no.such_tool"}}); err == nil {
		t.Error("a tool that is not there was taken")
	}
	acc := w.sent(turn.Input{Content: text(`call math.multiply {"a":2,"b":3}`), Tools: []string{"math.*"}})
	if frames := w.until(acc.Conversation, turn.Cursor{}, isKind(turn.FrameComplete)); said(frames) != "ok: 6" {
		t.Errorf("%q", said(frames))
	}
	_, frames := w.turn(acc.Conversation, `call ledger.add {"what":"x"}`) // also in later turns
	if !strings.HasPrefix(said(frames), "error: ") || w.ledger.list() != "" {
		t.Errorf("%q, ledger %q", said(frames), w.ledger.list())
	}
}

// If a run cannot continue and its end cannot be recorded either, Send returns
// the error of the store.
func TestRunOfAnAgentThatIsGoneWhileTheStoreFails(t *testing.T) {
	w := &world{t: t, dir: t.TempDir(), model: &scripted{gate: make(chan struct{}), begun: make(chan struct{}, 1)}, ledger: &ledger{}}
	w.opt.Agents = []agent.Definition{{Name: "guest"}}
	w.open()
	acc := w.sent(turn.Input{Agent: "guest", Content: text("hang")})
	<-w.model.begun
	w.close()
	w.opt.Agents = nil
	w.fail = func(store.Batch) error { return full }
	w.open()
	turn := turn.Input{Conversation: acc.Conversation, Agent: "assistant", Content: text("say on")}
	if _, err := w.Send(t.Context(), "anna", turn); !fault.HasCode(err, "disk_full") {
		t.Errorf("%v", err)
	}
	w.faulty.set(nil)
	if _, err := w.Send(t.Context(), "anna", turn); err != nil {
		t.Error(err)
	}
}
