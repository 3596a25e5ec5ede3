package agent_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/agent"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
)

// journal keeps a turn in memory and checks that it is a valid history at
// each step.
type journal struct {
	t       *testing.T
	tr      *llm.Transcript
	head    id.ID
	seq     uint64
	labels  message.Labels
	outcome string
	code    string
	strict  bool  // refuses invalid messages, as a session does
	fail    error // what the next Append or Finish returns
}

func newJournal(t *testing.T, msgs ...*message.Message) *journal {
	j := &journal{t: t, tr: llm.NewTranscript()}
	for _, m := range msgs {
		j.add(m)
	}
	return j
}

func (j *journal) Transcript() *llm.Transcript { return j.tr }
func (j *journal) Labels() message.Labels      { return j.labels }
func (j *journal) Sources() []string           { return nil }

func (j *journal) add(m *message.Message) uint64 {
	j.t.Helper()
	m.Prev, j.head = j.head, m.ID
	m.At = time.Now().UTC().Truncate(time.Microsecond)
	if err := message.Validate(m); err != nil {
		j.t.Errorf("invalid message: %v", err)
	}
	j.tr.Append(m)
	j.labels |= message.LabelsOf(m.Blocks)
	j.seq++
	return j.seq
}

func (j *journal) Append(_ context.Context, msgs ...*message.Message) ([]uint64, error) {
	if j.fail != nil {
		return nil, j.fail
	}
	var seqs []uint64
	for _, m := range msgs {
		if err := message.Validate(m); err != nil && j.strict {
			return nil, err
		}
		seqs = append(seqs, j.add(m))
	}
	return seqs, nil
}

func (j *journal) Finish(_ context.Context, m *message.Message, outcome, code string) (uint64, error) {
	if j.fail != nil {
		return 0, j.fail
	}
	if m != nil && j.strict {
		if err := message.Validate(m); err != nil {
			return 0, err
		}
	}
	j.outcome, j.code = outcome, code
	if m != nil {
		j.add(m)
	}
	if err := message.CheckHistory(j.tr.Messages()); err != nil {
		j.t.Errorf("the history is broken: %v", err)
	}
	return j.seq, nil
}

func (j *journal) last() *message.Message {
	msgs := j.tr.Messages()
	return msgs[len(msgs)-1]
}

func user(text string) *message.Message {
	return &message.Message{ID: id.New(), Role: message.User,
		Blocks: []message.Block{&message.Text{Common: message.Common{Origin: "user"}, Text: text}}}
}

// step is one answer of a scripted model.
type step struct {
	events []llm.Event
	reply  *llm.Reply
	err    error
	hang   bool // until ctx is done, after the events
}

// script is a model that says its steps in order.
type script struct {
	mu    sync.Mutex
	steps []step
	asked []*llm.Request
	seen  []int // messages in the transcript at each request
}

func (s *script) Stream(ctx context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		s.mu.Lock()
		n := len(s.asked)
		s.asked = append(s.asked, r)
		s.seen = append(s.seen, len(r.Transcript.Messages()))
		st := s.steps[min(n, len(s.steps)-1)]
		s.mu.Unlock()
		for _, e := range st.events {
			if !yield(e, nil) {
				return
			}
		}
		switch {
		case st.hang:
			<-ctx.Done()
			yield(llm.Event{}, ctx.Err())
		case st.err != nil:
			yield(llm.Event{}, st.err)
		case st.reply != nil:
			r := *st.reply // each message is its own
			r.Blocks = nil
			for _, b := range st.reply.Blocks {
				switch b := b.(type) {
				case *message.Text:
					c := *b
					r.Blocks = append(r.Blocks, &c)
				case *message.ToolCall:
					c := *b
					r.Blocks = append(r.Blocks, &c)
				}
			}
			yield(llm.Event{Kind: llm.Done, Reply: &r}, nil)
		}
	}
}

func says(text string) step {
	return step{events: []llm.Event{{Kind: llm.TextDelta, Text: text}},
		reply: &llm.Reply{Model: "test/m", Stop: message.StopEnd, Usage: message.Usage{Input: 10, Output: 5},
			Blocks: []message.Block{&message.Text{Text: text}}}}
}

func calls(names ...string) step {
	r := &llm.Reply{Model: "test/m", Stop: message.StopTools, Usage: message.Usage{Input: 10, Output: 5}}
	for i, n := range names {
		name, args, _ := strings.Cut(n, " ")
		if args == "" {
			args = "{}"
		}
		r.Blocks = append(r.Blocks, &message.ToolCall{CallID: fmt.Sprintf("c%d", i), Name: name, Args: []byte(args)})
	}
	return step{reply: r}
}

