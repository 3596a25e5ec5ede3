package window_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"steward/internal/conversation/window"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
)

func draw(t *rapid.T) []window.Item {
	items := histories().Draw(t, "items")
	fixRefs(items)
	return items
}

// TestRenderObeys: for all states of the messages, the view obeys the rules, and
// Render does not change the messages.
func TestRenderObeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := mess(t, draw(t))
		o := options().Draw(t, "options")
		var before [][]byte
		for _, it := range items {
			before = append(before, encoded(it.Message))
		}
		out := window.Render(items, o)
		if err := message.CheckView(out); err != nil {
			t.Fatalf("%v\n%s", err, told(out))
		}
		for i, m := range out {
			if err := message.Validate(m); err != nil {
				t.Fatalf("message %d: %v", i, err)
			}
		}
		at := slices.IndexFunc(out, func(m *message.Message) bool { return m.Role != message.System })
		if at >= 0 && out[at].Role != message.User {
			t.Fatalf("it begins with a message of the %s", out[at].Role)
		}
		if (o.Summary != nil || o.Cut) && (len(out) == 0 || out[0].Role != message.User) {
			t.Fatalf("the first message is not about what is not shown")
		}
		for i, it := range items {
			if !bytes.Equal(before[i], encoded(it.Message)) {
				t.Fatalf("message %d was changed", i)
			}
		}
		same(t, out, window.Render(items, o))
		checkStates(t, items, o, out)
	})
}

// checkStates checks that each state has its effect, on whole groups, and that no
// other message changes.
func checkStates(t *rapid.T, items []window.Item, o window.Options, out []*message.Message) {
	byID := map[id.ID]*message.Message{}
	for _, m := range out {
		byID[m.ID] = m
	}
	visible := shown(items)
	calls := map[message.Ref]id.ID{}
	seen := map[id.ID]bool{}
	for i, it := range items {
		m := it.Message
		if seen[m.ID] {
			continue
		}
		seen[m.ID] = true
		got := byID[m.ID]
		if visible[i] != (got != nil) {
			t.Fatalf("Shown says %v of message %d", visible[i], i)
		}
		for _, c := range m.Calls() {
			calls[c.Ref] = m.ID
		}
		hidden := slices.Contains([]record.Validity{record.Superseded, record.Archived, record.Deleted}, it.State.State) ||
			it.State.State == record.Invalidated && m.Role != message.Tool
		switch r := m.Result(); {
		case hidden && got != nil:
			t.Fatalf("message %d is %s and shown", i, it.State.State)
		case hidden && r != nil && byID[calls[r.Call]] != nil && calls[r.Call] != (id.ID{}):
			if other := slices.ContainsFunc(items[:i], func(x window.Item) bool {
				return x.Message.Result() != nil && x.Message.Result().Call == r.Call
			}); !other {
				t.Fatalf("message %d is hidden, and its call is shown", i)
			}
		case got == nil || got == m:
		case r == nil:
			t.Fatalf("message %d was changed, and holds no result", i)
		case it.State.State == record.Invalidated:
			checkObsolete(t, r, got.Result())
		case o.Clip > 0 && !it.Pinned:
			checkClipped(t, &items[i], got.Result(), max(o.Clip, window.MinClip))
		default:
			t.Fatalf("message %d was changed for no reason", i)
		}
		if got != nil && (got.Prev != m.Prev || got.At != m.At || message.LabelsOf(got.Blocks) != message.LabelsOf(m.Blocks)) {
			t.Fatalf("message %d was changed beyond its content", i)
		}
	}
}

func checkObsolete(t *rapid.T, was, is *message.ToolResult) {
	line := is.Text()
	if !strings.HasPrefix(line, "[obsolete: ") || !strings.HasSuffix(line, "]") || strings.Contains(line, "\n") || len(line) > 450 {
		t.Fatalf("an obsolete result is told as %q", line)
	}
	if is.Status != was.Status || is.Call != was.Call || is.CallID != was.CallID || is.Name != was.Name || is.Labels != was.Labels || len(is.Content) != 1 {
		t.Fatalf("an obsolete result lost more than its content: %+v", is)
	}
}

