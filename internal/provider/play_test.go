package provider_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
)

// played is what a stream came to.
type played struct {
	reply   *llm.Reply
	err     error
	notices []string
	text    string // all text deltas
}

// play reads a stream to its end and holds it against the contract of
// llm.Model: what order events may have, and that they add up to the reply.
func play(ctx context.Context, t testing.TB, m llm.Model, r *llm.Request) played {
	t.Helper()
	var p played
	var w written
	over := false
	for ev, err := range m.Stream(ctx, r) {
		if over {
			t.Errorf("something came after the end: %+v, %v", ev, err)
		}
		if err != nil {
			if ev != (llm.Event{}) {
				t.Errorf("an error came with an event: %+v", ev)
			}
			p.err, over = err, true
			continue
		}
		switch ev.Kind {
		case llm.Done:
			p.reply, over = ev.Reply, true
		case llm.Notice:
			p.notices = append(p.notices, ev.Text)
		default:
			w.add(t, ev)
		}
	}
	if !over {
		t.Error("the stream ended with neither Done nor an error")
	}
	p.text = w.all.String()
	if p.reply != nil {
		w.compare(t, p.reply)
	}
	if p.err != nil {
		checkError(t, p.err)
	}
	return p
}

// written are the blocks as the events tell them.
type written struct {
	blocks []*shown
	all    strings.Builder
}

type shown struct {
	kind      llm.Kind
	name, id  string
	text      strings.Builder
	announced bool
}

func (w *written) add(t testing.TB, ev llm.Event) {
	t.Helper()
	for len(w.blocks) < ev.Block { // reasoning without text, which the reply alone has
		w.blocks = append(w.blocks, &shown{kind: llm.ReasoningDelta})
	}
	if ev.Block == len(w.blocks) {
		w.blocks = append(w.blocks, &shown{kind: ev.Kind})
		if ev.Kind == llm.CallStart {
			w.blocks[ev.Block].kind = llm.CallArgs
		}
	}
	b := w.blocks[ev.Block]
	switch ev.Kind {
	case llm.CallStart:
		if b.announced || b.kind != llm.CallArgs {
			t.Errorf("block %d begins a call twice or is none", ev.Block)
		}
		b.announced, b.name, b.id = true, ev.Name, ev.CallID
	case llm.CallArgs:
		if !b.announced {
			t.Errorf("arguments came before their call, at block %d", ev.Block)
		}
		fallthrough
	case llm.TextDelta, llm.ReasoningDelta:
		if b.kind != ev.Kind {
			t.Errorf("block %d changes its kind", ev.Block)
		}
		if ev.Text == "" {
			t.Errorf("an empty delta at block %d", ev.Block)
		}
		b.text.WriteString(ev.Text)
		if ev.Kind == llm.TextDelta {
			w.all.WriteString(ev.Text)
		}
	default:
		t.Errorf("an event of no known kind: %+v", ev)
	}
}

// compare holds the events against the reply. Reasoning without any text may
// be in the reply alone.
func (w *written) compare(t testing.TB, r *llm.Reply) {
	t.Helper()
	if len(w.blocks) > len(r.Blocks) {
		t.Fatalf("the events told of %d blocks, the reply has %d", len(w.blocks), len(r.Blocks))
	}
	for i, block := range r.Blocks {
		s := &shown{}
		if i < len(w.blocks) {
			s = w.blocks[i]
		}
		switch b := block.(type) {
		case *message.Text:
			same(t, i, s, llm.TextDelta, b.Text)
		case *message.Reasoning:
			if b.Text != "" || s.text.Len() > 0 {
				same(t, i, s, llm.ReasoningDelta, b.Text)
			}
		case *message.ToolCall:
			same(t, i, s, llm.CallArgs, string(b.Args))
			if s.name != b.Name || s.id != b.CallID {
				t.Errorf("block %d: the events named %q %q, the reply %q %q", i, s.name, s.id, b.Name, b.CallID)
			}
		default:
			t.Errorf("block %d is a %T", i, block)
		}
	}
}

func same(t testing.TB, i int, s *shown, kind llm.Kind, text string) {
	t.Helper()
	if s.kind != kind || s.text.String() != text {
		t.Errorf("block %d: the events said %q (kind %d), the reply %q (kind %d)", i, s.text.String(), s.kind, text, kind)
	}
}

// codes are all codes that llm.Model allows.
var codes = map[string]fault.Kind{
	"auth_failed": fault.Unauthentic, "rate_limited": fault.RateLimited, "overloaded": fault.Unavailable,
	"provider_error": fault.Unavailable, "request_refused": fault.Invalid, "context_too_long": fault.TooLarge,
	"model_not_found": fault.NotFound, "tools_unsupported": fault.Unsupported,
	"images_unsupported": fault.Unsupported, "schema_unsupported": fault.Unsupported,
	"first_byte_timeout": fault.Timeout, "idle_timeout": fault.Timeout, "stream_broken": fault.Unavailable,
	"unreachable": fault.Unavailable, "cancelled": fault.Cancelled, "deadline_exceeded": fault.Timeout,
}

// checkError holds an error against the contract: coded, and without secrets,
// however it is printed.
func checkError(t testing.TB, err error) {
	t.Helper()
	f := fault.Of(err)
	if kind, ok := codes[f.Code]; !ok || kind != f.Kind {
		t.Errorf("the error's kind and code are %q, %q: %v", f.Kind, f.Code, err)
	}
	for e := err; e != nil; {
		for _, s := range []string{e.Error(), fmt.Sprintf("%+v", e)} {
			if strings.Contains(s, testKey) {
				t.Errorf("an error shows the key: %s", s)
			}
		}
		u, ok := e.(interface{ Unwrap() error })
		if !ok {
			break
		}
		e = u.Unwrap()
	}
}