func result(status message.Status, text string) *message.ToolResult {
	return &message.ToolResult{Status: status, Content: []message.Block{&message.Text{Text: text}}}
}

// echo answers a call with its name.
func echo(_ context.Context, c agent.Call) (*message.ToolResult, error) {
	return result(message.OK, "ran "+c.Name), nil
}

type world struct {
	*journal
	job    agent.Job
	model  *script
	events []agent.Event
}

func newWorld(t *testing.T, steps ...step) *world {
	w := &world{journal: newJournal(t, user("do it")), model: &script{steps: steps}}
	w.job = agent.Job{Journal: w.journal, Model: w.model, Call: echo, Started: time.Now(), Approach: "direct",
		Emit: func(e agent.Event) { w.events = append(w.events, e) }}
	return w
}

func (w *world) run(ctx context.Context) agent.Outcome {
	w.t.Helper()
	out, err := agent.Run(ctx, w.job)
	if err != nil {
		w.t.Fatalf("Run: %v", err)
	}
	if w.outcome != string(out) {
		w.t.Errorf("recorded outcome %q, returned %q", w.outcome, out)
	}
	return out
}

func (w *world) roles() string {
	var b strings.Builder
	for _, m := range w.tr.Messages() {
		b.WriteByte(m.Role[0])
	}
	return b.String()
}

// ends runs the job, and checks its outcome and the roles of the messages then.
func (w *world) ends(ctx context.Context, want agent.Outcome, roles string) {
	w.t.Helper()
	if out := w.run(ctx); out != want || w.roles() != roles {
		w.t.Errorf("%s with %s, want %s with %s; the last message is %q", out, w.roles(), want, roles, w.last().Text())
	}
}

// notes makes the tools note their names, in order.
func (w *world) notes() *[]string {
	var mu sync.Mutex
	var ran []string
	w.job.Call = func(ctx context.Context, c agent.Call) (*message.ToolResult, error) {
		mu.Lock()
		defer mu.Unlock()
		ran = append(ran, c.Name)
		return echo(ctx, c)
	}
	return &ran
}

// counted makes the tools return how often one was called, and more.
func (w *world) counted(more string) *int {
	n := 0
	w.job.Call = func(context.Context, agent.Call) (*message.ToolResult, error) {
		n++
		return result(message.OK, fmt.Sprint(n)+more), nil
	}
	return &n
}

// recorded adds a reply of before a crash, with calls of which the first few have results.
func (w *world) recorded(answered int, names ...string) {
	s := calls(names...)
	a := &message.Message{ID: id.New(), Role: message.Assistant, Model: "test/m", Stop: message.StopTools, Usage: message.Usage{Input: 5}, Blocks: s.reply.Blocks}
	w.add(a)
	for _, c := range a.Calls()[:answered] {
		res := result(message.OK, "was there")
		res.Call, res.CallID, res.Name = c.Ref, c.CallID, c.Name
		w.add(&message.Message{ID: id.New(), Role: message.Tool, Blocks: []message.Block{res}})
	}
}

// part is a step that streams a text and then hangs.
func part(text string) step {
	return step{events: []llm.Event{{Kind: llm.TextDelta, Text: text}}, hang: true}
}

func TestAnswer(t *testing.T) {
	w := newWorld(t, says("hello"))
	ready := 0
	w.job.Ready = func() error { ready++; return nil }
	if out := w.run(t.Context()); out != agent.Answered {
		t.Fatal(out)
	}
	m := w.last()
	if m.Text() != "hello" || !m.Final || m.Approach != "direct" || m.Model != "test/m" || m.Blocks[0].Base().Origin != "model:test/m" {
		t.Errorf("%+v", m)
	}
	if ready != 1 || w.events[0].Kind != agent.Delta || w.events[0].Stream.Text != "hello" || w.events[0].ID != m.ID {
		t.Errorf("the first event is %+v", w.events[0])
	}
	if e := w.events[len(w.events)-1]; e.Kind != agent.Finished || e.Message != m || e.Outcome != agent.Answered {
		t.Errorf("the last event is %+v", e)
	}
}

