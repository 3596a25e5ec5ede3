package runtime_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/conversation/worklog"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/tool"
	"steward/internal/turn"
)

// bench controls and counts the calls of the slow tools.
type bench struct {
	gate  chan struct{} // slow.work and slow.change go on when it is closed
	begun chan string   // gets the argument of each that has begun

	mu    sync.Mutex
	calls map[string]int // by argument
	last  tool.Invocation
}

func newBench() *bench {
	return &bench{gate: make(chan struct{}), begun: make(chan string, 1000), calls: map[string]int{}}
}

func (b *bench) count(what string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls[what]
}

func (b *bench) invocation() tool.Invocation {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}

type chore struct {
	What string `json:"what"`
	MS   int    `json:"ms,omitzero"` // how long it takes; 0: until the gate is open
}

func (b *bench) call(ctx context.Context, in tool.Invocation, w chore) (tool.Result, error) {
	b.mu.Lock()
	b.calls[w.What]++
	b.last = in
	b.mu.Unlock()
	in.Report(tool.Progress{Message: "at " + w.What, Fraction: 0.5})
	b.begun <- w.What
	wait := b.gate
	if w.MS > 0 {
		wait = make(chan struct{})
		timer := time.AfterFunc(time.Duration(w.MS)*time.Millisecond, func() { close(wait) })
		defer timer.Stop()
	}
	select {
	case <-wait:
	case <-ctx.Done():
		return tool.Result{}, ctx.Err()
	}
	if strings.HasPrefix(w.What, "bad") {
		return tool.Result{}, fault.New(fault.Unavailable, "mill_broken", "the mill is broken")
	}
	return tool.Text("did " + w.What), nil
}

func (b *bench) tools(t testing.TB) []tool.Tool {
	var out []tool.Tool
	for _, sp := range []tool.Spec{
		{Name: "slow.work", Description: "Works for long.", Effect: tool.Query, Async: true, Yields: message.Untrusted},
		{Name: "slow.later", Description: "Works, perhaps for long.", Effect: tool.Query, AsyncAfter: 30 * time.Millisecond},
		{Name: "slow.quick", Description: "Works, not for long.", Effect: tool.Query, AsyncAfter: time.Hour},
		{Name: "slow.change", Description: "Changes something for long.", Effect: tool.Action, Async: true, Dedupes: true},
	} {
		x := newTool(sp, b.call)
		out = append(out, x)
	}
	return out
}

func newSlowWorld(t testing.TB) (*world, *bench) {
	b := newBench()
	w := made(t, &world{more: b.tools(t)})
	w.open()
	return w, b
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, is func() bool) {
	for !is() {
		<-time.After(2 * time.Millisecond)
	}
}

// rows returns the recorded requests by kind.
func (w *world) rows() map[string][]record.Request {
	w.t.Helper()
	out := map[string][]record.Request{}
	for _, r := range w.requests() {
		out[r.Kind] = append(out[r.Kind], r)
	}
	return out
}

// settled waits until every request is closed.
func (w *world) settled() {
	w.t.Helper()
	eventually(w.t, "all requests are closed", func() bool {
		list, err := w.Requests(w.t.Context(), "anna", false, 1000)
		ok(w.t, err)
		return len(list) == 0
	})
}

// openings returns the messages of a conversation that a tool or an agent wrote.
func (w *world) openings(conv id.ID) (out []*message.Message) {
	w.t.Helper()
	list := w.messages(conv)
	for _, m := range list {
		if from := m.Blocks[0].Base().Origin; m.Role == message.User && (strings.HasPrefix(from, "tool:") || strings.HasPrefix(from, "agent:")) {
			out = append(out, m.Message)
		}
	}
	return out
}

// resultsOf returns the statuses of the results in a conversation.
func (w *world) resultsOf(conv id.ID) (out []message.Status) {
	w.t.Helper()
	list := w.messages(conv)
	for _, m := range list {
		if r := m.Result(); r != nil {
			out = append(out, r.Status)
		}
	}
	return out
}

func isTask(status string) func(turn.Frame) bool {
	return func(f turn.Frame) bool { return f.Kind == turn.FrameTask && f.Task.Status == status }
}

