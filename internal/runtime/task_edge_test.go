package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"steward/client"
	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/runtime"
	"steward/internal/store"
	"steward/internal/turn"
)

func TestBackgroundCallOfAToolThatIsGone(t *testing.T) {
	w, _ := newSlowWorld(t)
	conv, _ := w.turn(id.ID{}, `call slow.work {"what":"flour"}`)
	w.close()
	w.more = nil
	w.open()
	w.settled()
	if msgs := w.openings(conv); len(msgs) != 1 || !strings.Contains(msgs[0].Text(), "no longer exists") {
		t.Errorf("%v", msgs)
	}
	if r := w.rows()[record.RequestTask][0]; r.Outcome != "unavailable" {
		t.Errorf("%+v", r)
	}
}

func TestBackgroundCallOfAnAgentThatIsGone(t *testing.T) {
	w, b := newSlowLevels(t)
	conv, _ := w.grind()
	w.close()
	g := &grove{}
	g.plant(agentOf("personal"))
	w.opt.Catalog = g
	close(b.gate)
	w.open()
	w.settled()
	r := w.rows()[record.RequestTask][0]
	if r.Error != "untold" || r.Told || len(r.Result) == 0 || len(w.openings(conv)) != 0 {
		t.Errorf("%+v", r)
	}
}

// silent is a model that fails in turns that a tool has opened.
type silent struct{ *scripted }

func (m silent) Model(string) llm.Model { return m }

func (m silent) Stream(ctx context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	msgs := r.Transcript.Messages()
	if last := msgs[len(msgs)-1]; last.Role == message.User && strings.HasPrefix(last.Blocks[0].Base().Origin, "tool:") {
		return func(yield func(llm.Event, error) bool) {
			yield(llm.Event{}, fault.New(fault.Unavailable, "model_down", "no luck"))
		}
	}
	return m.scripted.Stream(ctx, r)
}

func TestAgentThatFailsToAnswerAResult(t *testing.T) {
	w, b := newSlowLevels(t)
	w.close()
	w.provider = silent{w.model}
	w.open()
	conv, _ := w.grind()
	close(b.gate)
	w.settled()
	if msgs := w.openings(conv); len(msgs) != 1 || !strings.Contains(msgs[0].Text(), "(It could not say what: its turn ended as failed, model_down.)") {
		t.Errorf("%v", msgs)
	}
}

func TestBackgroundActionOverARestart(t *testing.T) {
	w, b := newSlowWorld(t)
	acc := w.send(id.ID{}, `call slow.change {"what":"flour"}`)
	w.approve(acc.Conversation, turn.Cursor{}, true)
	w.until(acc.Conversation, turn.Cursor{}, isKind(turn.FrameComplete))
	w.atRest(acc.Conversation)
	w.reopen()
	eventually(t, "it is done again under the same key", func() bool { return b.count("flour") == 2 })
	tree, err := w.RequestTree(t.Context(), "anna", acc.Interaction.String())
	if err != nil || tree.State != record.RequestAnswered || len(tree.Below) != 1 || tree.Below[0].Intent != "executing" || tree.Below[0].State != record.RequestOpen {
		t.Errorf("%+v %v", tree, err)
	}
	close(b.gate)
	w.settled()
	if msgs := w.openings(acc.Conversation); len(msgs) != 1 || !strings.Contains(msgs[0].Text(), "did flour") {
		t.Errorf("%v", msgs)
	}
	tree, err = w.RequestTree(t.Context(), "anna", acc.Interaction.String())
	if err != nil || tree.Below[0].Intent != "done" {
		t.Errorf("%+v %v", tree, err)
	}
	list, err := w.Requests(t.Context(), "anna", true, 10)
	if err != nil || len(list) != 2 || list[0].Kind == list[1].Kind || list[0].Title+list[1].Title != `call slow.change {"what":"flour"}` {
		t.Errorf("%+v %v", list, err)
	}
	if list, err = w.Requests(t.Context(), "anna", true, 1); err != nil || len(list) != 1 {
		t.Errorf("%+v %v", list, err)
	}
	if list, err = w.Requests(t.Context(), "ben", true, 10); err != nil || len(list) != 0 {
		t.Errorf("a stranger: %+v %v", list, err)
	}
	text, err := json.Marshal(tree)
	ok(t, err)
	var back client.Request
	if err := json.Unmarshal(text, &back); err != nil || back.ID != tree.ID || back.Below[0].Intent != "done" || back.Took(time.Now()) != tree.Ended.Sub(tree.Started) ||
		(&client.Request{}).Took(time.Now()) != 0 {
		t.Errorf("%s %v", text, err)
	}
}

// While the store accepts nothing, the result of a background call waits.
func TestBackgroundResultWaitsForTheStore(t *testing.T) {
	t.Parallel()
	w, b := newSlowWorld(t)
	conv, _ := w.turn(id.ID{}, `call slow.work {"what":"flour"}`)
	w.atRest(conv)
	var refused atomic.Int64
	w.faulty.set(func(bt store.Batch) error {
		if refused.Add(1) > 3 {
			return nil
		}
		return full
	})
	close(b.gate)
	w.settled()
	if msgs := w.openings(conv); len(msgs) != 1 || b.count("flour") != 1 || refused.Load() < 4 {
		t.Errorf("%v, %d times", msgs, b.count("flour"))
	}
}

