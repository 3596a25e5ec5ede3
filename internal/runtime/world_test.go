package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/resource"
	"steward/internal/runtime"
	"steward/internal/store"
	"steward/internal/store/sqlite"
	"steward/internal/tool"
	"steward/internal/turn"
	"steward/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// scripted is a provider whose one model does what the user's words ask for:
// "say WORDS", "call TOOL ARGS" (several, by line), "hang", "fail CODE". After
// tool results it repeats them.
type scripted struct {
	mu     sync.Mutex
	begun  chan struct{}   // gets a token when "hang" has begun, if not nil
	gate   chan struct{}   // "hang" goes on when it is closed
	obey   bool            // a result that is an order is obeyed
	blocks []message.Block // what "draw" answers
	seen   int             // how many messages the last call was shown
}

// last returns how many messages the last call was shown.
func (s *scripted) last() int { s.mu.Lock(); defer s.mu.Unlock(); return s.seen }

func (s *scripted) Name() string                               { return "test" }
func (s *scripted) Model(string) llm.Model                     { return s }
func (s *scripted) Models(context.Context) ([]llm.Info, error) { return []llm.Info{{Name: "m"}}, nil }

func (s *scripted) Stream(ctx context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	s.mu.Lock()
	s.seen = len(r.Transcript.Messages())
	s.mu.Unlock()
	return func(yield func(llm.Event, error) bool) {
		msgs := r.Transcript.Messages()
		var results []string
		i := len(msgs) - 1
		for ; msgs[i].Role == message.Tool; i-- {
			results = append([]string{string(msgs[i].Result().Status) + ": " + msgs[i].Text()}, results...)
		}
		words, _, _ := strings.Cut(msgs[i].Text(), "\n\nWhat stands between the two marks ") // a task is told more than its words
		order := msgs[len(msgs)-1].Text()
		if then, ok := strings.CutPrefix(order, "then "); ok && len(results) == 1 {
			words = then
		} else if s.obey && len(results) == 1 && strings.HasPrefix(order, "call ") {
			words = order
		} else if len(results) > 0 {
			s.say(yield, strings.Join(results, "; "))
			return
		}
		verb, rest, _ := strings.Cut(words, " ")
		switch verb {
		case "hang":
			if strings.HasPrefix(rest, "noting") && !yield(llm.Event{Kind: llm.Notice, Text: "mind this"}, nil) {
				return
			}
			if !yield(llm.Event{Kind: llm.TextDelta, Text: "half "}, nil) {
				return
			}
			if s.begun != nil {
				s.begun <- struct{}{}
			}
			select {
			case <-ctx.Done():
				yield(llm.Event{}, ctx.Err())
			case <-s.gate:
				yield(llm.Event{Kind: llm.TextDelta, Text: "whole"}, nil)
				s.done(yield, message.StopEnd, &message.Text{Text: "half whole"})
			}
		case "think":
			if yield(llm.Event{Kind: llm.ReasoningDelta, Text: "hm "}, nil) && yield(llm.Event{Kind: llm.Notice, Text: "by the way"}, nil) &&
				yield(llm.Event{Kind: llm.TextDelta, Block: 1, Text: "void"}, nil) && yield(llm.Event{Kind: llm.Reset}, nil) &&
				yield(llm.Event{Kind: llm.ReasoningDelta, Text: "hm, "}, nil) && yield(llm.Event{Kind: llm.TextDelta, Block: 1, Text: rest}, nil) {
				s.done(yield, message.StopEnd, &message.Reasoning{Text: "hm, yes"}, &message.Text{Text: rest + "."})
			}
		case "differ":
			if yield(llm.Event{Kind: llm.TextDelta, Text: "draft"}, nil) {
				s.done(yield, message.StopEnd, &message.Text{Text: "other"})
			}
		case "draw":
			s.done(yield, message.StopEnd, s.blocks...)
		case "spend":
			var n int64
			if _, err := fmt.Sscan(rest, &n); err != nil {
				yield(llm.Event{}, err)
				return
			}
			yield(llm.Event{Kind: llm.Done, Reply: &llm.Reply{Model: "test/m", Stop: message.StopEnd,
				Blocks: []message.Block{&message.Text{Text: "spent"}}, Usage: message.Usage{Input: n}}}, nil)
		case "nothing":
			s.done(yield, message.StopEnd)
		case "fail":
			yield(llm.Event{}, fmt.Errorf("no luck"))
		case "call":
			var blocks []message.Block
			for n, line := range strings.Split(rest, "\ncall ") {
				name, args, _ := strings.Cut(line, " ")
				blocks = append(blocks, &message.ToolCall{CallID: fmt.Sprintf("call_%d", n), Name: name, Args: []byte(args)})
				if !yield(llm.Event{Kind: llm.CallStart, Block: n, Name: name}, nil) {
					return
				}
			}
			s.done(yield, message.StopTools, blocks...)
		default:
			s.say(yield, rest)
		}
	}
}

