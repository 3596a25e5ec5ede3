package terminal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"steward/client"
	"steward/internal/agent"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/identity"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/runtime"
	"steward/internal/search/fts"
	"steward/internal/server/auth"
	"steward/internal/server/websocket"
	"steward/internal/store/sqlite"
	"steward/internal/terminal"
	"steward/internal/tool"
	"steward/test/leak"
	"steward/test/served"
)

func TestMain(m *testing.M) { leak.Main(m) }

// scripted is a model that follows the last message.
type scripted struct{ hangs chan struct{} }

func (scripted) Name() string                               { return "scripted" }
func (s scripted) Model(string) llm.Model                   { return s }
func (scripted) Models(context.Context) ([]llm.Info, error) { return []llm.Info{{Name: "one"}}, nil }
func (s scripted) Stream(ctx context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		msgs := r.Transcript.Messages()
		last := msgs[len(msgs)-1]
		text := last.Text()
		reply := &llm.Reply{Model: "scripted/one", Stop: message.StopEnd, Usage: message.Usage{Input: 1, Output: 1}}
		say := func(s string) bool {
			reply.Blocks = []message.Block{&message.Text{Text: s}}
			return yield(llm.Event{Kind: llm.TextDelta, Text: s}, nil)
		}
		switch {
		case last.Role == message.Tool:
			say("the tool said: " + text)
		case strings.HasPrefix(text, "put "):
			reply.Stop = message.StopTools
			for i, name := range strings.Fields(text)[1:] {
				args := fmt.Sprintf(`{"text":"to %s"}`, name)
				yield(llm.Event{Kind: llm.CallStart, Block: i, Name: "test.put", CallID: name}, nil)
				yield(llm.Event{Kind: llm.CallArgs, Block: i, Text: args}, nil)
				reply.Blocks = append(reply.Blocks, &message.ToolCall{CallID: name, Name: "test.put", Args: []byte(args)})
			}
		case strings.HasPrefix(text, "count "): // one line every 50 ms
			var all strings.Builder
			for i := range len(text) - len("count ") {
				line := fmt.Sprintf("line %d\n\n", i)
				all.WriteString(line)
				yield(llm.Event{Kind: llm.TextDelta, Text: line}, nil)
				time.Sleep(50 * time.Millisecond)
			}
			reply.Blocks = []message.Block{&message.Text{Text: all.String()}}
		case text == "hang":
			yield(llm.Event{Kind: llm.TextDelta, Text: "hanging about"}, nil)
			select {
			case s.hangs <- struct{}{}:
			case <-ctx.Done():
			}
			<-ctx.Done()
			yield(llm.Event{}, ctx.Err())
			return
		case text == "fail":
			yield(llm.Event{}, fault.New(fault.Invalid, "request_refused", "the model refused").WithHint("ask something else"))
			return
		default:
			say("you said: " + text)
		}
		yield(llm.Event{Kind: llm.Done, Reply: reply}, nil)
	}
}

// put is an action, which needs approval.
type put struct {
	mu   sync.Mutex
	done []string
}

