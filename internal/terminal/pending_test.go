package terminal_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/catalog"
	"steward/internal/fault"
	"steward/internal/policy"
	"steward/test/served"
)

// newOffice returns an office with an endpoint that is denied at first.
func newOffice(t *testing.T) *served.Office {
	o := served.NewOffice(t, catalog.RootSource{Kind: "grpc", Name: "hash", File: "steward.yaml", Definition: []byte(`{"host":"127.0.0.1:1"}`)})
	if _, err := o.Catalog.Deny(t.Context(), "ada", "grpc:hash", ""); err != nil {
		t.Fatal(err)
	}
	return o
}

// is checks the status of an agent or a source in the office.
func (s *screen) is(o *served.Office, path string, want catalog.Status) {
	s.t.Helper()
	for _, l := range o.Listings() {
		if l.Path == path {
			if l.Status != want {
				s.t.Errorf("%s is %s, want %s", path, l.Status, want)
			}
			return
		}
	}
	s.t.Errorf("%s is not there", path)
}

// chatIn begins a chat beside an office.
func chatIn(t *testing.T, o *served.Office) (*screen, node) {
	t.Helper()
	n := nodeWith(t, o, policy.Fixed{})
	return start(t, options(n)), n
}

// press presses a key like a person who has read the screen and waits for what comes,
// and checks that the texts are shown.
func (s *screen) press(key string, texts ...string) {
	s.t.Helper()
	time.Sleep(600 * time.Millisecond) // on the bubble's clock
	s.keys(key)
	time.Sleep(600 * time.Millisecond)
	s.shows(texts...)
}

// answer checks that a question is asked, and answers it like press.
func (s *screen) answer(question, key string, texts ...string) {
	s.t.Helper()
	s.asks(question)
	s.press(key, texts...)
}

func (s *screen) quit() {
	s.t.Helper()
	s.keys("/quit\r")
	s.end()
}

// shows checks that the texts are on the screen or in the scrollback, in order.
// Text from before the last keys counts as well.
func (s *screen) shows(texts ...string) {
	s.t.Helper()
	s.pause()
	all := s.all()
	if missing := lacking(all, texts); missing != "" {
		s.t.Fatalf("%s is not shown:\n%s", missing, all)
	}
}

// question returns the question on the screen, or "".
func (s *screen) question() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := strings.Split(s.vt.String(), "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, "? ") {
			return strings.Join(lines[i:], " ")
		}
	}
	return ""
}

// asks checks that a question is above the input; "": none.
func (s *screen) asks(question string) {
	s.t.Helper()
	s.pause()
	if q := s.question(); !strings.HasPrefix(q, question) || question == "" && q != "" {
		s.t.Fatalf("it does not ask %q:\n%s", question, s.all())
	}
}

// lacks checks that the text is not on the screen.
func (s *screen) lacks(text string) {
	s.t.Helper()
	s.pause()
	if all := s.all(); strings.Contains(all, text) {
		s.t.Errorf("%q came:\n%s", text, all)
	}
}

func TestWhatWaitsIsAskedAboutAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		o.Agent("desk", "")
		o.Agent("desk/agents/mail", "")
		s, _ := chatIn(t, o)
		s.asks("? desk (an agent with 1 below it) waits for your approval. Look at it? y/n")
		s.shows("hello there", "? desk", "y look · n not now · d deny")
		s.is(o, "desk", catalog.Pending)
		s.press("y")
		s.asks("? Allow these 2 as they are? y/n")
		s.shows("desk  pending", "Review this:", "! these tools change things", "── agent.yaml", "name: desk", "── tool notes.add", "effect: action",
			"desk/mail  pending", "To be allowed:", "desk       1 tool: notes.add  ! 1 warning", "desk/mail  1 tool", "? Allow", "o one by one")
		s.is(o, "desk", catalog.Pending)
		s.press("y", "✓ desk is allowed, with the 1 below it")
		s.is(o, "desk", catalog.Approved)
		s.is(o, "desk/mail", catalog.Approved)
		s.keys("/approve\r")
		s.shows("nothing waits for an approval")
		s.quit()
	})
}

func TestWhatComesToWaitIsAskedAboutOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		s, _ := chatIn(t, o)
		s.shows("hello there")
		o.Agent("desk", "")
		s.answer("? desk (an agent) waits for your approval. Look at it? y/n", "n", "not now: desk; /approve desk asks again")
		s.is(o, "desk", catalog.Pending)

		// An inspection elsewhere does not repeat the question; another agent is a new one.
		if _, err := o.Catalog.Inspect(t.Context(), "desk"); err != nil {
			t.Fatal(err)
		}
		o.Agent("other", "")
		s.answer("? other (an agent) waits", "d", "✗ other is denied; you will be asked again when it changes")
		s.asks("")
		s.is(o, "other", catalog.Denied)
		o.Agent("desk", "version: 2.0.0\n")
		s.answer("? desk (an agent) waits", "y")
		s.asks("? Allow desk as it is (1 tool, 1 warning)? y/n")
		s.shows("desk  pending", "version: 2.0.0")
		s.press("y", "✓ desk is allowed")
		s.is(o, "desk", catalog.Approved)

		// A change is shown as a diff.
		o.Agent("desk", "version: 2.0.1\n")
		s.answer("? desk (an agent) has changed since you approved it. Look at the changes?", "y")
		s.asks("? Allow desk as it is")
		s.shows("desk  changed by local", "Changed since you approved it:", "-version: 2.0.0", "+version: 2.0.1", "? Allow")
		s.press("\x1b", "not now: desk", "not now: desk")
		s.asks("")
		s.keys("/approve\r")
		s.asks("? desk (an agent) has changed since you approved it")
		s.quit()
	})
}

func TestSourcesAreAskedAboutLikewise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		o.Write("mcp.json", `{"mcpServers":{"Files":{"command":"serve-files","env":{"TOKEN":"hidden-value"}}}}`)
		s, _ := chatIn(t, o)
		s.answer("? mcp:files (an MCP server) waits for your approval", "y")
		s.asks("? Allow mcp:files as it is (1 tool, 2 warnings)?")
		s.shows("mcp:files  pending", "runs unconfined", `"command": "serve-files"`, "── tool files.add")
		s.lacks("hidden-value")
		s.press("y", "✓ mcp:files is allowed")
		s.is(o, "mcp:files", catalog.Approved)
		s.keys("/agents\r")
		s.shows("grpc:hash", "denied", "from steward.yaml", "mcp:files", "approved", "/agent NAME")

		// A denied agent can be allowed on request.
		s.keys("/approve grpc:hash\r")
		s.asks("? Allow grpc:hash as it is")
		s.shows("grpc:hash  denied by ada")
		s.press("y", "✓ grpc:hash is allowed")
		s.is(o, "grpc:hash", catalog.Approved)
		s.quit()
	})
}

func TestNobodyIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		s, n := chatIn(t, o)
		s.shows("hello there")
		s.hangingIndent(n)
		o.Agent("desk", "")
		s.keys("some words") // typed during the turn; stays in the input
		s.shows("some words")
		s.lacks("desk")
		s.keys("\x1b")
		s.shows("stopped")
		s.asks("")
		s.keys(strings.Repeat("\x7f", len("some words")))
		s.asks("? desk (an agent) waits")

		// A person who writes something else is asked again after the answer.
		s.press("let me think\r", "you said: let me think")
		s.answer("? desk (an agent) waits", "y")
		s.answer("? Allow desk as it is", "is it good?\r", "you said: is it good?")
		s.answer("? Allow desk as it is", "n", "not now: desk")
		s.is(o, "desk", catalog.Pending)
		s.quit()
	})
}

func TestWhatIsFoundOutWaitsForTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		o.Agent("desk", "")
		holds := make(chan struct{})
		o.Set(nil, holds)
		s, n := chatIn(t, o)
		s.answer("? desk (an agent) waits", "y", "looking at desk")
		s.hangingIndent(n)
		close(holds)
		s.keys("a word")
		s.shows("a word")
		s.lacks("desk  pending")
		s.keys("\x1b")
		s.shows("stopped", "desk  pending", "── tool notes.add", "a word")
		s.asks("")
		s.keys(strings.Repeat("\x7f", len("a word")))
		s.asks("? Allow desk as it is")
		s.quit()
	})
}

func TestDecidedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		o.Agent("desk", "")
		o.Agent("other", "")
		s, _ := chatIn(t, o)
		s.asks("? desk (an agent) waits")
		s.shows("1 of 2")
		s.press("y")
		s.asks("? Allow desk as it is")
		insp, err := o.Catalog.Inspect(t.Context(), "desk")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.Catalog.Approve(t.Context(), "bob", "desk", insp.Hash, nil); err != nil {
			t.Fatal(err)
		}
		s.shows("desk was decided elsewhere")
		s.asks("? other (an agent) waits")
		if _, err := o.Catalog.Deny(t.Context(), "bob", "other", ""); err != nil {
			t.Fatal(err)
		}

		// A change between the inspection and the answer is not allowed.
		s.keys("/approve other\r")
		s.asks("? Allow other as it is")
		file := filepath.Join(o.Dir, "agents/other/agent.yaml")
		if err := os.WriteFile(file, []byte("name: other\ndescription: Evil.\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		s.press("y", "other has changed since it was inspected", "agent_changed")
		s.asks("? other (an agent) waits")
		s.is(o, "other", catalog.Pending)
		s.quit()
	})
}

func TestOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		for _, at := range []string{"desk", "desk/agents/calendar", "desk/agents/mail", "desk/agents/mail/agents/filter", "desk/agents/task"} {
			o.Agent(at, "")
		}
		s, _ := chatIn(t, o)
		s.answer("? desk (an agent with 4 below it) waits", "y")
		s.answer("? Allow these 5 as they are?", "o")
		s.answer("? Allow desk as it is", "y", "✓ desk is allowed")
		s.answer("? Allow desk/calendar as it is", "y")
		s.answer("? Allow desk/mail as it is", "n", "not now: desk/mail") // no question about those below it
		s.answer("? Allow desk/task as it is", "d", "✗ desk/task is denied")
		s.is(o, "desk/calendar", catalog.Approved)
		s.is(o, "desk/mail", catalog.Pending)
		s.is(o, "desk/mail/filter", catalog.Pending)
		s.is(o, "desk/task", catalog.Denied)

		// A named agent includes those that wait below it.
		s.keys("/approve desk\r")
		s.answer("? Allow these 2 as they are?", "y", "✓ desk/mail is allowed, with the 1 below it")
		s.keys("/approve desk\r")
		s.shows("desk is already allowed")
		s.quit()
	})
}

func TestApproveByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		o.Agent("desk", "")
		o.Agent("desk/agents/mail", "")
		o.Write("agents/broken/agent.yaml", "name: broken\nnonsense: 1\n")
		s, _ := chatIn(t, o)
		s.asks("? desk")
		s.keys("/approve broken\r")
		s.shows("broken  invalid", "✗ ", "nonsense", "cannot be approved until that is fixed")
		s.asks("? desk")
		s.keys("/approve dekk\r")
		s.shows("did you mean /approve desk?")
		s.keys("/approve nothing like it\r")
		s.shows("there is no agent or source nothing like it; /agents lists them")
		s.keys("/approve desk/m\t\r")
		s.answer("? Allow desk/mail as it is", "y", "✓ desk/mail is allowed; it can be used once its parents are allowed too")
		s.keys("/agents\r")
		s.shows("  broken ", "invalid", "nonsense", "  desk ", "pending", "  desk/mail", "approved, but its parent is not", "/approve NAME approves one")
		s.quit()
	})
}

func TestWhatCannotBeLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		o.Set(fault.New(fault.Unavailable, "server_gone", "it does not answer").WithHint("start it"), nil)
		o.Agent("desk", "")
		s, _ := chatIn(t, o)
		s.answer("? desk", "y", "cannot list the tools of notes of desk", "start it", "server_gone")
		s.keys("/help\r")
		s.shows("/approve [NAME]", "Ctrl-C twice leaves")
		s.asks("")
		s.quit()
	})
}

func TestWhoMayNotDecideIsOnlyTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		o.Nobody = true
		o.Agent("desk", "")
		s, _ := chatIn(t, o)
		s.answer("? desk", "y", "it is decided elsewhere", "admin_only")
		o.Agent("other", "")
		s.shows("other (an agent) waits for approval on the machine", "steward agents approve other")
		s.asks("")
		s.quit()
	})
}
