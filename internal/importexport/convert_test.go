package importexport_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/importexport"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/test/messagetest"
	"steward/test/vendors"
)

// responses is the format of OpenAI's responses API.
const responses = "responses"

// formats returns all formats by name.
func formats() map[string]llm.Format {
	out := map[string]llm.Format{}
	for _, v := range vendors.All() {
		for _, f := range v.Formats {
			out[f.Name] = f
		}
	}
	return out
}

// forms are conversations with everything that a form has, as its vendor documents it.
var forms = map[string]string{
	importexport.OpenAI: `{"model":"m","tools":[],"messages":[
		{"role":"system","content":"Be brief."},
		{"role":"user","name":"ann","content":[{"type":"text","text":"See"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo=","detail":"low"}}]},
		{"role":"assistant","content":"I look.","reasoning_content":"Hm.","tool_calls":[
			{"id":"call_1","type":"function","function":{"name":"web__fetch","arguments":"{\"url\":\"https://a.test\"}"}},
			{"id":"call_2","type":"function","function":{"name":"getTime","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"call_1","content":"a page"},
		{"role":"tool","tool_call_id":"call_2","content":"[failed] no clock"},
		{"role":"assistant","content":"Done.","annotations":[{"type":"url_citation","url_citation":{"url":"https://a.test","title":"A"}}]},
		{"role":"system","content":"It is late."},
		{"role":"user","content":"Thanks"}]}`,
	responses: `{"model":"m","instructions":"Be brief.","input":[
		{"role":"user","content":[{"type":"input_text","text":"See"},{"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgo="}]},
		{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Hm."}],"encrypted_content":"abc"},
		{"type":"function_call","id":"fc_1","call_id":"call_1","name":"web__fetch","arguments":"{\"url\":\"x\"}"},
		{"type":"function_call_output","call_id":"call_1","output":"a page"},
		{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Done.","annotations":[]}]}]}`,
	importexport.Anthropic: `{"model":"m","max_tokens":9,"system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}],"messages":[
		{"role":"user","content":[{"type":"text","text":"See"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}]},
		{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":"c2ln"},{"type":"text","text":"I look."},{"type":"tool_use","id":"toolu_1","name":"web__fetch","input":{"url":"x"}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","is_error":true,"content":[{"type":"text","text":"no page"}]},{"type":"text","text":"Go on"}]},
		{"role":"assistant","content":[{"type":"text","text":"Done.","citations":[{"type":"web_search_result_location","url":"https://a.test","title":"A","cited_text":"a","encrypted_index":"e"}]}]}]}`,
	importexport.Gemini: `{"systemInstruction":{"parts":[{"text":"Be brief."}]},"generationConfig":{"temperature":1},"contents":[
		{"role":"user","parts":[{"text":"See"},{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}}]},
		{"role":"model","parts":[{"text":"Hm.","thought":true},{"functionCall":{"id":"f1","name":"web__fetch","args":{"url":"x"}},"thoughtSignature":"c2ln"}]},
		{"role":"user","parts":[{"functionResponse":{"id":"f1","name":"web__fetch","response":{"output":"a page"}}}]},
		{"role":"model","parts":[{"text":"Done."}]}]}`,
	importexport.Ollama: `{"model":"m","messages":[
		{"role":"system","content":"Be brief."},
		{"role":"user","content":"See","images":["iVBORw0KGgo="]},
		{"role":"assistant","content":"","thinking":"Hm.","tool_calls":[{"function":{"name":"web__fetch","arguments":{"url":"x"}}}]},
		{"role":"tool","tool_name":"web__fetch","content":"a page"},
		{"role":"assistant","content":"Done."}]}`,
}

// there converts a document and returns the result as a client gets it.
func there(t interface {
	Helper()
	Fatalf(string, ...any)
}, doc []byte, from, to string) ([]byte, []string) {
	t.Helper()
	got, err := importexport.Convert(context.Background(), vendors.All(), doc, from, to)
	if err != nil {
		t.Fatalf("%s to %s: %v\n%s", from, to, err, doc)
	}
	body := map[string]any{"messages": got.Messages, "notes": got.Notes}
	if got.Member != "" {
		body[got.Member] = got.System
	}
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return b, got.Notes
}

// held fails if a fact of a conversation is neither as it was nor named in the notes.
func held(t interface {
	Helper()
	Errorf(string, ...any)
}, way string, was, is importexport.Facts, notes []string) {
	t.Helper()
	for kind := range was {
		if slices.Equal(was[kind], is[kind]) {
			continue
		}
		if !slices.ContainsFunc(notes, func(n string) bool { return strings.HasPrefix(n, kind) }) {
			t.Errorf("%s: %s became\n%q, was\n%q, and the notes do not say it: %q", way, kind, is[kind], was[kind], notes)
		}
	}
}