func checkClipped(t *rapid.T, it *window.Item, is *message.ToolResult, clip int) {
	was := it.Message.Result()
	whole, text := window.Whole(was), is.Text()
	if len(whole) <= clip || len(text) > clip || !utf8.ValidString(text) {
		t.Fatalf("clipped %d bytes to %d at %d", len(whole), len(text), clip)
	}
	head, rest, ok := strings.Cut(text, "\n[… ")
	if !ok || !strings.HasPrefix(whole, head) || len(head) < clip/2-4 {
		t.Fatalf("clipped to %q", text)
	}
	uri := it.URI
	if was.Rest != "" {
		uri = was.Rest
	}
	if want := fmt.Sprintf("results.read uri=%s offset=%d]", uri, len(head)); uri != "" && !strings.Contains(rest, want) {
		t.Fatalf("%q does not say %q", rest, want)
	}
	var more int
	if was.Rest == "" {
		if _, err := fmt.Sscanf(rest, "%d more bytes", &more); err != nil {
			t.Fatal(err)
		}
		_, tail, _ := strings.Cut(rest, "]\n")
		if len(head)+more+len(tail) != len(whole) || !strings.HasSuffix(whole, tail) {
			t.Fatalf("%d + %d + %d bytes are not %d", len(head), more, len(tail), len(whole))
		}
	}
	media := func(r *message.ToolResult) int {
		return len(slices.DeleteFunc(slices.Clone(r.Content), func(b message.Block) bool { _, ok := b.(*message.Text); return ok }))
	}
	if media(was) != media(is) || is.Rest != was.Rest {
		t.Fatalf("more than text was clipped")
	}
}

// TestPrefix: later messages do not change the earlier part of the view, so that
// prompt caches stay valid; and One shows the last message as Render does.
func TestPrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := draw(t)
		o := window.Options{Clip: 1024}
		n := rapid.IntRange(0, len(items)).Draw(t, "so far")
		whole := window.Render(items, o)
		same(t, window.Render(items[:n], o), whole[:n])
		if n > 0 {
			same(t, []*message.Message{window.One(items[n-1], o.Clip)}, whole[n-1:n])
		}
	})
}

