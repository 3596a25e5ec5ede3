package terminal

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"charm.land/lipgloss/v2"
	"pgregory.net/rapid"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/message"
)

// newTurn returns a turn without colours at a fixed time.
func newTurn(t *testing.T, width int) *turn {
	t.Helper()
	now := time.Unix(1000, 0)
	tr := &turn{style: style{}, now: func() time.Time { return now }}
	tr.paint.set(width, true, false)
	return tr
}

func show(tr *turn, frames ...client.Frame) string {
	for _, f := range frames {
		tr.frame(f)
	}
	return tr.printed()
}

// printed returns what was printed since the last call.
func (t *turn) printed() string {
	out := strings.Join(t.out, "\n")
	t.out = nil
	return out
}

func token(msg, text string) client.Frame {
	return client.Frame{Type: client.FrameToken, MessageID: msg, Text: text}
}

func call(id, name, args, status string) client.Frame {
	return client.Frame{Type: client.FrameCall, ID: id, Name: name, Args: []byte(args), Status: status}
}

func result(id, name, status, text string) client.Frame {
	return client.Frame{Type: client.FrameResult, ID: id, Name: name, Status: status, Result: text}
}

func complete(msg string, f client.Frame) client.Frame {
	f.Type, f.MessageID = client.FrameComplete, msg
	return f
}

func user(text string, more ...client.Block) client.Frame {
	return client.Frame{Type: client.FrameUser, Content: append(Words(text), more...)}
}

func TestATurnFromEndToEnd(t *testing.T) {
	tr := newTurn(t, 80)
	tr.cost = func(model string, u client.Usage) float64 { return float64(len(model)) * float64(u.Input) / 1000 }
	tr.window = func(string) int { return 400_000 }
	one, two := "1", "2"
	got := show(tr,
		user("multiply\nplease", client.Block{Type: "image"}, client.Block{Type: "file"}),
		client.Frame{Type: client.FrameReasoning, MessageID: one, Text: "hm"},
		token(one, "Let me see.\n\nI mul"), token(one, "tiply."),
		call("a/1", "math.multiply", "", "writing"),
		call("a/1", "math.multiply", `{"a": 6, "b": 7}`, "running"),
		result("a/1", "math.multiply", "ok", "42"),
		token(two, "It is **42**."),
		complete(two, client.Frame{Model: "openai/x", DurationMS: 1500, Usage: client.Usage{Input: 3, Output: 4}, Context: 7800, Content: Words("It is **42**.")}))
	want := `› multiply
  please [image] [file]

Let me see.

I multiply.

✓ math.multiply {"a":6,"b":7} → 42

It is 42.

openai/x · 1.5s · 7 tokens · $0.0240 · context 7.8k of 400k · Ctrl-O: reasoning`
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if tr.running || len(tr.calls) != 0 || tr.text != "" {
		t.Errorf("something is left: %+v", tr)
	}
}

// TestACallIsShownInWords: a call is its summary and its tool. Unfolded it is its tool and its arguments.
func TestACallIsShownInWords(t *testing.T) {
	args := `{"seconds":600,"name":"tea"}`
	said := func(summary string) client.Frame {
		f := call("a/1", "timer.set", args, "running")
		f.Summary = summary
		return f
	}
	const tea = "Set a timer for 10 minutes: tea"
	done := result("a/1", "timer.set", "ok", "It ends at 9:10.")
	tr := newTurn(t, 80)
	show(tr, said(tea))
	if got := strings.Join(tr.live(9, "*"), "|"); got != "* "+tea+" · timer.set 0s" {
		t.Errorf("it runs as %q", got)
	}
	if got := show(tr, done); got != "✓ "+tea+" · timer.set → It ends at 9:10." {
		t.Errorf("it has run as %q", got)
	}
	tr.unfolded = true
	if got := show(tr, said(tea), done); got != "✓ timer.set "+args+" → It ends at 9:10." {
		t.Errorf("unfolded: %q", got)
	}
	tr.unfolded = false
	if got := show(tr, said("Set\x1b[2J a\u202e timer"), done); !strings.HasPrefix(got, "✓ Set␛[2J a<U+202E> timer · timer.set") {
		t.Errorf("hostile: %q", got)
	}
	question := said(tea)
	question.Status, question.Approval = "awaiting_approval", &client.Approval{ID: "i", Hash: "h"}
	if got := show(tr, question); !strings.Contains(got, "? timer.set\n  {\n    \"seconds\":600,\n    \"name\":\"tea\"\n  }") {
		t.Errorf("a question hides arguments: %q", got)
	}
	show(tr, done)
	for width := 1; width < 100; width++ {
		tr := newTurn(t, width)
		for line := range strings.SplitSeq(show(tr, said(strings.Repeat("漢字 ", 60)), done), "\n") {
			if got := lipgloss.Width(line); got > max(width, 8) {
				t.Errorf("at %d cells a line has %d: %q", width, got, line)
			}
		}
	}
}

