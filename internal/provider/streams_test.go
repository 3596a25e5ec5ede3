package provider_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/test/apis"
)

// What the scripts say.
const (
	wantText      = "Hello! How can I help you today?"
	wantUnicode   = "Grüße, 世界! Привет 👩‍👩‍👧‍👦 नमस्ते \"quoted\" \\ back\nnew line\u2028end"
	wantReasoning = "The user greets me. I greet back."
	wantJSON      = `{"city":"Paris","population":2102650}`
)

// The calls that the scripts make, under tool.WireName's names, as tell says them.
const (
	wantMultiply = `call math.multiply {"a":6,"b":7}` + "\n"
	wantNow      = `call time.now {"zone":"Europe/Berlin"}` + "\n"
	wantHash     = `call text.hash {"algorithm":"sha256","text":"héllo \"wörld\""}` + "\n"
)

// ask returns a request with one user message.
func ask(text string) *llm.Request {
	return &llm.Request{
		System: "You are a helpful assistant.",
		Transcript: llm.NewTranscript(&message.Message{
			Role: message.User, Blocks: []message.Block{&message.Text{Text: text}},
		}),
	}
}

// requestOf returns the request of a scenario.
func requestOf(s string) *llm.Request {
	r := ask("Hello!")
	switch s {
	case "call", "parallel", "text_call", "bad_args", "no_args":
		r.Tools = apis.Tools()
	case "structured":
		r.Schema = apis.Schema()
	case "stop_sequence":
		r.Sampling.Stop = []string{"###"}
	case "length":
		r.Sampling.MaxTokens = 16
	}
	return r
}

// good are the scenarios that end in Done, with what the reply must be.
func good() map[string]struct {
	stop message.Stop
	says string // as tell says it; "*": anything
} {
	text := fmt.Sprintf("text %q\n", wantText)
	return map[string]struct {
		stop message.Stop
		says string
	}{
		"text":          {message.StopEnd, text},
		"unicode":       {message.StopEnd, fmt.Sprintf("text %q\n", wantUnicode)},
		"reasoning":     {message.StopEnd, fmt.Sprintf("reasoning %q\n", wantReasoning) + text},
		"call":          {message.StopTools, wantMultiply},
		"parallel":      {message.StopTools, wantMultiply + wantNow + wantHash},
		"text_call":     {message.StopTools, text + wantMultiply},
		"bad_args":      {message.StopTools, "call math.multiply " + apis.WantBadArgs + "\n"},
		"no_args":       {message.StopTools, "call time.now {}\n"}, // sent as "" or {}
		"structured":    {message.StopEnd, fmt.Sprintf("text %q\n", wantJSON)},
		"usage":         {message.StopEnd, text},
		"length":        {message.StopLength, text},
		"stop_sequence": {message.StopSequence, text},
		"refused":       {message.StopRefused, "*"},
		"empty":         {message.StopEnd, ""},
	}
}

// TestGoodStreams: whatever the vendor's answer says is in the reply, however
// its bytes come; and wherever they are cut, half a reply is an error.
func TestGoodStreams(t *testing.T) {
	each(t, providers(), func(t *testing.T, v vendor) {
		for scenario, want := range good() {
			e := v.script(t, scenario)
			if e == nil {
				continue
			}
			t.Run(scenario, func(t *testing.T) {
				whole := v.replay(t, scenario, script{what: e.Raw(true)})
				if whole.err != nil {
					t.Fatal(whole.err)
				}
				r := whole.reply
				if got := tell(r.Blocks); r.Stop != want.stop || got != want.says && want.says != "*" {
					t.Errorf("stop is %q, want %q; the blocks are\n%s\nwant\n%s", r.Stop, want.stop, got, want.says)
				}
				ids := map[string]bool{"": true}
				for _, c := range (&message.Message{Blocks: r.Blocks}).Calls() {
					if ids[c.CallID] {
						t.Errorf("call id %q is empty or came twice", c.CallID)
					}
					ids[c.CallID] = true
				}
				if !strings.HasPrefix(r.Model, v.name+"/") {
					t.Errorf("model is %q", r.Model)
				}
				if scenario == "usage" && r.Usage != v.usage {
					t.Errorf("usage is %+v, want %+v", r.Usage, v.usage)
				}
				v.dripped(t, scenario, e, whole)
				v.cut(t, scenario, e, whole)
			})
		}
	})
}

func (v vendor) replay(t *testing.T, s string, sc script) played {
	t.Helper()
	return play(context.Background(), t, v.provider(t, options{http: sc.client()}).Model(v.model), requestOf(s))
}

// dripped: however the bytes come, the reply is the same.
func (v vendor) dripped(t *testing.T, s string, e *apis.Exchange, whole played) {
	t.Helper()
	for seed := range uint64(4) {
		sc := script{what: e.Raw(seed%2 == 0), piece: pieces(seed)}
		if seed < 2 {
			sc.piece = func() int { return 1 }
		}
		p := v.replay(t, s, sc)
		if p.err != nil || !sameReply(p, whole) {
			t.Fatalf("in random pieces (seed %d): %s, %v\nwhole: %s", seed, dump(p), p.err, dump(whole))
		}
	}
}

// cut: wherever the connection is closed, there is an error, or nothing of the
// answer was missing.
func (v vendor) cut(t *testing.T, s string, e *apis.Exchange, whole played) {
	t.Helper()
	for _, chunked := range []bool{true, false} {
		raw := e.Raw(chunked)
		for at := 0; at < len(raw); at += cutEvery {
			p := v.replay(t, s, script{what: raw[:at]})
			if p.err != nil {
				continue
			}
			if p.reply.Usage == (message.Usage{}) { // it may come after the end of the text
				p.reply.Usage = whole.reply.Usage
			}
			if !sameReply(p, whole) {
				t.Fatalf("cut at byte %d (chunked: %v): Done with %s\nwhole: %s\n…%s", at, chunked, dump(p), dump(whole), raw[max(0, at-80):at])
			}
		}
	}
}

// sameReply compares replies. Call ids that the client made up may differ.
func sameReply(a, b played) bool {
	if len(a.reply.Blocks) != len(b.reply.Blocks) {
		return false
	}
	x, y := *a.reply, *b.reply
	x.Blocks, y.Blocks = withoutIDs(x.Blocks), withoutIDs(y.Blocks)
	return reflect.DeepEqual(x, y)
}

func withoutIDs(in []message.Block) []message.Block {
	out := make([]message.Block, len(in))
	for i, b := range in {
		if c, ok := b.(*message.ToolCall); ok {
			cc := *c
			cc.CallID = ""
			b = &cc
		}
		out[i] = b
	}
	return out
}

// tell says what blocks are; arguments as JSON where they are JSON.
func tell(list []message.Block) string {
	var s strings.Builder
	for _, b := range list {
		switch b := b.(type) {
		case *message.Text:
			fmt.Fprintf(&s, "text %q\n", b.Text)
		case *message.Reasoning:
			fmt.Fprintf(&s, "reasoning %q\n", b.Text)
		case *message.ToolCall:
			fmt.Fprintf(&s, "call %s %s\n", b.Name, canonical(b.Args))
		default:
			fmt.Fprintf(&s, "%T\n", b)
		}
	}
	return s.String()
}

func canonical(raw []byte) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return string(raw)
	}
	return string(b)
}

func dump(p played) string {
	if p.reply == nil {
		return "no reply"
	}
	return fmt.Sprintf("%s stop %q usage %+v meta %q", tell(p.reply.Blocks), p.reply.Stop, p.reply.Usage, p.reply.Meta.Fields)
}
