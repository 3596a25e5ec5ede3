package provider_test

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/openai"
	"steward/test/apis"
)

func FuzzAnthropic(f *testing.F) { fuzzHistory(f, anthropicOf("claude-opus-4-6"), anthropicSeeds...) }
func FuzzGemini(f *testing.F)    { fuzzHistory(f, geminiOf("gemini-3-flash-preview"), geminiSeeds...) }
func FuzzOllama(f *testing.F)    { fuzzHistory(f, ollamaOf("qwen3:8b"), ollamaSeeds...) }
func FuzzOpenAI(f *testing.F) {
	fuzzHistory(f, openaiOf("gpt-4.1", openai.Compatible), openaiSeeds...)
}
func FuzzResponses(f *testing.F) { fuzzHistory(f, responsesOf("gpt-5.4"), responsesSeeds...) }

// fuzzHistory reads what others write, as it is and as edits of the seeds (see
// garden): it never panics; its errors are coded and name the place; what is
// read can be written, and is read again as it was.
func fuzzHistory(f *testing.F, v vendor, seeds ...string) {
	h := v.codec(f)
	for _, c := range apis.Conversations() {
		if b, err := h.Encode(c.Messages); err == nil {
			seeds = append(seeds, string(b))
		}
	}
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	g := plant(seeds)
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 300 {
		b := make([]byte, 4*(1+n%20))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v.reads(t, h, b)
		v.reads(t, h, g.grow(b))
	})
}

func (v vendor) reads(t *testing.T, h llm.Codec, b []byte) {
	t.Helper()
	if got, err := h.Import(b); err == nil && (!valid(got.Messages) || len(message.Dangling(got.Messages)) > 0) {
		t.Fatalf("what was imported is not valid:\n%s", stored(got.Messages))
	}
	msgs, err := h.Decode(b)
	if err != nil {
		f := fault.Of(err)
		if at, _ := f.Details["at"].(string); !strings.HasPrefix(f.Code, "history_") || at != "" && !strings.Contains(err.Error(), at) {
			t.Fatalf("the code is %q, the place %q: %v", f.Code, at, err)
		}
		return
	}
	if !valid(msgs) {
		t.Fatalf("what was read is not valid:\n%s", stored(msgs))
	}
	if open := message.Dangling(msgs); len(open) > 0 && msgs[len(msgs)-1].Role != message.Assistant {
		return
	}
	v.roundTrip(t, h, msgs, false)
}

// garden are JSON documents of which others are made by edits: the way to
// documents that a blind change of bytes hardly finds.
type garden struct {
	seeds []string
	names []string // every member's name
	all   []any    // every value in them, and some that trip readers up
}

func plant(documents []string) *garden {
	g := &garden{seeds: documents, all: []any{"", " ", nil, true, 0, -1.5e9, "[error] x", "[denied]", "(empty)", "(attached)", "\x00😀",
		"data:image/png;base64,AA==", "data:image/png;x=y;base64,AA", "http://example.com/%zz", "a.b__c d", "__", "{", `{"a":1}`, "application/pdf; x"}}
	for _, s := range documents {
		var v any
		if json.Unmarshal([]byte(s), &v) == nil {
			walk(v, func(any) {}, func(v any, _ func(any)) {
				g.all = append(g.all, v)
				if m, ok := v.(map[string]any); ok {
					g.names = append(g.names, slices.Sorted(maps.Keys(m))...)
				}
			})
		}
	}
	slices.Sort(g.names)
	g.names = slices.Compact(g.names)
	return g
}

// walk visits a value and all inside it, with what sets it to another.
func walk(v any, set func(any), visit func(v any, set func(any))) {
	visit(v, set)
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			walk(v[k], func(x any) { v[k] = x }, visit)
		}
	case []any:
		for i := range v {
			walk(v[i], func(x any) { v[i] = x }, visit)
		}
	}
}

// grow makes a document of a seed by edits of four bytes each: what is done,
// where (two), and with what.
func (g *garden) grow(b []byte) []byte {
	var doc any
	if len(b) == 0 || json.Unmarshal([]byte(g.seeds[int(b[0])%len(g.seeds)]), &doc) != nil {
		return nil
	}
	for edit := range slices.Chunk(b[1:], 4) {
		var places []func()
		if len(edit) < 4 {
			break
		}
		with, name := g.all[int(edit[3])*len(g.all)/256], g.names[int(edit[3])*len(g.names)/256]
		walk(doc, func(x any) { doc = x }, func(v any, set func(any)) {
			places = append(places, func() { set(changed(v, edit[0], name, with)) })
		})
		if len(places) > 4096 {
			break
		}
		places[(int(edit[1])<<8|int(edit[2]))%len(places)]()
		text, err := json.Marshal(doc) // a copy: what was put in is not shared
		if err != nil || json.Unmarshal(text, &doc) != nil {
			return nil
		}
	}
	out, _ := json.Marshal(doc) // it was JSON
	return out
}

// changed is a value with one member or element more or less, or another one.
func changed(v any, how byte, name string, with any) any {
	switch v := v.(type) {
	case map[string]any:
		switch how % 3 {
		case 1:
			v[name] = with
			return v
		case 2:
			delete(v, name)
			return v
		}
	case []any:
		switch {
		case how%3 == 1:
			return append(slices.Clip(v), with)
		case how%3 == 2 && len(v) > 0:
			return v[:len(v)-1]
		}
	}
	return with
}