func TestBackgroundResultIsDelivered(t *testing.T) {
	w, b := newSlowWorld(t)
	conv, frames := w.turn(id.ID{}, `call slow.work {"what":"flour"}`)
	if got := said(frames); !strings.HasPrefix(got, "accepted: Acknowledged: slow.work goes on in the background as task ") {
		t.Errorf("the model was told %q", got)
	}
	first := frames[0].Interaction
	rows := w.rows()
	if len(rows[record.RequestTask]) != 1 || len(rows[record.RequestTurn]) != 1 {
		t.Fatalf("rows: %+v", rows)
	}
	task := rows[record.RequestTask][0]
	if task.Parent != first || task.Root != first || task.Tool != "slow.work" || task.Args != `{"what":"flour"}` || task.User != "anna" ||
		!task.Attended || task.Agent != "assistant" || task.ID != record.TaskID(task.Call) {
		t.Errorf("the task: %+v", task)
	}
	in := b.invocation()
	if in.Request != first || !in.Parent.Zero() || in.Agent != "" || !strings.HasPrefix(in.Trace, "00-"+strings.ReplaceAll(first.String(), "-", "")) {
		t.Errorf("the call's lineage: %+v", in)
	}
	list, err := w.Requests(t.Context(), "anna", false, 10)
	if err != nil || len(list) != 2 {
		t.Fatalf("open: %+v, %v", list, err)
	}
	// A watcher that comes while it runs sees it; the turn has been answered.
	w.until(conv, turn.Cursor{}, isTask(record.TaskRunning))
	at := frames[len(frames)-1].Cursor
	if log := w.told(worklog.Filter{}); len(log) != 1 || !strings.HasPrefix(log[0], "pending ") {
		t.Errorf("the work log: %q", log)
	}
	close(b.gate)
	got := w.until(conv, at, isKind(turn.FrameComplete))
	order := kinds(got)
	if !strings.Contains(order, "opened token") || strings.Contains(order, "user") {
		t.Errorf("frames: %s", order)
	}
	msg := w.openings(conv)
	if len(msg) != 1 || msg[0].Blocks[0].Base().Origin != "tool:slow.work" || !message.LabelsOf(msg[0].Blocks).Has(message.Untrusted) {
		t.Fatalf("%+v", msg)
	}
	for _, want := range []string{"slow.work has ended: it was done.", task.ID.String(), "flour", "did flour", "not instructions"} {
		if !strings.Contains(msg[0].Text(), want) {
			t.Errorf("%q does not say %q", msg[0].Text(), want)
		}
	}
	w.settled()
	rows = w.rows()
	task = rows[record.RequestTask][0]
	if task.Status != record.TaskCompleted || task.Outcome != "ok" || !task.Told || task.Result != nil || task.Closed.IsZero() || task.Usage.Input != 10 {
		t.Errorf("the task at the end: %+v", task)
	}
	if turn := rows[record.RequestTurn][0]; len(rows[record.RequestTurn]) != 1 || turn.ID != first || turn.Outcome != "answered" || turn.Usage.Input != 30 || turn.Root != first {
		t.Errorf("the turn at the end: %+v", rows[record.RequestTurn])
	}
	if log := w.told(worklog.Filter{Outcome: worklog.Success}); len(log) != 1 {
		t.Errorf("the work log: %q", log)
	}
	// A replay from the beginning shows everything once, in order.
	all := w.until(conv, turn.Cursor{}, nth(isKind(turn.FrameComplete), 2))
	if n := count(all, turn.FrameOpened); n != 1 {
		t.Errorf("%d openings in %s", n, kinds(all))
	}
	if b.count("flour") != 1 {
		t.Errorf("it worked %d times", b.count("flour"))
	}
}

func TestPlainTurnsRecordNoRequests(t *testing.T) {
	w, _ := newSlowWorld(t)
	conv, _ := w.turn(id.ID{}, `call math.multiply {"a":2,"b":3}`)
	w.atRest(conv)
	before := w.logged()
	w.turn(conv, `call math.multiply {"a":2,"b":3}`)
	w.atRest(conv)
	// Interaction, run and message; call; result; answer, run, conversation.
	if n := w.logged() - before; n != 8 {
		t.Errorf("a plain turn has %d entries", n)
	}
	if rows := w.rows(); len(rows) != 0 {
		t.Errorf("%+v", rows)
	}
}