func TestReasoningUnfolds(t *testing.T) {
	tr := newTurn(t, 60)
	think := func(text string) client.Frame {
		return client.Frame{Type: client.FrameReasoning, MessageID: "one", Text: text}
	}
	if got := show(tr, think("first\nsecond\x1b[2J")); got != "" || strings.Join(tr.live(9, "*"), "|") != "thinking: second␛[2J" {
		t.Errorf("%q, live %q", got, tr.live(9, "*"))
	}
	tr.unfold()
	if got := tr.printed(); got != "" || strings.Join(tr.live(9, "*"), "|") != "thinking: first|second␛[2J" {
		t.Errorf("%q, live %q", got, tr.live(9, "*"))
	}
	if got := show(tr, token("one", "It is so.\n\n")); got != "thinking: first\nsecond␛[2J" {
		t.Errorf("%q", got)
	}
	tr.unfold()
	tr.unfold()
	if got := tr.printed(); !strings.Contains(got, "thinking: first") {
		t.Errorf("the last one does not come again: %q", got)
	}
}

func TestWhatIsWatchedFromItsEnd(t *testing.T) {
	tr := newTurn(t, 60)
	msg := "1"
	got := show(tr, complete(msg, client.Frame{Model: "offline/steward", Content: Words("whole")}))
	if got != "whole\n\noffline provider: rules, not a language model" {
		t.Errorf("%q", got)
	}
	got = show(tr, complete("2", client.Frame{Stop: string(message.StopCancelled)}))
	if !strings.HasSuffix(got, "\nstopped") && got != "stopped" {
		t.Errorf("%q", got)
	}
}

func TestResetTakesBack(t *testing.T) {
	tr := newTurn(t, 60)
	msg := "1"
	show(tr, token(msg, "first half"))
	if got := show(tr, client.Frame{Type: client.FrameReset, MessageID: "2"}); got != "" || tr.text == "" {
		t.Errorf("a reset of another message: %q", got)
	}
	if got := show(tr, client.Frame{Type: client.FrameReset, MessageID: msg}); got != "" || tr.text != "" {
		t.Errorf("what was live only goes silently: %q", got)
	}
	got := show(tr, token(msg, "one block\n\nand another"), call("x/1", "a.b", "", "writing"), client.Frame{Type: client.FrameReset, MessageID: msg})
	if !strings.Contains(got, "discarded") || len(tr.calls) != 0 {
		t.Errorf("what is in the scrollback is called void: %q", got)
	}
}

func TestErrorsAndNotices(t *testing.T) {
	tr := newTurn(t, 60)
	e := fault.New(fault.Unavailable, "overloaded", "the model is busy").WithHint("try again later")
	got := show(tr, token("2", "half an ans"), client.Frame{Type: client.FrameError, Err: e})
	if got != "half an ans\n\n✗ the model is busy\n  try again later [overloaded]" {
		t.Errorf("%q", got)
	}
	if got := show(tr, client.Frame{Type: client.FrameError}); !strings.Contains(got, "failed without an error") {
		t.Errorf("%q", got)
	}
	if got := show(tr, client.Frame{Type: client.FrameNotice, Text: "by\x1b[2J the way"}); !strings.Contains(got, "by␛[2J the way") {
		t.Errorf("%q", got)
	}
	if got := show(tr, client.Frame{Type: "of the future"}); got != "" {
		t.Errorf("%q", got)
	}
}

