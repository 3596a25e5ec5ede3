package effect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/record"
	"steward/internal/request"
	"steward/internal/store"
	"steward/internal/tool"
	"steward/test/storetest"
)

// suspendedAt runs a call until it asks, and then ends as a closing node does.
func suspendedAt(t *testing.T, e *Engine, c Call) *Question {
	t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	var q *Question
	c.Notify = func(p Progress) { q = p.Question; cancel(request.ErrSuspend) }
	if _, err := e.Run(ctx, c); !errors.Is(err, request.ErrSuspend) || q == nil {
		t.Fatalf("%v, asked %v", err, q)
	}
	return q
}

// An approval counts only for what was shown, from the person who was asked, in time.
func TestWhatAnAnswerDoesNotBind(t *testing.T) {
	type place struct {
		e *Engine
		t *fake
		c Call
		q *Question
	}
	for name, x := range map[string]struct {
		code   string
		user   string                         // who answers, if not ann
		change func(d *Decision, q *Question) // of the answer
		before func(t *testing.T, p *place)   // the answer
	}{
		"of another user":          {code: "approval_not_found", user: "bob"},
		"to another question":      {code: "approval_not_found", change: func(d *Decision, q *Question) { d.ID = strings.TrimSuffix(q.ID, ".1") + ".99" }},
		"to no question":           {code: "approval_not_found", change: func(d *Decision, _ *Question) { d.ID = "" }},
		"without a hash":           {code: "approval_changed", change: func(d *Decision, _ *Question) { d.Hash = "" }},
		"to other arguments":       {code: "approval_changed", change: func(d *Decision, _ *Question) { d.Hash = intent.HashArgs([]byte(`{"path":"b"}`)) }},
		"by the hash of arguments": {code: "approval_changed", change: func(d *Decision, q *Question) { d.Hash = intent.HashArgs(q.Args) }},
		"after expiry":             {code: "approval_expired", before: func(*testing.T, *place) { time.Sleep(7*24*time.Hour + time.Second) }},
		"after the tool changed":   {code: "approval_tool_changed", before: func(_ *testing.T, p *place) { p.t.setVersion("2") }},
		"after a no":               {code: "approval_decided", before: func(t *testing.T, p *place) { answer(t, p.e, "ann", p.q, false) }},
		"of an earlier asking": {code: "approval_changed", before: func(t *testing.T, p *place) {
			p.t.setVersion("2")
			suspendedAt(t, p.e, p.c) // it is asked again
		}},
		"after it was withdrawn": {code: "approval_decided", before: func(t *testing.T, p *place) {
			if ok, err := p.e.Cancel(context.Background(), p.c.Scope, IntentURI(p.c.Message, p.c.Ref.Block), "not any more"); !ok || err != nil {
				t.Error(ok, err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tl := fileTool(func(context.Context, tool.Invocation) (tool.Result, error) {
					t.Error("it was done")
					return tool.Result{}, nil
				})
				p := &place{t: tl, c: callOf(tl, `{"path":"a"}`), e: newEngine(storetest.NewModel(), func(o *Options) { o.Tool = lookup(tl) })}
				p.q = suspendedAt(t, p.e, p.c)
				if x.before != nil {
					x.before(t, p)
				}
				d := Decision{ID: p.q.ID, Hash: p.q.Hash, Approve: true}
				if x.change != nil {
					x.change(&d, p.q)
				}
				decided(t, p.e, cmp.Or(x.user, "ann"), d, x.code)
			})
		})
	}
}

func TestAnAnswerOtherThanTheOneGiven(t *testing.T) {
	e := newEngine(openStore(t), nil)
	tl := fileTool(echo)
	e.opt.Tool = lookup(tl)
	a := callOf(tl, `{"path":"a"}`)
	q := suspendedAt(t, e, a)
	plain := Decision{ID: q.ID, Hash: q.Hash, Approve: true}
	same, args, standing := plain, plain, plain
	same.Args, args.Args, standing.Standing = []byte(`{ "path": "a" }`), []byte(`{"path":"b"}`), Always
	for _, d := range []Decision{plain, same, plain} {
		decided(t, e, "ann", d, "")
	}
	for _, d := range []Decision{args, standing} {
		decided(t, e, "ann", d, "approval_decided")
	}
	b := callOf(tl, `{"path":"a"}`)
	q = suspendedAt(t, e, b)
	for _, x := range []struct{ args, code string }{{`{"path":"b"}`, ""}, {`{"path":"b"}`, ""}, {`{"path":"c"}`, "approval_decided"}, {"", "approval_decided"}} {
		d := Decision{ID: q.ID, Hash: q.Hash, Approve: true}
		if x.args != "" {
			d.Args = []byte(x.args)
		}
		decided(t, e, "ann", d, x.code)
	}
	q = suspendedAt(t, e, callOf(tl, `{"path":"a"}`))
	for range 2 {
		decided(t, e, "ann", Decision{ID: q.ID, Hash: q.Hash, Approve: true, Standing: Always}, "")
	}
}

