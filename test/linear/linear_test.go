//go:build long

// Package linear checks that one conversation used by many clients at once is
// linearizable: it behaves as if the operations had happened one after the
// other.
package linear

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"steward/internal/conversation"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/record"
	"steward/internal/runtime"
	"steward/internal/store"
	"steward/internal/tool"
	"steward/internal/turn"
	"steward/test/leak"
	"steward/test/storetest"
)

func TestMain(m *testing.M) { leak.Main(m) }

const (
	crowd = 64 // clients of one conversation
	each  = 5  // operations of each client
	few   = 16 // clients of a faulty node: the checker has to try everything
	user  = "anna"

	patience = 15 * time.Minute // for the checker and everything else that must end
)

// parrot is a provider whose model repeats the newest message.
type parrot struct{}

func (parrot) Name() string                               { return "test" }
func (p parrot) Model(string) llm.Model                   { return p }
func (parrot) Models(context.Context) ([]llm.Info, error) { return []llm.Info{{Name: "m"}}, nil }
func (parrot) Stream(_ context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		msgs := r.Transcript.Messages()
		yield(llm.Event{Kind: llm.Done, Reply: &llm.Reply{Model: "test/m", Stop: message.StopEnd,
			Blocks: []message.Block{&message.Text{Text: "re: " + msgs[len(msgs)-1].Text()}}}}, nil)
	}
}

// node is the part of a node that is tested.
type node interface {
	Send(ctx context.Context, user string, t turn.Input) (turn.Accepted, error)
	Fork(ctx context.Context, user string, conv id.ID, f conversation.Fork) (record.Branch, error)
	Remove(ctx context.Context, user string, conv id.ID, msgs ...id.ID) (record.Branch, error)
	Switch(ctx context.Context, user string, conv id.ID, branch string) error
	Mark(ctx context.Context, user string, conv id.ID, v conversation.Verdict, msgs ...id.ID) (int, error)
	Pin(ctx context.Context, user string, conv id.ID, pinned bool, msgs ...id.ID) error
	Messages(ctx context.Context, user string, conv id.ID, after store.Cursor, limit int) ([]conversation.Entry, store.Cursor, error)
	Branches(ctx context.Context, user string, conv id.ID) ([]record.Branch, string, error)
}

// reading is a node that is what it says it is.
type reading struct{ *runtime.Node }

// Messages implements node.
func (r reading) Messages(ctx context.Context, user string, conv id.ID, after store.Cursor, limit int) ([]conversation.Entry, store.Cursor, error) {
	return r.Conversations.Messages(ctx, store.ForUser(user), conv, after, limit, false)
}

func open(t *testing.T, st store.Store) *runtime.Node {
	t.Helper()
	models, err := llm.New(llm.Config{Providers: []llm.Provider{parrot{}},
		Aliases: map[string]llm.Alias{"default": {Models: []string{"test/m"}}}, Retry: llm.RetryPolicy{Attempts: 1}})
	if err != nil {
		t.Fatal(err)
	}
	n, err := runtime.Open(t.Context(), runtime.Options{Store: st, Models: models, Tools: &tool.Registry{}, Authorizer: policy.Fixed{},
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		if err := n.Close(ctx); err != nil {
			t.Error("Close:", err)
		}
	})
	return n
}

// receipts is a store that records the log position and the commit time of each
// operation's write.
type receipts struct {
	store.Store
	mu    sync.Mutex
	wrote map[int]written
}

type written struct {
	seq        uint64
	from, till time.Time
}

// number is the context key of an operation's number.
type number struct{}

func (r *receipts) Commit(ctx context.Context, sc store.Scope, b store.Batch) (store.Receipt, error) {
	from := time.Now()
	rec, err := r.Store.Commit(ctx, sc, b)
	if n, ok := ctx.Value(number{}).(int); ok && err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.wrote[n] = written{rec.Seq, from, time.Now()}
	}
	return rec, err
}

// history is the crowd's operations and their results.
type history struct {
	t     *testing.T
	node  node
	conv  id.ID
	began time.Time

	mu       sync.Mutex
	ops      []porcupine.Operation
	numbers  []int  // operation numbers of ops
	count    int    // number of operations started
	messages []sent // all acknowledged messages
	branches []string
}

// sent is an acknowledged message.
type sent struct {
	id     id.ID
	client string // the client's own id
	text   string
	marked bool // its state may change; of other messages only the place
}

// started is a running operation.
type started struct {
	ctx    context.Context
	number int
	at     time.Duration
}

func (h *history) start() started {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count++
	return started{context.WithValue(h.t.Context(), number{}, h.count), h.count, time.Since(h.began)}
}

// note adds an operation that has returned. The caller must hold the lock.
func (h *history) note(who int, s started, c call, a answer) {
	h.ops = append(h.ops, porcupine.Operation{ClientId: who, Input: c, Output: a, Call: int64(s.at), Return: int64(time.Since(h.began))})
	h.numbers = append(h.numbers, s.number)
}

// some picks an acknowledged message.
func (h *history) some(r *rand.Rand, marked bool) (sent, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for range 20 {
		if m := h.messages[r.IntN(len(h.messages))]; m.marked == marked {
			return m, true
		}
	}
	return sent{}, false
}

