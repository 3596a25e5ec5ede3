package terminal

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"steward/client"
	"steward/internal/catalog"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/server/auth"
)

var errDown = fault.New(fault.Unavailable, "down", "it is down")

// down is a Steward that cannot be reached, except for answers to approvals.
type down struct {
	decided []verdict
	refuses error // the error of an answer
	looked  int   // how often the agent desk was inspected
	allowed int

	facts    client.ConversationMemory // of the open conversation
	changed  []client.Fact             // since any time
	undone   []string                  // changes that were undone
	forgot   []string                  // facts that were forgotten, with the query
	restored string                    // the text of a fact whose change was undone; empty: it is gone
}

// verdict is a sent answer to a question.
type verdict struct {
	ID      string
	Pattern intent.Pattern `json:"pattern"`
	client.Answer
}

// client returns a client of it.
func (d *down) client() *client.Client {
	return client.New(client.Options{URL: "http://steward", HTTP: &http.Client{Transport: d}, Fault: auth.FaultOf})
}

// RoundTrip implements http.RoundTripper.
func (d *down) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if answer, err := d.answer(r); err != nil {
		auth.WriteError(w, r, nil, err)
	} else if err := json.NewEncoder(w).Encode(answer); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

func (d *down) answer(r *http.Request) (any, error) {
	route, which, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, client.Prefix+"/"), "/")
	switch {
	case r.Method == http.MethodPost && route == "approvals":
		v := verdict{ID: which}
		b, err := io.ReadAll(r.Body)
		err = errors.Join(err, json.Unmarshal(b, &v))
		d.decided = append(d.decided, v)
		return nil, errors.Join(err, d.refuses)
	case route == "approvals":
		return questionWith(which, r.URL.Query().Get("pattern"))
	case route == "agents" && which == "" && d.allowed > 0:
		return map[string]any{"agents": []catalog.Listing{desk(catalog.Approved)}}, nil
	case route == "memory" && strings.HasSuffix(which, "/undo"):
		var in struct{ Change string }
		err := json.NewDecoder(r.Body).Decode(&in)
		d.undone = append(d.undone, in.Change)
		return client.UndoneFact{Fact: client.Fact{Text: d.restored}, Gone: d.restored == ""}, errors.Join(err, d.refuses)
	case route == "memory" && r.Method == http.MethodDelete:
		d.forgot = append(d.forgot, which+"?"+r.URL.RawQuery)
		return nil, d.refuses
	case route == "memory":
		return map[string]any{"facts": d.changed}, d.refuses
	case route == "conversations" && strings.HasSuffix(which, "/memory"):
		return d.facts, d.refuses
	case which == "inspect":
		d.looked++
		return catalog.Inspection{Listing: desk(catalog.Pending), Hash: "h"}, nil
	case which == "approve":
		d.allowed++
		return desk(catalog.Approved), nil
	case route == "models":
		return map[string]any{"aliases": []string{"default"}, "models": []map[string]string{{"name": "openai/gpt-5"}}}, nil
	}
	return nil, errDown
}

// desk is an agent that waits for an approval.
func desk(s catalog.Status) catalog.Listing {
	return catalog.Listing{Path: "desk", Kind: catalog.KindAgent, Status: s, Usable: s == catalog.Approved}
}

// drive is a chat without a screen, with a simulated clock.
type drive struct {
	*liveScreen
	t      *testing.T
	at     time.Time
	timers []timer
	out    string // printed since the last look
}

type timer struct {
	at   time.Time
	then func(time.Time) tea.Msg
}

func newDrive(t *testing.T, d *down) *drive {
	t.Helper()
	m, err := newChat(t.Context(), Options{Client: d.client(), Providers: []string{"anthropic"}})
	if err != nil {
		t.Fatal(err)
	}
	m.input.Focus()
	dr := &drive{liveScreen: m, t: t, at: time.Unix(1000, 0)}
	m.now = func() time.Time { return dr.at }
	m.tick = func(after time.Duration, then func(time.Time) tea.Msg) tea.Cmd {
		dr.timers = append(dr.timers, timer{dr.at.Add(after), then})
		return nil
	}
	return dr
}