// An approval is used once: the same call again is not done again, and the
// approval of one call is none of another's.
func TestAnApprovalIsUsedOnce(t *testing.T) {
	s := openStore(t)
	var l ledger
	tl := fileTool(adds(&l, "done"))
	e := newEngine(s, nil)
	c := callOf(tl, `{"path":"a"}`)
	r := begin(t, e, c)
	q := r.question()
	d := Decision{ID: q.ID, Hash: q.Hash, Approve: true}
	for range 3 {
		decided(t, e, "ann", d, "")
	}
	expect(t, <-r.end, message.OK)
	expect(t, run(t, newEngine(s, nil), c), message.OK)
	decided(t, e, "ann", d, "")
	if n := l.total(false); n != 1 {
		t.Errorf("done %d times", n)
	}
	twin := begin(t, e, callOf(tl, `{"path":"a"}`)) // a parallel call of the same is asked for by itself
	other := twin.question()
	if other.Hash == q.Hash || other.ID == q.ID {
		t.Error("two questions are one")
	}
	decided(t, e, "ann", Decision{ID: other.ID, Hash: q.Hash, Approve: true}, "approval_changed")
	answer(t, e, "ann", other, false)
	<-twin.end
}

// mover is an action whose preview changes, like that of a file that others write.
type mover struct {
	*fake
	now *atomic.Value
}

func (m mover) Preview(context.Context, tool.Invocation) (string, error) {
	return m.now.Load().(string), nil
}

// Whoever answers what has changed since it was shown is shown the question again, and can
// answer that.
func TestAQuestionThatHasChangedIsShownAgain(t *testing.T) {
	var now atomic.Value
	now.Store("a new file")
	e := newEngine(openStore(t), nil)
	r := begin(t, e, callOf(mover{action(says("done")), &now}, `{}`))
	q := r.question()
	now.Store("a changed file")
	decided(t, e, "ann", Decision{ID: q.ID, Hash: q.Hash, Approve: true}, "approval_changed")
	again := r.question()
	if again.ID != q.ID || again.Preview != "a changed file" {
		t.Errorf("%+v", again)
	}
	answer(t, e, "ann", again, true)
	expect(t, <-r.end, message.OK)
}

// A question survives restarts over days, with its id and its expiry; an
// answer given while nothing ran counts, once.
func TestAQuestionOverDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewModel()
		var l ledger
		tl := fileTool(adds(&l, "done"))
		c := callOf(tl, `{"path":"a"}`)
		began := time.Now()
		first := suspendedAt(t, newEngine(s, nil), c)
		for range 3 {
			time.Sleep(40 * time.Hour)
			q := suspendedAt(t, newEngine(s, nil), c)
			if q.ID != first.ID || q.Hash != first.Hash || !q.Expires.Equal(began.Add(7*24*time.Hour)) {
				t.Errorf("asked anew: %+v", q)
			}
		}
		away := newEngine(s, nil) // a process in which no run waits
		list, err := away.Questions(context.Background(), "ann")
		if err != nil || len(list) != 1 || list[0].Hash != first.Hash || !list[0].Yours {
			t.Fatalf("%+v, %v", list, err)
		}
		if err := away.Decide(context.Background(), c.Scope, Decision{ID: first.ID, Hash: first.Hash, Approve: true}); err != nil {
			t.Fatal(err)
		}
		if list, err := away.Questions(context.Background(), "ann"); err != nil || len(list) != 0 {
			t.Errorf("%+v, %v", list, err)
		}
		time.Sleep(24 * time.Hour)
		for range 2 {
			expect(t, run(t, newEngine(s, nil), c), message.OK, "done")
		}
		if n := l.total(false); n != 1 {
			t.Errorf("done %d times", n)
		}
		// An approval is good for as long as a question stands, and no longer.
		late := callOf(tl, `{"path":"b"}`)
		q := suspendedAt(t, newEngine(s, nil), late)
		if err := away.Decide(context.Background(), late.Scope, Decision{ID: q.ID, Hash: q.Hash, Approve: true}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(7*24*time.Hour + time.Second)
		if again := suspendedAt(t, newEngine(s, nil), late); again.Hash == q.Hash || !strings.Contains(again.Reason, "expired") {
			t.Errorf("%+v", again)
		}
		if n := l.total(false); n != 1 {
			t.Errorf("done %d times", n)
		}
	})
}

// A run that waits does nothing for days: it looks at the store when it begins
// and when something was said, and not in between.
func TestWaitingLooksAtNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		s := &hooked{Store: storetest.NewModel(), before: func(*store.Batch) { asked.Add(1) }}
		e := newEngine(s, nil)
		c := callOf(fileTool(echo), `{"path":"a"}`)
		r := begin(t, e, c)
		q := r.question()
		synctest.Wait()
		before := asked.Load()
		time.Sleep(6 * 24 * time.Hour)
		synctest.Wait()
		if n := asked.Load() - before; n != 0 {
			t.Errorf("the store was asked %d times", n)
		}
		answer(t, e, "ann", q, false)
		<-r.end
	})
}

