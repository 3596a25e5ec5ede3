package effect

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/tool"
	"steward/test/storetest"
)

// heard keeps what a call tells.
type heard struct {
	mu   sync.Mutex
	list []Progress
}

func (h *heard) notify(p Progress) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = append(h.list, p)
}

func (h *heard) words() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []string
	for _, p := range h.list {
		out = append(out, fmt.Sprintf("%s %q %g", p.Status, p.Message, p.Fraction))
	}
	return strings.Join(out, "\n")
}

func TestRetryStrategiesAreObeyed(t *testing.T) {
	down := func(kind fault.Kind) *fault.Error { return fault.New(kind, "mill_down", "the mill is down") }
	for _, c := range []struct {
		name   string
		effect tool.Effect
		err    error
		fails  int // so often, then it answers
		calls  int
		took   time.Duration
		status message.Status
	}{
		{"backoff", tool.Query, down(fault.Unavailable).Retrying(fault.RetryBackoff, 0), 2, 3, 1500 * time.Millisecond, message.OK},
		{"immediate", tool.Query, down(fault.Unavailable).Retrying(fault.RetryImmediate, 0), 1, 2, 0, message.OK},
		{"after", tool.Query, down(fault.RateLimited).Retrying(fault.RetryAfter, 3*time.Second), 1, 2, 3 * time.Second, message.OK},
		{"after too long", tool.Query, down(fault.RateLimited).Retrying(fault.RetryAfter, time.Hour), 1, 1, 0, message.Failed},
		{"none", tool.Query, down(fault.Unavailable), 1, 1, 0, message.Unavailable},
		{"said to be none", tool.Query, down(fault.Unavailable).Retrying(fault.RetryNone, 0), 1, 1, 0, message.Unavailable},
		{"no fault", tool.Query, errors.New("odd"), 1, 1, 0, message.Failed},
		{"bounded", tool.Query, down(fault.Unavailable).Retrying(fault.RetryImmediate, 0), 100, maxTries, 0, message.Unavailable},
		{"action, not certain", tool.Action, down(fault.Unavailable).Retrying(fault.RetryBackoff, 0), 1, 1, 0, message.UnknownEnd},
		{"action, not done", tool.Action, tool.NotDone(down(fault.Unavailable).Retrying(fault.RetryBackoff, 0)), 1, 2, 500 * time.Millisecond, message.OK},
		{"action, refused", tool.Action, down(fault.RateLimited).Retrying(fault.RetryAfter, time.Second), 2, 3, 2 * time.Second, message.OK},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				call := func(context.Context, tool.Invocation) (tool.Result, error) {
					if n++; n <= c.fails {
						return tool.Result{}, c.err
					}
					return tool.Text("ground"), nil
				}
				f := query(call)
				f.spec.Effect, f.spec.Concurrency = c.effect, 1
				e := engine(storetest.NewModel(), judge(policy.Allow))
				var h heard
				x := callOf(f, `{}`)
				x.Notify = h.notify
				began := time.Now()
				res := run(t, e, x)
				if took := time.Since(began); res.Status != c.status || n != c.calls || took != c.took {
					t.Errorf("%s after %d calls and %s; want %s, %d, %s", describe(res), n, took, c.status, c.calls, c.took)
				}
				if again := strings.Count(h.words(), "retrying"); again != c.calls-1 {
					t.Errorf("told %d times of another try:\n%s", again, h.words())
				}
				if c.effect == tool.Action && c.status == message.OK {
					if in := stateOf(t, e.opt.Store, x); in.State != intent.Done || in.Attempts != 1 {
						t.Errorf("the intent: %+v", in)
					}
				}
			})
		})
	}
}

func TestStopWhileWaitingForAnotherTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := query(fails(fault.New(fault.Unavailable, "down", "down").Retrying(fault.RetryAfter, 20*time.Second)))
		e := engine(storetest.NewModel(), judge(policy.Allow))
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(time.Second, cancel)
		res, err := e.Run(ctx, callOf(f, `{}`))
		if err != nil {
			t.Fatal(err)
		}
		expect(t, res, message.Interrupted)
	})
}

// Another try waits for a place like any call; where none comes, what the
// first one said is told.
func TestAnotherTryWaitsForAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		n := 0
		f := query(func(ctx context.Context, in tool.Invocation) (tool.Result, error) {
			mu.Lock()
			n++
			first := n == 1
			mu.Unlock()
			if first {
				return tool.Result{}, fault.New(fault.Unavailable, "down", "down").Retrying(fault.RetryBackoff, 0)
			}
			time.Sleep(40 * time.Second)
			return tool.Text("late"), nil
		})
		f.spec.Concurrency, f.spec.Timeout = 1, 10*time.Second
		e := New(Options{Store: storetest.NewModel(), Authorizer: judge(policy.Allow), Grace: time.Second, Log: quiet})
		done := make(chan *message.ToolResult)
		go func() { done <- run(t, e, callOf(f, `{}`)) }()
		time.Sleep(100 * time.Millisecond) // it has failed once and waits
		go func() { done <- run(t, e, callOf(f, `{}`)) }()
		for range 2 {
			if res := <-done; res.Status == message.OK {
				t.Error(describe(res))
			}
		}
		time.Sleep(time.Minute)
	})
}

func TestProgressIsToldNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late func(tool.Progress)
		f := query(func(_ context.Context, in tool.Invocation) (tool.Result, error) {
			late = in.Progress
			in.Report(tool.Progress{Message: "one", Fraction: 0.1})
			for i := range 50 { // far too often: only the newest is told, when it is due
				in.Report(tool.Progress{Message: fmt.Sprint("step ", i), Fraction: 0.2})
			}
			time.Sleep(time.Second)
			in.Report(tool.Progress{Message: strings.Repeat("x", 1000), Fraction: 7})
			time.Sleep(time.Second)
			in.Report(tool.Progress{Message: "two", Fraction: math.NaN()})
			in.Report(tool.Progress{Message: "lost"})
			return tool.Text("ground"), nil
		})
		var h heard
		x := callOf(f, `{}`)
		x.Notify = h.notify
		expect(t, run(t, engine(storetest.NewModel(), judge(policy.Allow)), x), message.OK)
		late(tool.Progress{Message: "after the end"})
		time.Sleep(time.Second)
		want := `running "" 0
running "one" 0.1
running "step 49" 0.2
running "` + strings.Repeat("x", 500) + `…" 1
running "two" -1`
		if got := h.words(); got != want {
			t.Errorf("told\n%s\nwant\n%s", got, want)
		}
	})
}

func TestInvocationHasItsLineage(t *testing.T) {
	var got tool.Invocation
	f := query(func(_ context.Context, in tool.Invocation) (tool.Result, error) {
		got = in
		return tool.Text("ok"), nil
	})
	e := engine(storetest.NewModel(), judge(policy.Allow))
	x := callOf(f, `{}`)
	x.Agent, x.Request.Parent, x.Request.Root = "a/b", id.New(), id.New()
	run(t, e, x)
	if got.Agent != "a/b" || got.Request != x.Request.ID || got.Parent != x.Request.Parent || got.Trace != x.Request.Trace() {
		t.Errorf("%+v", got)
	}
	x = callOf(f, `{}`)
	run(t, e, x)
	if got.Agent != "" || !got.Parent.Zero() || !strings.HasPrefix(got.Trace, "00-") {
		t.Errorf("%+v", got)
	}
}

func TestToolsThatAreAskedAboutEachTime(t *testing.T) {
	for _, effect := range []tool.Effect{tool.Query, tool.Action} {
		f := query(says("ground"))
		f.spec.Effect, f.spec.Asks = effect, true
		e := engine(storetest.NewModel(), judge(policy.Allow))
		x := callOf(f, `{}`)
		var h heard
		x.Notify = h.notify
		wg := answering(t, e, &x, true)
		res := run(t, e, x)
		wg.Wait()
		expect(t, res, message.OK, "ground")
		if len(h.list) == 0 || h.list[0].Status != Awaiting || !strings.Contains(h.list[0].Question.Reason, "always asks first") {
			t.Errorf("%s: %s", effect, h.words())
		}
		x = callOf(f, `{}`)
		x.Attended = false
		expect(t, run(t, e, x), message.DeniedCall, "nobody can be asked here")
		if denied := callOf(f, `{}`); true {
			expect(t, run(t, engine(storetest.NewModel(), judge(policy.Deny)), denied), message.DeniedCall, "as the test wants it")
		}
	}
}

func TestErrorsAreExplained(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{errors.New("plain"), "plain"},
		{fault.New(fault.Unavailable, "busy", "it is busy").Retrying(fault.RetryBackoff, 0), "it is busy\n[error_code: busy; recoverable: true; retry_strategy: backoff]"},
		{fault.New(fault.RateLimited, "slow_down", "too many").WithHint("wait").Retrying(fault.RetryAfter, 90*time.Second).Detail("limit", 3),
			"too many (wait)\n[error_code: slow_down; recoverable: true; retry_strategy: after 1m30s; details: {\"limit\":3}]"},
		{tool.NotDone(fault.New(fault.NotFound, "no_file", "it is not there")), "it is not there\n[error_code: no_file; recoverable: false; retry_strategy: none]"},
		{fault.New(fault.Invalid, "args_invalid", "bad").Detail("big", strings.Repeat("x", 2000)), "bad\n[error_code: args_invalid]"},
	} {
		if got := explained(c.err); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// A call that waits for a place counts as running where it may become a task.
func TestWaitingForAPlaceIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := query(func(context.Context, tool.Invocation) (tool.Result, error) {
			time.Sleep(time.Minute)
			return tool.Text("ground"), nil
		})
		f.spec.Concurrency, f.spec.Async = 1, true
		e := engine(storetest.NewModel(), judge(policy.Allow))
		done := make(chan *message.ToolResult)
		var h heard
		for range 2 {
			x := callOf(f, `{}`)
			x.Notify = h.notify
			go func() { done <- run(t, e, x) }()
		}
		time.Sleep(time.Second)
		if !strings.Contains(h.words(), "waiting for another call of the tool to end") {
			t.Error(h.words())
		}
		expect(t, <-done, message.OK)
		expect(t, <-done, message.OK) // far beyond the default timeout
	})
}
