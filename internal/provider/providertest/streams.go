package providertest

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"steward/internal/message"
)

// good are the scenarios that end in Done, with what the reply must be.
var good = []struct {
	scenario Scenario
	stop     message.Stop
	blocks   []message.Block // what counts of them; nil: anything
}{
	{Plain, message.StopEnd, blocks(WantText)},
	{Unicode, message.StopEnd, blocks(WantUnicode)},
	{Reasoning, message.StopEnd, blocks(&message.Reasoning{Text: WantReasoning}, WantText)},
	{OneCall, message.StopTools, blocks(WantCalls[0])},
	{Parallel, message.StopTools, blocks(WantCalls[0], WantCalls[1], WantCalls[2])},
	{TextCall, message.StopTools, blocks(WantText, WantCalls[0])},
	{BadArgs, message.StopTools, blocks(Want{"math.multiply", WantBadArgs})},
	{NoArgs, message.StopTools, blocks(Want{"time.now", `{}`})},
	{Structured, message.StopEnd, blocks(WantJSON)},
	{UsageReport, message.StopEnd, blocks(WantText)},
	{Length, message.StopLength, blocks(WantText)},
	{StopSequence, message.StopSequence, blocks(WantText)},
	{Refused, message.StopRefused, nil},
	{Empty, message.StopEnd, []message.Block{}},
}

func blocks(parts ...any) []message.Block {
	var out []message.Block
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			out = append(out, &message.Text{Text: p})
		case Want:
			out = append(out, &message.ToolCall{Name: p.Name, Args: []byte(p.Args)})
		case message.Block:
			out = append(out, p)
		}
	}
	return out
}

func goodStreams(t *testing.T, v Vendor) {
	for _, g := range good {
		t.Run(string(g.scenario), func(t *testing.T) {
			e := v.script(t, g.scenario)
			if e == nil {
				return // the vendor has no form for it: Suite tells why
			}
			whole := v.replay(t, g.scenario, script{what: e.raw(true)})
			if whole.err != nil {
				t.Fatal(whole.err)
			}
			if whole.reply.Stop != g.stop {
				t.Errorf("stop is %q, want %q", whole.reply.Stop, g.stop)
			}
			if want := v.Name + "/" + v.Model; !strings.HasPrefix(whole.reply.Model, v.Name+"/") {
				t.Errorf("model is %q, want something like %q", whole.reply.Model, want)
			}
			if g.blocks != nil {
				compareBlocks(t, whole.reply.Blocks, g.blocks)
			}
			if g.scenario == UsageReport && whole.reply.Usage != v.Usage {
				t.Errorf("usage is %+v, want %+v", whole.reply.Usage, v.Usage)
			}
			v.dripped(t, g.scenario, e, whole)
			v.cut(t, g.scenario, e, whole)
		})
	}
}

func (v Vendor) replay(t *testing.T, s Scenario, sc script) played {
	t.Helper()
	return play(context.Background(), t, v.model(t, sc.client(), Options{}), requestOf(s))
}

// dripped: however the bytes come, the reply is the same.
func (v Vendor) dripped(t *testing.T, s Scenario, e *Exchange, whole played) {
	t.Helper()
	for seed := range uint64(12) {
		sc := script{what: e.raw(seed%2 == 0), piece: pieces(seed)}
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
func (v Vendor) cut(t *testing.T, s Scenario, e *Exchange, whole played) {
	t.Helper()
	for _, chunked := range []bool{true, false} {
		raw := e.raw(chunked)
		for at := range raw {
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

// compareBlocks compares kinds, texts, names and arguments; those as JSON
// where they are JSON.
func compareBlocks(t *testing.T, got, want []message.Block) {
	t.Helper()
	if g, w := tell(got), tell(want); g != w {
		t.Errorf("the blocks are\n%s\nwant\n%s", g, w)
	}
	ids := map[string]bool{}
	for _, b := range got {
		if c, ok := b.(*message.ToolCall); ok {
			if c.CallID == "" || ids[c.CallID] {
				t.Errorf("call id %q is empty or came twice", c.CallID)
			}
			ids[c.CallID] = true
		}
	}
}

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
