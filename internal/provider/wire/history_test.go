package wire_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/wire"
)

func words(s string) []message.Block { return []message.Block{&message.Text{Text: s}} }

func asks(id, name string) message.Block { return &message.ToolCall{CallID: id, Name: name} }

// TestHistoryLinks: results find their calls by id, by name, and by place.
func TestHistoryLinks(t *testing.T) {
	doc := wire.Document([]byte(`[]`))
	h := wire.NewHistory(doc, "vendor", "call_")
	h.Say(doc, message.System, message.Meta{})
	h.Say(doc, message.User, h.Meta([]byte(`"a":1`)), words("Go")...)
	h.Assistant(doc, message.Meta{}, asks("x", "a__b"), asks("", "c"))
	h.Assistant(doc, h.Meta([]byte(`"late":1`)), asks("x", "d"), asks("", "c")) // the same turn, in pieces
	for _, r := range [][2]string{{"", "c"}, {"x", ""}, {"x", "d"}, {"", ""}} {
		h.Result(doc, r[0], r[1], &message.ToolResult{Status: message.OK})
	}
	h.Assistant(doc, message.Meta{}, words("Done")...)
	h.Assistant(doc, message.Meta{}, words("and more")...)
	msgs, err := h.Done()
	if err != nil {
		t.Fatal(err)
	}
	if len(msgs) != 9 || string(msgs[1].Meta.Fields) != `{"a":1}` || string(msgs[2].Meta.Fields) != `{"late":1}` {
		t.Fatalf("%d messages: %s", len(msgs), message.Append(nil, msgs[2]))
	}
	calls := msgs[2].Calls()
	if len(calls) != 4 || calls[0].Name != "a.b" || calls[0].CallID != "x" {
		t.Fatalf("calls: %s", message.Append(nil, msgs[2]))
	}
	seen := map[string]bool{}
	for _, c := range calls {
		if seen[c.CallID] || c.CallID == "" {
			t.Errorf("the id %q is used twice, or is none", c.CallID)
		}
		seen[c.CallID] = true
	}
	for i, want := range []int{1, 0, 2, 3} {
		if r := msgs[3+i].Result(); r.Call != calls[want].Ref || r.CallID != calls[want].CallID || r.Name != calls[want].Name {
			t.Errorf("result %d answers %s, not call %d", i, r.Call, want)
		}
	}
	if msgs[7].Final || !msgs[8].Final || msgs[2].Final {
		t.Error("only the answer that nothing continues ends the turn")
	}
}

func TestHistoryFaults(t *testing.T) {
	for code, fill := range map[string]func(wire.Value, *wire.History){
		wire.CodeStray: func(v wire.Value, h *wire.History) {
			h.Assistant(v, message.Meta{}, asks("x", "a"))
			h.Result(v, "y", "a", &message.ToolResult{})
		},
		wire.CodeUnanswered: func(v wire.Value, h *wire.History) {
			h.Assistant(v, message.Meta{}, asks("x", "a"), asks("y", "a"))
			h.Result(v, "x", "a", &message.ToolResult{Status: message.OK})
			h.Assistant(v, message.Meta{}, words("Done")...)
		},
		wire.CodeHistory: func(v wire.Value, h *wire.History) { h.Assistant(v, message.Meta{}, asks("x", "")) },
	} {
		doc := wire.Document([]byte(`["here"]`))
		h := wire.NewHistory(doc, "vendor", "call_")
		for _, v := range doc.Named("messages").Items() {
			fill(v, h)
		}
		if _, err := h.Done(); !fault.HasCode(err, code) || fault.Of(err).Details["at"] != "messages[0]" {
			t.Errorf("%s: %v", code, err)
		}
	}
	doc := wire.Document([]byte(`[]`))
	h := wire.NewHistory(doc, "vendor", "call_")
	h.Say(doc.Named("messages[7]"), message.User, message.Meta{}, &message.Image{})
	if _, err := h.Done(); !fault.HasCode(err, wire.CodeHistory) || !strings.Contains(err.Error(), "messages[7]") {
		t.Errorf("an image without data: %v", err)
	}
}