// A call that cannot be recorded does not become a background call; its turn
// continues later.
func TestBackgroundCallThatCannotBeRecorded(t *testing.T) {
	w, b := newSlowWorld(t)
	conv, _ := w.turn(id.ID{}, "say hello")
	w.atRest(conv)
	w.faulty.set(func(bt store.Batch) error {
		for _, c := range bt.Changes {
			if c.URI.Type() == record.TypeRequest {
				return full
			}
		}
		return nil
	})
	acc := w.send(conv, `call slow.work {"what":"flour"}`)
	w.until(conv, turn.Cursor{Seq: acc.Seq - 1}, isKind(turn.FrameError))
	w.atRest(conv)
	if rows := w.rows(); len(rows) != 0 {
		t.Errorf("%+v", rows)
	}
	w.faulty.set(nil)
	close(b.gate)
	w.turn(conv, "say again") // the run is taken up first
	w.settled()
	if got := fmt.Sprint(w.resultsOf(conv)); got != "[accepted]" || len(w.openings(conv)) != 1 {
		t.Errorf("results %s, %d openings", got, len(w.openings(conv)))
	}
}

// At the start, requests that a crash left behind and that nobody continues are
// settled, together with those above them.
func TestOrphanedRequestsAreSettled(t *testing.T) {
	w, _ := newSlowWorld(t)
	conv, frames := w.turn(id.ID{}, "say hello")
	w.atRest(conv)
	inter := frames[0].Interaction
	turn, child := record.RequestURI(conv, inter, inter), record.RequestURI(conv, inter, id.New())
	for at, r := range map[resource.URI]record.Request{
		turn:  {Kind: record.RequestTurn, Root: inter, Created: time.Now()},
		child: {Kind: record.RequestAgent, Parent: inter, Root: inter, Agent: "personal", Conversation: id.New(), Interaction: id.New(), Created: time.Now()},
	} {
		ok(t, second(w.store.Commit(t.Context(), store.ForUser("anna"), store.Batch{Changes: []store.Change{{URI: at, Body: record.Encode(r), State: record.RequestOpen}}})))
	}
	w.reopen()
	w.settled()
	rows := w.rows()
	if r := rows[record.RequestAgent][0]; r.Error != "orphaned" || r.Outcome != "failed" {
		t.Errorf("%+v", r)
	}
	if r := rows[record.RequestTurn][0]; r.Outcome != "answered" || r.Usage.Input != 10 {
		t.Errorf("%+v", r)
	}
}

// Errors of the store are returned by the views of requests.
func TestRequestsOfABrokenStore(t *testing.T) {
	w, _ := newSlowWorld(t)
	conv, frames := w.turn(id.ID{}, "say hello")
	w.atRest(conv)
	for n := range 12 {
		st := &failing{Store: w.store, left: n}
		k := runtime.NewRecords(runtime.RecordsOptions{Store: st, Conversations: conversation.New(st, conversation.Options{})})
		_, err := k.RequestTree(t.Context(), "anna", frames[0].Interaction.String())
		if st.failed && !errors.Is(err, errBroken) || !st.failed && err != nil {
			t.Errorf("call %d: %v", n, err)
		}
		st.left, st.failed = n, false
		_, err = k.Requests(t.Context(), "anna", n%2 == 0, 10)
		if st.failed && !errors.Is(err, errBroken) {
			t.Errorf("call %d: %v", n, err)
		}
	}
}

var errBroken = errors.New("broken")

// failing is a store whose reads fail after the first few.
type failing struct {
	store.Store
	left   int
	failed bool
}

func (f *failing) next() error {
	if f.left--; f.left < 0 {
		f.failed = true
		return errBroken
	}
	return nil
}

func (f *failing) Get(ctx context.Context, sc store.Scope, u resource.URI) (resource.Resource, error) {
	if err := f.next(); err != nil {
		return resource.Resource{}, err
	}
	return f.Store.Get(ctx, sc, u)
}

func (f *failing) Query(ctx context.Context, sc store.Scope, q store.Query) (store.Page, error) {
	if err := f.next(); err != nil {
		return store.Page{}, err
	}
	return f.Store.Query(ctx, sc, q)
}

// Erasing a user ends the user's background calls, and nothing of them is
// written later.
func TestBackgroundCallsEndWithTheirUser(t *testing.T) {
	w, b := newSlowWorld(t)
	conv, _ := w.turn(id.ID{}, `call slow.work {"what":"flour"}`)
	ok(t, w.EraseUser(t.Context(), "root", "anna"))
	close(b.gate)
	w.settled()
	for en, err := range store.Entries(t.Context(), w.store, store.ForUser("anna"), store.LogQuery{}) {
		if err != nil || en.Op == resource.OpPut && en.Body != nil {
			t.Errorf("left of %s: %s %v", conv, en.URI, err)
		}
	}
	if _, err := w.Send(t.Context(), "anna", turn.Input{Conversation: conv}); err == nil {
		t.Error("the conversation goes on")
	}
}