func (s *scripted) say(yield func(llm.Event, error) bool, text string) {
	for _, w := range strings.SplitAfter(text, " ") {
		if !yield(llm.Event{Kind: llm.TextDelta, Text: w}, nil) {
			return
		}
	}
	s.done(yield, message.StopEnd, &message.Text{Text: text})
}

func (s *scripted) done(yield func(llm.Event, error) bool, stop message.Stop, blocks ...message.Block) {
	yield(llm.Event{Kind: llm.Done, Reply: &llm.Reply{Model: "test/m", Stop: stop, Blocks: blocks,
		Usage: message.Usage{Input: 10, Output: 3}}}, nil)
}

// ledger is changed by the action tools of the tests.
type ledger struct {
	mu      sync.Mutex
	entries []string
	keys    map[string]int
}

func (l *ledger) list() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.entries, ",")
}

// world is a node with a scripted model and everything that tests control of it.
// Call made, then open; the end of the test closes it.
type world struct {
	*runtime.Node
	t      testing.TB
	dir    string
	model  *scripted
	ledger *ledger
	memory store.Store // nil: SQLite in dir
	store  store.Store // that the node is opened over, without its faults
	faulty *faulty
	fail   func(store.Batch) error // of the store, from the start
	broken func(store.Query) bool  // queries that fail, from the start
	opt    runtime.Options
	more   []tool.Tool
	only   bool              // there are no tools but more
	drop   string            // a tool that is not there
	judge  policy.Authorizer // nil: policy.Fixed

	provider llm.Provider // nil: model
	aliases  map[string]llm.Alias
	windows  map[string]int // nil: larger than any test
	prices   map[string]llm.Price
	models   *llm.Models
	order    atomic.Pointer[string] // what a tool that orders says is to be called
}

func made(t testing.TB, w *world) *world {
	w.t, w.dir, w.model, w.ledger = t, t.TempDir(), &scripted{gate: make(chan struct{})}, &ledger{}
	return w
}

func newWorld(t testing.TB) *world { return made(t, &world{}).open() }

func (w *world) open() *world {
	w.t.Helper()
	ok(w.t, w.tryOpen())
	w.t.Cleanup(w.close)
	return w
}

