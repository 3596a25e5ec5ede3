package wire_test

import (
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

// reading is a codec that reads so.
func reading(read func(*wire.History, wire.Value)) wire.Codec {
	return wire.Codec{Provider: "vendor", Prefix: "call_", Read: read}
}

// TestHistoryLinks: results find their calls by id, by name, and by place.
func TestHistoryLinks(t *testing.T) {
	msgs, err := reading(func(h *wire.History, doc wire.Value) {
		h.Say(doc, message.System, message.Meta{})
		h.Say(doc, message.User, h.Meta([]byte(`"a":1`)), words("Go")...)
		h.Assistant(doc, message.Meta{}, asks("x", "a__b"), asks("", "c"))
		h.Assistant(doc, h.Meta([]byte(`"late":1`)), asks("x", "d"), asks("", "c")) // the same turn, in pieces
		for _, r := range [][2]string{{"", "c"}, {"x", ""}, {"x", "d"}, {"", ""}} {
			h.Result(doc, r[0], r[1], &message.ToolResult{Status: message.OK})
		}
		h.Assistant(doc, message.Meta{}, words("Done")...)
		h.Assistant(doc, message.Meta{}, words("and more")...)
	}).Decode([]byte(`[]`))
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
		c := reading(func(h *wire.History, doc wire.Value) {
			for _, v := range doc.Named("messages").Items() {
				fill(v, h)
			}
		})
		if got, err := c.Import([]byte(`["here"]`)); err != nil || len(got.Messages) == 0 || len(got.Notes)+len(message.Dangling(got.Messages)) == 0 {
			t.Errorf("%s: imported as %v, %v", code, got, err)
		}
		if _, err := c.Decode([]byte(`["here"]`)); !fault.HasCode(err, code) || fault.Of(err).Details["at"] != "messages[0]" {
			t.Errorf("%s: %v", code, err)
		}
	}
	c := reading(func(h *wire.History, doc wire.Value) {
		h.Say(doc.Named("messages[7]"), message.User, message.Meta{}, &message.Image{})
	})
	if _, err := c.Decode([]byte(`[]`)); !fault.HasCode(err, wire.CodeHistory) || !strings.Contains(err.Error(), "messages[7]") {
		t.Errorf("an image without data: %v", err)
	}
}

// TestUnique: with a vendor that wants ids used once, one that is used in two
// messages is made anew; the same always.
func TestUnique(t *testing.T) {
	read := func(unique bool) (ids []string) {
		c := reading(func(h *wire.History, doc wire.Value) {
			for range 2 {
				h.Assistant(doc, message.Meta{}, asks("x", "a"))
				h.Result(doc, "x", "", &message.ToolResult{Status: message.OK})
			}
		})
		c.Unique = unique
		msgs, err := c.Decode([]byte(`[]`))
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

// TestEncodeRefuses: what no vendor has a form for.
func TestEncodeRefuses(t *testing.T) {
	c := wire.Codec{Encoder: func() llm.GroupEncoder {
		return func(dst []byte, _ []*message.Message) ([]byte, error) {
			return dst, fault.New(fault.Unsupported, "no_form", "there is no form for it")
		}
	}}
	sample := func(more ...message.Block) []*message.Message {
		msgs := chat(&message.Message{Role: message.User, Blocks: words("Go")}, &message.Message{Role: message.Assistant},
			&message.Message{Role: message.Tool})
		msgs[1].Blocks = append([]message.Block{asks("1", "a.b")}, more...)
		msgs[2].Blocks = []message.Block{&message.ToolResult{Call: message.Ref{Message: msgs[1].ID}, CallID: "1", Name: "a.b", Status: message.OK}}
		return msgs
	}
	twice := sample()
	twice[2].ID = twice[0].ID
	for code, msgs := range map[string][]*message.Message{
		"message_empty":       chat(&message.Message{Role: message.User}),
		"message_id_repeated": twice,
		wire.CodeUnanswered:   sample(asks("2", "c")),
		"no_form":             sample(),
	} {
		if _, err := c.Encode(msgs); !fault.HasCode(err, code) {
			t.Errorf("%s: %v", code, err)
		}
	}
	if b, err := c.Encode(nil); string(b) != "[]" || err != nil {
		t.Errorf("no messages: %s, %v", b, err)
	}
}

// TestImport: what does not fit is kept, and said.
func TestImport(t *testing.T) {
	got, err := reading(func(h *wire.History, doc wire.Value) {
		h.Stranger(doc, "narrator", message.Meta{}, words("Once")...)
		h.Say(doc, message.User, message.Meta{}, append(words(" "), &message.Reasoning{Text: "Hm"}, asks("1", "a"), &message.Image{})...)
		h.Say(doc, message.User, message.Meta{}, words(" ")...)
		h.Assistant(doc, h.Meta([]byte(`"a":1,"a":2`)), asks("1", ""), asks("2", "b"))
		h.Result(doc, "9", "", &message.ToolResult{Status: message.OK, Content: words("stray")})
	}).Import([]byte(`[]`))
	if err != nil || message.CheckHistory(got.Messages) != nil {
		t.Fatal(err)
	}
	var said []string
	for _, m := range got.Messages {
		said = append(said, string(m.Role))
		for _, b := range append(m.Blocks, content(m)...) {
			if x, ok := b.(*message.Text); ok {
				said = append(said, x.Text, x.Labels.String())
			}
		}
	}
	want := "user Once  user Hm untrusted [call of a]\n untrusted [a picture that is not in the export] untrusted assistant tool The export holds no result of this call. untrusted" +
		" tool The export holds no result of this call. untrusted user [result of a tool]\n untrusted stray "
	if g := strings.Join(said, " "); g != want {
		t.Errorf("%q\nwant\n%q", g, want)
	}
	if !got.Nobodys[got.Messages[0]] || got.Nobodys[got.Messages[1]] || !got.Nobodys[got.Messages[5]] {
		t.Errorf("nobody's: %v", got.Nobodys)
	}
	if f := string(got.Messages[2].Meta.Fields); f != `{"a":1}` {
		t.Errorf("metadata: %s", f)
	}
	if len(got.Notes) != 6 {
		t.Errorf("notes: %q", got.Notes)
	}
}

func content(m *message.Message) []message.Block {
	if r := m.Result(); r != nil {
		return r.Content
	}
	return nil
}
