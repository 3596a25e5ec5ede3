package terminal

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"steward/client"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/record"
	"steward/internal/tool"
)

// questionWith returns question 1 with another pattern, under its own hash.
func questionWith(which, text string) (effect.Question, error) {
	var p intent.Pattern
	if which != "1" {
		return effect.Question{}, fault.New(fault.NotFound, "approval_not_found", "there is no question %q", which)
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return effect.Question{}, err
	}
	if _, ok := p.Covers([]byte(`{"path":"notes/a.txt","text":"hello"}`)); !ok {
		return effect.Question{}, fault.New(fault.Conflict, "grant_other", "it does not cover what was asked")
	}
	return effect.Question{ID: which, Args: []byte(`{}`), Hash: "shown with " + strings.Join(p.Lines(), "; "), Pattern: p}, nil
}

// asking returns a chat that shows a question.
func asking(t *testing.T, change func(*client.Approval)) (*drive, *down) {
	t.Helper()
	node := &down{}
	d := newDrive(t, node)
	d.conv = id.New().String()
	args := `{"path":"notes/a.txt","text":"hello"}`
	f := call("x/1", "files.write", args, "awaiting_approval")
	p, err := intent.Exactly([]byte(args))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	f.Approval = &client.Approval{ID: "1", Hash: "h1", Reason: "files.write changes something", Rule: "actions.ask", Pattern: raw,
		Labels: []string{"private", "untrusted"}, Read: []string{`web.fetch {"url":"https://example.org/a"}`}, Expires: d.now().Add(7 * 24 * time.Hour),
		Summary: "Write notes/a.txt, 1 line", Why: "It changes a file after reading example.org.", Values: []client.Value{{Name: "text", Text: "hello", Size: 7}},
		Widths: []client.Width{{Name: "write files in notes", Pattern: []byte(`{"path":{"like":"notes/*"},"text":{"any":true}}`)}, {Name: exactly, Pattern: raw}}}
	if change != nil {
		change(f.Approval)
	}
	d.watch++
	d.frames = make(chan watched)
	close(d.frames)
	d.do(watched{watch: d.watch, frames: []client.Frame{f}})
	return d, node
}

// slowly presses keys like a person who has read the screen.
func (d *drive) slowly(keys ...tea.Msg) {
	for _, k := range keys {
		d.at = d.at.Add(2 * quiet)
		d.do(k)
	}
}

// seen returns everything that the person sees.
func (d *drive) seen() string { return d.look() + "\n" + stripped(d.screen()) }

// typing replaces the text in the input.
func (d *drive) typing(text string) {
	d.input.SetValue(text)
}

func (d *down) only(t *testing.T) verdict {
	t.Helper()
	if len(d.decided) != 1 {
		t.Fatalf("answered %+v", d.decided)
	}
	return d.decided[0]
}

func TestAQuestionIsShownInWords(t *testing.T) {
	d, node := asking(t, func(a *client.Approval) { a.More = 3 })
	got := d.seen()
	for _, want := range []string{"? Write notes/a.txt, 1 line\n  It changes a file after reading example.org.\n  text  hello\n  and 3 more values: d shows them\n",
		"Allow it? y/n/c/p/e/r/d", "y once · n no · c this chat · p always · e edit · r reason · d more · Esc stops"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in:\n%s", want, got)
		}
	}
	for _, machine := range []string{"files.write", "actions.ask", `{`, "h1", "untrusted"} {
		if strings.Contains(got, machine) {
			t.Errorf("%q is in:\n%s", machine, got)
		}
	}
	d.slowly(press("d"))
	got = d.seen()
	for _, want := range []string{"files.write changes something", `"path":"notes/a.txt"`, `"text":"hello"`,
		`after reading web.fetch {"url":"https://example.org/a"}, with private data in`, "rule actions.ask · open until ", "labels   private, untrusted", "hash     h1"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in:\n%s", want, got)
		}
	}
	if strings.Count(got, "? Write notes/a.txt") != 1 || len(node.decided) != 0 {
		t.Errorf("it is not asked again: %+v\n%s", node.decided, got)
	}
}