func (w *world) tryOpen() (err error) {
	if w.store = w.memory; w.store == nil {
		if w.store, err = sqlite.Open(w.t.Context(), sqlite.Options{Path: filepath.Join(w.dir, "steward.db")}); err != nil {
			return err
		}
	}
	if w.provider == nil {
		w.provider = w.model
	}
	if w.aliases == nil {
		w.aliases = map[string]llm.Alias{"default": {Models: []string{"test/m"}}}
	}
	if w.windows == nil {
		w.windows = map[string]int{"test/m": 10_000_000}
	}
	w.models, err = llm.New(llm.Config{Providers: []llm.Provider{w.provider}, Aliases: w.aliases, Windows: w.windows, Prices: w.prices, Retry: llm.RetryPolicy{Attempts: 1}})
	if err != nil {
		return err
	}
	opt := w.opt
	w.faulty = &faulty{Store: w.store, fail: w.fail, broken: w.broken}
	opt.Store, opt.Models, opt.Tools, opt.Authorizer = w.faulty, w.models, w.tools(), w.judge
	if w.judge == nil {
		opt.Authorizer = policy.Fixed{}
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	w.Node, err = runtime.Open(w.t.Context(), opt)
	return err
}

func (w *world) close() {
	if w.Node == nil {
		return
	}
	ctx := context.Background()
	if err := errors.Join(w.Node.Close(ctx), w.shut()); err != nil {
		w.t.Error("closing:", err)
	}
	w.Node = nil
}

// shut closes the store.
func (w *world) shut() error {
	if st, ok := w.store.(*sqlite.Store); ok {
		return st.Close()
	}
	return nil
}

func (w *world) reopen() {
	w.t.Helper()
	w.close()
	w.open()
}

// ok fails the test where there is an error.
func ok(t interface {
	Helper()
	Fatal(...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newTool is tool.New for valid specs.
func newTool[A any, R any](spec tool.Spec, call func(context.Context, tool.Invocation, A) (R, error)) tool.Tool {
	t, err := tool.New(spec, call)
	if err != nil {
		panic(err)
	}
	return t
}

// messages returns the preferred branch of a conversation of anna's.
func (w *world) messages(conv id.ID) []conversation.Entry {
	w.t.Helper()
	page, _, err := w.Conversations.Messages(w.t.Context(), store.ForUser("anna"), conv, "", 1000, false)
	ok(w.t, err)
	return page
}

// asksPerson reports whether a frame shows a call that a person is asked about.
func asksPerson(f turn.Frame) bool { return f.Call != nil && f.Call.Approval != nil }

// coded fails the test unless an error has a code.
func coded(t testing.TB, err error, code string) {
	t.Helper()
	if !fault.HasCode(err, code) {
		t.Errorf("the error is %v, want %s", err, code)
	}
}

func second[T any](_ T, err error) error { return err }

func third[T, U any](_ T, _ U, err error) error { return err }

func (w *world) tools() *tool.Registry {
	type nums struct {
		A float64 `json:"a"`
		B float64 `json:"b"`
	}
	type entry struct {
		What string `json:"what"`
	}
	multiply := newTool(tool.Spec{Name: "math.multiply", Description: "Multiply two numbers.", Effect: tool.Query},
		func(_ context.Context, _ tool.Invocation, in nums) (string, error) {
			b, err := json.Marshal(in.A * in.B)
			return string(b), err
		})
	note := newTool(tool.Spec{Name: "ledger.add", Description: "Add an entry to the ledger.", Effect: tool.Action},
		func(_ context.Context, _ tool.Invocation, in entry) (string, error) {
			w.ledger.mu.Lock()
			defer w.ledger.mu.Unlock()
			w.ledger.entries = append(w.ledger.entries, in.What)
			return "added " + in.What, nil
		})
	r := &tool.Registry{}
	all := w.more
	if !w.only {
		all = append([]tool.Tool{multiply, note}, w.more...)
	}
	for _, t := range all {
		if t.Spec().Name != w.drop {
			ok(w.t, r.Add(t))
		}
	}
	return r
}

func text(s string) []message.Block { return []message.Block{&message.Text{Text: s}} }

// send sends a turn of user "anna".
func (w *world) send(conv id.ID, words string) turn.Accepted {
	w.t.Helper()
	return w.sent(turn.Input{Conversation: conv, Content: text(words), Attended: true})
}

// sent sends any turn of anna's.
func (w *world) sent(turn turn.Input) turn.Accepted {
	w.t.Helper()
	acc, err := w.Send(w.t.Context(), "anna", turn)
	ok(w.t, err)
	return acc
}

// until watches from the cursor until a frame satisfies stop, and returns the
// frames with it.
func (w *world) until(conv id.ID, from turn.Cursor, stop func(turn.Frame) bool) []turn.Frame {
	w.t.Helper()
	ctx := w.t.Context()
	var got []turn.Frame
	for f, err := range w.Watch(ctx, "anna", conv, from) {
		ok(w.t, err)
		got = append(got, f)
		if stop(f) {
			return got
		}
	}
	w.t.Fatalf("it never came; frames: %s", told(got))
	return nil
}

// told renders frames for the error message of a test.
func told(frames []turn.Frame) string {
	var b strings.Builder
	for _, f := range frames {
		fmt.Fprintf(&b, "\n%s %s", f.Kind, f.Text)
		if f.Call != nil {
			fmt.Fprintf(&b, " %s %s", f.Call.Name, f.Call.Status)
			if f.Call.Result != nil {
				fmt.Fprintf(&b, " %s", f.Call.Result.Text())
			}
		}
		if f.Err != nil {
			fmt.Fprintf(&b, " %v", f.Err)
		}
	}
	return b.String()
}

// atRest waits until no turn of the conversation runs.
func (w *world) atRest(conv id.ID) {
	w.t.Helper()
	eventually(w.t, "the turn has ended", func() bool { return !w.Running("anna", conv) })
}

func isKind(k turn.FrameKind) func(turn.Frame) bool {
	return func(f turn.Frame) bool { return f.Kind == k }
}

// turn runs a whole turn and returns the frames of the conversation from the
// cursor on.
func (w *world) turn(conv id.ID, words string) (id.ID, []turn.Frame) {
	w.t.Helper()
	acc := w.send(conv, words)
	var from turn.Cursor
	from.Seq = acc.Seq - 1
	return acc.Conversation, w.until(acc.Conversation, from, isKind(turn.FrameComplete))
}

func kinds(frames []turn.Frame) string {
	var s []string
	for _, f := range frames {
		s = append(s, string(f.Kind))
	}
	return strings.Join(s, " ")
}

// said joins the text of the token frames.
func said(frames []turn.Frame) string {
	var b strings.Builder
	for _, f := range frames {
		if f.Kind == turn.FrameToken {
			b.WriteString(f.Text)
		}
	}
	return b.String()
}

// faulty is a store whose commits and queries can be made to fail. It counts the
// packed resources.
type faulty struct {
	store.Store
	mu     sync.Mutex
	fail   func(store.Batch) error
	broken func(store.Query) bool // of queries
	unread func(resource.URI) bool
	packed int
}

func (f *faulty) Commit(ctx context.Context, sc store.Scope, b store.Batch) (store.Receipt, error) {
	f.mu.Lock()
	fail := f.fail
	f.mu.Unlock()
	if fail != nil {
		if err := fail(b); err != nil {
			return store.Receipt{}, err
		}
	}
	rec, err := f.Store.Commit(ctx, sc, b)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range b.Changes {
		if c.Op == store.Pack && err == nil {
			f.packed++
		}
	}
	return rec, err
}

func (f *faulty) Query(ctx context.Context, sc store.Scope, q store.Query) (store.Page, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken != nil && f.broken(q) {
		return store.Page{}, full
	}
	return f.Store.Query(ctx, sc, q)
}

func (f *faulty) Get(ctx context.Context, sc store.Scope, u resource.URI) (resource.Resource, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.unread != nil && f.unread(u) {
		return resource.Resource{}, full
	}
	return f.Store.Get(ctx, sc, u)
}

func (f *faulty) set(fail func(store.Batch) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = fail
}

func (f *faulty) breaks(fail func(store.Query) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = fail
}

// count returns how many resources were packed since the last call.
func (f *faulty) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.packed
	f.packed = 0
	return n
}
