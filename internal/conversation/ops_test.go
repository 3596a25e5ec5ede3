package conversation_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/test/storetest"
)

var errCrash = fault.New(fault.Unavailable, "crash", "the process is gone")

// crashing is a store that fails from a given call on, until it is repaired.
type crashing struct {
	store.Store
	mu   sync.Mutex
	left int // calls until the crash; negative: no crash
}

func (b *crashing) crash(after int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = after
}

func (b *crashing) call() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left == 0 {
		return errCrash
	}
	if b.left > 0 {
		b.left--
	}
	return nil
}

func (b *crashing) Commit(ctx context.Context, sc store.Scope, x store.Batch) (store.Receipt, error) {
	if err := b.call(); err != nil {
		return store.Receipt{}, err
	}
	return b.Store.Commit(ctx, sc, x)
}

func (b *crashing) Get(ctx context.Context, sc store.Scope, u resource.URI) (resource.Resource, error) {
	if err := b.call(); err != nil {
		return resource.Resource{}, err
	}
	return b.Store.Get(ctx, sc, u)
}

func (b *crashing) Query(ctx context.Context, sc store.Scope, q store.Query) (store.Page, error) {
	if err := b.call(); err != nil {
		return store.Page{}, err
	}
	return b.Store.Query(ctx, sc, q)
}

func (b *crashing) Log(ctx context.Context, sc store.Scope, q store.LogQuery) (store.LogPage, error) {
	if err := b.call(); err != nil {
		return store.LogPage{}, err
	}
	return b.Store.Log(ctx, sc, q)
}

const password = "Wacholderbusch"

// place is a conversation with some of everything.
type place struct {
	*talk
	st       *crashing
	question id.ID   // of the second turn
	reading  []id.ID // a call and its result in it
	second   []id.ID // all of its messages
	other    string  // a branch that is not preferred
	deleted  string  // one that is deleted
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{talk: &talk{t: t, conv: id.New()}, st: &crashing{Store: storetest.NewModel(), left: -1}}
	p.over(p.st)
	ctx := t.Context()
	p.turn("one", "file.read a")
	second := p.turn(password, "file.read a", "file.list x") // it makes the first read obsolete
	p.question, p.reading, p.second = second[0], second[1:3], slices.Clone(second)
	p.ok(p.e.Pin(ctx, anna, p.conv, true, p.all[3]))
	b, err := p.e.Fork(ctx, anna, p.conv, conversation.Fork{Message: p.question, Before: true, Title: "aside"})
	p.ok(err)
	p.other = b.ID
	p.turn("aside " + password)
	b, err = p.e.Fork(ctx, anna, p.conv, conversation.Fork{})
	p.ok(err)
	p.deleted = b.ID
	p.turn("deleted " + password)
	p.ok(p.e.DeleteBranch(ctx, anna, p.conv, p.deleted))
	p.ok(p.e.Switch(ctx, anna, p.conv, record.MainBranch))
	for range 8 {
		p.turn("more", "web.get x")
	}
	w := counting(1500)
	w.Summarize = func(context.Context, *message.Message, []*message.Message, int64) (string, error) {
		return "summary", nil
	}
	p.fit(w)
	p.turn("last", "web.get y")
	return p
}

// operation is an operation on a place, in a scope.
type operation struct {
	name  string
	do    func(ctx context.Context, p *place, e *conversation.Engine, sc store.Scope) error
	node  bool // done by the node, or with an open session: the scope is not checked
	reads bool // it changes nothing
	parts bool // it makes several commits
	once  bool // it is not idempotent
}