func TestParallelCallsKeepTheirOrder(t *testing.T) {
	w := newWorld(t, calls("a.slow", "a.quick", "a.quicker"), says("done"))
	quick := make(chan struct{})
	var both sync.WaitGroup
	both.Add(2)
	go func() { both.Wait(); close(quick) }()
	w.job.Call = func(ctx context.Context, c agent.Call) (*message.ToolResult, error) {
		if c.Name == "a.slow" {
			<-quick // returns only after the others have: they do run in parallel
		} else {
			defer both.Done()
		}
		return result(message.OK, c.Name), nil
	}
	w.run(t.Context())
	if w.roles() != "uattta" {
		t.Fatal(w.roles())
	}
	for i, name := range []string{"a.slow", "a.quick", "a.quicker"} {
		r := w.tr.Messages()[2+i].Result()
		if r.Name != name || r.Text() != name || r.CallID != fmt.Sprintf("c%d", i) || r.Call != (message.Ref{Message: w.tr.Messages()[1].ID, Block: i}) {
			t.Errorf("result %d is %+v", i, r)
		}
	}
}

func TestNothingHappensBeforeTheFirstMessageIsDurable(t *testing.T) {
	for name, first := range map[string]step{"text": says("x"), "calls": calls("a.b"), "failure": {err: errors.New("down")}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, first, says("end"))
			lost := errors.New("disk gone")
			w.job.Ready = func() error {
				if len(w.events) > 0 {
					t.Error("something was told before Ready")
				}
				return lost
			}
			w.job.Call = func(context.Context, agent.Call) (*message.ToolResult, error) {
				t.Error("a tool ran")
				return nil, nil
			}
			if _, err := agent.Run(t.Context(), w.job); !errors.Is(err, lost) {
				t.Errorf("err = %v", err)
			}
			if len(w.events) > 0 || w.roles() != "u" {
				t.Errorf("events %v, messages %s", w.events, w.roles())
			}
		})
	}
}

func TestSteering(t *testing.T) {
	w := newWorld(t, calls("a.b"), says("ok"))
	n := 0
	w.job.Steer = func() []*message.Message {
		if n++; n == 2 {
			return []*message.Message{user("rather in French")}
		}
		return nil
	}
	w.run(t.Context())
	if w.roles() != "uatua" || w.model.seen[1] != 4 {
		t.Errorf("%s, the model saw %v", w.roles(), w.model.seen)
	}
}

func TestLabelsSpread(t *testing.T) {
	w := newWorld(t, calls("web.read"), says("it says so"))
	w.job.Call = func(_ context.Context, c agent.Call) (*message.ToolResult, error) {
		if c.Labels != 0 {
			t.Errorf("labels before anything was read: %s", c.Labels)
		}
		r := result(message.OK, "page")
		r.Content[0].Base().Labels = message.Untrusted
		return r, nil
	}
	w.run(t.Context())
	if l := message.LabelsOf(w.last().Blocks); l != message.Untrusted {
		t.Errorf("the answer's labels are %q", l)
	}
}

func TestCallsWithoutAnIDOrAName(t *testing.T) {
	s := calls("a.b", "c.d", "")
	for _, b := range s.reply.Blocks {
		b.(*message.ToolCall).CallID = ""
	}
	w := newWorld(t, s, says("ok"))
	w.ends(t.Context(), agent.Answered, "uattta")
	cs := w.tr.Messages()[1].Calls()
	if cs[0].CallID == "" || cs[0].CallID == cs[1].CallID || cs[2].Name == "" {
		t.Errorf("%+v", cs)
	}
}

// A model's message that breaks the rules ends the run; nothing of it is kept.
func TestInvalidMessageOfAModel(t *testing.T) {
	for name, b := range map[string]message.Block{
		"call": &message.ToolCall{CallID: "c", Name: "a.b", Args: []byte("{}"), Common: message.Common{Labels: 1 << 7}},
		"text": &message.Text{Text: "\xff"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, step{reply: &llm.Reply{Model: "test/m", Stop: message.StopEnd, Blocks: []message.Block{b}}})
			w.strict = true
			if w.ends(t.Context(), agent.Failure, "u"); w.code == "" {
				t.Error("it has no code")
			}
		})
	}
}

func TestProgressIsTold(t *testing.T) {
	w := newWorld(t, calls("a.b"), says("ok"))
	w.job.Call = func(ctx context.Context, c agent.Call) (*message.ToolResult, error) {
		c.Progress(agent.Progress{Status: "running"})
		return echo(ctx, c)
	}
	w.run(t.Context())
	for _, e := range w.events {
		if e.Kind == agent.Calling && e.Progress.Status == "running" && e.Call.Name == "a.b" {
			return
		}
	}
	t.Errorf("no progress in %v", w.events)
}
