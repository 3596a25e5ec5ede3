package runtime

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"steward/internal/fault"
	"steward/internal/importexport"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/anthropic"
	"steward/internal/provider/gemini"
	"steward/internal/provider/ollama"
	"steward/internal/provider/openai"
)

// Responses is the form of messages of OpenAI's responses API: its items.
const Responses = "responses"

// Codecs returns the codecs of the model vendors' message formats, by vendor. The
// providers' clients use the same codecs for their requests.
func Codecs() map[string]llm.Codec {
	return map[string]llm.Codec{
		importexport.OpenAI:    openai.New(openai.Options{}).Codec(""),
		importexport.Anthropic: anthropic.New(anthropic.Options{}).Codec(""),
		importexport.Gemini:    gemini.New(gemini.Options{}).Codec(""),
		importexport.Ollama:    ollama.New(ollama.Options{}).Codec(""),
	}
}

// Converted is a conversation in a vendor's form, in the members of a request's body.
type Converted struct {
	Messages json.RawMessage
	System   json.RawMessage // what the system says at the beginning, for vendors that do not take it among the messages
	Member   string          // the name of System in a body
	Notes    []string        // on everything that is not as it was
}

// systemMembers are the members of a request's body in which vendors take what the system says.
var systemMembers = map[string]string{importexport.Anthropic: "system", importexport.Gemini: "systemInstruction"}

// lists are the members of a request's body that hold the messages.
var lists = map[string]string{importexport.OpenAI: "messages", importexport.Anthropic: "messages", importexport.Ollama: "messages",
	importexport.Gemini: "contents", Responses: "input"}

// Convert converts messages from one vendor's format to another's: a list, the body of a request or of an
// answer, or what Convert itself returned. What it does not know it keeps as text. It reads its result back,
// and lists in the notes everything that comes back otherwise. Error codes: format_unknown, history_….
func (n *Node) Convert(ctx context.Context, doc []byte, from, to string) (Converted, error) {
	codecs := Codecs()
	codecs[Responses] = openai.New(openai.Options{Dialect: openai.Responses}).Codec("")
	for _, name := range []string{from, to} {
		if codecs[name] == nil {
			return Converted{}, fault.New(fault.Invalid, "format_unknown", "there is no form of messages called %.40q", name).
				WithHint("say from and to: each one of %s, %s", strings.Join(importexport.Vendors(), ", "), Responses)
		}
	}
	doc, from, left := whole(doc, from)
	got, err := codecs[from].Import(doc)
	if err == nil && ctx.Err() != nil { // whoever asked has left
		err = fault.Of(ctx.Err())
	}
	if err != nil {
		return Converted{}, err
	}
	if len(got.Messages) == 0 {
		return Converted{}, fault.New(fault.Invalid, "history_empty", "there are no messages in the form of %s in this document", from).
			WithHint("send a list of messages, or a request's body with the member %s", lists[from])
	}
	out := Converted{Notes: append(got.Notes, left...)}
	rest := got.Messages
	if member := systemMembers[to]; member != "" {
		first := slices.IndexFunc(rest, func(m *message.Message) bool { return m.Role != message.System })
		if first < 0 {
			first = len(rest)
		}
		if said := systemOf(to, rest[:first]); said != nil {
			out.System, out.Member = said, member
			out.Notes = append(out.Notes, fmt.Sprintf("what the system says is in the member %q, beside the messages, as %s takes it", member, to))
			rest = rest[first:]
		}
	}
	out.Messages = json.RawMessage("[]")
	if len(rest) > 0 {
		if out.Messages, err = codecs[to].Encode(rest); err != nil {
			return Converted{}, err
		}
	}
	body := map[string]json.RawMessage{lists[to]: out.Messages}
	if out.System != nil {
		body[out.Member] = out.System
	}
	written, err := json.Marshal(body)
	if err != nil {
		return Converted{}, err
	}
	if ctx.Err() != nil {
		return Converted{}, fault.Of(ctx.Err())
	}
	back, err := codecs[to].Import(written)
	if err != nil {
		return Converted{}, err
	}
	out.Notes = append(out.Notes, changes(got.Messages, back.Messages, to)...)
	return out, nil
}