func (p *put) Spec() tool.Spec {
	return tool.Spec{Name: "test.put", Description: "Puts a text.", Effect: tool.Action, Version: "1",
		Input: []byte(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`)}
}

func (p *put) Call(_ context.Context, in tool.Invocation) (tool.Result, error) {
	var args struct{ Text string }
	if err := json.Unmarshal(in.Args, &args); err != nil {
		return tool.Result{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = append(p.done, args.Text)
	return tool.Text("put " + args.Text), nil
}

func (p *put) all() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.done, ", ")
}

// node is a real node of one user, with a client of its server.
type node struct {
	*client.Client
	put   *put
	hangs chan struct{} // receives a value each time the model hangs
}

const ada = identity.Local

// newNode returns a node with no other agents than Steward's own.
func newNode(t *testing.T) node {
	return nodeWith(t, nil, policy.Fixed{})
}

func nodeWith(t *testing.T, agents websocket.Agents, judge policy.Authorizer) node {
	t.Helper()
	st, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "steward.db")})
	if err != nil {
		t.Fatal(err)
	}
	hangs := make(chan struct{})
	models, err := llm.New(llm.Config{Providers: []llm.Provider{scripted{hangs}},
		Aliases: map[string]llm.Alias{"default": {Models: []string{"scripted/one"}}}})
	if err != nil {
		t.Fatal(err)
	}
	p, reg := &put{}, &tool.Registry{}
	if err := reg.Add(p); err != nil {
		t.Fatal(err)
	}
	index := fts.New(fts.Options{Path: filepath.Join(t.TempDir(), "search.db"), Store: st})
	n, err := runtime.Open(t.Context(), runtime.Options{Store: st, Search: index, Models: models, Tools: reg, Authorizer: judge,
		Agents: []agent.Definition{{Name: "poet", Version: "1", Prompt: "You rhyme."}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := errors.Join(index.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	})
	return node{served.To(t, n, ada, agents), p, hangs}
}

func options(n node) terminal.Options {
	return terminal.Options{Client: n.Client, Greeting: "hello there",
		Tools: func() string { return "test.put puts" }}
}

func TestChat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		o := options(n)
		o.History = filepath.Join(t.TempDir(), "history")
		s := start(t, o)
		s.wait("hello there")
		s.enter("one", "› one", "you said: one", "scripted/one")
		s.enter("two\\\rlines", "you said: two", "lines", "scripted/one")
		s.keys("\x1b[A\x1b[A\x1b[A\r") // up over the two lines, to the earlier input
		s.wait("you said: one", "scripted/one")
		s.enter("fail", "the model refused", "ask something else", "request_refused")
		s.enter("/title A talk", "the title is now: A talk")
		s.enter("/list", "* 1", "A talk", "/open NUMBER")
		s.enter("/new", "a new conversation begins")
		s.enter("fresh", "you said: fresh", "scripted/one")
		s.enter("/list", "* 1", "fresh", " 2", "A talk")
		s.enter("/open 2", "opened: A talk", "› one")
		s.enter("again", "you said: again", "scripted/one")
		s.enter("/search nowhere", "nothing was found")
		s.enter("/search fresh", "open:", " 1 ", "fresh: you said: fresh", "Esc cancels")
		s.enter("", "opened: fresh", "› fresh")
		s.enter("/open 2", "opened: A talk", "› one")
		s.enter("/mod\t", "model:", "scripted/one", "type to filter")
		s.enter("ONE", "from now on: scripted/one")
		s.enter("/model scr\t", "from now on: scripted/one")
		s.enter("/tools", "test.put", "puts")
		s.enter("/help", "/open ID", "Ctrl-C twice leaves")
		s.enter("/hlep", "did you mean /help?")
		s.enter("/stop", "nothing is running")
		s.enter("//slash", "you said: /slash")
		file := filepath.Join(t.TempDir(), "talk.md")
		s.enter("/export "+file, "written to")
		s.enter("/export "+file, "already exists", "file_exists")
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), "you said: again") {
			t.Errorf("%v: %s", err, text)
		}
		s.keys("\x04")
		s.end()

		// The next chat remembers what was typed.
		s = start(t, o)
		s.wait(hint)
		s.keys("\x1b[A")
		s.wait("/export")
		s.keys("\x03")
		s.wait("Ask something")
		s.keys("\x04")
		s.end()
	})
}

func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		o := options(n)
		o.Leaving = "it goes on later"
		s := start(t, o)
		s.wait(hint)
		s.hangingIndent(n)
		s.keys("\x1b")
		s.wait("stopped")
		s.hangingIndent(n)
		s.keys("\x03")
		s.wait("stopped")
		s.hangingIndent(n)
		s.enter("/quit", "it goes on later")
		s.end()
	})
}

func TestAConversationIsOpenedFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		acc, err := terminal.Follow(t.Context(), n.Client, client.Message{Content: terminal.Words("before")}, func(client.Frame) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		o := options(n)
		o.Conversation = acc.Conversation
		s := start(t, o)
		s.wait("opened: before", "› before", "you said: before")
		s.enter("more", "you said: more")
		s.enter("/open nonsense", "needs a number")
		s.enter("/open "+id.New().String(), "conversation_not_found")
		s.enter("/open "+acc.Conversation, "opened: before")
		s.keys("\x04")
		s.end()
	})
}

// interposed is a way to the server that calls then once, after the server has read the
// messages of a conversation and before the client gets them.
type interposed struct {
	http.RoundTripper
	once         sync.Once
	continuation func() error
}

// RoundTrip implements http.RoundTripper.
func (i *interposed) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := i.RoundTripper.RoundTrip(r)
	if err == nil && strings.HasSuffix(r.URL.Path, "/messages") {
		i.once.Do(func() { err = i.continuation() })
	}
	return res, err
}

// TestNothingIsMissedWhileAConversationIsOpened: what others say after the chat has read the
// messages of a conversation, and before it watches it, is shown too.
func TestNothingIsMissedWhileAConversationIsOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		acc, err := terminal.Follow(t.Context(), n.Client, client.Message{Content: terminal.Words("before")}, func(client.Frame) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		front := &interposed{RoundTripper: n.HTTP().Transport, continuation: func() error {
			_, err := terminal.Follow(t.Context(), n.Client, client.Message{Conversation: acc.Conversation, Content: terminal.Words("between")}, func(client.Frame) error { return nil })
			return err
		}}
		o := options(n)
		o.Client = client.New(client.Options{URL: n.URL(), HTTP: &http.Client{Transport: front}, Fault: auth.FaultOf})
		s := start(t, o)
		s.wait("hello there")
		s.enter("/open "+acc.Conversation, "opened: before", "you said: before", "you said: between")
		s.keys("\x04")
		s.end()
	})
}

func TestPlain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		var out, notes strings.Builder
		err := terminal.Plain(t.Context(), terminal.Options{Client: n.Client}, strings.NewReader("one\n\n put x \nlast"), &out, &notes)
		if err != nil {
			t.Fatal(err)
		}
		if got := out.String(); !strings.HasPrefix(got, "you said: one\nthe tool said: ") || !strings.HasSuffix(got, "you said: last\n") {
			t.Errorf("%q", got)
		}
		if got := notes.String(); !strings.Contains(got, "← test.put denied: ") || n.put.all() != "" {
			t.Errorf("%q, done: %s", got, n.put.all())
		}
		list, err := n.Conversations(t.Context(), 10)
		if err != nil || len(list) != 1 {
			t.Errorf("%d conversations, %v", len(list), err)
		}
		err = terminal.Plain(t.Context(), terminal.Options{Client: n.Client}, strings.NewReader("fail\nnever"), &out, &notes)
		if !fault.HasCode(err, "request_refused") {
			t.Errorf("%v", err)
		}
	})
}

// asks is a policy that asks even if nobody is present.
type asks struct{}

func (asks) Authorize(ctx context.Context, q policy.Question) (policy.Decision, error) {
	q.Attended = true
	return policy.Fixed{}.Authorize(ctx, q)
}

func TestAQuestionThatNobodyCanAnswerIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := nodeWith(t, nil, asks{})
		var out, notes strings.Builder
		if err := terminal.Plain(t.Context(), terminal.Options{Client: n.Client}, strings.NewReader("put x"), &out, &notes); err != nil {
			t.Fatal(err)
		}
		if got := notes.String(); !strings.Contains(got, "← test.put denied: ") || !strings.Contains(got, "nobody can be asked here") || n.put.all() != "" {
			t.Errorf("%q, done: %s", got, n.put.all())
		}
	})
}

func TestFollowEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		ctx, cancel := context.WithCancel(t.Context())
		_, err := terminal.Follow(ctx, n.Client, client.Message{Content: terminal.Words("hang")}, func(f client.Frame) error {
			if f.Type == client.FrameToken {
				cancel()
			}
			return nil
		})
		if !fault.Is(err, fault.Cancelled) {
			t.Errorf("%v", err)
		}
	})
}

// A paste reaches the model as it was pasted, also bytes that the terminal library takes for keys.
func TestAPasteReachesTheModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		s := start(t, terminal.Options{Client: n.Client})
		s.wait(hint)
		s.keys("look: \x1b[200~if x {\n\t\x1b[31mred\x1b[A\n}\x1b[201~")
		s.wait("look: [pasted 3 lines, 21 bytes: if x {]")
		s.keys("\r")
		s.wait("you said: look:")
		s.rests()
		s.keys("\x04")
		s.end()
		list, err := n.Conversations(t.Context(), 1)
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		var out strings.Builder
		if err := n.Export(t.Context(), list[0].ID, "markdown", false, &out); err != nil || !strings.Contains(out.String(), "look: if x {\n\t\x1b[31mred\x1b[A\n}") {
			t.Errorf("%q, %v", out.String(), err)
		}
	})
}