// do handles a message and the messages of its command, except timers: see pass.
// Printing takes effect at once.
func (d *drive) do(msg tea.Msg) {
	cmd := d.update(msg)
	d.continueQuestions()
	d.out += strings.Join(d.turn.out, "\n") + "\n"
	d.turn.out = nil
	d.continueQuestions()
	if cmd == nil {
		return
	}
	if next := cmd(); next != nil {
		d.do(next)
	}
}

// pass lets time pass, and fires the timers that are due by then.
func (d *drive) pass(by time.Duration) {
	d.at = d.at.Add(by)
	all := d.timers
	d.timers = nil
	for _, t := range all {
		if t.at.After(d.at) {
			d.timers = append(d.timers, t)
		} else {
			d.do(t.then(t.at))
		}
	}
}

func (d *drive) look() string {
	out := stripped(d.out)
	d.out = ""
	return out
}

func press(s string) tea.KeyPressMsg {
	switch s {
	case "enter":
		return tea.KeyPressMsg{Code: tea.KeyEnter}
	case "ctrl+c":
		return tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}
	case "esc":
		return tea.KeyPressMsg{Code: tea.KeyEscape}
	case "backspace":
		return tea.KeyPressMsg{Code: tea.KeyBackspace}
	}
	return tea.KeyPressMsg{Code: rune(s[0]), Text: s}
}

func (d *drive) line(text string) string {
	d.input.SetValue(text)
	d.do(press("enter"))
	return d.look()
}

func TestWhenTheNodeIsDown(t *testing.T) {
	d := newDrive(t, &down{})
	if got := d.line("hello"); !strings.Contains(got, "it is down") || d.input.Value() != "hello" {
		t.Errorf("what was written is lost: %q, input %q", got, d.input.Value())
	}
	d.input.SetValue("next")
	d.do(sent{text: "hello", err: errDown})
	if got := d.look(); !strings.Contains(got, "not sent: hello") || d.input.Value() != "next" {
		t.Errorf("%q", got)
	}
	for _, line := range []string{"/list", "/open " + id.New().String()} {
		if got := d.line(line); !strings.Contains(got, "it is down") {
			t.Errorf("%s: %q", line, got)
		}
	}
	for line, want := range map[string]string{
		"/title x": "no conversation yet", "/export": "no conversation yet", "/tools": "cannot be listed",
		"/open 7": "needs a number", "   ": "",
	} {
		if got := d.line(line); !strings.Contains(got, want) {
			t.Errorf("%s: %q", line, got)
		}
	}
	d.conv = id.New().String()
	for line, want := range map[string]string{"/title": "needs a text", "/title x": "it is down", "/export " + filepath.Join(t.TempDir(), "x.json"): "it is down",
		"/export /nowhere/x.json": "file_unwritable"} {
		if got := d.line(line); !strings.Contains(got, want) {
			t.Errorf("%s: %q", line, got)
		}
	}
	d.showList(nil)
	d.do(nil)
	if got := d.look(); !strings.Contains(got, "no conversations yet") {
		t.Errorf("%q", got)
	}
	d.showOpened(opened{conversation: client.Conversation{ID: id.New().String()}})
	d.do(nil)
	if got := d.look(); !strings.Contains(got, "opened: untitled") {
		t.Errorf("%q", got)
	}
	d.turn.running = true
	d.do(press("esc"))
	if got := d.look(); !strings.Contains(got, "it is down") {
		t.Errorf("%q", got)
	}
}

