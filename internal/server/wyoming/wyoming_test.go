package wyoming_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/server/auth"
	"steward/internal/server/wyoming"
	"steward/internal/turn"
)

// The exchanges are those of https://github.com/OHF-Voice/wyoming (README.md, "Event Flow"), in the form in which its
// client writes them, and what Home Assistant sends (homeassistant/components/wyoming/conversation.py).

// node is a node whose turns end with given frames.
type node struct {
	frames func(in turn.Input) []turn.Frame
	hang   bool // a turn does not end

	mu      sync.Mutex
	turns   []turn.Input
	deleted map[id.ID]bool
}

func (n *node) Send(_ context.Context, user string, t turn.Input) (turn.Accepted, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.deleted[t.Conversation] {
		return turn.Accepted{}, fault.New(fault.NotFound, "conversation_not_found", "there is no such conversation")
	}
	if user != "ana" {
		return turn.Accepted{}, fault.New(fault.Denied, "wrong_user", "%s has sent it", user)
	}
	n.turns = append(n.turns, t)
	if t.Conversation.Zero() {
		t.Conversation = id.New()
	}
	return turn.Accepted{Conversation: t.Conversation, Interaction: id.Derive("turn", fmt.Sprint(len(n.turns))), Seq: uint64(len(n.turns))}, nil
}

func (n *node) Watch(ctx context.Context, _ string, _ id.ID, from turn.Cursor) iter.Seq2[turn.Frame, error] {
	return func(yield func(turn.Frame, error) bool) {
		n.mu.Lock()
		in := n.turns[from.Seq-1]
		n.mu.Unlock()
		for _, f := range n.frames(in) {
			f.Interaction = id.Derive("turn", fmt.Sprint(from.Seq))
			if !yield(f, nil) {
				return
			}
		}
		if n.hang {
			<-ctx.Done()
		}
	}
}

func says(text string) func(turn.Input) []turn.Frame {
	return func(turn.Input) []turn.Frame {
		return []turn.Frame{{Kind: turn.FrameToken, Text: "no"}, {Kind: turn.FrameComplete, Stored: &message.Message{Role: message.Assistant, Blocks: []message.Block{&message.Text{Text: text}}}}}
	}
}