func TestResultsOfEveryKind(t *testing.T) {
	for _, c := range []struct{ status, text, want string }{
		{"ok", "fine", "✓ a.b → fine"},
		{"error", "broken", "✗ a.b → failed: broken"},
		{"interrupted", "no", "■ a.b → stopped: no"},
		{"unavailable", "no", "✗ a.b → cannot be reached: no"},
		{"unknown", "no", "? a.b → outcome unknown: no"},
		{"denied", "no", "✗ a.b → denied: no"},
		{"denied", "Denied, nothing was done: no", "✗ a.b → Denied, nothing was done: no"},
		{"queued", "", "… a.b → queued: "},
		{"ok", strings.Repeat("long ", 40), "✓ a.b → long long"},
		{"ok", "two\nlines\x07", "✓ a.b → two lines␇"},
	} {
		got := show(newTurn(t, 40), result("x/1", "a.b", c.status, c.text))
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.status, got, c.want)
		}
	}
	for text, want := range map[string]string{"a\n[exit code 0]": "✓ shell.run → a", "a\n[exit code 3]": "! shell.run → exit code 3: a", "[exit code 3] a": "✓ shell.run → [exit"} {
		if got := show(newTurn(t, 60), result("x/1", "shell.run", "ok", text)); !strings.HasPrefix(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	inside := result("x/1", "desk.ask", "ok", "done")
	inside.Denied = []string{"files.write"}
	if got := show(newTurn(t, 60), inside); got != "! desk.ask → denied to agents: files.write; done" {
		t.Errorf("%q", got)
	}
	// If the line has no room for the result, it gets its own line.
	tr := newTurn(t, 24)
	got := show(tr, call("x/1", "files.a_long_name", `{"path":"notes/a.txt"}`, "running"), result("x/1", "files.a_long_name", "ok", "written"))
	if !strings.Contains(got, "\n  → written") {
		t.Errorf("%q", got)
	}
}

func TestOneQuestionAtATime(t *testing.T) {
	tr := newTurn(t, 60)
	asking := func(id, args string) client.Frame {
		f := call(id, "files.write", args, "awaiting_approval")
		f.Approval = &client.Approval{ID: "i" + id, Hash: "h", Reason: "it changes something"}
		return f
	}
	got := show(tr, asking("x/1", "{\"path\":\"a\u202etxt\",\"text\":\"b\"}"), asking("x/2", `{}`))
	want := "? files.write\n  it changes something\n  {\n    \"path\":\"a<U+202E>txt\",\n    \"text\":\"b\"\n  }"
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if a, n := tr.pending(); a.ID != "x/1" || n != 2 {
		t.Errorf("%+v %d", a, n)
	}
	if again := show(tr, asking("x/1", `{}`)); again != "" {
		t.Errorf("asked twice: %q", again)
	}
	got = show(tr, result("x/1", "files.write", "denied", "no"))
	if !strings.Contains(got, "? files.write") {
		t.Errorf("the second question does not come: %q", got)
	}
	if a, n := tr.pending(); a.ID != "x/2" || n != 1 {
		t.Errorf("%+v %d", a, n)
	}
	show(tr, call("x/2", "files.write", "{}", "running"))
	if a, _ := tr.pending(); a != nil {
		t.Errorf("%+v", a)
	}
}

func TestLive(t *testing.T) {
	tr := newTurn(t, 40)
	show(tr, user("x"), client.Frame{Type: client.FrameReasoning, MessageID: "2", Text: "first\nsecond thought"},
		call("x/1", "a.b", `{"q":1}`, "running"))
	lines := tr.live(10, "*")
	if len(lines) != 1 || !strings.Contains(lines[0], "* a.b {\"q\":1}") {
		t.Errorf("%q", lines)
	}
	show(tr, client.Frame{Type: client.FrameReasoning, MessageID: "2", Text: "first\nsecond thought"})
	if lines = tr.live(10, "*"); !strings.Contains(lines[0], "thinking: second thought") {
		t.Errorf("%q", lines)
	}
	show(tr, token("2", strings.Repeat("word ", 200)))
	if lines = tr.live(5, "*"); len(lines) != 5 {
		t.Errorf("%d lines", len(lines))
	}
}

func TestMembers(t *testing.T) {
	for in, want := range map[string]string{
		`{}`:                       "{|}",
		`{"a":1}`:                  `{|  "a":1|}`,
		`{"a":{"b":[1,2]},"c":""}`: `{|  "a":{"b":[1,2]},|  "c":""|}`,
		`{"a":1,"a":2}`:            `{|  "a":1,|  "a":2|}`,
		`[1]`:                      `[1]`,
		`{"a":`:                    `{"a":`,
		`{"a":1} x`:                `{"a":1} x`,
		`{"a":1`:                   `{"a":1`,
		`nonsense`:                 `nonsense`,
		``:                         ``,
	} {
		if got := strings.Join(members(in), "|"); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func TestNothingHidesInWhatIsAsked(t *testing.T) {
	for in, want := range map[string]string{
		"plain ü 日本 👍":            "plain ü 日本 👍",
		"a\u202eb\u200bc\u00a0d":  "a<U+202E>b<U+200B>c<U+00A0>d",
		"a\tb\x00\x7f\x85":        "a␉b␀␡<U+0085>",
		"bad\xffutf":              "bad<FF>utf",
		"\u2028\ufe0f\u3164":      "<U+2028><U+FE0F><U+3164>",
		"line\nfeed":              "line\nfeed",
		"👩\u200d👧 🏳\ufe0f\u200d🌈": "👩\u200d👧 🏳\ufe0f\u200d🌈",
		"👩🏽\u200d💻 ❤\ufe0f":       "👩🏽\u200d💻 ❤\ufe0f",
		"👩\u200d\u200d👧 👩\u200da": "👩<U+200D><U+200D>👧 👩<U+200D>a",
		"pay\u200dpal a\ufe0f":    "pay<U+200D>pal a<U+FE0F>",
		"❤\ufe0f\ufe0f 🏽\u200d💻":  "❤\ufe0f<U+FE0F> 🏽<U+200D>💻",
		"\ufffd":                  "\ufffd",
	} {
		if got := Visible(in); got != want && in != "a\tb\x00\x7f\x85" {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	if got := safe("a\tb\nc\x1b[31m\u202e\u2028"); got != "a\tb\nc␛[31m<U+202E><U+2028>" {
		t.Errorf("%q", got)
	}
}

func TestSafeProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		for _, out := range []string{safe(s), Visible(s)} {
			if !utf8.ValidString(out) || strings.ContainsAny(out, "\x1b\x00\x07\r\b") {
				t.Fatalf("%q became %q", s, out)
			}
			if again := safe(out); again != out {
				t.Fatalf("%q is not stable: %q", out, again)
			}
		}
	})
}

func TestSplit(t *testing.T) {
	for _, c := range []struct{ text, done string }{
		{"", ""},
		{"one", ""},
		{"one\n\n", ""},
		{"one\n\ntwo t", "one\n\n"},
		{"one\n\n- i", ""},
		{"one\n\n-item one", "one\n\n"},
		{"one\n\n1. i", ""},
		{"one\n\n1984 was", "one\n\n"},
		{"one\n\n  indented", ""},
		{"one\n\n> quoted", ""},
		{"one\n\nab", ""},
		{"one\n\nab\n", "one\n\n"},
		{"```go\na\n\nb := 1\n", ""},
		{"```go\na\n\nb := 1\n```\n\nafter it", "```go\na\n\nb := 1\n```\n\n"},
		{"````\n```\n\nstill code\n", ""},
		{"~~~\na\n\nstill\n~~~\n\nafter it", "~~~\na\n\nstill\n~~~\n\n"},
		{"\n\nbegins late", "\n\n"},
	} {
		done, rest := split(c.text)
		if done != c.done || done+rest != c.text {
			t.Errorf("%q: got %q, want %q", c.text, done, c.done)
		}
	}
}

// TestSplitDoesNotDependOnTheCuts feeds a text in pieces. The blocks do not
// depend on where it is cut.
func TestSplitDoesNotDependOnTheCuts(t *testing.T) {
	words := []string{"text ", "\n", "\n\n", "- ", "1. ", "```\n", "> ", "  ", "longer words here ", "\t"}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 0, 30).Draw(t, "text"), "")
		buf, out := "", ""
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "cut")
			buf += rest[:n]
			rest = rest[n:]
			var done string
			done, buf = split(buf)
			out += done
		}
		if out+buf != text {
			t.Fatalf("%q became %q", text, out+buf)
		}
	})
}