func TestAWatchThatBreaksIsTakenUpAgain(t *testing.T) {
	d := newDrive(t, &down{})
	d.do(sent{Accepted: client.Accepted{Conversation: id.New().String()}, text: "hello"})
	some := token(id.New().String(), "some")
	some.Cursor = "7"
	d.update(watched{watch: d.watch, frames: []client.Frame{some}})
	if got := d.look(); !strings.Contains(got, "it is down") || d.cursor != "7" {
		t.Errorf("%q, cursor %s", got, d.cursor)
	}
	before := d.watch
	d.pass(time.Second)
	if d.watch != before+1 {
		t.Error("it was not taken up again")
	}
	d.do(rewatch{before}) // from an ended watch
	d.do(watched{watch: before, frames: []client.Frame{token("m", "old")}})
	if d.watch != before+1 || strings.Contains(d.turn.text, "old") {
		t.Error("an old watch is heeded")
	}
	d.do(watched{watch: d.watch, err: fault.New(fault.NotFound, "conversation_not_found", "gone")})
	if got := d.look(); !strings.Contains(got, "gone") {
		t.Errorf("%q", got)
	}
	d.unwatch()
	d.watchers.Wait()
}

func TestNobodyApprovesByTypingOn(t *testing.T) {
	node := &down{}
	d := newDrive(t, node)
	d.conv = id.New().String()
	ask := func(n string) {
		f := call("x/"+n, "files.write", `{}`, "awaiting_approval")
		f.Approval = &client.Approval{ID: n, Hash: "h" + n}
		d.watch++
		d.frames = make(chan watched)
		close(d.frames)
		d.do(watched{watch: d.watch, frames: []client.Frame{f}})
	}
	ask("1")
	ask("2")
	d.at = d.at.Add(quiet / 2)
	d.do(press("y")) // the question is too fresh
	d.at = d.at.Add(quiet / 2)
	d.do(press("y")) // the person is typing
	d.at = d.at.Add(quiet - time.Millisecond)
	d.do(press("n"))
	if len(node.decided) != 0 || d.input.Value() != "yyn" {
		t.Fatalf("%+v, input %q", node.decided, d.input.Value())
	}
	d.at = d.at.Add(quiet)
	d.do(press("y"))
	if len(node.decided) != 1 || !node.decided[0].Approve || node.decided[0].ID != "1" || node.decided[0].Hash != "h1" {
		t.Fatalf("%+v", node.decided)
	}
	d.at = d.at.Add(quiet - time.Millisecond) // the second question is too fresh
	d.do(press("y"))
	d.at = d.at.Add(quiet)
	d.do(press("n"))
	if len(node.decided) != 2 || node.decided[1].Approve || node.decided[1].ID != "2" {
		t.Fatalf("%+v", node.decided)
	}
	if got := d.look(); !strings.Contains(got, "allowed: files.write") || !strings.Contains(got, "denied: files.write") {
		t.Errorf("%q", got)
	}
}

// /new leaves a conversation whose turn runs: nothing of it keeps the new one from beginning.
func TestNewLeavesWhatRuns(t *testing.T) {
	d := newDrive(t, &down{})
	d.conv = id.New().String()
	d.watch++
	d.frames = make(chan watched)
	close(d.frames)
	f := call("x/1", "files.write", `{}`, "awaiting_approval")
	f.Approval = &client.Approval{ID: "1", Hash: "h1"}
	late := watched{watch: d.watch, frames: []client.Frame{f}}
	d.do(late)
	if !d.busy() {
		t.Fatal("no turn runs")
	}
	d.do(continuation(func() tea.Cmd { return d.runCommand("/new") }))
	d.do(late)
	if a, n := d.turn.pending(); d.busy() || a != nil || n != 0 || d.conv != "" {
		t.Errorf("busy %t, %d questions, in conversation %q", d.busy(), n, d.conv)
	}
	if got := d.look(); !strings.Contains(got, "a new conversation begins") || !strings.Contains(got, "see /list") {
		t.Errorf("%q", got)
	}
}

