package terminal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
	"go.uber.org/goleak"

	"steward/client"
	"steward/internal/agent"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/runtime"
	"steward/internal/server/chat"
	"steward/internal/server/httpauth"
	"steward/internal/server/terminal"
	"steward/internal/store/sqlite"
	"steward/internal/tool"
	"steward/test/leak"
	"steward/test/served"
)

func TestMain(m *testing.M) {
	// The program's timers end by themselves, at most two seconds later.
	leak.Main(m, goleak.IgnoreTopFunction("charm.land/bubbletea/v2.Tick.func1"))
}

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

const ada = "ada"

// newNode returns a node with no other agents than Steward's own.
func newNode(t *testing.T) node {
	t.Parallel() // most of the time is spent waiting for the screen
	return nodeWith(t, nil, policy.Fixed{})
}

func nodeWith(t *testing.T, agents chat.Agents, judge policy.Authorizer) node {
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
	n, err := runtime.Open(t.Context(), runtime.Options{Store: st, Models: models, Tools: reg, Authorizer: judge,
		Agents: []agent.Definition{{Name: "poet", Version: "1", Prompt: "You rhyme."}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return node{served.To(t, n, ada, agents), p, hangs}
}

// screen is a terminal with the chat in it.
type screen struct {
	t    *testing.T
	tty  *os.File // the chat's end
	pty  *os.File // the person's end
	done chan error

	mu   sync.Mutex
	text strings.Builder // written since the last keys
	was  string          // what was shown then
	vt   *vt.Emulator    // the screen's content
	more chan struct{}
}

func start(t *testing.T, o terminal.Options) *screen {
	t.Helper()
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(master, &pty.Winsize{Rows: 24, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	s := &screen{t: t, tty: tty, pty: master, done: make(chan error, 1), more: make(chan struct{}, 1), vt: vt.NewEmulator(80, 24)}
	go io.Copy(io.Discard, s.vt) // its replies to the program's queries
	go s.read()
	o.In, o.Out, o.Environ = tty, tty, []string{"TERM=xterm-256color", "NO_COLOR=1"}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { s.done <- terminal.Run(ctx, o) }()
	t.Cleanup(func() {
		cancel()
		tty.Close()
		master.Close()
	})
	return s
}

func (s *screen) read() {
	defer s.vt.InputPipe().(io.Closer).Close()
	buf := make([]byte, 4096)
	for {
		n, err := s.pty.Read(buf)
		s.mu.Lock()
		s.text.Write(buf[:n])
		s.vt.Write(buf[:n])
		s.mu.Unlock()
		select {
		case s.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// all returns the scrollback and the screen as text. The caller holds s.mu.
func (s *screen) all() string {
	var out strings.Builder
	for _, line := range s.vt.Scrollback().Lines() {
		out.WriteString(line.String() + "\n")
	}
	return out.String() + s.vt.String()
}

// patience is how long a test waits for something that must happen. It is long, for
// slow machines; fast ones do not wait that long.
const patience = 2 * time.Minute

// until waits until nothing is missing.
func (s *screen) until(missing func() string) {
	s.t.Helper()
	deadline := time.After(patience)
	for {
		s.mu.Lock()
		what, all := missing(), s.all()
		s.mu.Unlock()
		if what == "" {
			return
		}
		select {
		case <-s.more:
		case <-deadline:
			s.t.Fatalf("%s never came:\n%s", what, all)
		}
	}
}

// lacking returns the first of the texts that is not in all, below those
// before it.
func lacking(all string, texts []string) string {
	for _, w := range texts {
		var ok bool
		if _, all, ok = strings.Cut(all, w); !ok {
			return strconv.Quote(w)
		}
	}
	return ""
}

// wait waits until the chat has written each of the texts, in order, since the
// last keys.
func (s *screen) wait(texts ...string) {
	s.t.Helper()
	s.until(func() string {
		missing := lacking(s.text.String(), texts)
		if missing != "" && lacking(added(s.was, s.all()), texts) == "" {
			return "" // what stood there already was not written again
		}
		return missing
	})
}

// added returns the lines after those that both have at their beginning.
func added(before, now string) string {
	old := strings.Split(before, "\n")
	list := strings.Split(now, "\n")
	n := 0
	for n < len(old) && n < len(list) && strings.TrimRight(old[n], " ") == strings.TrimRight(list[n], " ") {
		n++
	}
	return strings.Join(list[n:], "\n")
}

// rests waits until the chat shows that nothing is being sent and no turn runs.
func (s *screen) rests() {
	s.t.Helper()
	s.until(func() string {
		if all := s.all(); strings.Contains(all, "sending: ") || strings.Contains(all, "Esc stops") {
			return "rest"
		}
		return ""
	})
}

// hang makes the model hang, and waits until the chat shows that a turn runs.
func (s *screen) hang(n node) {
	s.t.Helper()
	s.rests()
	s.keys("hang\r")
	<-n.hangs
	s.shows("Esc stops")
}

// clear forgets what was written so far.
func (s *screen) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Reset()
	s.was = s.all()
}

func (s *screen) keys(keys string) {
	s.t.Helper()
	s.clear()
	if _, err := s.pty.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// enter types a line and waits until the chat has written each of the texts.
func (s *screen) enter(line string, texts ...string) {
	s.t.Helper()
	s.keys(line + "\r")
	s.wait(texts...)
}

// end waits for the chat to end.
func (s *screen) end() {
	s.t.Helper()
	select {
	case err := <-s.done:
		if err != nil {
			s.t.Error(err)
		}
	case <-time.After(patience):
		s.t.Fatal("the chat does not end")
	}
}

const hint = "/help"

func options(n node) terminal.Options {
	return terminal.Options{Client: n.Client, Greeting: "hello there",
		Tools: func() string { return "test.put puts" }}
}

func TestChat(t *testing.T) {
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
	s.enter("/export "+file, "is there already", "file_exists")
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
}

func TestStop(t *testing.T) {
	n := newNode(t)
	o := options(n)
	o.Leaving = "it goes on later"
	s := start(t, o)
	s.wait(hint)
	s.hang(n)
	s.keys("\x1b")
	s.wait("stopped")
	s.hang(n)
	s.keys("\x03")
	s.wait("stopped")
	s.hang(n)
	s.enter("/quit", "it goes on later")
	s.end()
}

func TestAConversationIsOpenedFromTheStart(t *testing.T) {
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
	s.enter("/open nonsense", "wants a number")
	s.enter("/open "+id.New().String(), "conversation_not_found")
	s.enter("/open "+acc.Conversation, "opened: before")
	s.keys("\x04")
	s.end()
}

// TestNothingIsMissedWhileAConversationIsOpened: what others say after the chat has read the
// messages of a conversation, and before it watches it, is shown too.
func TestNothingIsMissedWhileAConversationIsOpened(t *testing.T) {
	n := newNode(t)
	acc, err := terminal.Follow(t.Context(), n.Client, client.Message{Content: terminal.Words("before")}, func(client.Frame) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(n.URL())
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	var once sync.Once
	proxy.ModifyResponse = func(r *http.Response) error {
		if !strings.HasSuffix(r.Request.URL.Path, "/messages") {
			return nil
		}
		once.Do(func() {
			_, err = terminal.Follow(t.Context(), n.Client, client.Message{Conversation: acc.Conversation, Content: terminal.Words("between")}, func(client.Frame) error { return nil })
		})
		return err
	}
	front := httptest.NewServer(proxy)
	t.Cleanup(front.Close)
	o := options(n)
	o.Client = client.New(client.Options{URL: front.URL, HTTP: front.Client(), Fault: httpauth.FaultOf})
	s := start(t, o)
	s.wait("hello there")
	s.enter("/open "+acc.Conversation, "opened: before", "you said: before", "you said: between")
	s.keys("\x04")
	s.end()
}

func TestPlain(t *testing.T) {
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
}

// asks is a policy that asks even if nobody is present.
type asks struct{}

func (asks) Authorize(ctx context.Context, q policy.Question) (policy.Decision, error) {
	q.Attended = true
	return policy.Fixed{}.Authorize(ctx, q)
}

func TestAQuestionThatNobodyCanAnswerIsRefused(t *testing.T) {
	t.Parallel()
	n := nodeWith(t, nil, asks{})
	var out, notes strings.Builder
	if err := terminal.Plain(t.Context(), terminal.Options{Client: n.Client}, strings.NewReader("put x"), &out, &notes); err != nil {
		t.Fatal(err)
	}
	if got := notes.String(); !strings.Contains(got, "← test.put denied: ") || !strings.Contains(got, "nobody is there") || n.put.all() != "" {
		t.Errorf("%q, done: %s", got, n.put.all())
	}
}

func TestFollowEndsWithItsContext(t *testing.T) {
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
}
