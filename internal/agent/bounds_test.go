package agent_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/agent"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
)

func TestBounds(t *testing.T) {
	i := 0
	differing := func(context.Context, agent.Call) (*message.ToolResult, error) {
		i++
		return result(message.OK, fmt.Sprint(i)), nil
	}
	cases := map[string]struct {
		limits agent.Limits
		calls  int
		says   string
	}{
		"iterations": {agent.Limits{Iterations: 3}, 3, "limits.iterations"},
		"default":    {agent.Limits{}, agent.DefaultIterations, "limits.iterations"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, calls("a.b"))
			w.job.Call, w.job.Limits = differing, c.limits
			if out := w.run(t.Context()); out != agent.Bounded {
				t.Error(out)
			}
			if len(w.model.asked) != c.calls {
				t.Errorf("%d model calls, want %d", len(w.model.asked), c.calls)
			}
			if m := w.last(); m.Stop != message.StopBound || !m.Final || !strings.Contains(m.Text(), c.says) {
				t.Errorf("the last message is %q (%s)", m.Text(), m.Stop)
			}
		})
	}
}

func TestTimeBoundCutsAModelThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, step{hang: true})
		w.job.Limits.Time = time.Minute
		began := time.Now()
		if out := w.run(t.Context()); out != agent.Bounded {
			t.Error(out)
		}
		if d := time.Since(began); d != time.Minute {
			t.Errorf("it took %s", d)
		}
	})
}

func TestTimeWaitingForAPersonDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, calls("a.b"), says("ok"))
		w.job.Limits.Time = time.Minute
		w.job.Call = func(ctx context.Context, c agent.Call) (*message.ToolResult, error) {
			c.Progress(agent.Progress{Status: "awaiting_approval", Approval: "?"})
			time.Sleep(24 * time.Hour)
			return result(message.OK, "x"), nil
		}
		if out := w.run(t.Context()); out != agent.Answered {
			t.Error(out)
		}
	})
}

func TestTimeInToolsCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, calls("a.b"), says("ok"))
		w.job.Limits.Time = time.Minute
		w.job.Call = func(context.Context, agent.Call) (*message.ToolResult, error) {
			time.Sleep(2 * time.Minute)
			return result(message.OK, "x"), nil
		}
		if out := w.run(t.Context()); out != agent.Bounded {
			t.Error(out)
		}
	})
}

func TestBudget(t *testing.T) {
	w := newWorld(t, step{err: fault.New(fault.Exhausted, "budget_exhausted", "the day's budget is used up")})
	if out := w.run(t.Context()); out != agent.Bounded || !strings.Contains(w.last().Text(), "the day's budget") {
		t.Errorf("%s: %s", out, w.last().Text())
	}
}

func TestCyclesAreBroken(t *testing.T) {
	for _, period := range [][]step{
		{calls(`a.b {"x":1}`)},
		{calls("a.b"), calls("c.d")},
		{calls("a.b"), calls("c.d"), calls("e.f", "g.h")},
	} {
		t.Run(fmt.Sprint(len(period)), func(t *testing.T) {
			var steps []step
			for range 10 {
				steps = append(steps, period...)
			}
			w := newWorld(t, steps...)
			w.job.Limits.Iterations = 1000
			var ran atomic.Int64
			w.job.Call = func(ctx context.Context, c agent.Call) (*message.ToolResult, error) {
				ran.Add(1)
				return echo(ctx, c)
			}
			if out := w.run(t.Context()); out != agent.Bounded {
				t.Error(out)
			}
			per := 0
			for _, s := range period {
				per += len(s.reply.Blocks)
			}
			if ran.Load() != int64(3*per) {
				t.Errorf("%d calls ran, want %d", ran.Load(), 3*per)
			}
			if !strings.Contains(w.last().Text(), "same tool calls") {
				t.Errorf("the last message is %q", w.last().Text())
			}
		})
	}
}

func TestPollingIsNoCycle(t *testing.T) {
	var steps []step
	for range 8 {
		steps = append(steps, calls("job.status"))
	}
	w := newWorld(t, append(steps, says("done"))...)
	n := 0
	w.job.Call = func(context.Context, agent.Call) (*message.ToolResult, error) {
		n++
		return result(message.OK, fmt.Sprintf("%d %%", n)), nil
	}
	if out := w.run(t.Context()); out != agent.Answered || n != 8 {
		t.Errorf("%s after %d calls", out, n)
	}
}

func TestLengthIsContinued(t *testing.T) {
	cut := says("one two ")
	cut.reply.Stop = message.StopLength
	w := newWorld(t, cut, says("three"))
	w.run(t.Context())
	if w.roles() != "uaua" || w.last().Text() != "three" {
		t.Fatal(w.roles())
	}
	if m := w.tr.Messages()[2]; m.Blocks[0].Base().Origin != "system" {
		t.Errorf("what asks to go on is %+v", m.Blocks[0])
	}
	if w.tr.Messages()[1].Final {
		t.Error("a cut reply is final")
	}
}