func TestQuotesAroundATextAreNoPartOfIt(t *testing.T) {
	for text, want := range map[string]string{
		`"plan a trip"`: "plan a trip", "'plan a trip'": "plan a trip", "“plan a trip”": "plan a trip", `""`: "",
		`"a" and "b"`: `"a" and "b"`, `add "milk"`: `add "milk"`, `"`: `"`, "": "", "plan it": "plan it",
	} {
		if got := unquoted(text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// A key answers once the keyboard has been idle after it: a person who types on
// has not answered, but begun a text.
func TestNobodyAllowsByTypingOn(t *testing.T) {
	w := &down{}
	d := newDrive(t, w)
	d.ready, d.pend.waiting = true, []catalog.Listing{desk(catalog.Pending)}
	d.continueQuestions()
	sees := func(want string, looked, allowed int, input string) {
		t.Helper()
		if got := d.seen(); !strings.Contains(got, want) || w.looked != looked || w.allowed != allowed || d.input.Value() != input {
			t.Fatalf("looked at %d times, allowed %d times, input %q:\n%s\nlacks %q", w.looked, w.allowed, d.input.Value(), got, want)
		}
	}
	sees("? desk (an agent) waits for your approval. Look at it? y/n", 0, 0, "")
	d.pass(quiet - time.Millisecond)
	d.do(press("y")) // the question is too fresh
	sees("› y", 0, 0, "y")
	d.do(press("backspace"))
	d.slowly(press("enter"))
	d.pass(quiet - time.Millisecond)
	d.do(press("y")) // the person is typing
	sees("› y", 0, 0, "y")
	d.do(press("backspace"))
	d.slowly(press("y"))
	sees("Look at it? y/n y", 0, 0, "")
	d.pass(resting - time.Millisecond)
	for _, key := range "es, do" {
		d.do(press(string(key)))
	}
	d.pass(time.Minute)
	sees("› yes, do", 0, 0, "yes, do")
	d.typing("")
	d.continueQuestions()
	d.slowly(press("y"))
	d.do(press("enter")) // some people press Enter after the key
	sees("? Allow desk as it is? y/n", 1, 0, "")
	d.pass(time.Minute)
	for _, key := range []string{"backspace", "esc", "ctrl+c"} {
		d.slowly(press("y"))
		sees("? Allow desk as it is? y/n y", 1, 0, "")
		d.do(press(key)) // withdraws the answer
		d.pass(time.Minute)
		sees("? Allow desk as it is? y/n\n", 1, 0, "")
	}
	d.slowly(press("y"))
	d.do(press("o")) // the person continues typing
	d.pass(time.Minute)
	sees("› yo", 1, 0, "yo")
	d.typing("")
	d.continueQuestions()
	d.slowly(press("y"), press("backspace"), press("y"))
	d.pass(resting - time.Millisecond) // the timer of the first y has no effect
	sees("? Allow desk as it is? y/n y", 1, 0, "")
	d.pass(time.Millisecond)
	sees("✓ desk is allowed", 1, 1, "")

	// The news of the decision did not come yet.
	if got := d.line("/approve"); !strings.Contains(got, "nothing waits for an approval") {
		t.Errorf("%q", got)
	}
}

func TestInterrupt(t *testing.T) {
	d := newDrive(t, &down{})
	d.input.SetValue("half")
	d.do(press("ctrl+c"))
	if d.input.Value() != "" || d.leaving {
		t.Error("the first Ctrl-C clears")
	}
	if !strings.Contains(stripped(d.below()), "again leaves") {
		t.Errorf("%q", d.below())
	}
	d.at = d.at.Add(doubleInterrupt)
	d.do(press("ctrl+c"))
	if d.leaving {
		t.Error("the second one came too late")
	}
	d.do(press("x"))
	d.do(press("ctrl+c"))
	if d.leaving {
		t.Error("there was a key between")
	}
	d.do(press("ctrl+c"))
	if !d.leaving || d.screen() != "" {
		t.Error("it stays")
	}
}

func TestThePartsFitTheScreen(t *testing.T) {
	d := newDrive(t, &down{})
	for _, height := range []int{4, 8, 12, 24, 60} {
		d.do(tea.WindowSizeMsg{Width: 40, Height: height})
		d.turn.text, d.turn.running, d.sending = strings.Repeat("many words ", 500), true, "on its way"
		d.input.SetValue(strings.Repeat("line\n", 30))
		if n := strings.Count(d.screen(), "\n") + 1; height >= 12 && n+d.part() > height+1 {
			t.Errorf("height %d: %d lines and %d printed at once", height, n, d.part())
		}
	}
	d.do(tea.BackgroundColorMsg{})
	d.do(tea.ColorProfileMsg{})
	if v := d.View(); v.WindowTitle != "steward" || v.AltScreen {
		t.Errorf("%+v", v)
	}
	d.named = "talk"
	if v := d.View(); v.WindowTitle != "steward: talk" {
		t.Errorf("%+v", v)
	}
}

func TestCommon(t *testing.T) {
	if got := common([]string{"/export", "/exit"}); got != "/ex" {
		t.Error(got)
	}
	if common(nil) != "" {
		t.Error("of nothing")
	}
	d := newDrive(t, &down{})
	d.listed = []client.Conversation{{ID: id.New().String()}}
	d.input.SetValue("/open ")
	d.tab()
	if d.input.Value() != "/open "+d.listed[0].ID+" " {
		t.Error(d.input.Value())
	}
	d.tab()
}

func TestWriter(t *testing.T) {
	var out, notes strings.Builder
	w := Writer{Out: &out, Notes: &notes}
	one, two := "1", "2"
	for _, f := range []client.Frame{
		token(one, "first"), call("x/1", "a.b", `{"q": "long"}`, "running"), result("x/1", "a.b", "ok", "fine"),
		token(two, "second"), token(two, ""), {Type: client.FrameReset, MessageID: two}, {Type: client.FrameReset, MessageID: one},
		token(two, "second"), complete(two, client.Frame{Model: "offline/steward", Stop: string(message.StopBound)}),
	} {
		if err := w.Frame(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if out.String() != "first\nsecondsecond\n" || !w.Offline || w.Stop != message.StopBound {
		t.Errorf("%q", out.String())
	}
	want := "→ a.b {\"q\":\"long\"}\n← a.b ok: fine\nthe partial answer was discarded; answer restarted\nanswered by the offline provider: rules, not a language model\n"
	if notes.String() != want {
		t.Errorf("%q", notes.String())
	}
	w = Writer{Out: &out, Notes: &notes}
	if err := errors.Join(w.Frame(client.Frame{Type: client.FrameNotice, Text: "n"}), w.Frame(complete(one, client.Frame{Content: Words("whole\n")})), w.Close()); err != nil {
		t.Error(err)
	}
	if !strings.HasSuffix(out.String(), "second\nwhole\n") {
		t.Errorf("%q", out.String())
	}
}

// At a terminal the answer is broken between words, also where they arrive in pieces, and what is said beside it
// begins on a line of its own.
func TestWriterAtATerminal(t *testing.T) {
	var screen strings.Builder
	w := Writer{Out: &screen, Notes: &screen, Width: 20}
	said := call("x/1", "todo.add", `{"title":"milk"}`, "running")
	said.Summary = "Add the task milk"
	for _, f := range []client.Frame{
		token("1", "Let me see wh"), token("1", "at there is to "), token("1", "do:"), said,
		token("2", "a line of twenty_col end\n\n  - two blanks\n"), token("2", strings.Repeat("x", 25)+" more than that\n"+strings.Repeat("山", 12)),
		complete("2", client.Frame{Model: "m/x"}),
	} {
		if err := w.Frame(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	want := "Let me see what\nthere is to do:\n→ todo.add: Add the task milk\na line of twenty_col\nend\n\n  - two blanks\n" + strings.Repeat("x", 25) + " more than that\n" + strings.Repeat("山", 10) + "\n山山\n"
	if got := screen.String(); got != want {
		t.Errorf("%q, want\n%q", got, want)
	}
}