// The line that asks names the keys that the line below explains, in the same order.
func TestTheKeysOfAQuestionAgree(t *testing.T) {
	for _, change := range []func(*client.Approval){nil, func(a *client.Approval) { a.NoGrant = "it always asks" }} {
		for _, width := range []int{60, 80, 100, 140} {
			d, _ := asking(t, change)
			d.do(tea.WindowSizeMsg{Width: width, Height: 30})
			a, _ := d.turn.pending()
			above, below := d.replyLines(a, 1)
			var keys []string
			for w := range strings.SplitSeq(strings.TrimSuffix(below, " · Esc stops"), " · ") {
				keys = append(keys, w[:1])
			}
			if want := "Allow it? " + strings.Join(keys, "/"); above != want || len(keys) != len(d.replies(a)) {
				t.Errorf("%d columns: %q, and below %q", width, above, below)
			}
			if len([]rune(below)) >= width {
				t.Errorf("%q is wider than %d columns", below, width)
			}
		}
	}
}

func TestAWidthIsChosenAndShownBeforeItIsGiven(t *testing.T) {
	d, node := asking(t, nil)
	d.slowly(press("p"))
	if got := d.seen(); !strings.Contains(got, "From now on, without asking:\n  1 write files in notes\n  2 exactly this\n") || !strings.Contains(got, "Which of them? 1-2") {
		t.Fatal(got)
	}
	d.slowly(press("y"), press("3"), press("0"), press("1"))
	got := d.seen()
	for _, want := range []string{"From now on, always: write files in notes. That is files.write where", "path  like notes/*", "text  anything", "Give this standing approval? y/n/e"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in:\n%s", want, got)
		}
	}
	if len(node.decided) != 0 {
		t.Fatalf("given unseen: %+v", node.decided)
	}
	d.slowly(press("y"))
	if v := node.only(t); v.Standing != string(effect.Always) || v.Hash != "shown with path like notes/*; text any" || !v.Approve {
		t.Errorf("%+v", v)
	}
}

func TestAStandingApprovalIsShownBeforeItIsGiven(t *testing.T) {
	for key, want := range map[string]effect.Standing{"c": effect.InConversation, "p": effect.Always} {
		d, node := asking(t, nil)
		d.slowly(press(key), press("2"))
		if len(node.decided) != 0 {
			t.Fatalf("given unseen: %+v", node.decided)
		}
		got := d.seen()
		for _, line := range []string{"exactly this. That is files.write where", `path  is "notes/a.txt"`, `text  is "hello"`, "Give this standing approval? y/n/e"} {
			if !strings.Contains(got, line) {
				t.Errorf("%s: %q is not in:\n%s", key, line, got)
			}
		}
		d.do(press("y")) // too soon after another key: the person was typing
		if len(node.decided) != 0 {
			t.Fatal("given by typing on")
		}
		d.slowly(press("y"))
		if v := node.only(t); v.Standing != string(want) || v.Hash != "h1" || !v.Approve {
			t.Errorf("%s: %+v", key, v)
		}
	}
}

func TestAnEditedPatternIsShownAgain(t *testing.T) {
	d, node := asking(t, nil)
	d.slowly(press("p"), press("2"), press("e"))
	if got := d.input.Value(); got != "path is \"notes/a.txt\"\ntext is \"hello\"" {
		t.Fatalf("to edit: %q", got)
	}
	d.typing("path like notes/*\ntext any")
	d.slowly(press("enter"))
	got := d.seen()
	if !strings.Contains(got, "path  like notes/*") || !strings.Contains(got, "text  anything") || len(node.decided) != 0 {
		t.Fatalf("%+v\n%s", node.decided, got)
	}
	d.slowly(press("y"))
	v := node.only(t)
	if v.Hash != "shown with path like notes/*; text any" || v.Standing != string(effect.Always) || v.Pattern.String() != "path like notes/*, text anything" {
		t.Errorf("%+v", v)
	}
}

func TestAPatternThatIsNone(t *testing.T) {
	d, node := asking(t, nil)
	d.slowly(press("p"), press("2"), press("e"))
	d.typing("path like other/*\ntext any")
	d.slowly(press("enter"))
	if got := d.seen(); !strings.Contains(got, "it does not cover what was asked") || d.input.Value() != "path like other/*\ntext any" {
		t.Errorf("input %q\n%s", d.input.Value(), got)
	}
	d.typing("path")
	d.slowly(press("enter"))
	if got := d.seen(); !strings.Contains(got, "NAME like GLOB") {
		t.Errorf("%s", got)
	}
	d.slowly(press("esc"))
	if d.input.Value() != "" || d.reply.stage != notReplying || len(node.decided) != 0 {
		t.Errorf("%+v, input %q", d.reply, d.input.Value())
	}
	d.slowly(press("y")) // the question is unchanged
	node.only(t)
}

