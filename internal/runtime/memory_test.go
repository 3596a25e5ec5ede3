package runtime_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/client"
	"steward/internal/id"
	"steward/internal/kits"
	"steward/internal/llm"
	"steward/internal/memory"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/search"
	"steward/internal/store"
	"steward/internal/store/sqlite"
	"steward/internal/turn"
)

// attentive is a provider that records what its model is shown. It answers "ok", or the facts that a test
// has set if it is asked for some, or for an order.
type attentive struct {
	mu     sync.Mutex
	shown  [][]string // the texts of the messages of each request of a turn
	read   []string   // what it was asked to read for facts
	labels []message.Labels
	facts  string
}

func (a *attentive) Name() string                               { return "test" }
func (a *attentive) Model(string) llm.Model                     { return a }
func (a *attentive) Models(context.Context) ([]llm.Info, error) { return nil, nil }
func (a *attentive) Stream(_ context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	a.mu.Lock()
	defer a.mu.Unlock()
	answer := "ok"
	var texts []string
	for _, m := range r.Transcript.Messages() {
		texts = append(texts, m.Text())
	}
	if r.Schema != nil && (r.Schema.Name == "facts" || r.Schema.Name == "order") {
		a.read, answer = append(a.read, texts[0]), a.facts
	} else {
		a.shown, a.labels = append(a.shown, texts), append(a.labels, r.Labels)
	}
	reply := &llm.Reply{Model: "test/m", Stop: message.StopEnd, Blocks: []message.Block{&message.Text{Text: answer}}}
	last := r.Transcript.Messages()[len(texts)-1]
	if order, ok := strings.CutPrefix(texts[0], "call "); ok && last.Role != message.Tool {
		name, args, _ := strings.Cut(order, " ")
		reply.Stop, reply.Blocks = message.StopTools, []message.Block{&message.ToolCall{CallID: "a", Name: name, Args: []byte(args)}}
	}
	return func(yield func(llm.Event, error) bool) {
		yield(llm.Event{Kind: llm.Done, Reply: reply}, nil)
	}
}

// last returns what the model was shown last in a turn, and its labels.
func (a *attentive) last() ([]string, message.Labels) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.shown[len(a.shown)-1], a.labels[len(a.labels)-1]
}

// memoryWorld is a node whose model is attentive, with facts.
func memoryWorld(t *testing.T, opt memory.Options, readAfter time.Duration) (*world, *attentive, *memory.Engine) {
	t.Helper()
	a := &attentive{facts: `{"facts":[]}`}
	w := made(t, &world{provider: a, aliases: map[string]llm.Alias{"default": {Models: []string{"test/m"}}, "fast": {Models: []string{"test/m"}}, "strong": {Models: []string{"test/m"}}}})
	st, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(w.dir, "steward.db")})
	ok(t, err)
	opt.Store, w.memory = st, st
	e := memory.New(opt)
	w.opt.Memory, w.opt.ReadAfter, w.opt.ReadPerDay = e, readAfter, 50
	return w.open(), a, e
}

func remember(t *testing.T, e *memory.Engine, text string, labels message.Labels) record.Fact {
	t.Helper()
	s, err := e.Save(t.Context(), "anna", client.FactInput{Text: &text}, record.FactAuthor{Call: id.New(), Actor: "user", Labels: labels})
	ok(t, err)
	return s.Fact
}

// The facts that matter are shown at the end of the context, once, and stay where they are.
func TestRecallInATurn(t *testing.T) {
	w, a, e := memoryWorld(t, memory.Options{}, 0)
	car := remember(t, e, "My car is blue", 0)
	conv, frames := w.turn(id.ID{}, "which colour is my car?")
	shown, labels := a.last()
	if len(shown) != 2 || !strings.HasPrefix(shown[0], "which colour is my car?") || !strings.Contains(shown[1], "My car is blue [20") || !strings.Contains(shown[1], car.ID.String()[:8]) {
		t.Fatalf("%q", shown)
	}
	if !labels.Has(message.Private) || labels.Has(message.Untrusted) {
		t.Errorf("labels %s", labels)
	}
	told := ""
	for _, f := range frames {
		if f.Kind == turn.FrameMemory {
			told += f.Text
		}
	}
	if !strings.Contains(told, "Recalled: My car is blue") {
		t.Errorf("the person was told %q", told)
	}
	// The second turn begins with the same messages, although the fact was superseded, and adds what is new.
	remember(t, e, "My car is red", 0)
	w.turn(conv, "what is the colour of my car now?")
	next, _ := a.last()
	if len(next) != 5 || next[0] != shown[0] || next[1] != shown[1] || !strings.Contains(next[4], "My car is red") || strings.Contains(next[4], "blue") {
		t.Fatalf("%q", next)
	}
	w.turn(conv, "and the colour of my car again?") // nothing is named twice
	if third, _ := a.last(); len(third) != 7 || third[4] != next[4] {
		t.Fatalf("%q", third)
	}
}