// run lets a crowd use one conversation. It returns the history with the order
// of its changes filled in.
func run(t *testing.T, st store.Store, seed uint64, crowd int, wrap func(*runtime.Node) node) (*history, string) {
	t.Helper()
	noted := &receipts{Store: st, wrote: map[int]written{}}
	n := open(t, noted)
	h := &history{t: t, node: wrap(n), branches: []string{record.MainBranch}}
	acc, err := n.Send(t.Context(), user, turn.Input{ClientID: "first", Content: []message.Block{&message.Text{Text: "first"}}})
	if err != nil {
		t.Fatal(err)
	}
	h.conv, h.messages = acc.Conversation, []sent{{id: acc.Message, client: "first", text: "first"}}
	h.began = time.Now()
	var wg sync.WaitGroup
	for who := range crowd {
		wg.Go(func() {
			m := &member{h, who, rand.New(rand.NewPCG(seed, uint64(who)))}
			for range each {
				m.act()
			}
		})
	}
	wg.Wait()
	rest := &member{h, crowd, rand.New(rand.NewPCG(seed, uint64(crowd)))}
	rest.last()
	h.order(noted.wrote)
	return h, acc.Message.String()
}

// order ranks the changes by their log position. It also narrows each change to
// the time of its commit, since it must have taken effect then; that leaves the
// checker less to try.
func (h *history) order(wrote map[int]written) {
	var changes []int
	for i := range h.ops {
		o := &h.ops[i]
		w, ok := wrote[h.numbers[i]]
		if !ok {
			continue
		}
		o.Call, o.Return = max(o.Call, int64(w.from.Sub(h.began))), min(o.Return, int64(w.till.Sub(h.began)))
		changes = append(changes, i)
	}
	slices.SortFunc(changes, func(a, b int) int { return cmp.Compare(wrote[h.numbers[a]].seq, wrote[h.numbers[b]].seq) })
	for rank, i := range changes {
		a := h.ops[i].Output.(answer)
		a.rank = rank + 1
		h.ops[i].Output = a
	}
}

// check lets the checker judge the history.
func (h *history) check(first string) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(model(first), h.ops, patience)
}

// explain writes a picture of a history that is not linearizable and fails the
// test with its path.
func (h *history) explain(first string, seed uint64) {
	_, info := porcupine.CheckOperationsVerbose(model(first), h.ops, patience)
	path := filepath.Join(os.TempDir(), fmt.Sprintf("linear-%d.html", seed))
	if err := porcupine.VisualizePath(model(first), info, path); err != nil {
		h.t.Error(err)
	}
	h.t.Errorf("seed %d: the history is not linearizable; a picture of it is in %s", seed, path)
}

// kept checks that no acknowledged message is lost or changed, and that the
// model is shown a valid history on each branch.
func (h *history) kept(st store.Store) {
	e := conversation.New(st, conversation.Options{})
	sc := store.ForUser(user)
	for _, m := range h.messages {
		got, err := e.Find(h.t.Context(), sc, h.conv, m.id)
		if err != nil || got.Text() != m.text {
			h.t.Errorf("message %s (%q) is lost: %v", m.id, m.text, err)
		}
	}
	list, err := e.Branches(h.t.Context(), sc, h.conv)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, b := range list {
		if err := e.Switch(h.t.Context(), sc, h.conv, b.ID); err != nil {
			h.t.Error(err)
		}
		s, err := e.Open(h.t.Context(), sc, h.conv)
		if err != nil {
			h.t.Fatal(err)
		}
		if err := message.CheckView(s.Transcript().Messages()); err != nil {
			h.t.Errorf("branch %s: %v", b.ID, err)
		}
	}
}

// rest waits until the last turn has ended.
func rest(t *testing.T, n *runtime.Node, conv id.ID) {
	t.Helper()
	ctx := t.Context()
	for n.Running(user, conv) {
		select {
		case <-ctx.Done():
			t.Fatal("the last turn does not end")
		case <-time.After(time.Millisecond):
		}
	}
}

func crowded(t *testing.T, st store.Store, seed uint64) {
	var n *runtime.Node
	h, first := run(t, st, seed, crowd, func(real *runtime.Node) node { n = real; return reading{real} })
	rest(t, n, h.conv)
	counts := map[kind]int{}
	for _, o := range h.ops {
		counts[o.Input.(call).kind]++
	}
	ran := time.Since(h.began)
	verdict := h.check(first)
	t.Logf("seed %d: %d operations in %s, checked in %s: %v", seed, len(h.ops), ran, time.Since(h.began)-ran, counts)
	switch verdict {
	case porcupine.Illegal:
		h.explain(first, seed)
	case porcupine.Unknown:
		t.Errorf("seed %d: the checker did not come to an end", seed)
	}
	h.kept(st)
}

func TestLinearizable(t *testing.T) {
	base := uint64(time.Now().UnixNano())
	for i := range uint64(3) {
		t.Run(fmt.Sprint(i), func(t *testing.T) { crowded(t, storetest.NewModel(), base+i) })
	}
}