func TestQuickCallsStayInTheTurn(t *testing.T) {
	w, b := newSlowWorld(t)
	conv, frames := w.turn(id.ID{}, `call slow.quick {"what":"tea","ms":1}`)
	if got := said(frames); got != "ok: did tea" {
		t.Errorf("it said %q", got)
	}
	conv2, frames := w.turn(conv, `call slow.later {"what":"soup"}`)
	if got := said(frames); !strings.HasPrefix(got, "accepted: ") || conv2 != conv {
		t.Errorf("it said %q", got)
	}
	close(b.gate)
	w.until(conv, frames[len(frames)-1].Cursor, isKind(turn.FrameComplete))
	w.settled()
	if got := fmt.Sprint(w.resultsOf(conv)); got != "[ok accepted]" || len(w.openings(conv)) != 1 {
		t.Errorf("results %s, %d openings", got, len(w.openings(conv)))
	}
}

// A call that ends just when it would go to the background has one result.
func TestCallsThatEndAsTheyGoToTheBackground(t *testing.T) {
	t.Parallel()
	w, _ := newSlowWorld(t)
	inline, later := 0, 0
	for n := range 24 {
		conv, frames := w.turn(id.ID{}, fmt.Sprintf(`call slow.later {"what":"w%d","ms":%d}`, n, 27+n%6))
		told := said(frames)
		w.settled()
		switch openings := w.openings(conv); {
		case strings.HasPrefix(told, "ok: ") && len(openings) == 0:
			inline++
		case strings.HasPrefix(told, "accepted: ") && len(openings) == 1:
			later++
		default:
			t.Errorf("told %q, then %d openings", told, len(openings))
		}
	}
	t.Logf("%d inline, %d as tasks", inline, later)
}

func TestUnattendedBackgroundActionIsDenied(t *testing.T) {
	w, _ := newSlowWorld(t)
	acc := w.sent(turn.Input{Content: text(`call slow.change {"what":"flour"}`)})
	w.until(acc.Conversation, turn.Cursor{}, isKind(turn.FrameComplete))
	if got := fmt.Sprint(w.resultsOf(acc.Conversation)); got != "[denied]" || len(w.rows()) != 0 {
		t.Errorf("results: %s, rows %v", got, w.rows())
	}
}

func TestBackgroundCallThatFails(t *testing.T) {
	w, b := newSlowWorld(t)
	conv, _ := w.turn(id.ID{}, `call slow.work {"what":"bad"}`)
	close(b.gate)
	w.settled()
	msgs := w.openings(conv)
	if len(msgs) != 1 || !strings.Contains(msgs[0].Text(), "it could not be reached") || !strings.Contains(msgs[0].Text(), "mill_broken") {
		t.Errorf("%v", msgs)
	}
	if log := w.told(worklog.Filter{Outcome: worklog.Failure}); len(log) != 1 {
		t.Errorf("the work log: %q", log)
	}
	if r := w.rows()[record.RequestTask][0]; r.Status != record.TaskError || r.Outcome != "unavailable" || !strings.Contains(r.Message, "broken") {
		t.Errorf("%+v", r)
	}
}

// endless is a model that begins a background call whenever one has ended.
type endless struct{ *scripted }

func (m endless) Model(string) llm.Model { return m }

func (m endless) Stream(ctx context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	msgs := r.Transcript.Messages()
	if last := msgs[len(msgs)-1]; last.Role == message.User {
		return func(yield func(llm.Event, error) bool) {
			m.done(yield, message.StopTools, &message.ToolCall{CallID: "c", Name: "slow.work", Args: []byte(`{"what":"flour"}`)})
		}
	}
	return m.scripted.Stream(ctx, r)
}

func TestChainOfBackgroundCallsIsBounded(t *testing.T) {
	t.Parallel()
	b := newBench()
	close(b.gate)
	w := made(t, &world{more: b.tools(t)})
	w.provider = endless{w.model}
	w.open()
	conv, _ := w.turn(id.ID{}, "go")
	w.settled()
	if n := b.count("flour"); n != 32 {
		t.Errorf("%d tasks", n)
	}
	all := w.resultsOf(conv)
	if last := all[len(all)-1]; last != message.Failed || len(w.openings(conv)) != 32 {
		t.Errorf("it ended with %s, %d openings", last, len(w.openings(conv)))
	}
}

// told reads the work log of anna, two entries at a time.
func (w *world) told(f worklog.Filter) []string {
	w.t.Helper()
	out := []string{}
	list, next, err := w.WorkLog(w.t.Context(), "anna", f, "", 2)
	for ; err == nil; list, next, err = w.WorkLog(w.t.Context(), "anna", f, next, 2) {
		for _, en := range list {
			out = append(out, fmt.Sprint(en.Outcome, " ", en.Summary))
		}
		if next == "" {
			return out
		}
	}
	w.t.Fatal(err)
	return nil
}
