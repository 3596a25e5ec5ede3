package runtime_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"steward/test/leak"

	"steward/internal/agent"
	"steward/internal/conversation"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tool"
	"steward/internal/turn"
)

// A watcher that leaves after each frame and returns with its cursor gets the
// same in total.
func TestResumeFromEveryCursor(t *testing.T) {
	w := newWorld(t)
	conv, _ := w.turn(id.ID{}, `call math.multiply {"a":6,"b":7}`)
	w.turn(conv, "say one two three four")
	want := w.until(conv, turn.Cursor{}, nth(isKind(turn.FrameComplete), 2))
	for k := range want {
		text := turn.Cursor{}
		if k > 0 {
			var err error
			if text, err = turn.ParseCursor(want[k-1].Cursor.String()); err != nil {
				t.Fatal(err)
			}
		}
		left := 0
		for _, f := range want[k:] {
			if f.Kind == turn.FrameComplete {
				left++
			}
		}
		rest := w.until(conv, text, nth(isKind(turn.FrameComplete), left))
		if got, want := said(want[:k])+said(rest), said(want); got != want {
			t.Errorf("after frame %d (%s): told %q, want %q", k, want, got, want)
		}
		if got, want := count(rest, turn.FrameResult), count(want[k:], turn.FrameResult); got != want {
			t.Errorf("after frame %d: %d results, want %d", k, got, want)
		}
	}
}

func nth(is func(turn.Frame) bool, n int) func(turn.Frame) bool {
	return func(f turn.Frame) bool {
		if is(f) {
			n--
		}
		return n == 0
	}
}

func count(frames []turn.Frame, k turn.FrameKind) (n int) {
	for _, f := range frames {
		if f.Kind == k {
			n++
		}
	}
	return n
}

func TestWatchersWithinAMessageMissNothing(t *testing.T) {
	w := newWorld(t)
	w.model.begun = make(chan struct{}, 1)
	acc := w.send(id.ID{}, "hang")
	<-w.model.begun
	early := w.until(acc.Conversation, turn.Cursor{}, isKind(turn.FrameToken))
	at := early[len(early)-1].Cursor
	if at.Message.Zero() || at.Offset != len("half ") {
		t.Errorf("cursor %+v", at)
	}
	close(w.model.gate)
	rest := w.until(acc.Conversation, at, isKind(turn.FrameComplete))
	if said(early)+said(rest) != "half whole" {
		t.Errorf("told %q then %q", said(early), said(rest))
	}
	// The same cursor is valid after the message is durable.
	again := w.until(acc.Conversation, at, isKind(turn.FrameComplete))
	if said(again) != "whole" || count(again, turn.FrameReset) != 0 {
		t.Errorf("told %q (%s)", said(again), kinds(again))
	}
}

func TestCloseSuspendsAndOpenResumes(t *testing.T) {
	w := newWorld(t)
	w.model.begun = make(chan struct{}, 2)
	acc := w.send(id.ID{}, "hang")
	<-w.model.begun
	seen := w.until(acc.Conversation, turn.Cursor{}, isKind(turn.FrameToken))
	w.close()
	close(w.model.gate)
	w.open()
	frames := w.until(acc.Conversation, seen[len(seen)-1].Cursor, isKind(turn.FrameComplete))
	if frames[0].Kind != turn.FrameReset || frames[0].Message != seen[len(seen)-1].Message {
		t.Errorf("the lost draft is not announced: %s", kinds(frames))
	}
	if said(frames) != "half whole" {
		t.Errorf("told %q", said(frames))
	}
}

// A turn that ran at two crashes in a row is parked, until it is cancelled.
func TestParkedTurnIsCancelled(t *testing.T) {
	w := newWorld(t)
	w.model.begun = make(chan struct{}, 9)
	acc := w.send(id.ID{}, "hang")
	for range record.MaxCrashes {
		<-w.model.begun
		w.kill()
		w.open()
	}
	list := w.openOnes()
	if len(list) != 1 || list[0].ID != acc.Interaction.String() || list[0].Status != "parked" {
		t.Fatalf("%+v", list)
	}
	coded(t, second(w.Send(t.Context(), "anna", turn.Input{Conversation: acc.Conversation, Content: text("say on")})), "turn_parked")
	ok(t, w.CancelRequest(t.Context(), "anna", acc.Interaction.String()))
	w.quietened(acc.Conversation)
	coded(t, w.ResumeRequest(t.Context(), "anna", acc.Interaction.String()), "request_not_parked")
	if _, frames := w.turn(acc.Conversation, "say on"); said(frames) != "on" {
		t.Errorf("told %q", said(frames))
	}
}