// TestUnique: with a vendor that wants ids used once, one that is used in two
// messages is made anew; the same always.
func TestUnique(t *testing.T) {
	read := func(unique bool) (ids []string) {
		doc := wire.Document([]byte(`[]`))
		h := wire.NewHistory(doc, "vendor", "call_")
		h.Unique = unique
		for range 2 {
			h.Assistant(doc, message.Meta{}, asks("x", "a"))
			h.Result(doc, "x", "", &message.ToolResult{Status: message.OK})
		}
		msgs, err := h.Done()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range msgs {
			for _, c := range m.Calls() {
				ids = append(ids, c.CallID)
			}
		}
		return ids
	}
	if ids := read(false); ids[0] != "x" || ids[1] != "x" {
		t.Errorf("ids: %q", ids)
	}
	if a, b := read(true), read(true); a[0] != "x" || a[1] == "x" || a[1] != b[1] {
		t.Errorf("unique ids: %q, %q", a, b)
	}
}

// TestWords: a status that is told in words is read, if the words say it the
// way that ResultText does and agree with the vendor's mark.
func TestWords(t *testing.T) {
	for _, c := range []struct {
		says           string
		failed, marked bool
		status         message.Status
		text           string
	}{
		{"42", false, false, message.OK, "42"},
		{"", false, false, message.OK, ""},
		{"[denied] no", false, false, message.DeniedCall, "no"},
		{"[error]", false, false, message.Failed, ""},
		{"[error] ", false, false, message.OK, "[error] "},
		{"[error]x", false, false, message.OK, "[error]x"},
		{"error] x", false, false, message.OK, "error] x"},
		{"[ok] x", false, false, message.OK, "[ok] x"},
		{"[denied", false, false, message.OK, "[denied"},
		{"[denied] no", false, true, message.OK, "[denied] no"},
		{"[denied] no", true, true, message.DeniedCall, "no"},
		{"[queued] later", false, true, message.Queued, "later"},
		{"[queued] later", true, true, message.Failed, "[queued] later"},
		{"boom", true, true, message.Failed, "boom"},
		{"", true, true, message.Failed, ""},
	} {
		r := &message.ToolResult{Content: words(c.says)}
		wire.Words(r, c.failed, c.marked)
		if r.Status != c.status || r.Text() != c.text {
			t.Errorf("%q (%v, %v): %s %q", c.says, c.failed, c.marked, r.Status, r.Text())
		}
		if !c.failed && c.says != "" && wire.ResultText(r) != c.says {
			t.Errorf("%q is said again as %q", c.says, wire.ResultText(r))
		}
	}
	r := &message.ToolResult{Content: append(words("[error]"), words("x")...)}
	if wire.Words(r, false, false); r.Status != message.OK || len(r.Content) != 2 {
		t.Errorf("two texts: %s", r.Status)
	}
}

func TestImageAt(t *testing.T) {

	if i := wire.ImageAt("data:image/png;base64,AAEC"); i.MIME != "image/png" || len(i.Data) != 3 || i.URL != "" {
		t.Errorf("inline image: %+v", i)
	}
	if i := wire.ImageAt("data:image/png;base64,AAE"); i.Data != nil || i.MIME != "image/*" {
		t.Errorf("an image whose base64 cannot be written again: %+v", i)
	}
	if f := wire.FileAt("https://x.org/a.pdf", "b"); f.MIME != "application/pdf" || f.Name != "b" {
		t.Errorf("file: %+v", f)
	}
	if f := wire.FileAt("data:text/plain;base64,AAEC", "b"); f.MIME != "text/plain" || f.URL != "" {
		t.Errorf("inline file: %+v", f)
	}
	for _, bad := range []string{"data:;base64,AA==", "data:image/png,AA", "https://x"} {
		if _, _, ok := wire.InlineURL(bad); ok {
			t.Errorf("%s is read", bad)
		}
	}
	long := strings.Repeat("é", 150)
	if s := wire.Short(long); len(s) != 200 || !strings.HasPrefix(long, s) || wire.Short("x") != "x" {
		t.Errorf("short: %q", s)
	}
}

