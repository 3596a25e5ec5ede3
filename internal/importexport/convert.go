package importexport

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
	"steward/internal/llm"
	"steward/internal/message"
)

// Converted is a conversation in a vendor's form, in the members of a request's body.
type Converted struct {
	Messages json.RawMessage
	System   json.RawMessage // what the system says at the beginning, for vendors that do not take it among the messages
	Member   string          // the name of System in a body
	Notes    []string        // on everything that is not as it was
}

// Convert converts messages from one vendor's format to another's: a list, the body of a request or of an
// answer, or what Convert itself returned. What it does not know it keeps as text. It reads its result back,
// and lists in the notes everything that comes back otherwise. Error codes: format_unknown, history_….
func Convert(ctx context.Context, vendors llm.Vendors, doc []byte, from, to string) (Converted, error) {
	source, others, known := formatOf(vendors, from)
	unknown := from
	var target llm.Format
	if known {
		target, _, known = formatOf(vendors, to)
		unknown = to
	}
	if !known {
		return Converted{}, fault.New(fault.Invalid, "format_unknown", "unknown message format %.40q", unknown).
			WithHint("give from and to, each one of %s", strings.Join(formatNames(vendors), ", "))
	}
	doc, source, left := whole(doc, source, others)
	got, err := source.Codec.Import(doc)
	if err == nil && ctx.Err() != nil { // whoever asked has left
		err = fault.Of(ctx.Err())
	}
	if err != nil {
		return Converted{}, err
	}
	if len(got.Messages) == 0 {
		return Converted{}, fault.New(fault.Invalid, "history_empty", "no messages in the format of %s in this document", source.Name).
			WithHint("send a list of messages, or a request's body with the member %s", source.List)
	}
	out := Converted{Notes: append(got.Notes, left...)}
	rest := got.Messages
	if target.System != "" {
		first := slices.IndexFunc(rest, func(m *message.Message) bool { return m.Role != message.System })
		if first < 0 {
			first = len(rest)
		}
		if said := systemOf(target, rest[:first]); said != nil {
			out.System, out.Member = said, target.System
			out.Notes = append(out.Notes, fmt.Sprintf("the system prompt is in the member %q, outside the messages, as %s expects it", target.System, to))
			rest = rest[first:]
		}
	}
	out.Messages = json.RawMessage("[]")
	if len(rest) > 0 {
		if out.Messages, err = target.Codec.Encode(rest); err != nil {
			return Converted{}, err
		}
	}
	body := map[string]json.RawMessage{target.List: out.Messages}
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
	back, err := target.Codec.Import(written)
	if err != nil {
		return Converted{}, err
	}
	out.Notes = append(out.Notes, changes(got.Messages, back.Messages, to)...)
	return out, nil
}

// formatOf returns a format by its name, and those after it of the same vendor.
func formatOf(vendors llm.Vendors, name string) (f llm.Format, others []llm.Format, ok bool) {
	for _, v := range vendors {
		if i := slices.IndexFunc(v.Formats, func(f llm.Format) bool { return f.Name == name }); i >= 0 {
			return v.Formats[i], v.Formats[i+1:], true
		}
	}
	return llm.Format{}, nil, false
}

func formatNames(vendors llm.Vendors) (names []string) {
	for _, v := range vendors {
		for _, f := range v.Formats {
			names = append(names, f.Name)
		}
	}
	return names
}

// systemOf returns the value of a body's member for what the system says, or nil for nothing.
func systemOf(to llm.Format, said []*message.Message) json.RawMessage {
	var texts []string
	for _, m := range said {
		for _, b := range m.Blocks {
			t, ok := b.(*message.Text)
			if !ok {
				return nil
			}
			if strings.TrimSpace(t.Text) != "" {
				texts = append(texts, t.Text)
			}
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return to.EncodeSystem(texts)
}

// whole returns the document as the body of a request in a form, the form in which it is, and notes on the
// members that hold no messages. It returns anything but an object unchanged. If the messages are where
// another of the forms has them, the document is in that form.
func whole(doc []byte, from llm.Format, others []llm.Format) (body []byte, form llm.Format, notes []string) {
	var o map[string]json.RawMessage
	if json.Unmarshal(doc, &o) != nil || o == nil {
		return doc, from, nil
	}
	if i := slices.IndexFunc(others, func(f llm.Format) bool { return o[f.List] != nil }); i >= 0 && o[from.List] == nil {
		from = others[i]
	}
	list := from.List
	taken := slices.Concat([]string{list, "notes", "title", "format", from.System}, from.Others)
	take := func(member string, value json.RawMessage) {
		o[list] = value
		taken = append(taken, member)
	}
	answer := slices.IndexFunc(from.Answers, func(path []string) bool { return o[path[0]] != nil })
	switch {
	case o[list] != nil:
	case o["messages"] != nil: // the result of Convert
		take("messages", o["messages"])
	case answer >= 0:
		path := from.Answers[answer]
		value := o[path[0]]
		switch {
		case len(path) > 1:
			value = each(value, path[1])
		case value[0] == '{':
			value = slices.Concat([]byte("["), value, []byte("]"))
		}
		take(path[0], value)
	case o["role"] != nil || o["parts"] != nil: // one message
		return slices.Concat([]byte("["), doc, []byte("]")), from, nil
	}
	var left []string
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if !slices.Contains(taken, name) {
			left = append(left, fmt.Sprintf("%.40q", name))
		}
	}
	if len(left) > 0 {
		more := ""
		if len(left) > 20 {
			left, more = left[:20], " and others"
		}
		notes = append(notes, "only messages are converted; left out of the body: "+strings.Join(left, ", ")+more)
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
			notes = append(notes, fmt.Sprintf("%s: %d of %d cannot be represented unchanged in the format of %s", kind, lost, len(was[kind]), to))
		case len(left) > 0:
			notes = append(notes, fmt.Sprintf("%s: %d are added in the form of %s", kind, len(left), to))
		default:
			notes = append(notes, kind+": the order differs")
		}
	}
	return notes
}