// A start that fails ends what it has started, and turns that it has resumed have not crashed: however often it fails,
// they are not parked.
func TestAFailedStartLeavesNothing(t *testing.T) {
	w := newWorld(t)
	w.model.begun = make(chan struct{}, 9)
	acc := w.send(id.ID{}, "hang")
	<-w.model.begun
	w.close()
	before := goleak.IgnoreCurrent()
	w.broken = func(q store.Query) bool { return q.State == record.RequestAnswered } // read after turns were resumed
	for range record.MaxCrashes {
		if err := w.tryOpen(); !errors.Is(err, full) {
			t.Fatalf("it opens: %v", err)
		}
		ok(t, w.shut())
	}
	ok(t, leak.Find(before))
	w.broken = nil
	w.open()
	close(w.model.gate)
	if _, frames := w.turn(acc.Conversation, "say on"); said(frames) != "on" {
		t.Errorf("told %q", said(frames))
	}
}

// After a crash, turns are taken up several at a time, so that their commits share a
// sync of the disk.
func TestInterruptedTurnsAreTakenUpTogether(t *testing.T) {
	const turns = 3
	w := newWorld(t)
	w.model.begun = make(chan struct{}, 2*turns)
	for range turns {
		w.send(id.ID{}, "hang")
		<-w.model.begun
	}
	w.kill()
	var counted atomic.Int64
	together := make(chan struct{})
	w.fail = func(b store.Batch) error {
		if len(b.Changes) != 1 || b.Changes[0].URI.Type() != record.TypeRun || isClosed(together) {
			return nil
		}
		if counted.Add(1) == turns {
			close(together)
		}
		<-together
		return nil
	}
	w.open()
	for range turns {
		<-w.model.begun
	}
}

func TestRefusedTurnsLeaveNothing(t *testing.T) {
	w := newWorld(t)
	for code, turn := range map[string]turn.Input{
		"message_empty":          {},
		"message_invalid":        {Content: text("\xff")},
		"agent_not_found":        {Content: text("say x"), Agent: "nobody"},
		"model_not_found":        {Content: text("say x"), Model: "test2/none"},
		"conversation_not_found": {Content: text("say x"), Conversation: id.New()},
	} {
		if _, err := w.Send(t.Context(), "anna", turn); !fault.HasCode(err, code) {
			t.Errorf("%s: %v", code, err)
		}
	}
	if list, _, err := w.Conversations.List(t.Context(), store.ForUser("anna"), "", 0); err != nil || len(list) != 0 {
		t.Errorf("%v %v", list, err)
	}
}

func TestManage(t *testing.T) {
	w := newWorld(t)
	a, _ := w.turn(id.ID{}, "say a")
	b, _ := w.turn(id.ID{}, "say b")
	w.turn(a, "say again")
	list, _, err := w.Conversations.List(t.Context(), store.ForUser("anna"), "", 0)
	if err != nil || len(list) != 2 || list[0].ID != a || list[1].ID != b {
		t.Fatalf("%v %v", list, err)
	}
	if c, err := w.Rename(t.Context(), "anna", a, "A"); err != nil || c.Title != "A" {
		t.Error(c, err)
	}
	w.turn(a, "say third") // its counts do not undo the new title
	if c, _ := w.Conversations.Get(t.Context(), store.ForUser("anna"), a); c.Title != "A" || c.Messages != 6 {
		t.Errorf("%+v", c)
	}
	var out strings.Builder
	if err := w.Conversations.ExportAs(t.Context(), store.ForUser("anna"), a, conversation.ExportOptions{Format: "markdown"}, &out); err != nil || !strings.Contains(out.String(), "say third") {
		t.Error(out.String(), err)
	}
	ok(t, w.Delete(t.Context(), "anna", a))
	coded(t, second(w.Send(t.Context(), "anna", turn.Input{Conversation: a, Content: text("say x")})), "conversation_not_found")
	if list, _, _ := w.Conversations.List(t.Context(), store.ForUser("anna"), "", 0); len(list) != 1 {
		t.Errorf("%v", list)
	}
	if l, aliases := w.Models(t.Context()); len(l.Models) != 1 || len(aliases) == 0 {
		t.Error(l, aliases)
	}
	m, err := w.Resolve("default")
	ok(t, err)
	user := &message.Message{ID: id.New(), Role: message.User, Blocks: text("say free")}
	for _, err := range m.Model.Stream(t.Context(), &llm.Request{Transcript: llm.NewTranscript(user), User: "bert"}) {
		ok(t, err)
	}
	used := map[string]int64{}
	for u, err := range conversation.New(w.store, conversation.Options{}).Usage(t.Context(), store.ForNode(resource.System), time.Time{}) {
		ok(t, err)
		used[u.User] += u.Usage.Input
	}
	if used["anna"] != 40 || used["bert"] != 10 {
		t.Errorf("used %v", used)
	}
	if _, err := w.Embed(t.Context(), "test/m", []string{"x"}); !fault.Is(err, fault.Unsupported) {
		t.Error(err)
	}
	own := slices.DeleteFunc(w.Tools(""), func(s tool.Spec) bool { return strings.HasPrefix(s.Name, "resource.") })
	if len(own) != 3 || w.Tools("nobody") != nil {
		t.Error(own)
	}
	ok(t, w.Erase(t.Context(), "anna", a))
	coded(t, w.Undelete(t.Context(), "anna", a, ""), "conversation_not_found")
}