func TestArguments(t *testing.T) {
	for args, on := range map[string]string{
		`{"a": 1}`:      `{"a": 1}`,
		``:              `{}`,
		" \n":           `{}`,
		`{`:             `{"bad":"{"}`,
		`[1]`:           `{"bad":"[1]"}`,
		`{"a":1,"a":2}`: `{"bad":"{\"a\":1,\"a\":2}"}`,
	} {
		got := string(wire.AppendArgs(nil, []byte(args), "bad"))
		if got != on {
			t.Errorf("%q is written as %s", args, got)
		}
		if back := string(wire.Args([]byte(got), "bad")); back != args && on != `{}` {
			t.Errorf("%q comes back as %q", args, back)
		}
	}
	for _, own := range []string{`{"bad":1}`, `{"bad":"{}"}`, `{ "bad":"x"}`, `{"bad":"x","b":1}`, `{"bad":""}`, `"bad"`} {
		if got := string(wire.Args([]byte(own), "bad")); got != own {
			t.Errorf("%s is unwrapped to %s", own, got)
		}
	}
}

func TestCallIDs(t *testing.T) {
	c := wire.CallIDs{Prefix: "v-"}
	a, b, again := c.Next("x"), c.Next("", "from"), c.Next("x", "from")
	if a != "x" || !strings.HasPrefix(b, "v-") || !strings.HasSuffix(b, "-1") || again == "x" || again == b || c.Len() != 3 {
		t.Errorf("%q, %q, %q", a, b, again)
	}
	d := wire.CallIDs{Prefix: "v-"}
	if d.Next("x"); d.Next("", "from") != b {
		t.Error("the same call gets another id")
	}
}

// chat is a history with ids.
func chat(msgs ...*message.Message) []*message.Message {
	var prev id.ID
	for i, m := range msgs {
		m.ID, m.Prev = id.Derive("chat", strconv.Itoa(i)), prev
		prev = m.ID
	}
	return msgs
}

// TestFold: what is kept of messages that need not be read again.
func TestFold(t *testing.T) {
	msgs := chat(
		&message.Message{Role: message.User, Blocks: words("a")}, &message.Message{Role: message.System, Blocks: words("b")},
		&message.Message{Role: message.Assistant, Blocks: words("c")}, &message.Message{Role: message.Assistant, Blocks: words("d")},
		&message.Message{Role: message.User, Blocks: words("e")}, &message.Message{Role: message.User, Blocks: words("f")})
	tr := llm.NewTranscript()
	if f, l := wire.Ends(tr); f || l || wire.Newest(tr) != nil {
		t.Error("an empty transcript has ends")
	}
	for i, m := range msgs {
		tr.Append(m)
		first, last := wire.Ends(tr)
		if first || last != (m.Role == message.Assistant) {
			t.Errorf("after %d messages the ends are the model's: %v, %v", i+1, first, last)
		}
		var want []*message.Message
		for _, m := range msgs[:i+1] {
			if want = append(want, m); m.Role == message.Assistant {
				want = nil
			}
		}
		got := wire.Newest(tr)
		if len(got) != len(want) || len(got) > 0 && got[0] != want[0] {
			t.Errorf("after %d messages %d are new, not %d", i+1, len(got), len(want))
		}
	}
	if first, last := wire.Ends(llm.NewTranscript(msgs[2:]...)); !first || last {
		t.Error("the model speaks first here")
	}
	if n := wire.Size([][]byte{[]byte("ab"), nil, []byte("c")}); n != 3 {
		t.Errorf("size %d", n)
	}
}