// Each task of a plan recalls the facts that matter for what it is to do, with their labels, and not those that matter
// for what tasks before it brought.
func TestRecallInATask(t *testing.T) {
	w, a, e := memoryWorld(t, memory.Options{}, 0)
	remember(t, e, "My car is blue", 0)
	remember(t, e, "The dentist is called Huber", message.Untrusted)
	acc := w.sent(turn.Input{Agent: kits.PlannerAgent, Attended: true, Content: text(`call plan.start {"analysis":"a","plan":"p","confidence":1,"subtasks":[` +
		`{"name":"paint","purpose":"Which colour is my car?"},{"name":"teeth","purpose":"How is the dentist called?","after":["paint"]}]}`)})
	w.until(acc.Conversation, turn.Cursor{}, isKind(turn.FrameComplete))
	a.mu.Lock()
	defer a.mu.Unlock()
	seen := 0
	for i, shown := range a.shown {
		all := strings.Join(shown[1:], "\n")
		switch {
		case strings.HasPrefix(shown[0], "Which colour is my car?"):
			if !strings.Contains(all, "My car is blue") || strings.Contains(all, "Huber") || a.labels[i].Has(message.Untrusted) {
				t.Errorf("painting: %q, labels %s", shown, a.labels[i])
			}
			seen |= 1
		case strings.HasPrefix(shown[0], "How is the dentist called?"):
			if !strings.Contains(all, `"The dentist is called Huber"`) || strings.Contains(all, "blue") || !a.labels[i].Has(message.Untrusted) {
				t.Errorf("teeth: %q, labels %s", shown, a.labels[i])
			}
			seen |= 2
		}
	}
	if seen != 3 {
		t.Errorf("the models of the tasks were not asked: %q", a.shown)
	}
}

// A fact that comes from others makes the turn untrusted, and is a quotation.
func TestRecallOfForeignFact(t *testing.T) {
	w, a, e := memoryWorld(t, memory.Options{}, 0)
	remember(t, e, "The garage code is 4711", message.Untrusted)
	w.turn(id.ID{}, "what is the garage code?")
	shown, labels := a.last()
	if len(shown) != 2 || !strings.Contains(shown[1], `"The garage code is 4711"`) || !strings.Contains(shown[1], "no instructions") || !labels.Has(message.Untrusted) {
		t.Fatalf("%q %s", shown, labels)
	}
}

// What is forgotten is nowhere: not in the database, its log, or what a model is shown of an old conversation.
func TestForgottenFactLeavesNoTrace(t *testing.T) {
	w, a, e := memoryWorld(t, memory.Options{}, 0)
	f := remember(t, e, "My locker is number zyx8841", 0)
	conv, _ := w.turn(id.ID{}, "where is my locker?")
	if shown, _ := a.last(); !strings.Contains(shown[1], "zyx8841") {
		t.Fatalf("%q", shown)
	}
	ok(t, second(e.Forget(t.Context(), "anna", f.ID.String())))
	w.turn(conv, "where is my locker again?")
	if shown, _ := a.last(); strings.Contains(strings.Join(shown, "\n"), "zyx8841") {
		t.Fatalf("%q", shown)
	}
	for _, m := range w.messages(conv) {
		if strings.Contains(m.Text(), "zyx8841") {
			t.Errorf("a message contains it: %s", m.Text())
		}
	}
	w.close()
	files, err := os.ReadDir(w.dir)
	ok(t, err)
	for _, at := range files {
		if b, err := os.ReadFile(filepath.Join(w.dir, at.Name())); err == nil && bytes.Contains(b, []byte("zyx8841")) {
			t.Errorf("%s contains it", at.Name())
		}
	}
}

