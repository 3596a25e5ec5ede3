package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/store"
)

// call is a client's call in progress: what it reports to the client, and what it asks.
type call struct {
	*session
	conn   *sdk.ServerSession
	token  any  // of progress; nil: the client wants none
	asks   bool // the client can ask a person who may decide
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup
	steps  chan step

	mu   sync.Mutex
	over bool               // no more is reported
	last string             // the question that is being asked, by its id; empty: none
	stop context.CancelFunc // ends asking it
}

// step is one report of progress.
type step struct {
	message  string
	fraction float64
}

// newCall returns the call of a request. close must be called at its end.
func (x *session) newCall(ctx context.Context, r *sdk.CallToolRequest) *call {
	c := &call{session: x, conn: r.Session, token: r.Params.GetProgressToken(), asks: x.caller.Attended() && asksPeople(r.Session), steps: make(chan step, 16)}
	c.ctx, c.cancel = context.WithCancel(ctx)
	c.work.Go(func() { c.tell(ctx) })
	return c
}

// asksPeople reports whether a client can show a form to a person.
func asksPeople(conn *sdk.ServerSession) bool {
	p := conn.InitializeParams()
	if p == nil || p.Capabilities == nil || p.Capabilities.Elicitation == nil {
		return false
	}
	e := p.Capabilities.Elicitation
	return e.Form != nil || e.URL == nil // without either, a client means forms
}

// close ends what the call still does, and waits for it. What was reported is sent before the result.
func (c *call) close() {
	c.mu.Lock()
	c.over = true
	close(c.steps)
	c.mu.Unlock()
	c.cancel()
	c.work.Wait()
}

// report sends the client a message on the call's progress. It does not block: a client that does not keep up misses
// some of them.
func (c *call) report(message string, fraction float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token == nil || c.over {
		return
	}
	select {
	case c.steps <- step{message, fraction}:
	default:
	}
}

// tell sends the reports. The protocol wants progress to increase with each of them, also where it is unknown.
func (c *call) tell(ctx context.Context) {
	const least = 1e-6
	last := 0.0
	for s := range c.steps {
		p := &sdk.ProgressNotificationParams{ProgressToken: c.token, Message: s.message, Progress: max(s.fraction, last+least)}
		if s.fraction > 0 {
			p.Total = 1
		}
		last = p.Progress
		if ctx.Err() == nil {
			c.conn.NotifyProgress(ctx, p) //nolint:errcheck // a client that has gone ends ctx
		}
	}
}

// maxShown bounds the arguments that a question shows in full, in bytes.
const maxShown = 4 << 10

// The answers of the form in which a client asks.
const (
	answerAllow = "allow once"
	answerDeny  = "deny"
)

// ask asks the person at the client about a question. It does not block. A question is asked once at a time.
func (c *call) ask(question string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.asks || c.last == question || c.ctx.Err() != nil {
		return
	}
	if c.stop != nil {
		c.stop()
	}
	ctx, stop := context.WithCancel(c.ctx)
	c.last, c.stop = question, stop
	c.work.Go(func() {
		defer stop()
		c.elicit(ctx, question)
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.last == question {
			c.last = ""
		}
	})
}

// answered ends asking: the call goes on, so the question was answered, here or elsewhere.
func (c *call) answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stop != nil {
		c.stop()
		c.stop = nil
	}
}

// elicit shows a question to the person at the client and records the answer. If the client cannot ask, or the call is
// cancelled while the question is open, the answer is no.
func (c *call) elicit(ctx context.Context, question string) {
	scope := store.ForUser(c.caller.User)
	for range 5 { // what would be done may change while it is shown
		q, err := c.o.Approvals.Question(ctx, scope, question, nil)
		if err != nil {
			c.withdraw(ctx, question, "", "the question cannot be shown")
			return
		}
		if !q.Yours {
			c.report("waiting for the group "+q.Approvers+" to approve it", 0)
			return
		}
		res, err := c.conn.Elicit(ctx, &sdk.ElicitParams{Mode: "form", Message: shown(&q), RequestedSchema: json.RawMessage(form)})
		switch {
		case err != nil:
			c.withdraw(ctx, question, q.Hash, "the MCP client did not answer")
			return
		case c.caller.Recheck(ctx) != nil:
			c.withdraw(ctx, question, q.Hash, "the credential of the MCP client is no longer valid")
			return
		}
		d := effect.Decision{ID: question, Hash: q.Hash, Approve: res.Action == "accept" && res.Content["answer"] == answerAllow}
		if !d.Approve {
			d.Reason = "declined in the MCP client"
		}
		if err = c.o.Approvals.Decide(ctx, scope, d); !fault.HasCode(err, "approval_changed") {
			if err != nil && ctx.Err() == nil {
				c.o.Logger.InfoContext(ctx, "an answer of an MCP client was not accepted", "error", err)
			}
			return
		}
	}
	c.withdraw(ctx, question, "", "what would be done keeps changing")
}

// withdraw answers a question with no, unless it was answered or the session's server is closing, in which case the
// question stays open.
func (c *call) withdraw(ctx context.Context, question, hash, why string) {
	if c.Server.ends.Err() != nil {
		return
	}
	if ctx.Err() != nil {
		why = "the MCP client has cancelled the call"
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	scope := store.ForUser(c.caller.User)
	if hash == "" {
		q, err := c.o.Approvals.Question(ctx, scope, question, nil)
		if err != nil {
			return
		}
		hash = q.Hash
	}
	err := c.o.Approvals.Decide(ctx, scope, effect.Decision{ID: question, Hash: hash, Reason: why})
	if err != nil && !fault.HasCode(err, "approval_decided") {
		c.o.Logger.InfoContext(ctx, "a question of an MCP client stays open", "why", why, "error", err)
	}
}

// form is the form in which a client asks. The person has to choose: an empty form allows nothing.
const form = `{"type":"object","properties":{"answer":{"type":"string","title":"Answer","description":"Whether Steward may do this, once.",` +
	`"enum":["` + answerAllow + `","` + answerDeny + `"]}},"required":["answer"]}`

// shown is a question as a person reads it.
func shown(q *effect.Question) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", q.Summary)
	if q.Why != "" {
		fmt.Fprintf(&b, "%s\n", q.Why)
	}
	for _, v := range q.Values {
		fmt.Fprintf(&b, "%s: %s", v.Name, v.Text)
		if v.Cut {
			fmt.Fprintf(&b, " … (%d bytes)", v.Size)
		}
		if len(v.Marks) > 0 {
			fmt.Fprintf(&b, " [%s]", strings.Join(v.Marks, ", "))
		}
		b.WriteByte('\n')
	}
	if q.Preview != "" {
		fmt.Fprintf(&b, "%.*s\n", maxShown, q.Preview)
	}
	if q.More > 0 || len(q.Preview) > maxShown {
		fmt.Fprintf(&b, "There is more to it: steward approvals show %s --whole\n", q.Short)
	}
	return b.String()
}