// What had been read of others before is told, by the tools and where they looked.
func TestWhatWasReadIsTold(t *testing.T) {
	ctx := context.Background()
	s, e := open(t, policy.Fixed{})
	c := callOf(fileTool(echo), `{"path":"a"}`)
	c.Labels = message.Private | message.Untrusted
	at := time.Now().Add(-time.Minute)
	put := func(m *message.Message, labels message.Labels) {
		t.Helper()
		m.At = at
		at = at.Add(time.Second)
		for _, b := range m.Blocks {
			b.Base().Labels, b.Base().Origin = labels, "test"
		}
		change := store.Change{URI: interaction.ChildID(record.TypeMessage, m.ID), Body: message.Append(nil, m)}
		if _, err := s.Commit(ctx, c.Scope, store.Batch{Changes: []store.Change{change}}); err != nil {
			t.Fatal(err)
		}
	}
	for i, x := range []struct {
		name, args string
		labels     message.Labels
	}{{"web.fetch", `{"url":"https://example.org"}`, message.Untrusted}, {"notes.list", `{}`, message.Private},
		{"mail.list", `{}`, message.Private | message.Untrusted}, {"web.fetch", `{"url":"https://example.org"}`, message.Untrusted},
		{"long.read", `{"x":"` + strings.Repeat("y", 300) + `"}`, message.Untrusted}} {
		call := &message.Message{ID: id.New(), Role: message.Assistant, Blocks: []message.Block{&message.ToolCall{CallID: fmt.Sprint(i), Name: x.name, Args: []byte(x.args)}}}
		put(call, 0)
		put(&message.Message{ID: id.New(), Role: message.Tool, Blocks: []message.Block{&message.ToolResult{Call: message.Ref{Message: call.ID}, Name: x.name, Status: message.OK,
			Content: []message.Block{&message.Text{Common: message.Common{Origin: "test"}, Text: "said"}}}}}, x.labels)
	}
	q := suspendedAt(t, e, c)
	want := []string{`web.fetch {"url":"https://example.org"}`, "mail.list", `long.read {"x":"` + strings.Repeat("y", 194) + "…"}
	if strings.Join(q.Read, "|") != strings.Join(want, "|") {
		t.Errorf("%q", q.Read)
	}
	if got := DescribeLabels(q.Labels, q.Read[:2]); got != `after reading web.fetch {"url":"https://example.org"}, mail.list, with private data in view` {
		t.Errorf("%q", got)
	}
	if got := DescribeLabels([]string{"untrusted", "secret"}, nil); got != "after reading content that others may have written, with secrets in view" {
		t.Errorf("%q", got)
	}
}

func TestQuestionsThatAreNone(t *testing.T) {
	ctx := context.Background()
	_, e := open(t, policy.Fixed{})
	c := callOf(fileTool(echo), `{"path":"a"}`)
	q := suspendedAt(t, e, c)
	for name, which := range map[string]string{"nothing": "", "a word": "odd", "another id": id.New().String(), "another URI": c.Message.String()} {
		if _, err := e.Question(ctx, c.Scope, which, nil); !fault.HasCode(err, "approval_not_found") {
			t.Errorf("%s: %v", name, err)
		}
	}
	answer(t, e, "ann", q, false)
	if _, err := e.Question(ctx, c.Scope, q.ID, nil); !fault.HasCode(err, "approval_decided") {
		t.Error(err)
	}
	select {
	case <-e.Changed():
		t.Error("something has changed before it was asked")
	default:
	}
	changed := e.Changed()
	suspendedAt(t, e, callOf(fileTool(echo), `{"path":"a"}`))
	<-changed
}

// BenchmarkWaiting tells what a run costs that waits for a person: goroutines
// and bytes of heap and stack per run, of 1,000.
func BenchmarkWaiting(b *testing.B) {
	const runs = 1000
	for b.Loop() {
		s := storetest.NewModel()
		e := New(Options{Store: s, Authorizer: policy.Fixed{}, Log: quiet})
		ctx, cancel := context.WithCancelCause(context.Background())
		var wg, asked sync.WaitGroup
		tl := fileTool(echo)
		before, n := memory()
		asked.Add(runs)
		for range runs {
			c := callOf(tl, `{"path":"notes/a.txt","text":"hello"}`)
			c.Notify = func(Progress) { asked.Done() }
			wg.Go(func() {
				if _, err := e.Run(ctx, c); !errors.Is(err, request.ErrSuspend) {
					b.Error(err)
				}
			})
		}
		asked.Wait()
		after, m := memory()
		b.ReportMetric(float64(m-n)/runs, "goroutines/run")
		b.ReportMetric(float64(after-before)/runs, "B/run")
		cancel(request.ErrSuspend)
		wg.Wait()
	}
}

// memory is what is in use, of heap and stacks, and by how many goroutines.
func memory() (bytes int64, goroutines int) {
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse), goruntime.NumGoroutine()
}