func TestSlowWatcherIsServedFromTheStore(t *testing.T) {
	w := newWorld(t)
	acc := w.send(id.ID{}, "say begin")
	w.until(acc.Conversation, turn.Cursor{}, isKind(turn.FrameComplete))
	ctx := t.Context()
	var got strings.Builder
	turns, paused := 0, false
	long := strings.Repeat("word ", 6000)
	for f, err := range w.Watch(ctx, "anna", acc.Conversation, turn.Cursor{Seq: acc.Seq}) {
		ok(t, err)
		if !paused { // while we do not read, more is said than is kept for us
			paused = true
			for range 3 {
				w.send(acc.Conversation, "say "+long)
			}
			w.send(acc.Conversation, "say end")
		}
		got.WriteString(f.Text)
		if f.Kind == turn.FrameComplete {
			if turns++; turns == 5 {
				break
			}
		}
	}
	if want := "begin" + strings.Repeat(long, 3) + "end"; got.String() != want {
		t.Errorf("told %d bytes, want %d", got.Len(), len(want))
	}
}

func TestCursorText(t *testing.T) {
	for _, c := range []turn.Cursor{{}, {Seq: 7}, {Seq: 7, Message: id.New(), Block: 2, Offset: 99}} {
		if got, err := turn.ParseCursor(c.String()); err != nil || got != c {
			t.Errorf("%v → %q → %v, %v", c, c, got, err)
		}
	}
	for _, bad := range []string{"x", "1.2", "-1", "1.2.3.4", "1." + id.New().String() + ".x.0", "1." + id.New().String() + ".0.-1"} {
		if _, err := turn.ParseCursor(bad); !fault.HasCode(err, "cursor_invalid") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func FuzzParseCursor(f *testing.F) {
	f.Add("7")
	f.Add("7.0198c0de-0000-7000-8000-000000000000.1.2")
	f.Fuzz(func(t *testing.T, s string) {
		if c, err := turn.ParseCursor(s); err == nil {
			if again, err := turn.ParseCursor(c.String()); err != nil || again != c {
				t.Errorf("%q → %v → %v, %v", s, c, again, err)
			}
		}
	})
}

// crowd is a query that counts how many of its calls run at the same time.
type crowd struct {
	mu        sync.Mutex
	now, most int
	gate      chan struct{}
	came      chan struct{} // a word for each call that runs
}

func (c *crowd) tool(t *testing.T) tool.Tool {
	x := newTool(tool.Spec{Name: "crowd.join", Description: "Join.", Effect: tool.Query, Timeout: time.Minute},
		func(ctx context.Context, _ tool.Invocation, _ struct{}) (string, error) {
			c.mu.Lock()
			c.now++
			c.most = max(c.most, c.now)
			c.mu.Unlock()
			c.came <- struct{}{}
			defer func() { c.mu.Lock(); c.now--; c.mu.Unlock() }()
			select {
			case <-c.gate:
			case <-ctx.Done():
			}
			return "joined", nil
		})
	return x
}

// Calls of a turn run concurrently up to the limit. A call that waits for a
// person does not count.
func TestLimitOfParallelCalls(t *testing.T) {
	c := &crowd{gate: make(chan struct{}), came: make(chan struct{}, 10)}
	w := made(t, &world{more: []tool.Tool{c.tool(t)}})
	w.opt.Parallel, w.opt.Limits = 2, agent.Limits{Calls: 20}
	w.open()
	asks := strings.Repeat("call ledger.add {\"what\":\"x\"}\n", 4)
	acc := w.send(id.ID{}, asks+strings.TrimSuffix(strings.Repeat("call crowd.join {}\n", 10), "\n"))
	questions := map[string]turn.ApprovalView{}
	w.until(acc.Conversation, turn.Cursor{}, func(f turn.Frame) bool {
		if f.Call != nil && f.Call.Approval != nil {
			questions[f.Call.ID] = *f.Call.Approval
		}
		return len(questions) == 4
	})
	for range 2 { // calls run while a person is asked
		<-c.came
	}
	close(c.gate)
	for _, q := range questions {
		ok(t, w.Effects.Decide(t.Context(), store.ForUser("anna"), effect.Decision{ID: q.ID, Hash: q.Hash, Approve: true}))
	}
	frames := w.until(acc.Conversation, turn.Cursor{}, isKind(turn.FrameComplete))
	ok := 0
	for _, f := range frames {
		if f.Kind == turn.FrameResult && f.Call.Status == string(message.OK) {
			ok++
		}
	}
	if ok != 14 || c.most != 2 {
		t.Errorf("%d calls succeeded, %d ran at a time", ok, c.most)
	}
}

// hider masks one secret.
type hider struct{}

func (hider) Mask(s string) string        { return strings.ReplaceAll(s, "hunter22", "«secret:P»") }
func (h hider) MaskBytes(b []byte) []byte { return []byte(h.Mask(string(b))) }
func (h hider) Found(s string) []string {
	if h.Mask(s) != s {
		return []string{"P"}
	}
	return nil
}

// Secrets that a user types are masked before they are recorded or shown to a
// model, and the user is told. The same holds for arguments and results of
// tools.
func TestSecretsInMessagesAreMasked(t *testing.T) {
	w := made(t, &world{})
	w.opt.Secrets = hider{}
	w.open()
	content := []message.Block{&message.Text{Text: "say hunter22"}, &message.File{MIME: "text/plain", Name: "a", Data: []byte("hunter22")}, &message.Text{Text: "and more"}}
	acc, err := w.Send(t.Context(), "ada", turn.Input{ClientID: "1", Content: content})
	if err != nil || !slices.Equal(acc.Hidden, []string{"P"}) {
		t.Fatalf("%+v, %v", acc, err)
	}
	if content[0].(*message.Text).Text != "say hunter22" {
		t.Error("the caller's message was changed")
	}
	for f, err := range w.Watch(t.Context(), "ada", acc.Conversation, turn.Cursor{}) {
		ok(t, err)
		if f.Kind == turn.FrameComplete {
			if got := f.Stored.Text(); !strings.Contains(got, "«secret:P»") {
				t.Errorf("the model was shown %q", got)
			}
			break
		}
	}
	for it, err := range store.Items(t.Context(), w.store, store.ForUser("ada"), store.Query{}) {
		if err != nil || strings.Contains(string(it.Body), "hunter22") {
			t.Errorf("%s: %s, %v", it.URI, it.Body, err)
		}
	}
	if acc, err := w.Send(t.Context(), "ada", turn.Input{Conversation: acc.Conversation, Content: []message.Block{&message.Text{Text: "say no secret"}}}); err != nil || acc.Hidden != nil {
		t.Errorf("%+v, %v", acc, err)
	}
	if acc, err := w.Send(t.Context(), "ada", turn.Input{Conversation: id.New(), Content: []message.Block{&message.Text{Text: "say hunter22"}}}); err == nil {
		t.Errorf("a conversation that is not there: %+v", acc)
	}
}

// The head of the log is anchored periodically, also after a failure, and when
// the node closes.
func TestAnchors(t *testing.T) {
	w := made(t, &world{})
	var kept atomic.Int64
	often := make(chan struct{}, 100)
	w.opt.AnchorEvery = time.Millisecond
	w.opt.Anchor = func(ctx context.Context) error {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("it may take for ever")
		}
		kept.Add(1)
		select {
		case often <- struct{}{}:
		default:
		}
		return errors.New("not there")
	}
	w.open()
	for range 3 {
		<-often
	}
	before := kept.Load()
	w.close()
	if kept.Load() <= before {
		t.Error("nothing is kept at the end")
	}
}