// systemOf returns the value of a body's member for what the system says, or nil for nothing.
func systemOf(to string, said []*message.Message) json.RawMessage {
	type part struct {
		Type string `json:"type,omitzero"`
		Text string `json:"text"`
	}
	var parts []part
	for _, m := range said {
		for _, b := range m.Blocks {
			t, ok := b.(*message.Text)
			if !ok {
				return nil
			}
			if strings.TrimSpace(t.Text) != "" {
				parts = append(parts, part{Text: t.Text})
			}
		}
	}
	if len(parts) == 0 {
		return nil
	}
	var v any = map[string]any{"parts": parts}
	if to == importexport.Anthropic {
		for i := range parts {
			parts[i].Type = "text"
		}
		if v = parts; len(parts) == 1 {
			v = parts[0].Text
		}
	}
	b, _ := json.Marshal(v) // texts: cannot fail
	return b
}

// whole returns the document as the body of a request in a form, the form in which it is, and notes on the
// members that hold no messages. It returns anything but an object unchanged.
func whole(doc []byte, from string) (body []byte, form string, notes []string) {
	var o map[string]json.RawMessage
	if json.Unmarshal(doc, &o) != nil || o == nil {
		return doc, from, nil
	}
	if from == importexport.OpenAI && o["messages"] == nil && o["input"] != nil {
		from = Responses
	}
	list := lists[from]
	taken := []string{list, "notes", "title", "format", systemMembers[from], "system_instruction"}
	take := func(member string, value json.RawMessage) {
		o[list] = value
		taken = append(taken, member)
	}
	switch {
	case o[list] != nil:
	case o["messages"] != nil: // the result of Convert
		take("messages", o["messages"])
	case o["candidates"] != nil:
		take("candidates", each(o["candidates"], "content"))
	case o["choices"] != nil:
		take("choices", each(o["choices"], "message"))
	case o["output"] != nil && from == Responses:
		take("output", o["output"])
	case o["message"] != nil:
		take("message", slices.Concat([]byte("["), o["message"], []byte("]")))
	case o["role"] != nil || o["parts"] != nil: // one message
		return slices.Concat([]byte("["), doc, []byte("]")), from, nil
	}
	if from == Responses {
		taken = append(taken, "instructions")
	}
	if raw := bytes.TrimSpace(o[list]); from == importexport.Gemini && len(raw) > 0 && raw[0] == '"' { // as Google's libraries take it
		o[list] = slices.Concat([]byte(`[{"role":"user","parts":[{"text":`), raw, []byte(`}]}]`))
	} else if from == importexport.Gemini && len(raw) > 0 && raw[0] == '{' {
		o[list] = slices.Concat([]byte("["), raw, []byte("]"))
	}
	var others []string
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if !slices.Contains(taken, name) {
			others = append(others, fmt.Sprintf("%.40q", name))
		}
	}
	if len(others) > 0 {
		more := ""
		if len(others) > 20 {
			others, more = others[:20], " and others"
		}
		notes = append(notes, "only messages are converted; left out of the body: "+strings.Join(others, ", ")+more)
	}
	if bytes.Contains(doc, []byte(`"cache_control"`)) {
		notes = append(notes, `"cache_control", a mark for the prompt cache, is left out`)
	}
	b, err := json.Marshal(o)
	if err != nil {
		return doc, from, notes
	}
	return b, from, notes
}

// each returns a list of one member of each element of a list.
func each(list json.RawMessage, member string) json.RawMessage {
	var all []map[string]json.RawMessage
	if json.Unmarshal(list, &all) != nil {
		return list
	}
	out := []json.RawMessage{}
	for _, o := range all {
		if o[member] != nil {
			out = append(out, o[member])
		}
	}
	b, _ := json.Marshal(out) // valid JSON: cannot fail
	return b
}

// facts are what a conversation says, by kind and in order.
type facts map[string][]string

