package runtime_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/store"
	"steward/internal/tool"
	"steward/internal/turn"
	"steward/test/storetest"
)

// narrow is a provider whose model m refuses requests of more than takes tokens.
// It does what the user's words ask for:
//
//	work N     calls data.get with 1 to N, one after the other; which is next, it sees from its last call
//	big N      calls data.big once, for N bytes
//	read on    reads on in the clipped result that it sees, to its end
//
// and answers all else with "ok". Its model fast writes summaries.
type narrow struct {
	takes   int64
	summary func(material string) (*llm.Reply, error)

	mu       sync.Mutex
	asked    [][]*message.Message
	sizes    []int64
	refused  int
	material []string
	writers  []string // for whom summaries were written
}

func (*narrow) Name() string                               { return "test" }
func (*narrow) Models(context.Context) ([]llm.Info, error) { return nil, nil }
func (n *narrow) Model(name string) llm.Model {
	if name == "fast" {
		return scribe{n}
	}
	return n
}

// scribe is the model that writes summaries.
type scribe struct{ *narrow }

func (s scribe) Stream(_ context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		text := r.Transcript.Messages()[0].Text()
		s.mu.Lock()
		s.material, s.writers = append(s.material, text), append(s.writers, r.Agent)
		s.mu.Unlock()
		reply, err := s.summary(text)
		if err != nil {
			yield(llm.Event{}, err)
			return
		}
		if reply != nil { // else the stream just ends
			yield(llm.Event{Kind: llm.Done, Reply: reply}, nil)
		}
	}
}

func notes(text string, stop message.Stop) (*llm.Reply, error) {
	return &llm.Reply{Model: "test/fast", Stop: stop, Usage: message.Usage{Input: 70, Output: 7}, Blocks: []message.Block{&message.Text{Text: text}}}, nil
}

func (n *narrow) Stream(_ context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		msgs, size := r.Transcript.Messages(), llm.EstimateRequest(r)
		n.mu.Lock()
		n.asked, n.sizes = append(n.asked, msgs), append(n.sizes, size)
		if size > n.takes {
			n.refused++
		}
		n.mu.Unlock()
		if size > n.takes {
			yield(llm.Event{}, fault.New(fault.TooLarge, "context_too_long", "%d tokens are too many", size))
			return
		}
		reply := &llm.Reply{Model: "test/m", Stop: message.StopEnd, Usage: message.Usage{Input: size, Output: 3}}
		name, args := think(msgs)
		if name == "" {
			reply.Blocks = []message.Block{&message.Text{Text: args}}
		} else {
			reply.Stop = message.StopTools
			reply.Blocks = []message.Block{&message.ToolCall{CallID: id.New().String(), Name: name, Args: []byte(args)}}
		}
		yield(llm.Event{Kind: llm.Done, Reply: reply}, nil)
	}
}

var (
	Clipped = regexp.MustCompile(`read on with results\.read uri=(\S+) offset=(\d+)\]`)
	goesOn  = regexp.MustCompile(`Read on at offset (\d+)\.`)
)

// think returns the tool to call and its arguments, or "" and the answer.
func think(msgs []*message.Message) (string, string) {
	words, at := "", 0
	for i, m := range msgs {
		if m.Role == message.User && m.Blocks[0].Base().Origin == record.OriginUser {
			words, at = m.Text(), i
		}
	}
	var last struct {
		N   int    `json:"n"`
		URI string `json:"uri"`
	}
	for _, m := range msgs[at:] {
		for _, c := range m.Calls() {
			if err := json.Unmarshal(c.Args, &last); err != nil {
				return "", err.Error()
			}
		}
	}
	verb, rest, _ := strings.Cut(words, " ")
	n, _ := strconv.Atoi(rest)
	switch {
	case verb == "work" && last.N < n:
		return "data.get", fmt.Sprintf(`{"n":%d}`, last.N+1)
	case verb == "big" && last.N == 0:
		return "data.big", fmt.Sprintf(`{"n":%d}`, n)
	case verb == "read" && last.URI == "":
		for _, m := range slices.Backward(msgs) {
			if c := Clipped.FindStringSubmatch(m.Text()); c != nil {
				return "results.read", fmt.Sprintf(`{"uri":%q,"offset":0,"limit":3000}`, c[1])
			}
		}
		return "", "nothing is clipped"
	case verb == "read":
		if c := goesOn.FindStringSubmatch(msgs[len(msgs)-1].Text()); c != nil {
			return "results.read", fmt.Sprintf(`{"uri":%q,"offset":%s,"limit":3000}`, last.URI, c[1])
		}
	}
	return "", "ok"
}

