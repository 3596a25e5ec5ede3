package websocket

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/server/auth"
	"steward/internal/turn"
)

// Every frame is encoded as one line of JSON that decodes to its content.
func TestFramesAreJSON(t *testing.T) {
	kinds := []turn.FrameKind{turn.FrameUser, turn.FrameToken, turn.FrameReasoning, turn.FrameCall, turn.FrameResult,
		turn.FrameComplete, turn.FrameError, turn.FrameReset, turn.FrameNotice}
	var buf []byte
	rapid.Check(t, func(r *rapid.T) {
		str := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"\"\\\n\u2028<&>", "\x00\x1f", "{\"a\":1}", "", "\xff\xfe"}))
		text := str.Draw(r, "text")
		blocks := []message.Block{&message.Text{Text: text}, &message.Reasoning{Text: text}, &message.Image{MIME: "image/png", Data: []byte(text)}, &message.File{Name: text, URL: text}}
		f := turn.Frame{Kind: rapid.SampledFrom(kinds).Draw(r, "kind"), Conversation: id.ID{1}, Text: text, ClientID: text,
			Cursor: turn.Cursor{Seq: rapid.Uint64().Draw(r, "seq")}}
		if rapid.Bool().Draw(r, "full") {
			f.Message, f.Cursor.Message = id.ID{2}, id.ID{2}
			f.Stored = &message.Message{Blocks: blocks, Model: text, Usage: message.Usage{Input: 1, Reasoning: 2, CacheRead: 3, CacheWrite: 4}}
			f.Call = &turn.CallView{ID: text, Name: text, Args: str.Draw(r, "args"), Approval: &turn.ApprovalView{ID: text},
				Result: &message.ToolResult{Content: blocks, Rest: text}}
			f.Err = fault.New(fault.Invalid, "code", "%s", text).Detail("text", text)
		}
		buf = appendFrame(buf[:0], &f)
		if bytes.ContainsAny(buf, "\n\r") || !utf8.Valid(buf) {
			r.Fatalf("not one line of UTF-8: %q", buf)
		}
		var got map[string]any
		if err := json.Unmarshal(buf, &got); err != nil {
			r.Fatalf("%s: %v", buf, err)
		}
		if got["type"] != string(f.Kind) || got["cursor"] != f.Cursor.String() || got["conversation_id"] != f.Conversation.String() {
			r.Fatalf("got %s", buf)
		}
		if (f.Kind == turn.FrameToken || f.Kind == turn.FrameReasoning) && got["text"] != strings.ToValidUTF8(text, "\ufffd") && utf8.ValidString(text) {
			r.Fatalf("got %s", buf)
		}
		if back, err := turn.ParseCursor(got["cursor"].(string)); f.Cursor.Seq < 1<<63 && (err != nil || back != f.Cursor) {
			r.Fatalf("the cursor is %v, %v", back, err)
		}
	})
}

func TestCallFrames(t *testing.T) {
	f := turn.Frame{Kind: turn.FrameResult, Conversation: id.ID{1}, Call: &turn.CallView{ID: "m/0", Name: "a.b", Status: "ok",
		Result: &message.ToolResult{Rest: "cld:x", Content: []message.Block{&message.Text{Text: "a"}, &message.Reasoning{Text: "no"}, &message.Image{MIME: "image/png", Data: []byte("hi")}}}}}
	for args, want := range map[string]any{"": map[string]any{}, `{"a": [1, 2]}`: map[string]any{"a": []any{1.0, 2.0}}, `{"a":`: `{"a":`, `[1]`: `[1]`, "x": "x"} {
		f.Call.Args = args
		var got map[string]any
		if err := json.Unmarshal(appendFrame(nil, &f), &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got["args"], want) {
			t.Errorf("%q: got %v", args, got["args"])
		}
		if content := []any{map[string]any{"type": "text", "text": "a"}, map[string]any{"type": "image", "mime": "image/png", "data": "aGk="}}; got["result"] != "a" ||
			got["rest"] != "cld:x" || !reflect.DeepEqual(got["content"], content) {
			t.Errorf("got %v", got)
		}
	}
}

