package effect

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/request"
	"steward/internal/resource"
	"steward/test/storetest"
)

// laws is an authorizer whose mind a test changes, by the point.
type laws struct {
	mu    sync.Mutex
	at    map[policy.Point]policy.Decision
	asked []policy.Question
}

func (l *laws) set(p policy.Point, d policy.Decision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at == nil {
		l.at = map[policy.Point]policy.Decision{}
	}
	l.at[p] = d
}

func (l *laws) Authorize(_ context.Context, q policy.Question) (policy.Decision, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, q)
	if d, ok := l.at[q.Point]; ok {
		return d, nil
	}
	return policy.Decision{Verdict: policy.Allow, Rule: "all", Version: "v1"}, nil
}

func (l *laws) points() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, q := range l.asked {
		out = append(out, string(q.Point))
	}
	l.asked = nil
	return strings.Join(out, " ")
}

func TestActionsAreJudgedOnceMoreWhenTimeHasPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewModel()
		l := &laws{}
		e := engine(s, l)
		var w ledger
		tl := action(adds(&w, "sent"))

		run(t, e, callOf(tl, `{}`)) // at once: judged once
		if got := l.points(); got != "tool" {
			t.Errorf("at once: judged at %s", got)
		}

		// After an approval: an ask is satisfied by it, a deny denies.
		l.set(policy.PointTool, policy.Decision{Verdict: policy.Ask, Reason: "look", Rule: "asks", Version: "v2"})
		l.set(policy.PointIntent, policy.Decision{Verdict: policy.Ask, Reason: "look", Rule: "asks", Version: "v3"})
		c := callOf(tl, `{}`)
		expect(t, runAnswering(t, e, c, true), message.OK)
		if in := stateOf(t, s, c); in.Policy != "v3" || in.Rule != "asks" || in.Approval == nil || in.Approval.By != "ann" {
			t.Errorf("%+v", in)
		}
		if got := l.points(); got != "tool intent intent" { // who answers is settled before anybody is asked
			t.Errorf("after an approval: judged at %s", got)
		}
		l.set(policy.PointIntent, policy.Decision{Verdict: policy.Deny, Reason: "not any more", Rule: "denies", Version: "v4"})
		c = callOf(tl, `{}`)
		expect(t, runAnswering(t, e, c, true), message.DeniedCall, "not any more")
		if in := isState(t, s, c, intent.Denied); in.DeniedBy != "" || in.Policy != "v4" {
			t.Errorf("%+v", in)
		}
		if w.total(false) != 2 {
			t.Errorf("%d effects", w.total(false))
		}

		// After the queue: what was allowed is asked about, if policy has come to that.
		l.set(policy.PointTool, policy.Decision{Verdict: policy.Allow})
		l.set(policy.PointIntent, policy.Decision{Verdict: policy.Ask, Reason: "since then"})
		var qw ledger
		dt := deferred(&qw)
		c = callOf(dt, `{}`)
		c.Labels, c.Flow, c.Lineage = message.Private, policy.Flow{Fixed: true}, []string{"boss"}
		run(t, e, c)
		l.points()
		var wg sync.WaitGroup
		st := settlement(c, dt)
		st.Notify = answers(t, e, &wg, true)
		settle(t, e, st, message.OK)
		wg.Wait()
		if in := stateOf(t, s, c); in.Approval == nil || in.Approval.By != "ann" || qw.total(false) != 1 {
			t.Errorf("%d effects, %+v", qw.total(false), in)
		}
		l.mu.Lock()
		for _, q := range l.asked { // what is recorded is what is judged
			if q.Labels != message.Private || !q.Flow.Fixed || len(q.Lineage) != 1 || string(q.Args) != `{}` {
				t.Errorf("%+v", q)
			}
		}
		l.mu.Unlock()
	})
}

// An approval of the user's does not do where policy has come to want a group's.
func TestApprovalByTheWrongPeople(t *testing.T) {
	s := openStore(t)
	l := &laws{}
	l.set(policy.PointTool, policy.Decision{Verdict: policy.Ask})
	e := engine(s, l)
	c := callOf(action(says("sent")), `{}`)
	ctx, cancel := context.WithCancelCause(context.Background())
	questions := 0
	c.Notify = func(p Progress) {
		if p.Status != Awaiting {
			return
		}
		if questions++; questions == 2 {
			cancel(request.ErrStop)
			return
		}
		l.set(policy.PointIntent, policy.Decision{Verdict: policy.Ask, Reason: "the parents decide", Obligations: policy.Obligations{Approvers: "parents"}})
		go func() {
			answer(t, e, "ann", p.Question, true)
		}()
	}
	res, err := e.Run(ctx, c)
	if err != nil || res.Status != message.Interrupted || questions != 2 || stateOf(t, s, c).Approvers != "parents" {
		t.Errorf("%s, %v, asked %d times", describe(res), err, questions)
	}
}

func TestActionsOutsideOfARunAreRefused(t *testing.T) {
	s := openStore(t)
	var said bytes.Buffer
	e := New(Options{Store: s, Authorizer: judge(policy.Allow), Log: slog.New(slog.NewTextHandler(&said, nil))})
	var w ledger
	tl := action(adds(&w, "sent"))
	good := callOf(tl, `{}`)
	for name, spoil := range map[string]func(*Call) context.Context{
		"no request": func(c *Call) context.Context { c.Request.ID = id.ID{}; return context.Background() },
		"another request": func(c *Call) context.Context {
			return request.With(context.Background(), request.Context{ID: id.New()})
		},
		"no message":              func(c *Call) context.Context { c.Ref.Message = id.ID{}; return context.Background() },
		"no place of the message": func(c *Call) context.Context { c.Message = resource.URI{}; return context.Background() },
		"another message":         func(c *Call) context.Context { c.Ref.Message = id.New(); return context.Background() },
	} {
		said.Reset()
		c := good
		ctx := spoil(&c)
		res, err := e.Run(ctx, c)
		if !fault.HasCode(err, "intent_outside_run") || res == nil || res.Status != message.Failed || w.total(false) != 0 {
			t.Errorf("%s: %s, %v", name, describe(res), err)
		}
		if !strings.Contains(said.String(), "level=ERROR") || !strings.Contains(said.String(), "intent_outside_run") {
			t.Errorf("%s: said %q", name, said.String())
		}
	}
	if res, err := e.Run(request.With(context.Background(), good.Request), good); err != nil || res.Status != message.OK {
		t.Error(res, err)
	}
}
