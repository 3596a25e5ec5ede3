package providertest

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/tool"
)

// Requests is the part of Suite that is about what is sent: it passes the
// vendor's rules, whatever is asked. It serves to try another dialect or model.
func Requests(t *testing.T, v Vendor) {
	plain := v.script(t, Plain)
	t.Run("settings", func(t *testing.T) {
		for name, r := range settings() {
			t.Run(name, func(t *testing.T) { v.sends(t, plain, r) })
		}
	})
	t.Run("conversations", func(t *testing.T) {
		for _, c := range Conversations() {
			t.Run(c.Name, func(t *testing.T) { v.continues(t, plain, c) })
		}
	})
	t.Run("step by step", func(t *testing.T) { v.stepwise(t, plain) })
	for _, g := range good {
		if e := v.Lacks[g.scenario]; e == "" {
			t.Run("after "+string(g.scenario), func(t *testing.T) { v.goesOn(t, g.scenario, plain) })
		}
	}
	t.Run("models", func(t *testing.T) { v.lists(t) })
}

// settings returns requests that use everything that can be set.
func settings() map[string]*llm.Request {
	zero, warm, hot := 0.0, 0.7, 2.0
	out := map[string]*llm.Request{}
	add := func(name string, set func(*llm.Request)) {
		r := ask("Hello!")
		set(r)
		out[name] = r
	}
	add("none", func(r *llm.Request) { r.System = "" })
	add("sampling", func(r *llm.Request) {
		r.Sampling = llm.Sampling{Temperature: &warm, MaxTokens: 100, Stop: []string{"END", "\n\n"}}
	})
	seed, half, less := int64(7), 0.5, -0.5
	fine := llm.Sampling{TopP: &half, Seed: &seed, FrequencyPenalty: &half, PresencePenalty: &less}
	add("fine sampling", func(r *llm.Request) { r.Sampling = fine })
	add("fine sampling with a temperature", func(r *llm.Request) { r.Sampling = fine.Over(llm.Sampling{Temperature: &warm}) })
	add("fine sampling while thinking", func(r *llm.Request) { r.Sampling = fine.Over(llm.Sampling{Effort: llm.EffortHigh}) })
	add("temperature 0", func(r *llm.Request) { r.Sampling.Temperature = &zero })
	add("temperature 2", func(r *llm.Request) { r.Sampling.Temperature = &hot })
	add("nine stop sequences", func(r *llm.Request) {
		r.Sampling.Stop = []string{"1", "2", "3", "4", "5", "6", "7", "8", "9"}
	})
	add("an empty stop sequence", func(r *llm.Request) { r.Sampling.Stop = []string{"", " "} })
	for _, e := range []llm.Effort{llm.EffortNone, llm.EffortLow, llm.EffortMedium, llm.EffortHigh} {
		add("effort "+string(e), func(r *llm.Request) { r.Sampling.Effort = e })
		add("effort "+string(e)+" with everything else", func(r *llm.Request) {
			r.Sampling = llm.Sampling{Temperature: &warm, MaxTokens: 500, Stop: []string{"END"}, Effort: e}
			r.Tools, r.ToolChoice = Tools(), "required"
		})
	}
	for _, c := range []string{"", "auto", "none", "required", "math.multiply"} {
		add("tool choice "+c, func(r *llm.Request) { r.Tools, r.ToolChoice = Tools(), c })
		add("tool choice without tools "+c, func(r *llm.Request) { r.ToolChoice = c })
	}
	add("no tools in the set", func(r *llm.Request) { r.Tools = llm.NewToolset() })
	add("schema", func(r *llm.Request) { r.Schema = Schema() })
	add("schema and tools", func(r *llm.Request) { r.Schema, r.Tools = Schema(), Tools() })
	add("schema with thinking", func(r *llm.Request) { r.Schema, r.Sampling.Effort = Schema(), llm.EffortHigh })
	add("a loose schema without a name", func(r *llm.Request) {
		r.Schema = &llm.Schema{JSON: []byte(`{"type":"object","properties":{"a":{"type":"string","minLength":2},"b":{"type":"array","items":{"type":"object"}}}}`)}
	})
	add("user", func(r *llm.Request) { r.User = "anna@example.com" })
	return out
}

// sends asks with a request twice: it is accepted, it says the same again, and
// it is not modified.
func (v Vendor) sends(t *testing.T, e *Exchange, r *llm.Request) []byte {
	t.Helper()
	before := fmt.Sprintf("%+v", *r)
	var bodies [][]byte
	for range 2 {
		m := v.New(Options{BaseURL: "http://vendor.test", Key: testKey, HTTP: recording(t, v, e, &bodies)}).Model(v.Model)
		if p := play(context.Background(), t, m, r); p.err != nil {
			t.Fatal(p.err)
		} else if len(p.notices) > len(uniq(p.notices)) {
			t.Errorf("a notice came twice: %q", p.notices)
		}
	}
	if len(bodies) != 2 || !bytes.Equal(bodies[0], bodies[1]) {
		t.Errorf("the same request was sent in different ways:\n%s", bytes.Join(bodies, []byte("\n")))
	}
	if after := fmt.Sprintf("%+v", *r); after != before {
		t.Errorf("the request was modified:\n%s\n%s", before, after)
	}
	return bodies[0]
}