func TestEditedArgumentsAreSent(t *testing.T) {
	d, node := asking(t, nil)
	d.slowly(press("e"))
	if got := d.input.Value(); got != "{\n  \"path\": \"notes/a.txt\",\n  \"text\": \"hello\"\n}" {
		t.Fatalf("to edit: %q", got)
	}
	d.typing(`["a"]`)
	d.slowly(press("enter"))
	if got := d.seen(); len(node.decided) != 0 || !strings.Contains(got, "must be a JSON object") {
		t.Fatalf("%+v\n%s", node.decided, got)
	}
	d.typing(`{"path":"notes/b.txt","text":"hello"}`)
	d.slowly(press("enter"))
	if v := node.only(t); string(v.Args) != `{"path":"notes/b.txt","text":"hello"}` || !v.Approve || v.Hash != "h1" {
		t.Errorf("%+v", v)
	}
	if got := d.seen(); !strings.Contains(got, "allowed, changed by you: Write notes/a.txt, 1 line") {
		t.Error(got)
	}
}

func TestNoWithAReason(t *testing.T) {
	d, node := asking(t, nil)
	d.slowly(press("r"))
	d.typing("not today")
	d.slowly(press("enter"))
	if v := node.only(t); v.Approve || v.Reason != "not today" {
		t.Errorf("%+v", v)
	}
}

func TestADraftIsNotLost(t *testing.T) {
	d, node := asking(t, nil)
	d.typing("what I was about to say")
	d.slowly(press("p")) // a letter of the draft
	if d.reply.stage != notReplying || d.input.Value() != "what I was about to sayp" {
		t.Errorf("%q", d.input.Value())
	}
	d.slowly(press("y"))
	if d.input.Value() != "what I was about to sayp" {
		t.Errorf("%q", d.input.Value())
	}
	node.only(t)
}

func TestWhatCannotStandIsNotOffered(t *testing.T) {
	d, _ := asking(t, func(a *client.Approval) { a.NoGrant = "files.write always asks first" })
	if got := d.seen(); strings.Contains(got, "p always") || !strings.Contains(got, "e edit") {
		t.Error(got)
	}
	d.slowly(press("p"))
	if d.reply.stage != notReplying || d.input.Value() != "p" {
		t.Errorf("%+v %q", d.reply, d.input.Value())
	}
	d, node := asking(t, func(a *client.Approval) { a.Approvers, a.Foreign = "parents", true })
	if got := d.seen(); !strings.Contains(got, "The group parents answers") || !strings.Contains(got, "A member of the group parents answers.") {
		t.Error(got)
	}
	d.slowly(press("y"))
	if len(node.decided) != 0 {
		t.Errorf("%+v", node.decided)
	}
}

func TestAnsweredElsewhereWhileWriting(t *testing.T) {
	d, node := asking(t, nil)
	d.slowly(press("r"))
	d.typing("because")
	d.do(watched{watch: d.watch, frames: []client.Frame{call("x/1", "files.write", `{}`, "running")}})
	d.slowly(press("enter"))
	if got := d.seen(); len(node.decided) != 0 || !strings.Contains(got, "answered elsewhere") || d.input.Value() != "" {
		t.Errorf("%+v\n%s", node.decided, got)
	}
}

func TestARefusedAnswerIsAskedAgain(t *testing.T) {
	d, node := asking(t, nil)
	node.refuses = fault.New(fault.Denied, "approval_edit_denied", "policy does not allow it with these arguments")
	d.slowly(press("y"))
	if got := d.seen(); !strings.Contains(got, "policy does not allow it") || strings.Count(got, "? Write notes/a.txt") != 2 {
		t.Errorf("%s", got)
	}
	if a, _ := d.turn.pending(); a == nil {
		t.Error("the question is gone")
	}
}

