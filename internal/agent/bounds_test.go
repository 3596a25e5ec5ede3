package agent_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/agent"
	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
)

func TestIterationsAreBounded(t *testing.T) {
	for _, limit := range []int{3, 0} {
		w := newWorld(t, calls("a.b"))
		w.counted("")
		w.job.Limits.Iterations = limit
		want := cmp.Or(limit, agent.DefaultIterations)
		w.ends(t.Context(), agent.Bounded, "u"+strings.Repeat("at", want)+"a")
		if m := w.last(); m.Stop != message.StopBound || !m.Final || !strings.Contains(m.Text(), "limits.iterations") {
			t.Errorf("the last message is %q (%s)", m.Text(), m.Stop)
		}
	}
}

// The time in the model and in tools counts; waiting for a person does not.
func TestTimeIsBounded(t *testing.T) {
	takes := func(d time.Duration, progress agent.Progress) func(context.Context, agent.Call) (*message.ToolResult, error) {
		return func(ctx context.Context, c agent.Call) (*message.ToolResult, error) {
			c.Progress(progress)
			time.Sleep(d)
			return echo(ctx, c)
		}
	}
	for name, c := range map[string]struct {
		first step
		call  func(context.Context, agent.Call) (*message.ToolResult, error)
		took  time.Duration
		out   agent.Outcome
		roles string
	}{
		"a model that hangs": {step{hang: true}, nil, time.Minute, agent.Bounded, "ua"},
		"a tool":             {calls("a.b"), takes(2*time.Minute, agent.Progress{}), 2 * time.Minute, agent.Bounded, "uata"},
		"a person":           {calls("a.b"), takes(24*time.Hour, agent.Progress{Status: "awaiting_approval", Approval: "?"}), 24 * time.Hour, agent.Answered, "uata"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, c.first, says("ok"))
				w.job.Limits.Time, w.job.Call = time.Minute, c.call
				began := time.Now()
				w.ends(t.Context(), c.out, c.roles)
				if d := time.Since(began); d != c.took {
					t.Errorf("it took %s", d)
				}
			})
		})
	}
}

func TestBudget(t *testing.T) {
	w := newWorld(t, step{err: fault.New(fault.Exhausted, "budget_exhausted", "the day's budget is used up")})
	if w.ends(t.Context(), agent.Bounded, "ua"); !strings.Contains(w.last().Text(), "the day's budget") {
		t.Error(w.last().Text())
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
			ran := w.notes()
			if out := w.run(t.Context()); out != agent.Bounded {
				t.Error(out)
			}
			per := 0
			for _, s := range period {
				per += len(s.reply.Blocks)
			}
			if len(*ran) != 3*per {
				t.Errorf("%d calls ran, want %d", len(*ran), 3*per)
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
	n := w.counted(" %")
	if out := w.run(t.Context()); out != agent.Answered || *n != 8 {
		t.Errorf("%s after %d calls", out, *n)
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
	ran := w.notes()
	w.ends(t.Context(), agent.Answered, "uatta")
	if fmt.Sprint(*ran) != "[a.one]" {
		t.Errorf("ran %v", *ran)
	}
	if r := w.tr.Messages()[3].Result(); r.Status != message.Failed || !strings.Contains(r.Text(), "cut off") {
		t.Errorf("%+v", r)
	}
}

func TestBoundsHoldOverACrash(t *testing.T) {
	w := newWorld(t, says("never asked"))
	for range 3 {
		w.recorded(1, "a.one")
	}
	w.job.Limits.Iterations = 3
	w.job.Meter = llm.NewMeter(llm.Budget{})
	w.job.Spent = func(_ string, u message.Usage) llm.Spend { return llm.Spend{Tokens: u.Input} }
	w.ends(t.Context(), agent.Bounded, "uatatata")
	if got := w.job.Meter.Spent().Tokens; got != 15 || len(w.model.asked) != 0 {
		t.Errorf("the meter counts %d tokens from before the crash, want 15, and %d model calls", got, len(w.model.asked))
	}
}

// Of the calls beyond the limit one is kept, and answered. All that were recorded are answered.
func TestCallsOfAReplyAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		recorded   int
		ran, roles string
	}{"a reply": {0, "[a.n0 a.n1]", "uattta"}, "a recorded one": {1, "[a.n1]", "uattttta"}} {
		t.Run(name, func(t *testing.T) {
			names := []string{"a.n0", "a.n1", "a.n2", "a.n3", "a.n4"}
			w := newWorld(t, calls(names...), says("done"))
			if c.recorded > 0 {
				w = newWorld(t, says("done"))
				w.recorded(c.recorded, names...)
			}
			w.job.Limits.Calls = 2
			ran := w.notes()
			w.ends(t.Context(), agent.Answered, c.roles)
			slices.Sort(*ran)
			if fmt.Sprint(*ran) != c.ran {
				t.Errorf("ran %v", *ran)
			}
			for i, m := range w.tr.Messages()[2 : len(c.roles)-1] {
				if (m.Result().Status == message.OK) != (i < 2) {
					t.Errorf("result %d: %+v", i, m.Result())
				}
			}
		})
	}
}

// Whatever a reply holds, what is kept of it is bounded, and what is left out is not run.
func TestWhatIsKeptOfAReplyIsBounded(t *testing.T) {
	reply := calls(strings.Repeat("é", 5000), "a.long", "a.deep", "a.broken", "a.good")
	args := func(i int, text string) { reply.reply.Blocks[i].(*message.ToolCall).Args = []byte(text) }
	args(1, `{"text":"`+strings.Repeat("x", 2<<20)+`"}`)
	args(2, strings.Repeat(`{"a":`, 5000)+"1"+strings.Repeat("}", 5000))
	args(3, strings.Repeat("[", 5000))
	var texts []message.Block
	for i := range 5000 {
		texts = append(texts, &message.Text{Text: fmt.Sprintf("%d ", i)})
	}
	reply.reply.Blocks = append(texts, reply.reply.Blocks...)
	w := newWorld(t, reply, says("done"))
	ran := w.notes()
	w.ends(t.Context(), agent.Answered, "uattttta")
	slices.Sort(*ran)
	if len(*ran) != 2 || (*ran)[0] != "a.good" || len((*ran)[1]) > 128 {
		t.Errorf("ran %.200q", *ran)
	}
	m := w.tr.Messages()[1]
	if len(m.Blocks) != 6 || !strings.HasPrefix(m.Text(), "0 1 2 ") || !strings.HasSuffix(m.Text(), " 4999 ") {
		t.Errorf("%d blocks are kept: %.100q", len(m.Blocks), m.Text())
	}
	for i, want := range []string{"", "2097163 bytes", "nested more than 128 levels", "nested more than 128 levels", ""} {
		c, r := m.Calls()[i], w.tr.Messages()[2+i].Result()
		if len(c.Args) > 200 || !strings.Contains(r.Text(), want) || (want != "") != (r.Status == message.Failed) {
			t.Errorf("call %d: %.300q, %s: %.300q", i, c.Args, r.Status, r.Text())
		}
	}
}

func TestATurnIsBoundedInBytes(t *testing.T) {
	w := newWorld(t, calls("a.b"))
	w.counted(strings.Repeat("x", 20<<20))
	w.ends(t.Context(), agent.Bounded, "uatatatata")
	if !strings.Contains(w.last().Text(), "80 MiB") {
		t.Error(w.last().Text())
	}
}