func operations() []operation {
	type c = context.Context
	type E = *conversation.Engine
	type S = store.Scope
	before := time.Now().Add(time.Hour)
	turn := func(ctx c, s *conversation.Session, words string) error {
		in := id.New()
		var m *message.Message
		if words != "" {
			m = say(message.User, words)
		}
		_, err := s.Begin(conversation.Opening{Request: id.New(), Actor: "agent:test", Interaction: in, Origin: "user", Message: m, Run: record.Run{ID: id.New()}})(ctx)
		if err != nil {
			return err
		}
		a := say(message.Assistant, "re")
		a.Final = true
		_, err = s.Finish(ctx, a, "answered", "", nil)
		return err
	}
	return []operation{
		{name: "get", reads: true, do: func(ctx c, p *place, e E, sc S) error { _, err := e.Get(ctx, sc, p.conv); return err }},
		{name: "open", reads: true, do: func(ctx c, p *place, e E, sc S) error { _, err := e.Open(ctx, sc, p.conv); return err }},
		{name: "messages", reads: true, do: func(ctx c, p *place, e E, sc S) error {
			_, _, err := e.Messages(ctx, sc, p.conv, "", 5, true)
			return err
		}},
		{name: "since", reads: true, do: func(ctx c, p *place, e E, sc S) error { _, err := e.Since(ctx, sc, p.conv, 3); return err }},
		{name: "find", reads: true, do: func(ctx c, p *place, e E, sc S) error { _, err := e.Find(ctx, sc, p.conv, p.reading[1]); return err }},
		{name: "siblings", reads: true, do: func(ctx c, p *place, e E, sc S) error {
			list, err := e.Siblings(ctx, sc, p.conv, p.question)
			if err == nil && len(list) != 2 {
				return fmt.Errorf("%d siblings", len(list))
			}
			return err
		}},
		{name: "interaction", reads: true, do: func(ctx c, p *place, e E, sc S) error { _, err := e.Interaction(ctx, sc, p.conv, p.in[1]); return err }},
		{name: "audit", reads: true, do: func(ctx c, p *place, e E, sc S) error { _, err := e.Audit(ctx, sc, p.conv, id.ID{}, ""); return err }},
		{name: "export", reads: true, do: func(ctx c, p *place, e E, sc S) error {
			return e.ExportAs(ctx, sc, p.conv, conversation.ExportOptions{}, &strings.Builder{})
		}},
		{name: "export as Markdown", reads: true, do: func(ctx c, p *place, e E, sc S) error {
			return e.ExportAs(ctx, sc, p.conv, conversation.ExportOptions{Format: "markdown"}, &strings.Builder{})
		}},
		{name: "update", do: func(ctx c, p *place, e E, sc S) error {
			_, err := e.Update(ctx, sc, p.conv, func(c *record.Conversation) { c.Title = "mine" })
			return err
		}},
		{name: "fork", do: func(ctx c, p *place, e E, sc S) error {
			_, err := e.Fork(ctx, sc, p.conv, conversation.Fork{Message: p.question})
			return err
		}},
		{name: "switch", do: func(ctx c, p *place, e E, sc S) error { return e.Switch(ctx, sc, p.conv, p.other) }},
		{name: "title", do: func(ctx c, p *place, e E, sc S) error { return e.Title(ctx, sc, p.conv, p.other, "x") }},
		{name: "mark", do: func(ctx c, p *place, e E, sc S) error {
			return second(e.Mark(ctx, sc, p.conv, conversation.Verdict{State: record.Archived}, p.reading[0]))
		}},
		{name: "mark superseded", do: func(ctx c, p *place, e E, sc S) error {
			return second(e.Mark(ctx, sc, p.conv, conversation.Verdict{State: record.Superseded, By: p.all[len(p.all)-1]}, p.all[len(p.all)-4]))
		}},
		{name: "pin", do: func(ctx c, p *place, e E, sc S) error { return e.Pin(ctx, sc, p.conv, true, p.reading[1]) }},
		{name: "unpin", do: func(ctx c, p *place, e E, sc S) error { return e.Pin(ctx, sc, p.conv, false, p.all[3]) }},
		{name: "refresh", do: func(ctx c, p *place, e E, sc S) error { return second(e.Refresh(ctx, sc, p.conv)) }},
		{name: "rollback", do: func(ctx c, p *place, e E, sc S) error {
			n, err := e.Rollback(ctx, sc, p.conv, p.in[1], "")
			if err == nil && n != 1 {
				return fmt.Errorf("%d rolled back", n)
			}
			return err
		}},
		{name: "optimize", do: func(ctx c, p *place, e E, sc S) error {
			_, err := e.Optimize(ctx, sc, p.conv, []string{"file.read"})
			return err
		}},
		{name: "remove", do: func(ctx c, p *place, e E, sc S) error { _, err := e.Remove(ctx, sc, p.conv, p.reading[0]); return err }},
		{name: "remove where the view begins", do: func(ctx c, p *place, e E, sc S) error {
			at := p.all[slices.Index(p.all, p.question)+20] // the rest of the view follows
			_, err := e.Remove(ctx, sc, p.conv, at)
			return err
		}},
		{name: "insert", do: func(ctx c, p *place, e E, sc S) error {
			_, err := e.Insert(ctx, sc, p.conv, p.question, say(message.User, "between"))
			return err
		}},
		{name: "insert first", do: func(ctx c, p *place, e E, sc S) error {
			_, err := e.Insert(ctx, sc, p.conv, id.ID{}, say(message.User, "zero"))
			return err
		}},
		{name: "unfit", do: func(ctx c, p *place, e E, sc S) error { return e.Unfit(ctx, sc, p.conv) }},
		{name: "merge", do: func(ctx c, p *place, e E, sc S) error { return e.Merge(ctx, sc, p.conv, p.in[0], p.in[1]) }},
		{name: "delete", do: func(ctx c, p *place, e E, sc S) error { return e.Delete(ctx, sc, p.conv) }},
		{name: "delete the branch", do: func(ctx c, p *place, e E, sc S) error { return e.DeleteBranch(ctx, sc, p.conv, record.MainBranch) }},
		{name: "undelete the branch", do: func(ctx c, p *place, e E, sc S) error { return e.UndeleteBranch(ctx, sc, p.conv, p.deleted) }},
		{name: "copy", do: func(ctx c, p *place, e E, sc S) error {
			_, err := e.CopyBranch(ctx, sc, p.conv, record.MainBranch)
			return err
		}},
		{name: "pack", parts: true, do: func(ctx c, p *place, e E, sc S) error { _, err := e.Pack(ctx, sc, p.conv, true); return err }},
		{name: "edit", parts: true, once: true, do: func(ctx c, p *place, e E, sc S) error {
			s, err := e.OpenFork(ctx, sc, p.conv, conversation.Fork{Message: p.question, Before: true})
			if err != nil {
				return err
			}
			return turn(ctx, s, "edited")
		}},
		{name: "answer anew", parts: true, once: true, do: func(ctx c, p *place, e E, sc S) error {
			s, err := e.OpenAgain(ctx, sc, p.conv, p.reading[1])
			if err != nil {
				return err
			}
			return turn(ctx, s, "")
		}},
		{name: "fit", node: true, once: true, do: func(ctx c, p *place, e E, sc S) error {
			s, err := e.Open(ctx, sc, p.conv)
			if err != nil {
				return err
			}
			_, err = s.Fit(ctx, counting(900))
			return err
		}},
		{name: "purge", node: true, parts: true, do: func(ctx c, p *place, e E, _ S) error { _, err := e.Purge(ctx, before); return err }},
	}
}