func TestCutAndStripped(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"日本語", 4, "日…"}, {"abc", 0, ""}, {"", 5, ""}, {"abc", 1, "…"}} {
		if got := cut(c.in, c.n); got != c.want {
			t.Errorf("cut(%q, %d): got %q, want %q", c.in, c.n, got, c.want)
		}
	}
	for in, want := range map[string]string{
		"a\x1b[1;31mb\x1b[0mc": "abc", "\x1b]8;;http://x\x1b\\link\x1b]8;;\x07": "link", "\x1b[": "", "\x1b]x": "", "\x1bc": "",
	} {
		if got := stripped(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	for d, want := range map[time.Duration]string{12345 * time.Microsecond: "12ms", 1234 * time.Millisecond: "1.2s", 3*time.Minute + 400*time.Millisecond: "3m0s"} {
		if got := elapsed(d); got != want {
			t.Errorf("%v: %s", d, got)
		}
	}
}

func TestQuestionsOfAgentsBelow(t *testing.T) {
	tr := newTurn(t, 60)
	asks := func(intent, agent, args string) client.Frame {
		f := call("1/0", "personal.ask", `{"request":"write"}`, "awaiting_approval")
		f.Approval = &client.Approval{ID: intent, Hash: args, Agent: agent, Tool: "mail.send", Args: []byte(args)}
		return f
	}
	got := show(tr, asks("a", "personal/email", `{"to":"bob"}`))
	if want := "? personal/email wants mail.send\n  {\n    \"to\":\"bob\"\n  }"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := show(tr, asks("a", "personal/email", `{"to":"bob"}`)); got != "" {
		t.Errorf("the same question again: %s", got)
	}
	if got := show(tr, asks("b", "personal/email", `{"to":"eve"}`)); !strings.Contains(got, "eve") {
		t.Errorf("the next question of the same call is not shown: %q", got)
	}
	running := call("1/0", "personal.ask", `{"request":"write"}`, "running")
	running.Message = "email.ask: mail.send"
	show(tr, running)
	if got := strings.Join(tr.live(5, "*"), "\n"); !strings.Contains(got, "* personal.ask: email.ask: mail.send") {
		t.Errorf("what runs below is not shown: %s", got)
	}
}

func TestTheSourcesOfAnAnswerAreNumberedUnderIt(t *testing.T) {
	tr, one := newTurn(t, 60), "1"
	cited := []client.Citation{{URL: "https://w.test/1", Title: "Rain\x1b[2J\nnow"}, {URL: "https://w.test/2"}}
	for range maxSources {
		cited = append(cited, client.Citation{Title: fmt.Sprint("book ", len(cited))})
	}
	got := show(tr, token(one, "It rains."), complete(one, client.Frame{Content: Words("It rains."), Citations: cited}))
	rains, first := strings.Index(got, "It rains."), strings.Index(got, "[1] Rain")
	if rains < 0 || first < rains || !strings.Contains(got, "now, https://w.test/1") || !strings.Contains(got, "[2] https://w.test/2") ||
		strings.Contains(got, "[51]") || !strings.Contains(got, "2 more") || strings.Contains(got, "\x1b[2J") {
		t.Errorf("%q", got)
	}
	var out, notes strings.Builder
	w := &Writer{Out: &out, Notes: &notes}
	if err := w.Frame(complete(one, client.Frame{Content: Words("It rains."), Citations: cited[:1]})); err != nil ||
		out.String() != "It rains." || !strings.Contains(notes.String(), "[1] Rain") || strings.Contains(notes.String(), "\x1b") {
		t.Errorf("%v, %q, %q", err, out.String(), notes.String())
	}
}
