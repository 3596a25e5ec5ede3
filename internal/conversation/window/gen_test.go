package window_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"steward/internal/conversation/window"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/test/apis"
	"steward/test/messagetest"
)

// chat builds histories by hand.
type chat struct{ items []window.Item }

func (c *chat) add(m *message.Message) *window.Item {
	n := len(c.items)
	m.ID = id.Derive("test", fmt.Sprint(n))
	if n > 0 {
		m.Prev = c.items[n-1].Message.ID
	}
	m.At = time.Unix(1_700_000_000+int64(n), 0).UTC()
	c.items = append(c.items, window.Item{Message: m, Pos: int64(n + 1), URI: fmt.Sprintf("cld:common.Message.%d", n)})
	return &c.items[n]
}

func (c *chat) user(s string) *window.Item {
	return c.add(&message.Message{Role: message.User, Blocks: []message.Block{text("user", s)}})
}

func (c *chat) system(s string) *window.Item {
	return c.add(&message.Message{Role: message.System, Blocks: []message.Block{text("", s)}})
}

func (c *chat) says(s string) *window.Item {
	return c.add(&message.Message{Role: message.Assistant, Final: true, Stop: message.StopEnd, Blocks: []message.Block{text("model:m", s)}})
}

// calls adds an assistant message with calls of the ids.
func (c *chat) calls(ids ...string) *window.Item {
	m := &message.Message{Role: message.Assistant, Stop: message.StopTools}
	for _, x := range ids {
		m.Blocks = append(m.Blocks, &message.ToolCall{CallID: x, Name: "files.read", Args: []byte(`{"path":"a"}`)})
	}
	return c.add(m)
}

// result answers the newest call of an id.
func (c *chat) result(callID, s string) *window.Item {
	for i := len(c.items) - 1; i >= 0; i-- {
		for _, call := range c.items[i].Message.Calls() {
			if call.CallID == callID {
				return c.add(&message.Message{Role: message.Tool, Blocks: []message.Block{&message.ToolResult{
					Common: message.Common{Origin: "tool:files.read", Labels: message.Untrusted},
					Call:   call.Ref, CallID: callID, Name: call.Name, Status: message.OK,
					Content: []message.Block{&message.Text{Common: message.Common{Origin: "tool:files.read", Labels: message.Private}, Text: s}}}}})
			}
		}
	}
	panic("no call " + callID)
}

func text(origin, s string) *message.Text {
	return &message.Text{Common: message.Common{Origin: origin}, Text: s}
}

func state(it *window.Item, s record.Validity, reason string) {
	it.State = record.Change{State: s, Reason: reason}
}

