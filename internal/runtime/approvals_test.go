package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/store"
	"steward/internal/tool"
	"steward/internal/turn"
)

// Open questions are found in all conversations from the record, also after a
// restart. FollowApprovals yields the list again when it changes.
func TestApprovalsOfAllConversations(t *testing.T) {
	w := newWorld(t)
	one := w.send(id.ID{}, `call ledger.add {"what":"x"}`)
	w.until(one.Conversation, turn.Cursor{}, asksPerson)
	two := w.send(id.ID{}, `call ledger.add {"what":"y"}`)
	w.until(two.Conversation, turn.Cursor{}, asksPerson)
	before, err := w.Effects.Questions(t.Context(), "anna")
	if err != nil || len(before) != 2 || string(before[0].Args) != `{"what":"x"}` || !before[0].Yours {
		t.Fatalf("%+v, %v", before, err)
	}
	w.reopen()
	w.until(one.Conversation, turn.Cursor{}, asksPerson)
	after, err := w.Effects.Questions(t.Context(), "anna")
	if err != nil || len(after) != 2 || after[0].ID != before[0].ID || after[0].Hash != before[0].Hash || !after[0].Expires.Equal(before[0].Expires) {
		t.Errorf("after a restart %+v, %v", after, err)
	}
	if list, err := w.Effects.Questions(t.Context(), "bert"); err != nil || len(list) != 0 {
		t.Errorf("bert is told %+v, %v", list, err)
	}
	coded(t, second(w.Effects.Question(t.Context(), store.ForUser("bert"), before[0].Short, nil)), "approval_not_found")
	q, err := w.Effects.Question(t.Context(), store.ForUser("anna"), before[0].Short, intent.Pattern{"what": {Any: true}})
	if err != nil || q.Hash == before[0].Hash {
		t.Fatalf("%+v, %v", q, err)
	}
	told := 0
	for list, err := range w.FollowApprovals(t.Context(), "anna") {
		ok(t, err)
		told++
		switch len(list) {
		case 2:
			v := effect.Decision{ID: q.ID, Hash: q.Hash, Approve: true, Standing: effect.Always, Pattern: q.Pattern}
			ok(t, w.Effects.Decide(t.Context(), store.ForUser("anna"), v))
			continue
		case 1:
			ok(t, w.Effects.Decide(t.Context(), store.ForUser("anna"), effect.Decision{ID: list[0].ID, Hash: list[0].Hash}))
			continue
		}
		break
	}
	if told != 3 {
		t.Errorf("told %d times", told)
	}
	w.until(one.Conversation, turn.Cursor{}, isKind(turn.FrameComplete))
	w.until(two.Conversation, turn.Cursor{}, isKind(turn.FrameComplete))
	w.turn(id.ID{}, `call ledger.add {"what":"z"}`) // covered: nobody is asked
	if got := w.ledger.list(); got != "x,z" {
		t.Errorf("the ledger has %q", got)
	}
}

func TestGrants(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	acc := w.send(id.ID{}, `call ledger.add {"what":"x"}`)
	frames := w.until(acc.Conversation, turn.Cursor{}, asksPerson)
	a := frames[len(frames)-1].Call.Approval
	if a.Foreign || a.Pattern.String() != `what = "x"` || a.NoGrant != "" {
		t.Errorf("%+v", a)
	}
	ok(t, w.Effects.Decide(ctx, store.ForUser("anna"), effect.Decision{ID: a.ID, Hash: a.Hash, Approve: true, Standing: effect.InConversation}))
	w.until(acc.Conversation, turn.Cursor{}, isKind(turn.FrameComplete))
	list, err := w.Effects.Grants(ctx, "anna", false)
	if err != nil || len(list) != 1 || w.Effects.ViewGrant(list[0]).State != "active" || list[0].Standing != effect.InConversation {
		t.Fatalf("%+v, %v", list, err)
	}
	g := list[0].ID
	for who, want := range map[string]string{"anna": "", "bert": "grant_not_found"} {
		if _, err := w.Effects.Grant(ctx, who, g); want == "" && err != nil || want != "" && !fault.HasCode(err, want) {
			t.Errorf("%s: %v", who, err)
		}
	}
	coded(t, w.Effects.Revoke(ctx, "bert", g), "grant_not_found")
	ed := effect.GrantEdit{Standing: effect.Always}
	shown, err := w.Effects.ShowGrantEdit(ctx, "anna", g, ed)
	if err != nil || !shown.Wider || shown.Grant.Standing != effect.Always {
		t.Fatalf("%+v, %v", shown, err)
	}
	ed.Hash = shown.Hash
	if got, err := w.Effects.EditGrant(ctx, "anna", g, ed); err != nil || got.Standing != effect.Always {
		t.Errorf("%+v, %v", got, err)
	}
	if err := w.Effects.Revoke(ctx, "anna", g); err != nil {
		t.Error(err)
	}
	if got, err := w.Effects.Grant(ctx, "anna", g); err != nil || w.Effects.ViewGrant(got).State != "revoked" {
		t.Errorf("%+v, %v", got, err)
	}
}