// tight is a node over a store in memory whose model has a small window.
type tight struct {
	*world
	model *narrow
	log   bytes.Buffer
	conv  id.ID
}

// newTight opens a tight node. If known is set, the model's window is configured.
func newTight(t *testing.T, takes int64, known bool) *tight {
	w := &tight{world: made(t, &world{memory: storetest.NewModel(), only: true, windows: map[string]int{}}), model: &narrow{takes: takes}}
	if known {
		w.windows["test/m"] = int(takes)
	}
	w.provider, w.opt.Log = w.model, slog.New(slog.NewTextHandler(&w.log, nil))
	type args struct {
		N int `json:"n"`
	}
	for name, do := range map[string]func(args) string{
		"data.get": func(a args) string { return fmt.Sprintf("result %d: %s", a.N, strings.Repeat("so it goes. ", 120)) },
		"data.big": func(a args) string { return big(a.N) },
	} {
		x := newTool(tool.Spec{Name: name, Description: "Gets data.", Effect: tool.Query},
			func(_ context.Context, _ tool.Invocation, a args) (string, error) { return do(a), nil })
		w.more = append(w.more, x)
	}
	w.open()
	return w
}

// writes makes a function the writer of summaries.
func (w *tight) writes(summary func(string) (*llm.Reply, error)) {
	if w.model.summary = summary; summary != nil {
		w.aliases["fast"] = llm.Alias{Models: []string{"test/fast"}}
	}
}

// big returns a long text without repetitions.
func big(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "line %d of it, with an ä\n", i)
	}
	return b.String()
}

// do runs a turn, and returns its last frame and the notices.
func (w *tight) do(words string) (turn.Frame, []string) {
	w.t.Helper()
	acc := w.sent(turn.Input{Conversation: w.conv, Content: text(words)})
	w.conv = acc.Conversation
	ctx := w.t.Context()
	var told []string
	for f, err := range w.Watch(ctx, "anna", w.conv, turn.Cursor{Seq: acc.Seq}) {
		switch {
		case err != nil:
			w.t.Fatal(err)
		case f.Kind == turn.FrameNotice:
			told = append(told, f.Text)
		case f.Kind == turn.FrameComplete, f.Kind == turn.FrameError:
			w.atRest(w.conv)
			return f, told
		}
	}
	w.t.Fatalf("%s: the turn does not end", words)
	return turn.Frame{}, nil
}

// answered runs a turn and checks its answer.
func (w *tight) answered(words, want string) {
	w.t.Helper()
	if f, _ := w.do(words); f.Kind != turn.FrameComplete || f.Stored.Text() != want {
		w.t.Fatalf("%s: %+v, want %q", words, f, want)
	}
}

// engine returns a conversation engine over the node's store.
func (w *tight) engine() *conversation.Engine {
	return conversation.New(w.store, conversation.Options{})
}

func (w *tight) all() []conversation.Entry {
	w.t.Helper()
	page, _, err := w.engine().Messages(w.t.Context(), store.ForUser("anna"), w.conv, "", store.MaxLimit, false)
	ok(w.t, err)
	return page
}

func (w *tight) branch() record.Branch {
	w.t.Helper()
	list, preferred, err := w.Branches(w.t.Context(), "anna", w.conv)
	ok(w.t, err)
	return list[slices.IndexFunc(list, func(b record.Branch) bool { return b.ID == preferred })]
}

func encoded(msgs []*message.Message) (out []string) {
	for _, m := range msgs {
		out = append(out, string(message.Append(nil, m)))
	}
	return out
}