// However whole its arguments look, a call in which the reply was cut is not run.
func TestHalfACallIsNotRun(t *testing.T) {
	s := calls("a.one", "a.two")
	s.reply.Stop = message.StopLength
	s.reply.Blocks[1].(*message.ToolCall).Args = nil
	w := newWorld(t, s, says("ok"))
	var ran []string
	w.job.Call = func(ctx context.Context, c agent.Call) (*message.ToolResult, error) {
		ran = append(ran, c.Name)
		return echo(ctx, c)
	}
	w.run(t.Context())
	if fmt.Sprint(ran) != "[a.one]" || w.roles() != "uatta" {
		t.Errorf("ran %v, messages %s", ran, w.roles())
	}
	if r := w.tr.Messages()[3].Result(); r.Status != message.Failed || !strings.Contains(r.Text(), "cut off") {
		t.Errorf("%+v", r)
	}
}

func TestBoundsHoldOverACrash(t *testing.T) {
	w := newWorld(t, says("never asked"))
	for range 3 {
		a := &message.Message{ID: id.New(), Role: message.Assistant, Model: "test/m", Usage: message.Usage{Input: 5}, Blocks: []message.Block{
			&message.ToolCall{CallID: "x", Name: "a.one", Args: []byte("{}")}}}
		w.add(a)
		res := result(message.OK, "r")
		res.Call, res.CallID, res.Name = message.Ref{Message: a.ID, Block: 0}, "x", "a.one"
		w.add(&message.Message{ID: id.New(), Role: message.Tool, Blocks: []message.Block{res}})
	}
	w.job.Limits.Iterations = 3
	w.job.Meter = llm.NewMeter(llm.Budget{})
	w.job.Spent = func(_ string, u message.Usage) llm.Spend { return llm.Spend{Tokens: u.Input} }
	if out := w.run(t.Context()); out != agent.Bounded || len(w.model.asked) != 0 {
		t.Errorf("%s after %d model calls", out, len(w.model.asked))
	}
	if got := w.job.Meter.Spent().Tokens; got != 15 {
		t.Errorf("the meter counts %d tokens from before the crash, want 15", got)
	}
}

func TestCallsOfAReplyAreBounded(t *testing.T) {
	names := make([]string, 10)
	for i := range names {
		names[i] = fmt.Sprintf("a.n%d", i)
	}
	var ran atomic.Int64
	w := newWorld(t, calls(names...), says("done"))
	w.job.Limits.Calls = 3
	w.job.Call = func(ctx context.Context, c agent.Call) (*message.ToolResult, error) {
		ran.Add(1)
		return echo(ctx, c)
	}
	if out := w.run(t.Context()); out != agent.Answered || ran.Load() != 3 {
		t.Errorf("%s after %d calls", out, ran.Load())
	}
	said := map[message.Status]int{}
	for _, m := range w.tr.Messages() {
		if m.Role == message.Tool {
			said[m.Result().Status]++
		}
	}
	if said[message.OK] != 3 || said[message.Failed] != 7 {
		t.Errorf("results %v", said)
	}
}

// What was beyond the limit before a crash is so after it.
func TestTheBoundOfCallsHoldsOverACrash(t *testing.T) {
	w := newWorld(t, says("done"))
	a := &message.Message{ID: id.New(), Role: message.Assistant, Model: "test/m"}
	for i := range 5 {
		a.Blocks = append(a.Blocks, &message.ToolCall{CallID: fmt.Sprint(i), Name: fmt.Sprintf("a.n%d", i), Args: []byte("{}")})
	}
	w.add(a)
	res := result(message.OK, "was there")
	res.Call, res.CallID, res.Name = message.Ref{Message: a.ID}, "0", "a.n0"
	w.add(&message.Message{ID: id.New(), Role: message.Tool, Blocks: []message.Block{res}})
	var ran []string
	w.job.Limits.Calls = 2
	w.job.Call = func(ctx context.Context, c agent.Call) (*message.ToolResult, error) {
		ran = append(ran, c.Name)
		return echo(ctx, c)
	}
	w.run(t.Context())
	if fmt.Sprint(ran) != "[a.n1]" || w.roles() != "uattttta" {
		t.Errorf("ran %v, messages %s", ran, w.roles())
	}
}

func TestATurnIsBoundedInBytes(t *testing.T) {
	i := 0
	w := newWorld(t, calls("a.b"))
	w.job.Call = func(context.Context, agent.Call) (*message.ToolResult, error) {
		i++
		return result(message.OK, fmt.Sprint(i)+strings.Repeat("x", 20<<20)), nil
	}
	if out := w.run(t.Context()); out != agent.Bounded || i != 4 || !strings.Contains(w.last().Text(), "80 MiB") {
		t.Errorf("%s after %d calls: %s", out, i, w.last().Text())
	}
}
