package runtime_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/agent"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/runtime"
	"steward/internal/tool"
)

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

// Calls of a turn run side by side, as many as may. One that waits for a
// person takes nobody's place.
func TestCallsRunAsManyAtATimeAsMay(t *testing.T) {
	c := &crowd{gate: make(chan struct{}), came: make(chan struct{}, 10)}
	w := made(t, &world{more: []tool.Tool{c.tool(t)}})
	w.opt.Parallel, w.opt.Limits = 2, agent.Limits{Calls: 20}
	w.open()
	asks := strings.Repeat("call ledger.add {\"what\":\"x\"}\n", 4)
	acc := w.send(id.ID{}, asks+strings.TrimSuffix(strings.Repeat("call crowd.join {}\n", 10), "\n"))
	questions := map[string]runtime.ApprovalView{}
	w.until(acc.Conversation, runtime.Cursor{}, func(f runtime.Frame) bool {
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
		ok(t, w.Decide(t.Context(), "anna", runtime.Verdict{ID: q.ID, Hash: q.Hash, Approve: true}))
	}
	frames := w.until(acc.Conversation, runtime.Cursor{}, isKind(runtime.FrameComplete))
	ok := 0
	for _, f := range frames {
		if f.Kind == runtime.FrameResult && f.Call.Status == string(message.OK) {
			ok++
		}
	}
	if ok != 14 || c.most != 2 {
		t.Errorf("%d calls succeeded, %d ran at a time", ok, c.most)
	}
}