// state is the visible state of a conversation.
func (p *place) state() string {
	p.t.Helper()
	ctx := p.t.Context()
	c, err := p.e.Get(ctx, anna, p.conv)
	if err != nil {
		return fault.Of(err).Code
	}
	list, err := p.e.Branches(ctx, anna, p.conv)
	p.ok(err)
	var b strings.Builder
	fmt.Fprintln(&b, c.Title, c.Messages, c.ToolCalls)
	for _, br := range list {
		fmt.Fprintln(&b, br.Title, br.ID == c.BranchID(), br.View.Revision, br.View.Start.Pos, br.View.Clip, len(br.View.Keep))
		for m, err := range p.e.Walk(ctx, anna, p.conv, &br, false) {
			p.ok(err)
			fmt.Fprintln(&b, " ", brief(m.Message), m.Change.State, m.Pinned, m.Shown)
		}
	}
	fmt.Fprintln(&b, strings.Join(p.view(), "\n"))
	return b.String()
}

// Only the owner has access to a place; others' attempts write nothing.
func TestForeignScopes(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	before := p.seq()
	for _, op := range operations() {
		if op.node {
			continue
		}
		if err := op.do(t.Context(), p, p.e, bert); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: %v", op.name, err)
		}
		if err := op.do(t.Context(), p, p.e, store.Scope{}); !fault.HasCode(err, "scope_missing") {
			t.Errorf("%s without a scope: %v", op.name, err)
		}
	}
	if err := p.e.Undelete(t.Context(), bert, p.conv); !fault.HasCode(err, "conversation_not_found") {
		t.Error(err)
	}
	if now := p.seq(); now != before {
		t.Errorf("%d entries were written", now-before)
	}
	p.ok(p.e.Delete(t.Context(), anna, p.conv))
	for _, op := range operations() {
		if op.node || op.name == "find" || op.name == "title" || op.name == "merge" { // their callers check access first
			continue
		}
		if err := op.do(t.Context(), p, p.e, anna); !fault.HasCode(err, "conversation_not_found") {
			t.Errorf("deleted, %s: %v", op.name, err)
		}
	}
	p.ok(p.e.Undelete(t.Context(), anna, p.conv))
	p.ok(p.e.Undelete(t.Context(), anna, p.conv)) // it exists already
}

