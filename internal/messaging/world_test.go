package messaging_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/channel"
	"steward/internal/fault"
	"steward/internal/jobs"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/messaging"
	"steward/internal/policy"
	"steward/internal/resource"
	"steward/internal/runtime"
	"steward/internal/store"
	"steward/internal/store/sqlite"
	"steward/internal/tool"
	"steward/test/leak"
	"steward/test/storetest"
)

func TestMain(m *testing.M) { leak.Main(m) }

// model answers by the user's words: "say WORDS", "slow WORDS" (a word a second), "note WORDS" (calls the
// action ledger.add), "picture", "work" (calls
// work.long, which goes on in the background), "read" (calls the query diary.read), "hang" and "fail".
type model struct{}

func (model) Name() string                               { return "test" }
func (m model) Model(string) llm.Model                   { return m }
func (model) Models(context.Context) ([]llm.Info, error) { return []llm.Info{{Name: "m"}}, nil }

func (model) Stream(ctx context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		msgs := r.Transcript.Messages()
		done := func(stop message.Stop, blocks ...message.Block) {
			yield(llm.Event{Kind: llm.Done, Reply: &llm.Reply{Model: "test/m", Stop: stop, Blocks: blocks, Usage: message.Usage{Input: 10, Output: 3}}}, nil)
		}
		say := func(text string, pause time.Duration) {
			for _, w := range strings.SplitAfter(text, " ") {
				if pause > 0 {
					select {
					case <-time.After(pause):
					case <-ctx.Done():
						yield(llm.Event{}, ctx.Err())
						return
					}
				}
				if !yield(llm.Event{Kind: llm.TextDelta, Text: w}, nil) {
					return
				}
			}
			done(message.StopEnd, &message.Text{Text: text})
		}
		last := msgs[len(msgs)-1]
		if last.Role == message.Tool {
			say(string(last.Result().Status)+": "+last.Text(), 0)
			return
		}
		verb, rest, _ := strings.Cut(firstLine(last.Text()), " ")
		call := func(name, args string) {
			if yield(llm.Event{Kind: llm.CallStart, Name: name}, nil) {
				done(message.StopTools, &message.ToolCall{CallID: "call", Name: name, Args: []byte(args)})
			}
		}
		switch verb {
		case "slow":
			say(rest, time.Second)
		case "note":
			call("ledger.add", `{"what":"`+rest+`"}`)
		case "work":
			call("work.long", `{}`)
		case "read":
			call("diary.read", `{}`)
		case "picture":
			done(message.StopEnd, &message.Text{Text: "Here it is."}, &message.Image{MIME: "image/png", Data: []byte("\x89PNG\r\n\x1a\n")})
		case "hang":
			<-ctx.Done()
			yield(llm.Event{}, ctx.Err())
		case "fail":
			yield(llm.Event{}, fault.New(fault.Invalid, "model_refused", "the model refused"))
		case "say":
			say(rest, 0)
		default:
			say("I was told: "+last.Text(), 0)
		}
	}
}

// mortal is a store under which the process can be killed: after some commits, or at once, nothing reaches
// it any more.
type mortal struct {
	store.Store
	mu    sync.Mutex
	left  int  // commits until death; 0: lives for ever
	after bool // the last commit takes effect
	dead  chan struct{}
}

var errKilled = errors.New("the process was killed")

func (m *mortal) isDead() bool {
	select {
	case <-m.dead:
		return true
	default:
		return false
	}
}

// Commit implements store.Store.
func (m *mortal) Commit(ctx context.Context, sc store.Scope, b store.Batch) (store.Receipt, error) {
	m.mu.Lock()
	if m.isDead() {
		m.mu.Unlock()
		return store.Receipt{}, errKilled
	}
	last := m.left == 1
	if m.left > 0 {
		if m.left--; last {
			close(m.dead)
		}
	}
	m.mu.Unlock()
	if last && !m.after {
		return store.Receipt{}, errKilled
	}
	r, err := m.Store.Commit(ctx, sc, b)
	if last {
		return store.Receipt{}, errKilled
	}
	return r, err
}

// Get implements store.Store.
func (m *mortal) Get(ctx context.Context, sc store.Scope, u resource.URI) (resource.Resource, error) {
	if m.isDead() {
		return resource.Resource{}, errKilled
	}
	return m.Store.Get(ctx, sc, u)
}

// Query implements store.Store.
func (m *mortal) Query(ctx context.Context, sc store.Scope, q store.Query) (store.Page, error) {
	if m.isDead() {
		return store.Page{}, errKilled
	}
	return m.Store.Query(ctx, sc, q)
}

// world is a node with messengers over a store that outlives it.
type world struct {
	t        testing.TB
	disk     store.Store
	services map[string]*service
	judge    policy.Authorizer
	hears    func(ctx context.Context, user, mediaType string, data []byte) (string, error) // transcribes; nil: nobody does
	renew    func() channel.Channel                                                         // makes the adapter of the service in each life; nil: the service is its own
	ledger   []string
	mu       sync.Mutex

	begin func() error // begins the engine in place of Start; nil: Start

	store  *mortal
	node   *runtime.Node
	engine *messaging.Engine
}