// Many questions at once do not make a follower look for each of them.
func TestFollowersOfApprovalsRest(t *testing.T) {
	const questions = 20
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began, told := time.Now(), 0
	for list, err := range w.FollowApprovals(ctx, "anna") {
		ok(t, err)
		if told++; told == 1 {
			go func() {
				for range questions {
					w.Send(ctx, "anna", turn.Input{Content: text(`call ledger.add {"what":"x"}`), Attended: true})
				}
			}()
		}
		if len(list) == questions {
			break
		}
	}
	if most := 2 + int(time.Since(began)/(100*time.Millisecond)); told > most {
		t.Errorf("told %d times, at most %d were wanted", told, most)
	}
}

func TestFollowApprovalsEndsWithItsContextAndTheNode(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for list, err := range w.FollowApprovals(ctx, "anna") {
		if len(list) != 0 || err != nil {
			t.Errorf("%+v, %v", list, err)
		}
		cancel()
	}
	closed := make(chan struct{})
	for range w.FollowApprovals(t.Context(), "anna") {
		go func() {
			defer close(closed)
			w.close()
		}()
	}
	<-closed
	w.open()
}

// listener is a hook that records its events and answers by their place.
type listener struct {
	mu      sync.Mutex
	events  []tool.HookEvent
	answers map[string]func(tool.HookEvent) (tool.HookAnswer, error)
}

func (l *listener) Fire(_ context.Context, ev tool.HookEvent) (tool.HookAnswer, error) {
	l.mu.Lock()
	l.events = append(l.events, ev)
	do := l.answers[ev.On]
	l.mu.Unlock()
	if do == nil {
		return tool.HookAnswer{}, nil
	}
	return do(ev)
}

func (l *listener) told() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, ev := range l.events {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s%s %s", ev.On, ev.Tool, ev.Args, ev.Text)))
	}
	return strings.Join(out, "; ")
}

// newHooked returns a world with an agent that has the listener at all places.
func newHooked(t *testing.T, answers map[string]func(tool.HookEvent) (tool.HookAnswer, error)) (*world, *listener) {
	w, g := newLevels(t)
	l := &listener{answers: answers}
	a := agentOf("watched", w.action("do.it"), query("file.read", "the whole file", message.Private))
	a.Hooks = map[string][]tool.Hook{}
	for _, place := range []string{tool.BeforeRequest, tool.BeforeModel, tool.AfterModel, tool.BeforeTool, tool.AfterTool, tool.AfterRequest} {
		a.Hooks[place] = []tool.Hook{l}
	}
	g.plant(a)
	return w, l
}

// to sends a turn to the agent watched and waits for its end.
func (w *world) to(words string) (id.ID, []turn.Frame) {
	w.t.Helper()
	acc := w.sent(turn.Input{Agent: "watched", Content: text(words), Attended: true})
	return acc.Conversation, w.until(acc.Conversation, turn.Cursor{}, isKind(turn.FrameComplete))
}