// The kinds of facts, in the order in which notes name them.
var kinds = []string{"text of the system", "text of the user", "text of the model", "turns", "calls", "ids of calls", "results", "statuses of results",
	"pictures", "files", "reasoning", "proofs of reasoning", "sources of texts", "what the provider itself ran"}

func (f facts) add(kind string, parts ...string) {
	f[kind] = append(f[kind], strings.Join(parts, "\x00"))
}

func factsOf(msgs []*message.Message) facts {
	f := facts{}
	for _, m := range msgs {
		f.add("turns", string(m.Role))
		f.members("message", m.Meta)
		f.blocks(string(m.Role), m.Blocks)
	}
	return f
}

func (f facts) blocks(who string, blocks []message.Block) {
	for _, b := range blocks {
		kind := "text of the " + cmp.Or(map[string]string{"assistant": "model"}[who], who)
		switch b := b.(type) {
		case *message.Text:
			if strings.TrimSpace(b.Text) == "" {
				continue
			}
			if who == "tool" {
				kind = "results"
			}
			f.add(kind, b.Text)
			f.members("text", b.Meta)
			for _, c := range b.Citations {
				f.add("sources of texts", c.URL, c.Title)
			}
		case *message.ToolCall:
			f.add("calls", b.Name, compactJSON(b.Args))
			f.add("ids of calls", b.CallID)
			f.members("call", b.Meta)
		case *message.ToolResult:
			f.add("statuses of results", string(b.Status))
			f.members("result", b.Meta)
			f.blocks("tool", b.Content)
		case *message.Image:
			f.add("pictures", b.MIME, b.URL, string(b.Data))
			f.members("picture", b.Meta)
		case *message.File:
			f.add("files", b.MIME, b.Name, b.URL, string(b.Data))
			f.members("file", b.Meta)
		case *message.Reasoning:
			f.add("reasoning", b.Text)
			for _, name := range membersOf(b.Meta) {
				if slices.Contains([]string{"signature", "data", "thoughtSignature", "encrypted_content"}, name) {
					f.add("proofs of reasoning", string(b.Meta.Fields))
				}
			}
		case *message.Vendor:
			f.add("what the provider itself ran", b.Kind)
		}
	}
}

// members adds the members of a vendor's form that Steward does not model.
func (f facts) members(of string, m message.Meta) {
	for _, name := range membersOf(m) {
		if name != "type" {
			f.add(fmt.Sprintf("%.40q of a %s", name, of), "")
		}
	}
}

func membersOf(m message.Meta) []string {
	var o map[string]json.RawMessage
	if json.Unmarshal(m.Fields, &o) != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(o))
}

func compactJSON(b []byte) string {
	var v any
	if json.Unmarshal(b, &v) != nil {
		return string(b)
	}
	out, err := json.Marshal(v)
	if err != nil {
		return string(b)
	}
	return string(out)
}

// changes names what of a conversation comes back otherwise, once it has been written in a form.
func changes(before, after []*message.Message, to string) (notes []string) {
	was, is := factsOf(before), factsOf(after)
	others := slices.DeleteFunc(slices.Sorted(maps.Keys(was)), func(k string) bool { return slices.Contains(kinds, k) })
	for _, kind := range append(slices.Clone(kinds), others...) {
		if slices.Equal(was[kind], is[kind]) || len(was[kind]) == 0 && kind != "text of the user" {
			continue
		}
		lost, left := 0, slices.Clone(is[kind])
		for _, x := range was[kind] {
			if i := slices.Index(left, x); i >= 0 {
				left = slices.Delete(left, i, i+1)
			} else {
				lost++
			}
		}
		switch {
		case kind == "turns":
			notes = append(notes, fmt.Sprintf("turns are divided otherwise in the form of %s: %d messages become %d", to, len(was[kind]), len(is[kind])))
		case lost > 0:
			notes = append(notes, fmt.Sprintf("%s: %d of %d cannot be kept in the form of %s as they are", kind, lost, len(was[kind]), to))
		case len(left) > 0:
			notes = append(notes, fmt.Sprintf("%s: %d are added in the form of %s", kind, len(left), to))
		default:
			notes = append(notes, kind+": the order is another one")
		}
	}
	return notes
}