// newWorld returns a world whose store is in memory.
func newWorld(t testing.TB, services map[string]*service) *world {
	return &world{t: t, disk: storetest.NewModel(), services: services}
}

// open begins a life that ends after some commits; 0: when it is closed.
func (w *world) open(left int, after bool) {
	w.t.Helper()
	w.store = &mortal{Store: w.disk, left: left, after: after, dead: make(chan struct{})}
	models, err := llm.New(llm.Config{Providers: []llm.Provider{model{}}, Aliases: map[string]llm.Alias{"default": {Models: []string{"test/m"}}},
		Windows: map[string]int{"test/m": 10_000_000}, Retry: llm.RetryPolicy{Attempts: 1}})
	w.ok(err)
	var accounts []messaging.Account
	for name, s := range w.services {
		var c channel.Channel = s
		if w.renew != nil {
			c = w.renew()
		}
		accounts = append(accounts, messaging.Account{Name: name, Kind: "test", Channel: c})
	}
	judge := w.judge
	if judge == nil {
		judge = policy.Fixed{}
	}
	w.engine = messaging.New(messaging.Options{Store: w.store, Accounts: accounts, Judge: judge, Transcribe: w.hears})
	w.node, err = runtime.Open(context.Background(), runtime.Options{Store: w.store, Models: models, Tools: w.tools(), Authorizer: judge,
		Log: slog.New(slog.DiscardHandler), Alarms: jobs.New(jobs.Options{Store: w.store}), Deliver: w.engine.Deliver})
	if w.store.isDead() {
		return
	}
	w.ok(err)
	if w.begin != nil {
		err = w.begin()
	} else {
		err = w.engine.Start(context.Background(), w.node, w.node.Conversations, w.node.Effects)
	}
	if !w.store.isDead() {
		w.ok(err)
	}
}

// close ends a life.
func (w *world) close() {
	w.engine.Close()
	if w.node != nil {
		if err := w.node.Close(context.Background()); err != nil && !w.store.isDead() {
			w.t.Error(err)
		}
	}
	w.node = nil
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) tools() *tool.Registry {
	type entry struct {
		What string `json:"what"`
	}
	note, err := tool.New(tool.Spec{Name: "ledger.add", Description: "Add an entry to the ledger.", Effect: tool.Action, Log: tool.LogSpec{Summary: "Write {what} into the ledger"}},
		func(_ context.Context, _ tool.Invocation, in entry) (string, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.ledger = append(w.ledger, in.What)
			return "added " + in.What, nil
		})
	w.ok(err)
	diary, err := tool.New(tool.Spec{Name: "diary.read", Description: "Read the diary.", Effect: tool.Query, Yields: message.Private},
		func(context.Context, tool.Invocation, struct{}) (string, error) { return "my secret love", nil })
	w.ok(err)
	long, err := tool.New(tool.Spec{Name: "work.long", Description: "Works for long.", Effect: tool.Query, Async: true},
		func(ctx context.Context, _ tool.Invocation, _ struct{}) (string, error) {
			select {
			case <-time.After(time.Minute):
				return "worked", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		})
	w.ok(err)
	r := &tool.Registry{}
	w.ok(r.Add(long))
	w.ok(r.Add(note))
	w.ok(r.Add(diary))
	return r
}

var codeIn = regexp.MustCompile(`steward pair ([A-Z0-9]{8})`)

// pair makes a sender at a service a user.
func (w *world) pair(name, sender, user string) {
	w.t.Helper()
	s := w.services[name]
	s.say(by(sender, "hello-"+sender, "hello"))
	settle()
	p := s.newest("chat-" + sender)
	if p == nil {
		w.t.Fatalf("%s got no code", sender)
	}
	m := codeIn.FindStringSubmatch(p.text())
	if m == nil {
		w.t.Fatalf("there is no code in %q", p.text())
	}
	if _, err := w.engine.Pair(context.Background(), "local", m[1], user); err != nil {
		w.t.Fatal(err)
	}
	settle()
}

// settle lets some time pass, in which everything that can happen happens.
func settle() { time.Sleep(5 * time.Second); synctest.Wait() }

// usual are the limits of a service that can do everything.
var usual = channel.Limits{Text: 4000, SendEvery: 50 * time.Millisecond, EditEvery: time.Second, Buttons: 3, Attachment: 1 << 20}

// inWorld runs a test in a world with one service, with ann paired.
func inWorld(t *testing.T, limits channel.Limits, do func(w *world, s *service)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newService(limits)
		w := newWorld(t, map[string]*service{"phone": s})
		w.open(0, false)
		defer func() { w.close() }()
		w.pair("phone", "ann", "ann")
		do(w, s)
	})
}

func sqliteIn(t testing.TB) *sqlite.Store {
	st, err := sqlite.Open(context.Background(), sqlite.Options{Path: filepath.Join(t.TempDir(), "steward.db")})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// firstLine returns a text without what follows an empty line.
func firstLine(text string) string {
	text, _, _ = strings.Cut(text, "\n\n")
	return text
}
