package offline_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/tool"
)

// checkCalls streams one answer to a text over a tool of a schema and checks
// that calls are valid under it and that the events make the reply.
func checkCalls(t interface {
	Fatalf(string, ...any)
	Helper()
}, text, name, description, schema, choice string) {
	t.Helper()
	ts := llm.NewToolset(tool.Spec{Name: name, Description: description, Input: []byte(schema)},
		tool.Spec{Name: "math.add", Description: "Adds two numbers.", Input: []byte(binary())})
	args := map[int]string{}
	for e, err := range newProvider().Model("").Stream(context.Background(), &llm.Request{System: text, Transcript: llm.NewTranscript(user(text)), Tools: ts, ToolChoice: choice}) {
		if err != nil {
			t.Fatalf("%v", err)
		}
		switch e.Kind {
		case llm.CallArgs:
			args[e.Block] += e.Text
		case llm.Done:
			for i, b := range e.Reply.Blocks {
				c, ok := b.(*message.ToolCall)
				if !ok {
					continue
				}
				if args[i] != string(c.Args) {
					t.Fatalf("streamed %s, replied %s", args[i], c.Args)
				}
				want := schema
				if schema == "" { // nothing is said about the arguments
					want = `{"type":"object"}`
				}
				if c.Name == "math.add" {
					want = binary()
				}
				var v any
				if err := json.Unmarshal(c.Args, &v); err != nil {
					t.Fatalf("%v: %s", err, c.Args)
				}
				if err := validate(want, v); err != nil {
					t.Fatalf("%v: %s of %s", err, c.Args, want)
				}
			}
		}
	}
}

func FuzzRequests(f *testing.F) {
	g := generator{rand.New(rand.NewPCG(1, 2))}
	for _, d := range tuningDomains {
		for _, x := range d.tools {
			f.Add(g.dress(g.say(x).text), x.name, x.desc, string(x.spec().Input), uint8(len(x.name)))
		}
	}
	f.Add("“«'\"`‘", "a.b", "", `{"type":"object"}`, uint8(0))
	f.Add("3:99 -- 2026-02-30 1e999 ½ + - * ( ( )", "x", "half", `{"type":"object","properties":{"n":{"type":"number"}},"required":["n"]}`, uint8(1))
	f.Add("then then, and and. it it", "then.it", "it", `{"type":"object","properties":{"it":{"type":["string","null"]}}}`, uint8(2))
	f.Add("x", "a.b", "x", `{"properties":{"x":{"$ref":"#"}},"required":["x"]}`, uint8(2))
	f.Fuzz(func(t *testing.T, text, name, description, schema string, choice uint8) {
		if len(schema) > 4096 || len(text) > 4096 {
			return
		}
		checkCalls(t, text, name, description, schema, []string{"", "none", "required", name}[choice%4])
	})
}

func FuzzConversations(f *testing.F) {
	f.Add("multiply 6 by 7", "42", "and times 3?", true)
	f.Add("remind me tomorrow", "What?", "call mom", false)
	f.Fuzz(func(t *testing.T, first, result, second string, call bool) {
		c := newConversation(t)
		c.log.Append(user(first))
		if call {
			m := &message.Message{Role: message.Assistant, Blocks: []message.Block{&message.ToolCall{CallID: "1", Name: "math.multiply", Args: []byte(result)}}}
			c.log.Append(m, &message.Message{Role: message.Tool, Blocks: []message.Block{&message.ToolResult{CallID: "1", Name: "math.multiply", Status: message.OK, Content: []message.Block{&message.Text{Text: result}}}}})
		} else {
			c.log.Append(&message.Message{Role: message.Assistant, Stop: message.StopEnd, Blocks: []message.Block{&message.Text{Text: result}}})
		}
		c.say(second)
	})
}

func TestRandomToolsGetValidCalls(t *testing.T) {
	wordsOf := strings.Fields("set the kitchen lamp to 40 percent and tell Anna in Berlin tomorrow at 7pm about “the plan” x@y.org https://a.b notes.txt AB-12 3 days -5 red true not it then, . ? agent city when count items plan")
	rapid.Check(t, func(rt *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(wordsOf), 0, 25).Draw(rt, "text"), " ")
		name := rapid.SampledFrom([]string{"lamp.set", "plan.tell", "city.count", "agent.items"}).Draw(rt, "name")
		choice := rapid.SampledFrom([]string{"", "required", name}).Draw(rt, "choice")
		checkCalls(rt, text, name, rapid.SampledFrom([]string{"Sets the lamp.", "Tells someone the plan.", ""}).Draw(rt, "desc"), anyObject(3).Draw(rt, "schema"), choice)
	})
}

func benchmarkTools(b *testing.B, n int) {
	var specs []tool.Spec
	all := append(append([]domain{}, tuningDomains...), heldOutDomains...)
	for i := 0; len(specs) < n; i++ {
		for _, d := range all {
			for _, x := range d.tools {
				s := x.spec()
				if i > 0 {
					s.Name = fmt.Sprintf("%s%d", s.Name, i)
				}
				if len(specs) < n {
					specs = append(specs, s)
				}
			}
		}
	}
	ts := llm.NewToolset(specs...)
	m := newProvider().Model("")
	say := []string{"Turn on the kitchen lamp and tell me the weather in Berlin", "Write a poem about autumn", "What is 12 times 3.5?", "Remind me tomorrow at 7pm to call Anna"}
	ask(b, m, &llm.Request{Transcript: llm.NewTranscript(user("hello")), Tools: ts})
	b.ResetTimer()
	for i := 0; b.Loop(); i++ {
		ask(b, m, &llm.Request{Transcript: llm.NewTranscript(user(say[i%len(say)])), Tools: ts})
	}
}

func BenchmarkDecision30(b *testing.B)   { benchmarkTools(b, 30) }
func BenchmarkDecision1000(b *testing.B) { benchmarkTools(b, 1000) }

func BenchmarkIndex1000(b *testing.B) {
	var specs []tool.Spec
	for i := range 1000 {
		d := tuningDomains[i%len(tuningDomains)]
		s := d.tools[i%len(d.tools)].spec()
		s.Name = fmt.Sprintf("%s%d", s.Name, i)
		specs = append(specs, s)
	}
	for b.Loop() {
		ask(b, newProvider().Model(""), &llm.Request{Transcript: llm.NewTranscript(user("hello")), Tools: llm.NewToolset(specs...)})
	}
}