// A crash may interrupt erasing at any call. After a retry, nothing is left of the
// deleted conversation, branch or message.
func TestPurgeAfterCrashes(t *testing.T) {
	t.Parallel()
	what := map[string]func(p *place) error{
		"the conversation": func(p *place) error { return p.e.Delete(p.t.Context(), anna, p.conv) },
		"the messages": func(p *place) error {
			ctx := p.t.Context()
			p.ok(p.e.DeleteBranch(ctx, anna, p.conv, p.other))
			return second(p.e.Mark(ctx, anna, p.conv, conversation.Verdict{State: record.Deleted, Reason: password}, p.second...))
		},
	}
	for name, remove := range what {
		t.Run(name, func(t *testing.T) {
			for n, done := 0, false; !done; n += 1 + n/4 { // all of the first calls, some of the later ones
				p := newPlace(t)
				p.ok(remove(p))
				p.st.crash(n)
				_, err := p.e.Purge(t.Context(), time.Now().Add(time.Hour))
				p.st.crash(-1)
				if done = err == nil; !done && !errors.Is(err, errCrash) {
					t.Fatalf("at call %d: %v", n, err)
				}
				_, err = p.e.Purge(t.Context(), time.Now().Add(time.Hour))
				p.ok(err)
				for en, err := range store.Entries(t.Context(), p.db, store.ForNode(resource.System), store.LogQuery{}) {
					p.ok(err)
					if bytes.Contains(en.Body, []byte(password)) {
						t.Fatalf("after a crash at call %d, %s still says it", n, en.URI)
					}
				}
				if n, err := p.e.Purge(t.Context(), time.Now().Add(time.Hour)); n != 0 || err != nil {
					t.Errorf("%d are erased once more, %v", n, err)
				}
				p.state()
			}
		})
	}
}

// A session on a fork that never commits leaves nothing and blocks nothing.
func TestForkThatNeverBegins(t *testing.T) {
	p := newPlace(t)
	before, seq := p.state(), p.seq()
	_, err := p.e.OpenFork(t.Context(), anna, p.conv, conversation.Fork{Message: p.question, Before: true})
	p.ok(err)
	_, err = p.e.OpenAgain(t.Context(), anna, p.conv, p.question)
	p.ok(err)
	if p.state() != before || p.seq() != seq {
		t.Error("it left something")
	}
	p.turn("on")
}
