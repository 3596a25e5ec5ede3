package llm_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/secret"
)

const canary = "canary-0815"

func knowing(t testing.TB) *secret.Masker {
	t.Helper()
	m := &secret.Masker{}
	if err := m.Add("C", canary); err != nil {
		t.Fatal(err)
	}
	return m
}

// However a model cuts up what it writes, the pieces hold no secret, and
// together they are the message.
func TestWordsComeWithoutSecrets(t *testing.T) {
	hide := knowing(t)
	rapid.Check(t, func(rt *rapid.T) {
		p := &script{name: "box"}
		m := resolve(t, newModels(t, llm.Config{Providers: []llm.Provider{p}, Hide: hide}), "box/a")
		kinds := []llm.Kind{llm.ReasoningDelta, llm.TextDelta, llm.TextDelta}
		texts, events := make([]string, len(kinds)), []llm.Event(nil)
		for i := range texts {
			texts[i] = strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{canary, "canary-", "0815", "can", " ", "ä", "x"}), 0, 6).Draw(rt, "text"), "")
		}
		texts[2] += "." // or the model has answered nothing
		for rest := strings.Split(strings.Join(texts, "\x00"), "\x00"); ; {
			block := rapid.IntRange(0, len(rest)-1).Draw(rt, "block")
			if n := rapid.IntRange(0, len(rest[block])).Draw(rt, "cut"); n > 0 {
				events = append(events, llm.Event{Kind: kinds[block], Block: block, Text: rest[block][:n]})
				rest[block] = rest[block][n:]
			}
			if strings.Join(rest, "") == "" {
				break
			}
		}
		signed := message.Meta{Provider: "box", Fields: []byte(`{"signature":"x"}`)}
		reply := &llm.Reply{Stop: message.StopEnd, Blocks: []message.Block{
			&message.Reasoning{Text: texts[0], Common: message.Common{Meta: signed}}, &message.Text{Text: texts[1]}, &message.Text{Text: texts[2]}}}
		p.steps = []step{{events: append(events, llm.Event{Kind: llm.Done, Reply: reply})}}
		told := make([]string, len(texts))
		for ev, err := range m.Stream(t.Context(), ask()) {
			switch {
			case err != nil:
				rt.Fatal(err)
			case ev.Kind == llm.Done:
				reply = ev.Reply
			default:
				if ev.Text == "" || ev.Kind != kinds[ev.Block] {
					rt.Fatalf("%+v", ev)
				}
				told[ev.Block] += ev.Text
			}
		}
		thought := reply.Blocks[0].(*message.Reasoning)
		for i, is := range []string{thought.Text, reply.Blocks[1].(*message.Text).Text, reply.Blocks[2].(*message.Text).Text} {
			if want := hide.Mask(texts[i]); is != want || told[i] != want {
				rt.Fatalf("%q is told as %q, and is %q", texts[i], told[i], is)
			}
		}
		if (thought.Meta.Provider == "") != (thought.Text != texts[0]) {
			rt.Fatalf("the signature of %q, which is %q: %s", texts[0], thought.Text, thought.Meta.Fields)
		}
	})
}

// A stream that breaks gives what it had kept back, and one that begins anew
// nothing of it.
func TestWordsOfABrokenStream(t *testing.T) {
	p := &script{name: "box", steps: []step{{events: []llm.Event{{Kind: llm.TextDelta, Text: "it is cana"}, {Kind: llm.Reset}, {Kind: llm.TextDelta, Text: "no: canary"}},
		err: fault.New(fault.Unavailable, "stream_broken", "the stream broke")}}}
	m := resolve(t, newModels(t, llm.Config{Providers: []llm.Provider{p}, Hide: knowing(t), Retry: llm.RetryPolicy{Attempts: 1}}), "box/a")
	if g := read(t, t.Context(), m, ask()); g.text != "no: canary" || !fault.HasCode(g.err, "stream_broken") {
		t.Errorf("%+v", g)
	}
	for range m.Stream(t.Context(), ask()) {
		break // who goes away is asked no more
	}
}

// While nothing is known nothing is touched; what becomes known in the midst of
// a message is hidden in what begins after it, and in the message.
func TestWordsWhenASecretBecomesKnown(t *testing.T) {
	hide := &secret.Masker{}
	first := done("it is "+canary, message.Usage{})
	p := &script{name: "box", steps: []step{{events: []llm.Event{{Kind: llm.TextDelta, Text: "it is ca"}, {Kind: llm.TextDelta, Block: 1, Text: "nary-0815"}, first}}}}
	m := resolve(t, newModels(t, llm.Config{Providers: []llm.Provider{p}, Hide: hide}), "box/a")
	if g := read(t, t.Context(), m, ask()); g.text != "it is "+canary {
		t.Errorf("%+v", g)
	}
	p.steps = []step{{events: []llm.Event{{Kind: llm.TextDelta, Text: "it is "}, {Kind: llm.TextDelta, Text: canary}, first}}}
	var told string
	for ev, err := range m.Stream(t.Context(), ask()) {
		if err != nil {
			t.Fatal(err)
		}
		told += ev.Text
		if ev.Text == "it is " {
			if err := hide.Add("C", canary); err != nil {
				t.Fatal(err)
			}
		}
		if ev.Kind == llm.Done && ev.Reply.Blocks[0].(*message.Text).Text != "it is «secret:C»" {
			t.Errorf("%+v", ev.Reply.Blocks)
		}
	}
	if told != "it is «secret:C»" {
		t.Error(told)
	}
}