func TestHooksAtAllPlaces(t *testing.T) {
	w, l := newHooked(t, nil)
	_, frames := w.to("call file.read {}")
	if got := said(frames); got != "ok: the whole file" {
		t.Errorf("the answer: %s", got)
	}
	want := `before_request  call file.read {}; before_model; after_model; before_tool file.read{}; after_tool file.read{} the whole file; ` +
		`before_model; after_model  ok: the whole file; after_request  ok: the whole file`
	for range 2000 {
		if l.told() == want {
			break
		}
		<-time.After(time.Millisecond)
	}
	if got := l.told(); got != want {
		t.Errorf("the hooks were told\n%s\nwant\n%s", got, want)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ev := range l.events {
		if ev.Agent != "watched" || ev.User != "anna" || ev.Request == "" || ev.Parent != "" {
			t.Errorf("%+v", ev)
		}
	}
}

type replies = map[string]func(tool.HookEvent) (tool.HookAnswer, error)

func TestWhatHooksCanDo(t *testing.T) {
	t.Parallel()
	other := "[withheld]"
	for name, c := range map[string]struct {
		answers   replies
		words     string
		said      string // part of the answer
		status    message.Status
		unlabeled bool
	}{
		"a tool is refused": {replies{tool.BeforeTool: func(tool.HookEvent) (tool.HookAnswer, error) { return tool.HookAnswer{Refuse: "not now"}, nil }},
			"call file.read {}", "not now", message.DeniedCall, true},
		"a hook fails": {replies{tool.BeforeTool: func(tool.HookEvent) (tool.HookAnswer, error) { return tool.HookAnswer{}, errors.New("broken") }},
			"call file.read {}", "hook_failed", message.DeniedCall, true},
		"a hook panics": {replies{tool.BeforeTool: func(tool.HookEvent) (tool.HookAnswer, error) { panic("oh") }},
			"call file.read {}", "hook_failed", message.DeniedCall, true},
		"arguments that are none": {replies{tool.BeforeTool: func(tool.HookEvent) (tool.HookAnswer, error) {
			return tool.HookAnswer{Args: []byte("{")}, nil
		}}, "call file.read {}", "hook_failed", message.DeniedCall, true},
		"arguments that do not fit": {replies{tool.BeforeTool: func(tool.HookEvent) (tool.HookAnswer, error) {
			return tool.HookAnswer{Args: []byte(`{"x":1}`)}, nil
		}}, "call file.read {}", "x", message.Failed, true},
		"a result is retold": {replies{tool.AfterTool: func(tool.HookEvent) (tool.HookAnswer, error) { return tool.HookAnswer{Text: &other}, nil }},
			"call file.read {}", "ok: [withheld]", message.OK, false},
		"a result is refused": {replies{tool.AfterTool: func(tool.HookEvent) (tool.HookAnswer, error) { return tool.HookAnswer{Refuse: "secret"}, nil }},
			"call file.read {}", "what it said is withheld", message.OK, false},
		"a hook fails afterwards": {replies{tool.AfterTool: func(tool.HookEvent) (tool.HookAnswer, error) { return tool.HookAnswer{}, errors.New("broken") }},
			"call file.read {}", "what it said is withheld", message.OK, false},
		"no arguments at all": {nil, "call file.read", "ok: the whole file", message.OK, false},
		"no JSON":             {nil, "call file.read {", "error", message.Failed, true},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := newHooked(t, c.answers)
			conv, frames := w.to(c.words)
			if got := said(frames); !strings.Contains(got, c.said) {
				t.Errorf("the answer is %q, want %q", got, c.said)
			}
			r := w.results(conv)[0]
			if r.Status != c.status {
				t.Errorf("status %s, want %s", r.Status, c.status)
			}
			if private := message.LabelsOf(r.Content).Has(message.Private); private == c.unlabeled {
				t.Errorf("labels of the result: %v", message.LabelsOf(r.Content))
			}
			if c.said != "ok: the whole file" && strings.Contains(said(frames), "whole file") {
				t.Error("it is told all the same")
			}
		})
	}
}