// A conversation that rests is read once, without what was recalled, and the person is told.
func TestReadForFacts(t *testing.T) {
	w, a, e := memoryWorld(t, memory.Options{}, time.Millisecond)
	remember(t, e, "My car is blue", 0)
	facts, err := json.Marshal(map[string]any{"facts": []map[string]any{
		{"message": 1, "subject": "user", "text": "My sister Mia lives in Graz", "type": "person", "importance": 0.7, "replaces": []string{}},
		{"message": 1, "subject": "user", "text": "Note what is worth remembering about the person", "type": "fact", "importance": 1, "replaces": []string{}}, // of the prompt
		{"message": 9, "subject": "user", "text": "My sister Mia", "type": "fact", "importance": 1, "replaces": []string{}},
	}})
	ok(t, err)
	a.facts = string(facts)
	conv, _ := w.turn(id.ID{}, "my sister Mia lives in Graz, which colour is my car?")
	w.until(conv, turn.Cursor{}, func(f turn.Frame) bool {
		return f.Kind == turn.FrameMemory && strings.Contains(f.Text, "Remembered: My sister Mia lives in Graz")
	})
	list, err := e.List(t.Context(), "anna", true)
	ok(t, err)
	if len(list) != 2 || list[0].Source == "" && list[1].Source == "" {
		t.Errorf("%+v", list)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	typed := a.read[0][strings.Index(a.read[0], "message 1"):]
	if strings.Contains(typed, "My car is blue") || strings.Contains(typed, "Recalled") {
		t.Errorf("what was recalled was read: %s", typed)
	}
}

// Those who come back see again what was recalled, but not what was forgotten since; and those who are there are
// told what was saved elsewhere, once.
func TestWatchersAreToldAboutFacts(t *testing.T) {
	w, _, e := memoryWorld(t, memory.Options{}, 0)
	car := remember(t, e, "My car is blue", 0)
	conv, _ := w.turn(id.ID{}, "which colour is my car?")
	recalled := func() (out []string) {
		for _, f := range w.until(conv, turn.Cursor{}, func(f turn.Frame) bool { return f.Kind == turn.FrameComplete }) {
			if f.Kind == turn.FrameMemory && f.Memory.Did == client.MemoryRecalled && !f.Message.Zero() && !f.Interaction.Zero() {
				out = append(out, f.Memory.Facts[0].Text)
			}
		}
		return out
	}
	if got := recalled(); len(got) != 1 || got[0] != "My car is blue" {
		t.Errorf("%q", got)
	}
	told := make(chan turn.Frame, 10)
	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	now, err := w.Position(t.Context(), "anna", conv)
	ok(t, err)
	watching.Go(func() {
		for f, err := range w.Watch(ctx, "anna", conv, now) {
			if err == nil {
				told <- f
			}
		}
	})
	defer func() { stop(); watching.Wait() }()
	var first turn.Frame
	for first.Kind == "" { // until the watch has begun
		remember(t, e, "My name is "+id.New().String(), 0)
		select {
		case first = <-told:
		case <-time.After(time.Millisecond):
		}
	}
	if first.Kind != turn.FrameMemory || first.Memory.Did != client.MemorySaved || first.Memory.Facts[0].Change == "" || !first.Interaction.Zero() {
		t.Errorf("%+v", first)
	}
	ok(t, second(e.Forget(t.Context(), "anna", car.ID.String())))
	for f := range told {
		if f.Memory.Did == client.MemoryForgotten {
			if v := f.Memory.Facts[0]; v.ID != car.ID.String() || v.Text != "" || strings.Contains(f.Text, "blue") {
				t.Errorf("%+v", v)
			}
			break
		}
	}
	if got := recalled(); len(got) != 0 {
		t.Errorf("it is still shown: %q", got)
	}
}

// The facts of a message go with it when it is erased.
func TestErasedMessageTakesItsFacts(t *testing.T) {
	w, _, e := memoryWorld(t, memory.Options{}, 0)
	conv, _ := w.turn(id.ID{}, "my locker is number zyx8841")
	said := w.messages(conv)[0]
	text := "My locker is number zyx8841"
	ok(t, second(e.Save(t.Context(), "anna", client.FactInput{Text: &text}, record.FactAuthor{Call: id.New(), Source: said.URI(conv).String()})))
	remember(t, e, "My car is blue", 0)
	ok(t, w.Delete(t.Context(), "anna", conv))
	ok(t, w.Erase(t.Context(), "anna", conv))
	list, err := e.List(t.Context(), "anna", true)
	ok(t, err)
	if len(list) != 1 || list[0].Text != "My car is blue" {
		t.Errorf("%+v", list)
	}
}

// A fact that two messages have made keeps the text of the one that is left, in no version another one.
func TestErasedMessageTakesItsPartOfAFact(t *testing.T) {
	w, _, e := memoryWorld(t, memory.Options{}, 0)
	var convs []id.ID
	var fact record.Fact
	for _, text := range []string{"I live in Graz", "I live in Graz, near the river"} {
		conv, _ := w.turn(id.ID{}, text)
		s, err := e.Save(t.Context(), "anna", client.FactInput{Text: &text}, record.FactAuthor{Call: id.New(), Source: w.messages(conv)[0].URI(conv).String()})
		ok(t, err)
		convs, fact = append(convs, conv), s.Fact
	}
	if len(fact.Earlier) != 1 {
		t.Fatalf("it is not merged: %+v", fact)
	}
	ok(t, w.Delete(t.Context(), "anna", convs[0]))
	ok(t, w.Erase(t.Context(), "anna", convs[0]))
	left, err := e.Get(t.Context(), "anna", fact.ID.String())
	ok(t, err)
	if left.Text != fact.Text || len(left.Earlier) != 0 {
		t.Errorf("%+v", left)
	}
	page, err := w.store.Log(t.Context(), store.ForUser("anna"), store.LogQuery{Type: record.TypeFact, Limit: 10})
	ok(t, err)
	for _, en := range page.Entries {
		if strings.Contains(string(en.Body), `"text":"I live in Graz"`) {
			t.Errorf("the log still has %s", en.Body)
		}
	}
	ok(t, w.Delete(t.Context(), "anna", convs[1]))
	ok(t, w.Erase(t.Context(), "anna", convs[1]))
	if list, err := e.List(t.Context(), "anna", true); err != nil || len(list) != 0 {
		t.Errorf("%+v %v", list, err)
	}
}

// With memory off nothing is read, recalled or written.
func TestMemoryOff(t *testing.T) {
	w, a, _ := memoryWorld(t, memory.Options{Off: true}, time.Nanosecond)
	conv, _ := w.turn(id.ID{}, "my sister Mia lives in Graz")
	w.turn(conv, "remember that")
	w.Node.Close(context.Background()) //nolint:errcheck // the world closes it again
	for _, typ := range []string{record.TypeFact, record.TypeReading} {
		page, err := w.store.Log(t.Context(), store.ForUser("anna"), store.LogQuery{Type: typ, Limit: 10})
		ok(t, err)
		if len(page.Entries) != 0 {
			t.Errorf("%s was written", typ)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.read) != 0 {
		t.Errorf("it was read: %q", a.read)
	}
}

// A conversation is read after the next start if Steward was killed between the end of a turn and the reading.
func TestReadAfterAKill(t *testing.T) {
	w, a, _ := memoryWorld(t, memory.Options{}, time.Hour)
	w.turn(id.ID{}, "my sister Mia lives in Graz")
	w.faulty.set(func(store.Batch) error { return errors.New("killed") })
	w.Node.Close(context.Background()) //nolint:errcheck // it was killed
	ok(t, w.shut())
	w.Node = nil
	a.facts = miaLivesInGraz
	w.restart(memory.Options{}, time.Millisecond)
	w.waitForFacts(1)
}

// A conversation that finds the readings of a day used up is read on the next one.
func TestReadOnAnotherDay(t *testing.T) {
	w, a, _ := memoryWorld(t, memory.Options{}, time.Millisecond)
	w.opt.ReadPerDay, a.facts = 1, miaLivesInGraz
	w.reopenWith(memory.Options{})
	w.turn(id.ID{}, "my sister Mia lives in Graz")
	w.waitForFacts(1)
	a.mu.Lock()
	a.facts = strings.ReplaceAll(miaLivesInGraz, "sister Mia", "brother Tom")
	a.mu.Unlock()
	conv, _ := w.turn(id.ID{}, "my brother Tom lives in Graz")
	for due := false; !due; time.Sleep(time.Millisecond) {
		got, err := w.store.Get(t.Context(), store.ForUser("anna"), record.ReadingURI(conv))
		due = err == nil && strings.Contains(string(got.Body), `"due"`)
	}
	w.reopenWith(memory.Options{Now: func() time.Time { return time.Now().Add(24 * time.Hour) }})
	w.waitForFacts(2)
}

const miaLivesInGraz = `{"facts":[{"message":1,"subject":"user","text":"My sister Mia lives in Graz","type":"person","importance":0.7,"replaces":[]}]}`

// reopenWith closes the world and opens it with another memory.
func (w *world) reopenWith(opt memory.Options) {
	w.t.Helper()
	w.close()
	w.restart(opt, time.Millisecond)
}

// restart opens a world that was closed.
func (w *world) restart(opt memory.Options, readAfter time.Duration) {
	w.t.Helper()
	st, err := sqlite.Open(w.t.Context(), sqlite.Options{Path: filepath.Join(w.dir, "steward.db")})
	ok(w.t, err)
	opt.Store, w.memory = st, st
	w.opt.Memory, w.opt.ReadAfter = memory.New(opt), readAfter
	w.open()
}

// waitForFacts waits until Anna has so many.
func (w *world) waitForFacts(n int) {
	w.t.Helper()
	for {
		list, err := w.opt.Memory.List(w.t.Context(), "anna", false)
		ok(w.t, err)
		if len(list) == n {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// A model reorders the best hits; one that answers nonsense, or cannot be asked, leaves them as they are.
func TestSearchesAreReranked(t *testing.T) {
	w := made(t, &world{provider: &attentive{}, aliases: map[string]llm.Alias{"default": {Models: []string{"test/m"}}, "fast": {Models: []string{"test/m"}}, "strong": {Models: []string{"test/m"}}}})
	hits := &fixedSearch{}
	w.opt.Search = hits
	w.open()
	a := w.provider.(*attentive)
	texts := func(q search.Query) (string, string) {
		page, err := w.Search(t.Context(), "anna", q)
		ok(t, err)
		var out []string
		for _, h := range page.Hits {
			out = append(out, h.Text)
		}
		return strings.Join(out, " "), page.Notice
	}
	for _, c := range []struct{ answer, want, notice string }{
		{`{"order":[3,1,2]}`, "c a b", ""},
		{`{"order":[2,2,9,-1]}`, "b a c", ""},
		{`{"order":[]}`, "a b c", ""},
		{`the second one`, "a b c", "not reranked"},
	} {
		a.facts = c.answer
		if got, notice := texts(search.Query{Text: "x", Rerank: true}); got != c.want || !strings.Contains(notice, c.notice) || c.notice == "" && notice != "" {
			t.Errorf("%s: %s %q", c.answer, got, notice)
		}
	}
	a.facts = `{"order":[3,2,1]}`
	for _, q := range []search.Query{{Text: "x"}, {Text: "x", Rerank: true, Order: search.Newest}} {
		if got, _ := texts(q); got != "a b c" {
			t.Errorf("%+v: %s", q, got)
		}
	}
}

// fixedSearch finds the same messages for any query.
type fixedSearch struct{ search.Index }

func (*fixedSearch) Search(context.Context, store.Scope, search.Query) (search.Page, error) {
	return search.Page{Hits: []search.Hit{{Line: search.Line{Text: "a"}}, {Line: search.Line{Text: "b"}}, {Line: search.Line{Text: "c"}}}}, nil
}

func (*fixedSearch) CatchUp(context.Context) error { return nil }
func (*fixedSearch) Follow(ctx context.Context)    { <-ctx.Done() }