// told formats a view with one line for each message: role and text.
func told(msgs []*message.Message) string {
	var b strings.Builder
	for _, m := range msgs {
		fmt.Fprintf(&b, "%s: %s", m.Role, m.Text())
		for _, c := range m.Calls() {
			fmt.Fprintf(&b, "→%s", c.CallID)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// histories draws histories: either realistic ones, with parallel calls, signed
// reasoning, pictures, long results and a person's messages in between, or any
// valid history.
func histories() *rapid.Generator[[]window.Item] {
	return rapid.Custom(func(t *rapid.T) []window.Item {
		if rapid.Bool().Draw(t, "anything valid") {
			c := &chat{}
			for i, m := range messagetest.History().Draw(t, "history") {
				foreign(m)
				c.items = append(c.items, window.Item{Message: m, Pos: int64(i + 1), URI: fmt.Sprintf("cld:common.Message.%d", i)})
			}
			return c.items
		}
		c := &chat{}
		if rapid.IntRange(0, 3).Draw(t, "system") == 0 {
			c.system("Speak French.")
		}
		for range rapid.IntRange(1, 6).Draw(t, "turns") {
			realTurn(t, c)
		}
		return c.items[:rapid.IntRange(max(1, len(c.items)-4), len(c.items)).Draw(t, "cut")]
	})
}

// foreign makes a generated message realistic: its metadata belongs to no known
// provider, the calls of one message have different ids, and a system message is
// text.
func foreign(m *message.Message) {
	m.Meta.Provider = "elsewhere"
	for i, b := range m.Blocks {
		b.Base().Meta.Provider = "elsewhere"
		switch b := b.(type) {
		case *message.ToolCall:
			b.CallID = fmt.Sprintf("%s.%d", b.CallID, i)
		case *message.ToolResult:
			b.CallID = fmt.Sprintf("%s.%d", b.CallID, b.Call.Block)
		default:
			if m.Role == message.System {
				m.Blocks[i] = text("", "Be brief.")
			}
		}
	}
}

func realTurn(t *rapid.T, c *chat) {
	c.user("Do something.")
	if rapid.IntRange(0, 4).Draw(t, "picture") == 0 {
		c.add(&message.Message{Role: message.User, Blocks: []message.Block{&message.Image{Common: message.Common{Origin: "user"}, MIME: "image/png", Data: apis.PNG()}}})
	}
	for round := range rapid.IntRange(0, 4).Draw(t, "rounds") {
		n := rapid.IntRange(1, 3).Draw(t, "calls")
		var ids []string
		for k := range n {
			ids = append(ids, fmt.Sprintf("call_%d_%d_%d", len(c.items), round, k))
		}
		ask := c.calls(ids...).Message
		sign(t, ask)
		for _, x := range rapid.Permutation(ids).Draw(t, "order") {
			long := rapid.SampledFrom([]string{"42", strings.Repeat("word ", 300), strings.Repeat("wörd 世界 ", 800), strings.Repeat("x", 9000)}).Draw(t, "long")
			r := c.result(x, long).Message.Result()
			if rapid.IntRange(0, 4).Draw(t, "status") == 0 {
				r.Status = message.Failed
			}
			if rapid.IntRange(0, 5).Draw(t, "rest") == 0 {
				r.Rest = "cld:tool.Overflow.1"
			}
			if rapid.IntRange(0, 5).Draw(t, "more content") == 0 {
				r.Content = append(r.Content, &message.Image{MIME: "image/png", Data: apis.PNG()}, text("tool:files.read", "more"))
			}
		}
		if rapid.IntRange(0, 5).Draw(t, "steer") == 0 {
			c.user("Hurry up.")
		}
	}
	if rapid.IntRange(0, 9).Draw(t, "answer") > 0 {
		c.says("Done.")
	}
}

// sign adds reasoning with the signature of one of the providers.
func sign(t *rapid.T, m *message.Message) {
	p := rapid.SampledFrom([]string{"", "anthropic", "gemini", "openai"}).Draw(t, "signed by")
	meta := message.Common{Origin: "model:" + p, Meta: message.Meta{Provider: p}}
	think := &message.Reasoning{Common: meta, Text: "I need a tool."}
	switch p {
	case "":
		return
	case "anthropic":
		think.Meta.Fields = []byte(`{"signature":"c2ln"}`)
	case "gemini":
		think.Meta = message.Meta{}
		c := m.Blocks[0].(*message.ToolCall)
		c.Meta = message.Meta{Provider: p, Fields: []byte(`{"thoughtSignature":"c2ln"}`)}
		m.Blocks[0] = c
	case "openai":
		think.Meta.Fields = []byte(`{"field":"reasoning_content"}`)
	}
	m.Blocks = append([]message.Block{think}, m.Blocks...)
}

// fixRefs corrects the calls that results name after blocks were inserted before
// the calls.
func fixRefs(items []window.Item) {
	for i := range items {
		r := items[i].Message.Result()
		if r == nil {
			continue
		}
		for j := range items[:i] {
			for _, c := range items[j].Message.Calls() {
				if c.Ref.Message == r.Call.Message && c.CallID == r.CallID && c.Name == r.Name && len(r.CallID) > 5 && strings.HasPrefix(r.CallID, "call_") {
					r.Call = c.Ref
				}
			}
		}
	}
}

// mess draws changes to a history: states, pins, and missing, reordered or repeated
// messages.
func mess(t *rapid.T, items []window.Item) []window.Item {
	out := slices.Clone(items)
	for i := range out {
		s := rapid.SampledFrom([]record.Validity{"", "", "", record.Active, record.Invalidated, record.Superseded, record.Archived, record.Deleted}).Draw(t, "state")
		if rapid.Bool().Draw(t, "marked") {
			out[i].State = record.Change{State: s, Reason: rapid.SampledFrom([]string{"", "files.read of a\nwas read again", strings.Repeat("é", 500)}).Draw(t, "reason")}
		}
		out[i].Pinned = rapid.IntRange(0, 9).Draw(t, "pinned") == 0
		if rapid.IntRange(0, 9).Draw(t, "no uri") == 0 {
			out[i].URI = ""
		}
	}
	switch rapid.IntRange(0, 4).Draw(t, "damage") {
	case 0: // some are missing
		out = slices.DeleteFunc(out, func(window.Item) bool { return rapid.IntRange(0, 5).Draw(t, "lost") == 0 })
	case 1: // one is at another place
		i, j := rapid.IntRange(0, len(out)-1).Draw(t, "from"), rapid.IntRange(0, len(out)-1).Draw(t, "to")
		it := out[i]
		out = slices.Insert(slices.Delete(out, i, i+1), j, it)
	case 2: // one occurs twice
		i := rapid.IntRange(0, len(out)-1).Draw(t, "which")
		out = append(out, out[i])
	}
	return out
}

func options() *rapid.Generator[window.Options] {
	return rapid.Custom(func(t *rapid.T) window.Options {
		o := window.Options{Clip: rapid.SampledFrom([]int{0, 1, 512, 600, 2048, 8192}).Draw(t, "clip"), Cut: rapid.Bool().Draw(t, "cut")}
		if rapid.IntRange(0, 2).Draw(t, "with a summary") == 0 {
			o.Summary = &message.Message{ID: id.Derive("summary"), Role: rapid.SampledFrom([]message.Role{message.User, message.Assistant}).Draw(t, "by"),
				Blocks: []message.Block{text("system", "What was before.")}}
		}
		return o
	})
}

func encoded(m *message.Message) []byte {
	return message.AppendBlocks([]byte(m.ID.String()+string(m.Role)), m.Blocks)
}

func same(t interface{ Fatalf(string, ...any) }, a, b []*message.Message) {
	if len(a) != len(b) {
		t.Fatalf("%d messages, and %d:\n%s\n%s", len(a), len(b), told(a), told(b))
	}
	for i := range a {
		if !bytes.Equal(encoded(a[i]), encoded(b[i])) {
			t.Fatalf("message %d differs:\n%s\n%s", i, encoded(a[i]), encoded(b[i]))
		}
	}
}

// applied returns the arguments with which Render shows a plan, without its new
// summary.
func applied(p window.Plan, items []window.Item, b window.Budget) ([]window.Item, window.Options) {
	o := window.Options{Clip: p.Clip, Summary: b.Summary, Cut: b.Cut}
	start := slices.IndexFunc(items, func(it window.Item) bool { return it.Pos == b.Start })
	if b.Start != 0 && start < 0 { // its message has left the branch
		start = slices.IndexFunc(items, func(it window.Item) bool { return !it.Pinned })
	}
	start = max(start, 0)
	if p.StartIndex > 0 {
		start, o.Cut = p.StartIndex, true
		if b.SummaryTokens > 0 {
			o.Summary = nil
		}
	}
	var out []window.Item
	for i := range start {
		if items[i].Pinned || slices.Contains(p.Pins, i) {
			out = append(out, items[i])
		}
	}
	return append(out, items[start:]...), o
}

// shown reports for each item whether a view contains it, even if only one line
// replaces its content.
func shown(items []window.Item) []bool {
	in := map[id.ID]bool{}
	for _, m := range window.Render(items, window.Options{}) {
		in[m.ID] = true
	}
	out := make([]bool, len(items))
	for i, it := range items {
		out[i] = in[it.Message.ID]
		delete(in, it.Message.ID)
	}
	return out
}