func TestHooksThatEndARun(t *testing.T) {
	for _, place := range []string{tool.BeforeRequest, tool.BeforeModel, tool.AfterModel} {
		w, _ := newHooked(t, replies{place: func(tool.HookEvent) (tool.HookAnswer, error) { return tool.HookAnswer{Refuse: "not on Sundays"}, nil }})
		_, frames := w.to("say rude words")
		if m := frames[len(frames)-1].Stored; m.Stop != message.StopBound || !strings.Contains(m.Text(), "not on Sundays") || strings.Contains(said(frames), "rude") {
			t.Errorf("%s: %s; %s", place, m.Text(), said(frames))
		}
		conv, _ := w.turn(id.ID{}, ask("watched", "say rude words"))
		if r := w.results(conv)[0]; r.Status != message.Failed || !strings.Contains(r.Text(), "hook_refused") || !strings.Contains(r.Text(), "not on Sundays") {
			t.Errorf("%s, asked by another one: %s %s", place, r.Status, r.Text())
		}
	}
}

// The arguments that a hook leaves are authorized and executed, even if the
// answer to the question comes after a crash and the hook now returns others.
func TestNarrowedArgumentsAreAuthorizedAndExecuted(t *testing.T) {
	times := 0
	w, _ := newHooked(t, replies{tool.BeforeTool: func(tool.HookEvent) (tool.HookAnswer, error) {
		times++
		return tool.HookAnswer{Args: fmt.Appendf(nil, `{"what":"narrow %d"}`, times)}, nil
	}})
	acc := w.sent(turn.Input{Agent: "watched", Content: text(`call do.it {"what":"wide"}`), Attended: true})
	w.until(acc.Conversation, turn.Cursor{}, asksPerson)
	w.kill()
	w.open()
	f := w.approve(acc.Conversation, turn.Cursor{}, true)
	if f.Call.Args != `{"what":"narrow 1"}` {
		t.Errorf("asked is about %s", f.Call.Args)
	}
	w.until(acc.Conversation, turn.Cursor{}, isKind(turn.FrameComplete))
	if got := w.ledger.list(); got != "narrow 1" {
		t.Errorf("done is %s", got)
	}
}

func TestNotesOfSeveralHooks(t *testing.T) {
	w, g := newLevels(t)
	note := func(words string) tool.Hook {
		return &listener{answers: replies{tool.BeforeRequest: func(tool.HookEvent) (tool.HookAnswer, error) { return tool.HookAnswer{Note: words}, nil }}}
	}
	a := agentOf("watched")
	a.Hooks = map[string][]tool.Hook{tool.BeforeRequest: {note("say one"), note("two")}}
	g.plant(a)
	_, frames := w.to("say nothing")
	if got := said(frames); got != "one\n\ntwo" {
		t.Errorf("the model was told %q last", got)
	}
}

// slow is a hook that runs until it is stopped.
type slow struct{ begun chan struct{} }

func (s slow) Fire(ctx context.Context, _ tool.HookEvent) (tool.HookAnswer, error) {
	s.begun <- struct{}{}
	<-ctx.Done()
	return tool.HookAnswer{}, ctx.Err()
}

func TestStopWhileAHookRuns(t *testing.T) {
	w, g := newLevels(t)
	s := slow{make(chan struct{}, 1)}
	plant := func(hooks ...tool.Hook) {
		a := agentOf("watched", query("file.read", "the whole file", 0))
		a.Hooks = map[string][]tool.Hook{tool.BeforeTool: hooks}
		g.plant(a)
	}
	plant(s)
	begin := func() turn.Accepted {
		acc := w.sent(turn.Input{Agent: "watched", Content: text("call file.read {}")})
		<-s.begun
		return acc
	}
	acc := begin()
	ok(t, w.Stop(t.Context(), "anna", acc.Conversation))
	w.until(acc.Conversation, turn.Cursor{}, isKind(turn.FrameComplete))
	if r := w.results(acc.Conversation)[0]; r.Status != message.Interrupted {
		t.Errorf("the call is %s: %s", r.Status, r.Text())
	}
	acc = begin()
	w.close() // it is put aside
	plant()
	w.open()
	if got := said(w.until(acc.Conversation, turn.Cursor{}, isKind(turn.FrameComplete))); got != "ok: the whole file" {
		t.Errorf("after a restart: %s", got)
	}
}