func uniq(in []string) map[string]bool {
	out := map[string]bool{}
	for _, s := range in {
		out[s] = true
	}
	return out
}

// continues: a history is sent with its own provider's metadata and with
// nobody else's.
func (v Vendor) continues(t *testing.T, e *Exchange, c Conversation) {
	for name, r := range map[string]*llm.Request{
		"bare":     {Transcript: llm.NewTranscript(c.Messages...)},
		"equipped": {Transcript: llm.NewTranscript(c.Messages...), System: "Be brief.", Tools: Tools()},
		"thinking": {Transcript: llm.NewTranscript(c.Messages...), Tools: Tools(), Sampling: llm.Sampling{Effort: llm.EffortMedium}},
		// Another agent has it now, which has none of the tools, and a hook's note stands last.
		"taken over": {Transcript: llm.NewTranscript(noted(c.Messages)...), System: "You rhyme.", Tools: otherTools()},
	} {
		t.Run(name, func(t *testing.T) {
			body := v.sends(t, e, r)
			for _, p := range []string{"openai", "anthropic", "gemini"} {
				if p != v.Name && bytes.Contains(body, []byte(Foreign+p)) {
					t.Errorf("%s was sent metadata of %s", v.Name, p)
				}
			}
		})
	}
}

// noted returns messages with a further one of the role user.
func noted(msgs []*message.Message) []*message.Message {
	note := *user("Mind the metre.")
	note.ID, note.Prev = id.New(), msgs[len(msgs)-1].ID
	return append(slices.Clone(msgs), &note)
}

// otherTools is a set that has nothing in common with Tools.
func otherTools() *llm.Toolset {
	return llm.NewToolset(tool.Spec{Name: "rhyme.find", Description: "Finds rhymes.", Effect: tool.Query, Version: "1",
		Input: []byte(`{"type":"object","properties":{"word":{"type":"string"}},"required":["word"]}`)})
}

// stepwise: a conversation that grows is sent as if it had been sent at once,
// and every step of it is accepted.
func (v Vendor) stepwise(t *testing.T, e *Exchange) {
	for _, c := range Conversations() {
		grown := llm.NewTranscript(c.Messages[0])
		for i := 1; i <= len(c.Messages); i++ {
			if sendable(c.Messages[:i]) {
				got := v.sends(t, e, &llm.Request{Transcript: grown, Tools: Tools()})
				want := v.sends(t, e, &llm.Request{Transcript: llm.NewTranscript(c.Messages[:i]...), Tools: Tools()})
				if !bytes.Equal(got, want) {
					t.Errorf("%s, message %d: grown and fresh transcripts differ:\n%s\n%s", c.Name, i, got, want)
				}
			}
			if i < len(c.Messages) {
				grown.Append(c.Messages[i])
			}
		}
	}
}

// sendable reports whether a model would be asked after these messages: the
// last is not its own, and every call has its result.
func sendable(msgs []*message.Message) bool {
	if msgs[len(msgs)-1].Role == message.Assistant {
		return false
	}
	open := 0
	for _, m := range msgs {
		open += len(m.Calls())
		if m.Result() != nil {
			open--
		}
	}
	return open == 0
}

// goesOn: what a scenario's reply said goes back as it came.
func (v Vendor) goesOn(t *testing.T, s Scenario, plain *Exchange) {
	p := v.replay(t, s, script{what: v.script(t, s).raw(true)})
	if p.err != nil {
		t.Fatal(p.err)
	}
	reply := &message.Message{Role: message.Assistant, Blocks: p.reply.Blocks, Stop: p.reply.Stop, Model: p.reply.Model, Meta: p.reply.Meta}
	msgs := []*message.Message{user("Hello!"), reply}
	for _, c := range reply.Calls() {
		msgs = append(msgs, result(c.CallID, c.Name, message.OK, text("42")))
	}
	if len(msgs) == 2 {
		msgs = append(msgs, user("Go on."))
	}
	body := v.sends(t, plain, &llm.Request{Transcript: llm.NewTranscript(linked(msgs)...), Tools: Tools()})
	for _, want := range v.Echo[s] {
		if !strings.Contains(string(body), want) {
			t.Errorf("%q was not sent back:\n%s", want, body)
		}
	}
}

func (v Vendor) lists(t *testing.T) {
	e, err := Load(filepath.Join(v.Dir, string(ModelList)+".http"))
	if err != nil {
		t.Fatal(err)
	}
	infos, err := v.provider(t, script{what: e.raw(true)}.client(), Options{}).Models(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if len(infos) == 0 {
		t.Error("no models")
	}
	for _, i := range infos {
		if i.Name == "" || !bytes.Contains(e.Body, []byte(i.Name)) {
			t.Errorf("%q is not among those listed", i.Name)
		}
	}
}