// TestConvert: what survives a conversion to another form and back is equal, and everything else is named.
func TestConvert(t *testing.T) {
	formats := formats()
	read := func(doc []byte, form string) importexport.Facts {
		t.Helper()
		f, others, _ := importexport.FormatOf(vendors.All(), form)
		body, f, _ := importexport.Whole(doc, f, others)
		got, err := f.Codec.Import(body)
		if err != nil {
			t.Fatal(err)
		}
		return importexport.FactsOf(got.Messages)
	}
	for _, from := range slices.Sorted(maps.Keys(forms)) {
		was := read([]byte(forms[from]), from)
		for _, to := range slices.Sorted(maps.Keys(forms)) {
			way := from + " to " + to
			body, notes := there(t, []byte(forms[from]), from, to)
			back, more := there(t, body, to, from)
			is := read(back, from)
			held(t, way, was, is, append(notes, more...))
			for _, kind := range []string{"text of the system", "text of the user", "calls", "ids of calls", "results", "statuses of results"} {
				invents := kind == "ids of calls" && from == importexport.Ollama // it has none
				late := kind == "text of the system" || kind == "text of the user"
				if late && from == importexport.OpenAI && formats[to].System != "" {
					continue // the system in the middle has no place there
				}
				if !invents && !slices.Equal(was[kind], is[kind]) {
					t.Errorf("%s: %s became %q, was %q", way, kind, is[kind], was[kind])
				}
			}
		}
	}
}

// TestConvertAll: the same of any conversation.
func TestConvertAll(t *testing.T) {
	formats := formats()
	names := slices.Sorted(maps.Keys(formats))
	rapid.Check(t, func(t *rapid.T) {
		from, to := rapid.SampledFrom(names).Draw(t, "from"), rapid.SampledFrom(names).Draw(t, "to")
		msgs := messagetest.History().Draw(t, "history")
		for len(message.Dangling(msgs)) > 0 {
			msgs = msgs[:len(msgs)-1]
		}
		doc, err := formats[from].Codec.Encode(msgs)
		if err != nil {
			t.Skip(err)
		}
		got, err := formats[from].Codec.Import(doc)
		if err != nil || len(got.Messages) == 0 {
			t.Skip("nothing can be read of it")
		}
		first, err := importexport.Convert(context.Background(), vendors.All(), doc, from, to)
		if err != nil {
			t.Fatalf("%s to %s: %v\n%s", from, to, err, doc)
		}
		body := map[string]any{formats[to].List: first.Messages}
		if first.Member != "" {
			body[first.Member] = first.System
		}
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		back, err := formats[to].Codec.Import(b)
		if err != nil {
			t.Fatal(err)
		}
		held(t, from+" to "+to, importexport.FactsOf(got.Messages), importexport.FactsOf(back.Messages), first.Notes)
	})
}

// TestConvertBodies: bodies of requests and answers are read in the forms in which they are found.
func TestConvertBodies(t *testing.T) {
	for _, c := range []struct{ from, body string }{
		{"gemini", `{"contents":"hi"}`}, {"gemini", `{"contents":{"parts":[{"text":"hi"}]}}`}, {"gemini", `{"contents":[{"parts":{"text":"hi"}}]}`},
		{"gemini", `{"messages":[{"role":"user","parts":[{"text":"hi"}]}]}`}, {"gemini", `{"candidates":[{"content":{"role":"model","parts":[{"text":"hi"}]}}]}`},
		{"gemini", `[{"role":"user","parts":[{"text":"hi"}]}]`}, {"gemini", `{"role":"user","parts":[{"text":"hi"}]}`},
		{"openai", `{"input":"hi"}`}, {"openai", `{"input":[{"role":"user","content":"hi"}]}`}, {"openai", `{"choices":[{"message":{"role":"assistant","content":"hi"}}]}`},
		{"responses", `{"output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"hi"}]}]}`}, {"openai", `{"role":"user","content":"hi"}`},
		{"anthropic", `{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"text","text":"hi"}]}`},
		{"ollama", `{"message":{"role":"assistant","content":"hi"},"done":true}`},
	} {
		for to := range formats() {
			got, err := importexport.Convert(context.Background(), vendors.All(), []byte(c.body), c.from, to)
			if err != nil || !strings.Contains(string(got.Messages), `"hi"`) {
				t.Errorf("%s to %s: %s, %v", c.body, to, got.Messages, err)
			}
		}
	}
	for _, none := range []string{`{}`, `[]`, `{"contents":[]}`, `{"prompt":"hi"}`} {
		if _, err := importexport.Convert(context.Background(), vendors.All(), []byte(none), "gemini", "openai"); !fault.HasCode(err, "history_empty") {
			t.Errorf("%s: %v", none, err)
		}
	}
}