// plainly encodes and decodes a form of its own: texts, calls and results.
func plainly(t *testing.T, msgs []*message.Message) (*wire.Manifest, []*message.Message) {
	t.Helper()
	var decoded []*message.Message
	_, m, err := wire.EncodeHistory(msgs, func(tr *wire.Trace) llm.GroupEncoder {
		return func(dst []byte, group []*message.Message) ([]byte, error) {
			for _, m := range group {
				c, err := message.Decode(message.Append(nil, m))
				if err != nil {
					return nil, err
				}
				decoded = append(decoded, c)
				for _, b := range m.Blocks {
					switch b := b.(type) {
					case *message.ToolCall:
						tr.Call(b, "bad")
					case *message.ToolResult:
						tr.Result(b, wire.ResultText(b))
						for _, c := range b.Content {
							if _, ok := c.(*message.Text); !ok {
								tr.Media(c, true)
							}
						}
					case *message.Image, *message.File:
						tr.Media(b, true)
					case *message.Text:
						tr.Text(b, len(b.Text), false)
					}
				}
			}
			return append(dst, '0'), nil
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return m, decoded
}

func sample() []*message.Message {
	msgs := chat(
		&message.Message{Role: message.User, Blocks: append(words("Go"), &message.Image{MIME: "image/png", Data: []byte{1}}, &message.File{MIME: "a/b; c", Name: "n", Data: []byte{2}})},
		&message.Message{Role: message.Assistant, Blocks: append(words("I see"), &message.ToolCall{CallID: "1", Name: "a.b", Args: []byte(`{"x":1}`)})},
		&message.Message{Role: message.Tool},
		&message.Message{Role: message.Assistant, Blocks: words("Done")})
	msgs[2].Blocks = []message.Block{&message.ToolResult{Call: message.Ref{Message: msgs[1].ID, Block: 1}, CallID: "1", Name: "a.b",
		Status: message.Failed, Content: append(words("no"), &message.Image{MIME: "image/png", URL: "https://x.org"})}}
	return msgs
}

// TestRestore: all is as it was, also where the manifest was stored.
func TestRestore(t *testing.T) {
	msgs := sample()
	m, decoded := plainly(t, msgs)
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	stored := &wire.Manifest{}
	if err := json.Unmarshal(b, stored); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a manifest can be used again
		out, err := wire.Restore(stored, decoded)
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range msgs {
			if got, want := string(message.Append(nil, out[i])), string(message.Append(nil, m)); got != want {
				t.Errorf("message %d:\n%s\n%s", i, got, want)
			}
		}
	}
	for _, bad := range []string{`{"messages":[{"message":5}]}`, `{"messages":[5]}`} {
		if json.Unmarshal([]byte(bad), stored) == nil {
			t.Errorf("%s is read", bad)
		}
	}
}

// TestMisfits: each way in which a manifest cannot be that of a history.
func TestMisfits(t *testing.T) {
	for name, change := range map[string]func(*wire.Manifest, []*message.Message) []*message.Message{
		"an entry without a message": func(m *wire.Manifest, d []*message.Message) []*message.Message { m.Messages[0].Message = nil; return d },
		"a message less":             func(m *wire.Manifest, d []*message.Message) []*message.Message { return d[:3] },
		"a message more": func(m *wire.Manifest, d []*message.Message) []*message.Message {
			return append(d, &message.Message{Role: message.User, Blocks: words("x")})
		},
		"a longer text": func(m *wire.Manifest, d []*message.Message) []*message.Message {
			d[0].Blocks[0] = &message.Text{Text: "Gone"}
			return d
		},
		"a longer text at the end": func(m *wire.Manifest, d []*message.Message) []*message.Message {
			d[3].Blocks[0] = &message.Text{Text: "Done!"}
			return d
		},
		"a shorter text": func(m *wire.Manifest, d []*message.Message) []*message.Message {
			d[0].Blocks[0] = &message.Text{Text: "G"}
			return d
		},
		"a negative length": func(m *wire.Manifest, d []*message.Message) []*message.Message { m.Wire[0].Len = -1; return d },
		"another kind": func(m *wire.Manifest, d []*message.Message) []*message.Message {
			d[0].Blocks[0] = &message.File{MIME: "a/b"}
			return d
		},
		"another kind of piece": func(m *wire.Manifest, d []*message.Message) []*message.Message { m.Wire[0].Kind = "strange"; return d },
		"a picture that joins":  func(m *wire.Manifest, d []*message.Message) []*message.Message { m.Wire[1].Join = true; return d },
		"no such message":       func(m *wire.Manifest, d []*message.Message) []*message.Message { m.Wire[0].Message = 9; return d },
		"no such block":         func(m *wire.Manifest, d []*message.Message) []*message.Message { m.Wire[0].Block = 9; return d },
		"a block twice":         func(m *wire.Manifest, d []*message.Message) []*message.Message { m.Wire[2].Block = 1; return d },
		"no result":             func(m *wire.Manifest, d []*message.Message) []*message.Message { m.Wire[1].Content = 1; return d },
		"another speaker":       func(m *wire.Manifest, d []*message.Message) []*message.Message { m.Wire[0].Message = 1; return d },
		"text for a call":       func(m *wire.Manifest, d []*message.Message) []*message.Message { m.Wire[3].Block = 1; return d },
		"a picture for a text": func(m *wire.Manifest, d []*message.Message) []*message.Message {
			m.Wire[1].Block = 0
			m.Wire[0].Block = 1
			return d
		},
		"another tool": func(m *wire.Manifest, d []*message.Message) []*message.Message {
			d[1].Blocks[1].(*message.ToolCall).Name = "c"
			return d
		},
		"a result of another tool": func(m *wire.Manifest, d []*message.Message) []*message.Message {
			d[2].Result().Name = "c"
			return d
		},
		"other arguments": func(m *wire.Manifest, d []*message.Message) []*message.Message {
			d[1].Blocks[1].(*message.ToolCall).Args = []byte(`{"x":12}`)
			return d
		},
		"a file under another name": func(m *wire.Manifest, d []*message.Message) []*message.Message {
			m.Wire[0].Kind, m.Wire[0].Block, m.Wire[2].Block = "file", 2, 0
			return d
		},
		"a status that is none": func(m *wire.Manifest, d []*message.Message) []*message.Message {
			m.Messages[2].Message.Blocks[0].(*message.ToolResult).Status = "great"
			return d
		},
		"a broken chain": func(m *wire.Manifest, d []*message.Message) []*message.Message {
			m.Messages[3].Message.Prev = id.New()
			return d
		},
	} {
		m, decoded := plainly(t, sample())
		if _, err := wire.Restore(m, change(m, decoded)); !fault.HasCode(err, wire.CodeMismatch) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEncodeHistoryRefuses(t *testing.T) {
	encode := func(*wire.Trace) llm.GroupEncoder {
		return func(dst []byte, _ []*message.Message) ([]byte, error) {
			return dst, fault.New(fault.Unsupported, "no_form", "there is no form for it")
		}
	}
	partly := sample()[:3]
	partly[1].Blocks = append(partly[1].Blocks, asks("2", "c"))
	broken := sample()
	broken[1].Prev = id.New()
	for code, msgs := range map[string][]*message.Message{
		"message_empty":       chat(&message.Message{Role: message.User}),
		"message_prev_broken": broken,
		wire.CodeUnanswered:   partly,
		"no_form":             sample(),
	} {
		if _, _, err := wire.EncodeHistory(msgs, encode); !fault.HasCode(err, code) {
			t.Errorf("%s: %v", code, err)
		}
	}
	b, m, err := wire.EncodeHistory(nil, encode)
	if string(b) != "[]" || err != nil || len(m.Messages) != 0 {
		t.Errorf("no messages: %s, %v", b, err)
	}
	if out, err := wire.Restore(m, nil); err != nil || len(out) != 0 {
		t.Errorf("nothing comes back as %v, %v", out, err)
	}
}

// TestSharedBlock: one block at two places is restored at both.
func TestSharedBlock(t *testing.T) {
	b := words("again")
	msgs := chat(&message.Message{Role: message.User, Blocks: b}, &message.Message{Role: message.User, Blocks: b})
	m, decoded := plainly(t, msgs)
	out, err := wire.Restore(m, decoded)
	if err != nil || out[0].Text() != "again" || out[1].Text() != "again" {
		t.Errorf("%v, %v", out, err)
	}
}