// serve runs the server on a socket as Steward does, for the user ana.
func serve(t *testing.T, n *node, o wyoming.Options) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	allowed, err := auth.ParsePeers([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	guard := auth.New(auth.Options{})
	o.Node, o.Version = n, "1.2.3"
	o.Enter = func(ctx context.Context) (auth.Caller, func(), error) { return guard.EnterAs(ctx, "ana") }
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	s := wyoming.New(o)
	go func() {
		ended <- s.Serve(ctx, auth.Peers{Allowed: allowed, Log: slog.New(slog.DiscardHandler)}.Listen(ln))
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

type client struct {
	t  *testing.T
	c  net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, at string) *client {
	t.Helper()
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(30 * time.Second))
	return &client{t, c, bufio.NewReader(c)}
}

// write sends an event as the reference implementation does: the data after the line.
func (c *client) write(kind, data, payload string) {
	c.t.Helper()
	line := `{"type": "` + kind + `", "version": "1.7.2"`
	if data != "" {
		line += fmt.Sprintf(`, "data_length": %d`, len(data))
	}
	if payload != "" {
		line += fmt.Sprintf(`, "payload_length": %d`, len(payload))
	}
	if _, err := io.WriteString(c.c, line+"}\n"+data+payload); err != nil {
		c.t.Fatal(err)
	}
}

// read reads an event strictly.
func (c *client) read() (kind string, data map[string]any) {
	c.t.Helper()
	line, err := c.in.ReadBytes('\n')
	if err != nil {
		c.t.Fatalf("%q: %v", line, err)
	}
	var h struct {
		Type    string `json:"type"`
		Version string `json:"version"`
		Length  int    `json:"data_length"`
	}
	d := json.NewDecoder(strings.NewReader(string(line)))
	d.DisallowUnknownFields()
	if err := d.Decode(&h); err != nil || h.Type == "" || h.Version == "" {
		c.t.Fatalf("%q: %v", line, err)
	}
	b := make([]byte, h.Length)
	if _, err := io.ReadFull(c.in, b); err != nil {
		c.t.Fatal(err)
	}
	if h.Length > 0 {
		if err := json.Unmarshal(b, &data); err != nil {
			c.t.Fatal(err)
		}
	}
	return h.Type, data
}

// quiet checks that nothing more arrives before the answer to a ping.
func (c *client) quiet() {
	c.t.Helper()
	c.write("ping", `{"text":"x"}`, "")
	if kind, data := c.read(); kind != "pong" || data["text"] != "x" {
		c.t.Errorf("got %s %v", kind, data)
	}
}

func TestDescribe(t *testing.T) {
	c := dial(t, serve(t, &node{}, wyoming.Options{Agent: "home/voice"}))
	c.write("describe", "", "")
	kind, data := c.read()
	model := map[string]any{"name": "home/voice", "attribution": map[string]any{"name": "Steward", "url": ""}, "installed": true,
		"description": "Agents of Steward", "version": "1.2.3", "languages": []any{}}
	program := map[string]any{"name": "steward", "attribution": map[string]any{"name": "Steward", "url": ""}, "installed": true,
		"description": "Agents of Steward", "version": "1.2.3", "models": []any{model}, "supports_handled_streaming": false, "supports_home_control": false}
	none := []any{}
	want := map[string]any{"handle": []any{program}, "asr": none, "tts": none, "intent": none, "wake": none, "mic": none, "snd": none}
	if kind != "info" || !reflect.DeepEqual(data, want) {
		t.Errorf("got %s %v\nwant %v", kind, data, want)
	}
	c.quiet()
}

// transcript is what Home Assistant sends, which makes a new connection and a new conversation id for each sentence.
func transcript(text, conversation, device string) string {
	return fmt.Sprintf(`{"text": %q, "language": "en", "context": {"conversation_id": %q, "device_id": %q, "satellite_id": "assist_satellite.x"}}`, text, conversation, device)
}

func TestTranscript(t *testing.T) {
	n := &node{frames: says("**It is on.** See [the lamp](http://lamp/).")}
	at := serve(t, n, wyoming.Options{Agent: "lights", Model: "fast"})
	for i, device := range []string{"kitchen", "kitchen", "hall", "kitchen"} {
		if i == 3 {
			n.deleted = map[id.ID]bool{n.turns[1].Conversation: true}
		}
		c := dial(t, at)
		c.write("transcript", transcript("lamp on", fmt.Sprint("conv", i), device), "")
		kind, data := c.read()
		want := map[string]any{"text": "It is on. See the lamp.", "context": map[string]any{"conversation_id": fmt.Sprint("conv", i), "device_id": device, "satellite_id": "assist_satellite.x"}}
		if kind != "handled" || !reflect.DeepEqual(data, want) {
			t.Errorf("got %s %v", kind, data)
		}
		c.quiet()
	}
	var known []bool
	for _, in := range n.turns {
		known = append(known, !in.Conversation.Zero())
		if in.Attended || !in.Spoken || in.Agent != "lights" || in.Model != "fast" || in.Steer {
			t.Errorf("the turn is %+v", in)
		}
	}
	if !reflect.DeepEqual(known, []bool{false, true, false, false}) {
		t.Errorf("conversations continued: %v", known)
	}
	if m := n.turns[0].Metadata; m["device"] != "device_id:kitchen" || m["channel"] != "wyoming" {
		t.Errorf("metadata %v", m)
	}
}

// Each form in which an event can arrive: data in the line, after it, in both, with a payload, and in a stream.
func TestForms(t *testing.T) {
	n := &node{frames: says("ok")}
	c := dial(t, serve(t, n, wyoming.Options{}))
	io.WriteString(c.c, `{"type":"transcript","data":{"text":"a"}}`+"\n")
	io.WriteString(c.c, `{"type":"transcript","data":{"text":"no","language":"de"},"data_length":12}`+"\n"+`{"text":"b"}`)
	c.write("audio-chunk", `{"rate":16000,"width":2,"channels":1}`, strings.Repeat("\n", 3200))
	c.write("transcript-start", `{"language":"en"}`, "")
	c.write("transcript-chunk", `{"text":"c"}`, "")
	c.write("transcript", `{"text":"c"}`, "")
	c.write("transcript-stop", "", "")
	for range 3 {
		if kind, data := c.read(); kind != "handled" || data["text"] != "ok" || len(data) != 1 {
			t.Errorf("got %s %v", kind, data)
		}
	}
	c.quiet()
	c.write("recognize", `{"text":"a"}`, "")
	if kind, _ := c.read(); kind != "not-recognized" {
		t.Errorf("got %s", kind)
	}
	for i, want := range []string{"a", "b", "c"} {
		if got := n.turns[i].Content[0].(*message.Text).Text; got != want {
			t.Errorf("said %q, want %q", got, want)
		}
	}
}

func TestNotHandled(t *testing.T) {
	frame := func(f turn.Frame) func(turn.Input) []turn.Frame {
		return func(turn.Input) []turn.Frame { return []turn.Frame{f} }
	}
	for name, c := range map[string]struct {
		n          *node
		say        string
		kind, text string
	}{
		"nothing":  {&node{}, " ", "not-handled", "hear"},
		"too long": {&node{}, strings.Repeat("x", 5000), "not-handled", "too long"},
		"approval": {&node{frames: frame(turn.Frame{Kind: turn.FrameCall, Call: &turn.CallView{Status: turn.CallAwaiting}}), hang: true}, "unlock the door", "not-handled", "approval"},
		"slow":     {&node{frames: frame(turn.Frame{Kind: turn.FrameToken, Text: "x"}), hang: true}, "think", "not-handled", "still working"},
		"empty":    {&node{frames: says("```\ncode\n```")}, "x", "not-handled", "no answer"},
		"failed":   {&node{frames: frame(turn.Frame{Kind: turn.FrameError, Err: fault.New(fault.Unavailable, "overloaded", "the model is overloaded")})}, "x", "error", "overloaded"},
	} {
		t.Run(name, func(t *testing.T) {
			x := dial(t, serve(t, c.n, wyoming.Options{Timeout: 200 * time.Millisecond}))
			x.write("transcript", transcript(c.say, "c", "d"), "")
			if kind, data := x.read(); kind != c.kind || !strings.Contains(data["text"].(string), c.text) {
				t.Errorf("got %s %v", kind, data)
			}
			x.quiet()
		})
	}
}

// What cannot be read is answered with an error, and the connection ends.
func TestBroken(t *testing.T) {
	at := serve(t, &node{}, wyoming.Options{})
	for _, raw := range []string{"hello\n", "{}\n", `{"type":"ping","data_length":-1}` + "\n", `{"type":"ping","data_length":99999999}` + "\n",
		`{"type":"ping","payload_length":99999999}` + "\n", `{"type":"ping","data_length":3}` + "\n[1]", `{"type":"` + strings.Repeat("x", 70_000) + `"}` + "\n"} {
		c := dial(t, at)
		io.WriteString(c.c, raw)
		if kind, data := c.read(); kind != "error" || data["text"] == "" || data["code"] == "" {
			t.Errorf("%.40s: got %s %v", raw, kind, data)
		}
		io.Copy(io.Discard, c.in) // the end
	}
	dial(t, at).quiet()
}

// A client that sends more than it may reads the error, although it has sent more than was read.
func TestTooMuch(t *testing.T) {
	at := serve(t, &node{}, wyoming.Options{})
	for range 20 {
		c := dial(t, at)
		if _, err := io.WriteString(c.c, strings.Repeat("x", 1<<20)+"\n"); err != nil {
			t.Fatal(err)
		}
		if kind, data := c.read(); kind != "error" || data["code"] != "too_large" {
			t.Errorf("got %s %v", kind, data)
		}
		if n, err := io.Copy(io.Discard, c.in); n != 0 || err != nil {
			t.Error(n, err)
		}
	}
}
