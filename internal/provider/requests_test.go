package provider_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/test/apis"
)

// TestRequests: what is sent passes the vendor's rules, whatever is asked.
func TestRequests(t *testing.T) {
	each(t, append(providers(), generations()...), func(t *testing.T, v vendor) {
		plain := v.script(t, "text")
		for name, r := range settings() {
			if r.Schema != nil && v.lacks["structured"] != "" {
				continue
			}
			t.Run(name, func(t *testing.T) { v.sends(t, plain, r) })
		}
		for _, c := range apis.Conversations() {
			t.Run(c.Name, func(t *testing.T) { v.continues(t, plain, c) })
		}
		t.Run("step by step", func(t *testing.T) { v.stepwise(t, plain) })
		for scenario := range good() {
			if v.lacks[scenario] == "" {
				t.Run("after "+scenario, func(t *testing.T) { v.goesOn(t, scenario, plain) })
			}
		}
	})
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
			r.Tools, r.ToolChoice = apis.Tools(), "required"
		})
	}
	for _, c := range []string{"", "auto", "none", "required", "math.multiply"} {
		add("tool choice "+c, func(r *llm.Request) { r.Tools, r.ToolChoice = apis.Tools(), c })
		add("tool choice without tools "+c, func(r *llm.Request) { r.ToolChoice = c })
	}
	add("no tools in the set", func(r *llm.Request) { r.Tools = llm.NewToolset() })
	add("schema", func(r *llm.Request) { r.Schema = apis.Schema() })
	add("schema and tools", func(r *llm.Request) { r.Schema, r.Tools = apis.Schema(), apis.Tools() })
	add("schema with thinking", func(r *llm.Request) { r.Schema, r.Sampling.Effort = apis.Schema(), llm.EffortHigh })
	add("a loose schema without a name", func(r *llm.Request) {
		r.Schema = &llm.Schema{JSON: []byte(`{"type":"object","properties":{"a":{"type":"string","minLength":2},"b":{"type":"array","items":{"type":"object"}}}}`)}
	})
	add("user", func(r *llm.Request) { r.User = "anna@example.com" })
	return out
}

// sends asks with a request twice: it is accepted, it says the same again, and
// it is not modified.
func (v vendor) sends(t *testing.T, e *apis.Exchange, r *llm.Request) []byte {
	t.Helper()
	before := fmt.Sprintf("%+v", *r)
	rec := &asking{t: t, v: v, next: script{what: e.Raw(true)}.client().Transport}
	m := v.open(options{base: "http://vendor.test", http: &http.Client{Transport: rec}}).Model(v.model)
	for range 2 {
		if p := play(context.Background(), t, m, r); p.err != nil {
			t.Fatal(p.err)
		} else if len(slices.Compact(slices.Sorted(slices.Values(p.notices)))) < len(p.notices) {
			t.Errorf("a notice came twice: %q", p.notices)
		}
	}
	bodies := rec.bodies
	if len(bodies) != 2 || !bytes.Equal(bodies[0], bodies[1]) {
		t.Errorf("the same request was sent in different ways:\n%s", bytes.Join(bodies, []byte("\n")))
	}
	if after := fmt.Sprintf("%+v", *r); after != before {
		t.Errorf("the request was modified:\n%s\n%s", before, after)
	}
	return bodies[0]
}

// continues: a history is sent with its own provider's metadata and with
// nobody else's.
func (v vendor) continues(t *testing.T, e *apis.Exchange, c apis.Conversation) {
	for name, r := range map[string]*llm.Request{
		"bare":     {Transcript: llm.NewTranscript(c.Messages...)},
		"equipped": {Transcript: llm.NewTranscript(c.Messages...), System: "Be brief.", Tools: apis.Tools()},
		"thinking": {Transcript: llm.NewTranscript(c.Messages...), Tools: apis.Tools(), Sampling: llm.Sampling{Effort: llm.EffortMedium}},
		// Another agent has it now, which has none of the tools, and a hook's note stands last.
		"taken over": {Transcript: llm.NewTranscript(noted(c.Messages)...), System: "You rhyme.", Tools: otherTools()},
	} {
		t.Run(name, func(t *testing.T) {
			body := v.sends(t, e, r)
			for _, p := range []string{"openai", "anthropic", "gemini"} {
				if p != v.name && bytes.Contains(body, []byte(apis.Foreign+p)) {
					t.Errorf("%s was sent metadata of %s", v.name, p)
				}
			}
		})
	}
}

// noted returns messages with a further one of the role user.
func noted(msgs []*message.Message) []*message.Message {
	note := *apis.User("Mind the metre.")
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
func (v vendor) stepwise(t *testing.T, e *apis.Exchange) {
	for _, c := range apis.Conversations() {
		grown := llm.NewTranscript(c.Messages[0])
		for i := 1; i <= len(c.Messages); i++ {
			if sendable(c.Messages[:i]) {
				got := v.sends(t, e, &llm.Request{Transcript: grown, Tools: apis.Tools()})
				want := v.sends(t, e, &llm.Request{Transcript: llm.NewTranscript(c.Messages[:i]...), Tools: apis.Tools()})
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
func (v vendor) goesOn(t *testing.T, s string, plain *apis.Exchange) {
	p := v.replay(t, s, script{what: v.script(t, s).Raw(true)})
	if p.err != nil {
		t.Fatal(p.err)
	}
	reply := &message.Message{Role: message.Assistant, Blocks: p.reply.Blocks, Stop: p.reply.Stop, Model: p.reply.Model, Meta: p.reply.Meta}
	msgs := []*message.Message{apis.User("Hello!"), reply}
	for _, c := range reply.Calls() {
		msgs = append(msgs, apis.Result(c.CallID, c.Name, message.OK, &message.Text{Text: "42"}))
	}
	if len(msgs) == 2 {
		msgs = append(msgs, apis.User("Go on."))
	}
	body := v.sends(t, plain, &llm.Request{Transcript: llm.NewTranscript(apis.Linked(msgs)...), Tools: apis.Tools()})
	for _, want := range v.echo[s] {
		if !strings.Contains(string(body), want) {
			t.Errorf("%q was not sent back:\n%s", want, body)
		}
	}
}

// TestModelLists: the models that the vendor lists are found.
func TestModelLists(t *testing.T) {
	each(t, providers(), func(t *testing.T, v vendor) {
		e := v.script(t, "models")
		infos, err := v.provider(t, options{http: script{what: e.Raw(true)}.client()}).Models(context.Background())
		if err != nil || len(infos) == 0 {
			t.Fatalf("%v, %v", infos, err)
		}
		for _, i := range infos {
			if i.Name == "" || !bytes.Contains(e.Body, []byte(i.Name)) {
				t.Errorf("%q is not among those listed", i.Name)
			}
		}
	})
}