func TestWhatIsNotSeenIsWrittenOut(t *testing.T) {
	if got := EscapedJSON("{\"a\": \"x\u202ey\U000e0041\t\"}\n"); got != "{\"a\": \"x\\u202ey\\udb40\\udc41\\u0009\"}\n" {
		t.Errorf("%q", got)
	}
	if got := indented("no json"); got != "no json" {
		t.Error(got)
	}
	lines := TermLines(intent.Pattern{"a\u202e": {Like: "x\u200b*"}, "bb": {Any: true}})
	if strings.Join(lines, "|") != "a<U+202E>  like x<U+200B>*|bb         anything" {
		t.Errorf("%q", lines)
	}
	now := time.Date(2030, 1, 2, 3, 4, 0, 0, time.Local)
	for at, want := range map[time.Time]string{now.Add(time.Hour): "04:04", now.Add(48 * time.Hour): "Fri 4 Jan 03:04", now.AddDate(1, 0, 0): "2 Jan 2031 03:04"} {
		if got := UntilWhen(at, now); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestALongArgumentIsCutUntilItIsViewed(t *testing.T) {
	long := strings.Repeat("lorem ipsum ", 5000)
	d, node := asking(t, func(a *client.Approval) {
		a.Agent, a.Tool, a.Args = "post", "post.send", json.RawMessage(`{"body":"`+long+`","bcc":"mallory@example.com"}`)
		a.Summary, a.Preview = "Post: send", strings.Repeat("+ a line\n", 100)
		a.Values = []client.Value{{Name: "bcc", Text: "mallory@example.com", Size: 21, Marks: []string{tool.MarkUndeclared}},
			{Name: "body", Text: long[:60], Size: 60002, Cut: true}}
	})
	got := d.seen()
	for _, want := range []string{"The agent post wants it.", "  bcc   ! not in the tool's schema: mallory@example.com\n", "… (cut:\n        60.0 KB in all)", "… cut: 40 more lines, which d shows"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in:\n%s", want, got)
		}
	}
	d.slowly(press("d"))
	got = d.seen()
	if strings.Count(got, "ipsum") < 5000 || len(node.decided) != 0 {
		t.Errorf("d shows %d of 5000; %+v", strings.Count(got, "ipsum"), node.decided)
	}
	if after := got[strings.LastIndex(got, "? Post: send"):]; strings.Count(after, "ipsum") > 60 || !strings.Contains(after, "mallory") {
		t.Error("the question does not stand last")
	}
}

func TestAQuestionOnOneLine(t *testing.T) {
	q := effect.Question{Short: "0123456789", Tool: "x.y", Args: []byte("{\"to\":\"b\u200bob\"}"), Summary: "Send to b\u200bob", More: 2, Values: []effect.Value{{Name: "to", Text: "b<U+200B>ob"}},
		Arguments: tool.Arguments([]byte(`{"to":"b\u200bob"}`), nil), Hash: "h"}
	if got := QuestionLine(&q); got != "! to: Send to b<U+200B>ob (+3)" {
		t.Error(got)
	}
	if got := QuestionShown(&q, 80, time.Now(), false, "d shows"); strings.Contains(got, "x.y") || !strings.Contains(got, "and 2 more values: d shows them") {
		t.Error(got)
	}
	if got := QuestionShown(&q, 80, time.Now(), true, ""); !strings.Contains(got, "x.y") || !strings.Contains(got, `"to":"b<U+200B>ob"`) || !strings.Contains(got, "hash     h") {
		t.Error(got)
	}
}

func openedFrame(text string) client.Frame {
	return client.Frame{Type: client.FrameOpened, Content: Words(text)}
}

func TestTasksAreShownWhileTheyGoOn(t *testing.T) {
	tr := newTurn(t, 60)
	task := client.Frame{Type: client.FrameTask, ID: "1", Tool: "archive.count", Status: record.TaskAcknowledged}
	got := show(tr, call("m/0", "archive.count", "{}", "running"), task, result("m/0", "archive.count", "accepted", "Acknowledged: …"))
	if want := "… archive.count → continues in the background"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	task.Status, task.Progress, task.Message = record.TaskRunning, 0.5, "page\x1b[2J 200"
	if got := show(tr, task); got != "" {
		t.Errorf("printed %q", got)
	}
	if got := tr.live(5, "*"); len(got) != 1 || !strings.HasPrefix(got[0], "∙ archive.count in the background 50%: page") || strings.Contains(got[0], "\x1b[2J") {
		t.Errorf("live: %q", got)
	}
	// The task asks a question, which is answered.
	task.Status, task.Args, task.Approval = client.CallAwaiting, []byte(`{"a":1}`), &client.Approval{ID: "q", Reason: "it changes something"}
	if got := show(tr, task); !strings.Contains(got, "? archive.count") || !strings.Contains(got, `"a":1`) {
		t.Errorf("the question: %q", got)
	}
	if a, n := tr.pending(); n != 1 || a.Approval.ID != "q" {
		t.Errorf("%d questions wait", n)
	}
	task.Status, task.Approval = record.TaskRunning, nil
	show(tr, task)
	if _, n := tr.pending(); n != 0 {
		t.Errorf("%d questions wait", n)
	}
	task.Status = record.TaskCompleted
	if got := show(tr, task); !strings.HasPrefix(got, "\n✓ archive.count has finished in the background → page") || len(tr.live(5, "*")) != 0 { // at once, beside the turn
		t.Errorf("%q, live %q", got, tr.live(5, "*"))
	}
	if got := show(tr, openedFrame("archive.count has ended: it was done.\n--- 1\nsecret")); got != "\n« archive.count has ended: it was done." || !tr.running {
		t.Errorf("opened: %q", got)
	}
}

func TestTasksAsPlainText(t *testing.T) {
	var out, notes bytes.Buffer
	w := &Writer{Out: &out, Notes: &notes}
	task := client.Frame{Type: client.FrameTask, ID: "1", Tool: "archive.count", Status: record.TaskAcknowledged}
	half, end := task, task
	half.Status, half.Message = record.TaskRunning, "page 200"
	end.Status = record.TaskCompleted
	for _, f := range []client.Frame{token("1", "It is under way."), task, half, half, end,
		openedFrame("archive.count has ended: it was done.\nmore"), token("2", "81,204 words.")} {
		if err := w.Frame(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if want := "It is under way.\n81,204 words.\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	want := "∙ archive.count in the background: running, page 200\n∙ archive.count in the background: completed\n« archive.count has ended: it was done.\n"
	if notes.String() != want {
		t.Errorf("%q, want %q", notes.String(), want)
	}
}

// Whoever goes back from the widths or the terms sees the question again, and not its last line alone.
func TestGoingBackShowsTheQuestionAgain(t *testing.T) {
	for name, keys := range map[string][]tea.Msg{
		"from the widths":           {press("p"), press("esc")},
		"from the terms":            {press("p"), press("2"), press("n")},
		"from the terms, by Escape": {press("p"), press("2"), press("esc")},
	} {
		t.Run(name, func(t *testing.T) {
			d, node := asking(t, nil)
			d.slowly(keys...)
			seen := d.seen()
			if i, j := strings.LastIndex(seen, "Write notes/a.txt, 1 line"), strings.LastIndex(seen, "exactly this"); i < j {
				t.Errorf("the question is above the widths:\n%s", seen)
			}
			if d.slowly(press("y")); len(node.decided) != 1 {
				t.Errorf("%v", node.decided)
			}
		})
	}
}

func TestDetailsAreShownOnce(t *testing.T) {
	d, _ := asking(t, nil)
	d.slowly(press("d"), press("d"), press("d"))
	if n := strings.Count(d.seen(), "rule actions.ask"); n != 1 {
		t.Errorf("%d times:\n%s", n, d.seen())
	}
}

// The time that the person takes to answer is not counted as Steward's.
func TestTheTimeOfAnAnswerIsNotCounted(t *testing.T) {
	d, _ := asking(t, nil)
	if s := stripped(d.screen()); !strings.Contains(s, "Press a key to answer") || strings.Contains(s, "Ask something") {
		t.Errorf("the input asks for a message beside a question:\n%s", s)
	}
	d.at = d.at.Add(time.Hour)
	d.slowly(press("y"))
	d.at = d.at.Add(2 * time.Second)
	d.do(watched{watch: d.watch, frames: []client.Frame{
		{Type: client.FrameResult, ID: "x/1", Name: "files.write", Status: "ok", Result: "[The person who allowed it changed the arguments first; it was called with {}.]\nwritten"},
		{Type: client.FrameComplete, DurationMS: 3_603_000, Model: "m/x"},
	}})
	seen := d.seen()
	if !strings.Contains(seen, "→ written · 2s") {
		t.Errorf("the result or its time:\n%s", seen)
	}
	if !strings.Contains(seen, "m/x · 2s") {
		t.Errorf("the time of the turn:\n%s", seen)
	}
}