// Queued pieces of one text are joined; others are not.
func TestJoin(t *testing.T) {
	tok := func(kind turn.FrameKind, conv, msg byte, block int, text string, end int) item {
		return item{frame: turn.Frame{Kind: kind, Conversation: id.ID{conv}, Message: id.ID{msg}, Block: block, Text: text, Cursor: turn.Cursor{Seq: 1, Offset: end}}}
	}
	tk := turn.FrameToken
	c := &conn{out: make(chan item, maxQueued)}
	for _, it := range []item{
		tok(tk, 1, 1, 0, "b", 2), tok(tk, 1, 1, 0, "c", 3), tok(tk, 1, 1, 1, "d", 4), tok(turn.FrameReasoning, 1, 1, 1, "e", 5),
		tok(turn.FrameReasoning, 1, 1, 1, "f", 6), tok(tk, 2, 1, 1, "g", 7), tok(tk, 2, 2, 1, "h", 8), {raw: []byte("{}")}, {raw: []byte("{}")},
		tok(tk, 1, 1, 0, strings.Repeat("x", maxKept), 9), tok(tk, 1, 1, 0, "y", 10),
	} {
		c.out <- it
	}
	it, more := tok(tk, 1, 1, 0, "a", 1), true
	var got []string
	for more {
		var next item
		next, more = c.join(&it)
		s := string(it.raw) + it.frame.Text
		if len(s) > 10 {
			s = "long"
		}
		got = append(got, s)
		if s == "abc" && it.frame.Cursor.Offset != 3 {
			t.Errorf("the cursor is at %d", it.frame.Cursor.Offset)
		}
		it = next
	}
	if want := []string{"abc", "d", "ef", "g", "h", "{}", "{}", "long", "y"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// counted is a connection that counts its writes, and may fail.
type counted struct {
	net.Conn
	writes [][]byte
	fail   error
}

func (c *counted) Write(p []byte) (int, error) {
	if c.fail != nil {
		return 0, c.fail
	}
	c.writes = append(c.writes, bytes.Clone(p))
	return len(p), nil
}

func (c *counted) SetWriteDeadline(time.Time) error { return nil }

func TestCork(t *testing.T) {
	under := &counted{}
	k := &writeBuffer{Conn: under, timeout: time.Second}
	write := func(s string) {
		t.Helper()
		if n, err := k.Write([]byte(s)); n != len(s) || err != nil {
			t.Fatal(n, err)
		}
	}
	write("a")
	k.hold()
	write("b")
	write("c")
	if len(under.writes) != 1 {
		t.Errorf("%d writes while held", len(under.writes))
	}
	if slow, err := k.flush(); slow || err != nil || len(under.writes) != 2 || string(under.writes[1]) != "bc" {
		t.Errorf("got %q, %v", under.writes, err)
	}
	if _, err := k.flush(); err != nil || len(under.writes) != 2 {
		t.Errorf("nothing was held, and yet %q, %v", under.writes, err)
	}
	write("d")
	k.hold()
	write(strings.Repeat("x", maxHeld))
	write("yz")
	if len(under.writes) != 4 || len(under.writes[3]) != maxHeld {
		t.Errorf("%d writes when much is held", len(under.writes))
	}
	under.fail = errors.New("gone")
	if _, err := k.flush(); !errors.Is(err, under.fail) {
		t.Errorf("got %v", err)
	}
	k.hold()
	write(strings.Repeat("x", maxHeld))
	if _, err := k.Write([]byte("y")); !errors.Is(err, under.fail) {
		t.Errorf("got %v", err)
	}
}

// Whatever a client sends as a message is refused with a code or becomes a valid
// message.
func FuzzMessageFrame(f *testing.F) {
	for _, s := range []string{
		`{"type":"message","content":"hello"}`, `{"type":"message","content":[{"type":"text","text":"a"},{"type":"image","mime":"image/png","data":"aGk="}]}`,
		`{"type":"message","content":[{"type":"image","url":"https://x/y.gif"},{"type":"file","url":"http://x"}],"sampling":{"temperature":1,"stop":["a"]},"steer":true}`,
		`{"type":"message","conversation_id":"00000000-0000-7000-8000-000000000001","message_id":"m","content":"\u0000"}`, `{"content":{}}`,
		`{"conversation_id":"00000000-0000-7000-8000-000000000001","regenerate":"00000000-0000-7000-8000-000000000002"}`,
		`{"conversation_id":"00000000-0000-7000-8000-000000000001","content":"x","replace":"00000000-0000-7000-8000-000000000002"}`, `{"content":[null]}`, "{\"content\":\"\xff\"}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var fr messageFrame
		err := auth.Unmarshal(data, &fr)
		if err == nil {
			turn, terr := fr.turn()
			if err = terr; err == nil {
				m := &message.Message{ID: id.ID{1}, Role: message.User, Blocks: turn.Content}
				if again := !turn.Regenerate.Zero(); again && len(turn.Content) > 0 || again && !turn.Replace.Zero() || turn.Replace.String() != fr.Replace || turn.Regenerate.String() != fr.Regenerate {
					t.Fatalf("%s: %+v", data, turn)
				} else if again {
					m.Blocks = []message.Block{&message.Text{}}
				}
				if err := message.Validate(m); err != nil {
					t.Fatalf("%s: %v", data, err)
				}
				if turn.Conversation.String() != fr.Conversation {
					t.Fatalf("%s: %+v", data, turn)
				}
			}
		}
		if err != nil && (fault.Of(err).Code == "internal" || fault.Of(err).Code == "") {
			t.Fatalf("%s: %v", data, err)
		}
	})
}

// A frame about memory has what a client needs to show a fact, and to undo the change.
func TestFrameAboutMemory(t *testing.T) {
	f := turn.Frame{Kind: turn.FrameMemory, Text: "Remembered: My car is blue (2030-01-02)", Memory: &turn.MemoryView{Did: client.MemorySaved,
		Facts: []client.FactNews{{ID: "f", Text: "My car is blue", Foreign: true, How: client.FactAdded, Change: "c", From: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}}}}
	const want = `{"type":"memory","did":"saved","facts":[{"id":"f","text":"My car is blue","valid_from":"2030-01-02T03:04:05Z","foreign":true,"how":"added","change":"c"}],"text":"Remembered: My car is blue (2030-01-02)","cursor":"0"}`
	if got := string(appendFrame(nil, &f)); got != want {
		t.Errorf("%s", got)
	}
	var back client.Frame
	if err := json.Unmarshal([]byte(want), &back); err != nil || back.Did != client.MemorySaved || len(back.Facts) != 1 || back.Facts[0].Change != "c" || !back.Facts[0].Foreign {
		t.Errorf("%+v, %v", back, err)
	}
}