func TestRenderExamples(t *testing.T) {
	for name, c := range map[string]struct {
		make func(c *chat)
		o    window.Options
		want string
	}{
		"an obsolete result": {func(c *chat) {
			c.user("Read a.")
			c.calls("1")
			state(c.result("1", "content"), record.Invalidated, "files.read of a was made obsolete by a later files.read with the same path")
			c.says("Done.")
		}, window.Options{}, "user: Read a.\nassistant: →1\ntool: [obsolete: files.read of a was made obsolete by a later files.read with the same path]\nassistant: Done.\n"},
		"a group falls with one of its results": {func(c *chat) {
			c.user("Read.")
			c.calls("1", "2")
			c.result("1", "one")
			state(c.result("2", "two"), record.Superseded, "")
			c.says("Done.")
		}, window.Options{}, "user: Read.\nassistant: Done.\n"},
		"an invalidated answer": {func(c *chat) {
			c.user("Hello")
			state(c.says("Hi"), record.Invalidated, "")
			c.user("Well?")
		}, window.Options{}, "user: Hello\nuser: Well?\n"},
		"the first turn was deleted in part": {func(c *chat) {
			state(c.user("Hello"), record.Deleted, "")
			c.says("Hi")
			c.user("Well?")
		}, window.Options{}, "user: [Earlier messages of this conversation are not shown.]\nassistant: Hi\nuser: Well?\n"},
		"the assistant began": {func(c *chat) {
			c.says("Good morning!")
			c.user("Hello")
		}, window.Options{}, "user: [The conversation begins with a message of the assistant.]\nassistant: Good morning!\nuser: Hello\n"},
		"something before is not shown": {func(c *chat) {
			c.user("Hello")
		}, window.Options{Cut: true}, "user: [Earlier messages of this conversation are not shown.]\nuser: Hello\n"},
		"a summary replaces it": {func(c *chat) {
			c.system("Be brief.")
			c.says("Hi")
		}, window.Options{Cut: true, Summary: &message.Message{ID: id.Derive("s"), Role: message.Assistant, Blocks: []message.Block{text("model:m", "They met.")}}},
			"user: They met.\nsystem: Be brief.\nassistant: Hi\n"},
		"calls that are open": {func(c *chat) {
			c.user("Read.")
			c.calls("1", "2")
			c.result("2", "two")
		}, window.Options{}, "user: Read.\nassistant: →1→2\ntool: two\n"},
		"calls that stayed without a result": {func(c *chat) {
			c.user("Read.")
			c.calls("1", "2")
			c.result("2", "two")
			c.user("Never mind.")
		}, window.Options{}, "user: Read.\nassistant: →1→2\ntool: two\ntool: [There is no result of this call.]\nuser: Never mind.\n"},
		"a person spoke between the results": {func(c *chat) {
			c.user("Read.")
			c.calls("1", "2")
			c.result("2", "two")
			c.user("Hurry.")
			c.result("1", "one")
			c.says("Done.")
		}, window.Options{}, "user: Read.\nassistant: →1→2\ntool: two\ntool: one\nuser: Hurry.\nassistant: Done.\n"},
		"a timer rang between the results": {func(c *chat) {
			c.user("Read.")
			c.calls("1")
			c.system("The timer rang.")
			c.result("1", "one")
		}, window.Options{}, "user: Read.\nassistant: →1\nsystem: The timer rang.\ntool: one\n"},
		"results whose call is not there": {func(c *chat) {
			c.user("Read.")
			c.calls("1")
			c.result("1", "one")
			c.result("1", "one again")
			c.items = slices.Delete(c.items, 1, 2)
		}, window.Options{}, "user: Read.\n"},
		"nothing is left": {func(c *chat) { state(c.user("Hello"), record.Archived, "") }, window.Options{}, ""},
		"nothing is left of the end": {func(c *chat) { state(c.user("Hello"), record.Archived, "") }, window.Options{Cut: true},
			"user: [Earlier messages of this conversation are not shown.]\n"},
	} {
		t.Run(name, func(t *testing.T) {
			x := &chat{}
			c.make(x)
			if got := told(window.Render(x.items, c.o)); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
		})
	}
}

// TestSummaryLabels: a summary of private messages is private.
func TestSummaryLabels(t *testing.T) {
	s := &message.Message{ID: id.Derive("s"), Role: message.Assistant,
		Blocks: []message.Block{&message.Text{Common: message.Common{Labels: message.Private}, Text: "a"}}}
	out := window.Render(nil, window.Options{Summary: s})
	if len(out) != 1 || out[0].ID != s.ID || message.LabelsOf(out[0].Blocks) != message.Private {
		t.Errorf("shown as %+v", out)
	}
	// A summary that is also among the items is shown once.
	out = window.Render([]window.Item{{Message: s}}, window.Options{Summary: s})
	if len(out) != 1 {
		t.Errorf("%d messages", len(out))
	}
}

// The notice stays the same when messages follow, so that what a session shows is what is read again.
func TestTheNoticeStays(t *testing.T) {
	x := &chat{}
	x.user("Hello")
	before := window.Render(nil, window.Options{Cut: true})
	after := window.Render(x.items, window.Options{Cut: true})
	if len(before) != 1 || len(after) != 2 || before[0].ID != after[0].ID || before[0].At != after[0].At {
		t.Errorf("%+v, then %+v", before, after)
	}
}
