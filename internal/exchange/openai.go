package exchange

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/message"
)

// chatHead is what a list of messages is told to be part of.
type chatHead struct {
	title, id, model string
	created, updated time.Time
}

// asMessage reports whether a value is one message, and returns it.
func (r *reader) asMessage(raw []byte) (wireMessage, bool) {
	if raw[0] != '{' || !r.takes(OpenAI) {
		return wireMessage{}, false
	}
	o := objectOf(raw)
	return wireMessage{raw, plain(o)}, isMessage(o)
}

// isMessage: a message has a role and says something.
func isMessage(o object) bool {
	if stringOf(o["role"]) == "" {
		return false
	}
	for _, name := range []string{"content", "tool_calls", "function_call", "refusal", "audio", "parts"} {
		if _, ok := o[name]; ok {
			return true
		}
	}
	return false
}

// wireMessage is a message as OpenAI's chat completions have it. It is kept
// as it came: read, it takes several times the memory.
type wireMessage struct {
	raw   jsontext.Value
	plain bool // nothing but a role and a text
}

// openaiChat reads a conversation that is a list of messages, or an object
// with one.
func (r *reader) openaiChat(raw []byte) (*Chat, error) {
	var head chatHead
	list := listOf(raw)
	if list == nil {
		o := objectOf(raw)
		list = listOf(o["messages"])
		head.title = firstText(o, "title", "name")
		head.id = firstText(o, "id", "conversation_id", "uuid")
		head.model = firstText(o, "model")
		head.created = firstTime(o, "created_at", "created", "create_time")
		head.updated = firstTime(o, "updated_at", "updated", "update_time")
	}
	msgs := make([]wireMessage, len(list))
	for i, v := range list {
		o := objectOf(v)
		if !isMessage(o) {
			return nil, errors.New("one of its messages has no role or no content")
		}
		msgs[i] = wireMessage{v, plain(o)}
	}
	return r.openai(msgs, head)
}

func firstText(o object, names ...string) string {
	for _, n := range names {
		if s := stringOf(o[n]); s != "" {
			return valid(s)
		}
	}
	return ""
}

func firstTime(o object, names ...string) time.Time {
	for _, n := range names {
		if t := stamp(o[n]); !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

// openai makes a chat of a list of messages.
func (r *reader) openai(msgs []wireMessage, head chatHead) (*Chat, error) {
	source := OpenAI
	if !slices.ContainsFunc(msgs, func(m wireMessage) bool { return !m.plain }) {
		source = Plain
	}
	n := &notes{}
	entries := make([]entry, 0, len(msgs))
	for i, m := range msgs {
		e := openaiEntry(source, objectOf(m.raw), n)
		msgs[i].raw = nil // it is not needed any more
		e.parent = i - 1
		if e.role == message.Assistant && e.model == "" {
			e.model = modelName("", head.model)
		}
		entries = append(entries, e)
	}
	nodes, last, err := weave(source, entries, n)
	if err != nil {
		return nil, err
	}
	if len(nodes) == 0 {
		return nil, emptyChat("")
	}
	return &Chat{Title: head.title, Created: head.created, Updated: head.updated, Source: source, SourceID: head.id,
		Model: modelName("", head.model), Nodes: nodes, Current: last[len(last)-1], Notes: n.list}, nil
}

// plain reports whether a message is nothing but a role and a text.
func plain(o object) bool {
	if len(o) != 2 || o["content"].Kind() != '"' {
		return false
	}
	switch stringOf(o["role"]) {
	case "user", "assistant", "system":
		return true
	}
	return false
}

// openaiEntry reads one message.
func openaiEntry(source string, o object, n *notes) entry {
	role := o.text("role")
	e := entry{at: firstTime(o, "created_at", "timestamp", "create_time", "created"), model: modelName("", stringOf(o["model"]))}
	switch strings.ToLower(role) {
	case "user", "human":
		e.role, e.own = message.User, true
	case "system", "developer":
		e.role = message.System
	case "assistant", "model", "ai":
		e.role = message.Assistant
	case "tool", "function":
		e.role = message.Tool
	default:
		e.role = message.User
		n.add("a message of the role %q is kept as one that nobody here wrote", short(role))
	}
	s := &sayer{source: source, own: e.own}
	if e.role == message.Assistant {
		for _, name := range []string{"reasoning_content", "reasoning"} {
			s.reasoning(o.text(name))
		}
	}
	openaiContent(s, o.take("content"), n)
	if refusal := o.text("refusal"); refusal != "" {
		s.text(refusal)
		e.stop = message.StopRefused
	}
	if e.role == message.Assistant {
		openaiCalls(s, o, n)
	}
	if e.role == message.Tool {
		e.results = []result{{callID: valid(o.text("tool_call_id")), name: valid(o.text("name")), status: message.OK, content: s.blocks}}
	} else {
		e.blocks = s.blocks
		if len(e.blocks) == 0 {
			n.add("an empty message is left out")
		}
	}
	e.fields = o.rest()
	return e
}

func short(s string) string {
	r := []rune(s)
	return string(r[:min(len(r), 40)])
}

// openaiCalls reads the calls of a message, of the old way (one function), too.
func openaiCalls(s *sayer, o object, n *notes) {
	for _, v := range listOf(o.take("tool_calls")) {
		c := objectOf(v)
		fn := objectOf(c["function"])
		if fn == nil {
			fn = objectOf(c["custom"])
		}
		if fn == nil {
			n.add("a call that is no function's is kept as text")
			s.quoted("[call]\n" + valid(string(v)))
			continue
		}
		args := argsOf(fn["arguments"])
		if len(args) == 0 {
			args = argsOf(fn["input"])
		}
		s.call(stringOf(c["id"]), stringOf(fn["name"]), args)
	}
	if fn := objectOf(o.take("function_call")); fn != nil {
		s.call("", stringOf(fn["name"]), argsOf(fn["arguments"]))
	}
}

// argsOf returns a call's arguments: the text that the model wrote, or what
// somebody has decoded of it.
func argsOf(v jsontext.Value) []byte {
	switch v.Kind() {
	case '"':
		return []byte(stringOf(v))
	case '{', '[':
		return strict(v)
	}
	return nil
}

// openaiContent reads content: a text, or a list of parts.
func openaiContent(s *sayer, v jsontext.Value, n *notes) {
	switch v.Kind() {
	case '"':
		s.text(stringOf(v))
		return
	case '[':
	case 'n', 0:
		return
	default:
		n.add("content that is neither text nor a list is kept as text")
		s.quoted(string(v))
		return
	}
	for _, part := range listOf(v) {
		if part.Kind() == '"' {
			s.text(stringOf(part))
			continue
		}
		openaiPart(s, objectOf(part), part, n)
	}
}

func openaiPart(s *sayer, p object, raw jsontext.Value, n *notes) {
	kind := stringOf(p["type"])
	switch kind {
	case "text", "input_text", "output_text", "":
		if t, ok := p["text"]; ok && t.Kind() == '"' {
			s.text(stringOf(t))
			return
		}
	case "refusal":
		s.text(stringOf(p["refusal"]))
		return
	case "image_url", "input_image":
		u := stringOf(p["image_url"])
		if u == "" {
			u = stringOf(objectOf(p["image_url"])["url"])
		}
		if u != "" {
			s.link(u, "", "")
			return
		}
	case "file", "input_file":
		f := objectOf(p["file"])
		if f == nil {
			f = p
		}
		if u := firstText(f, "file_data", "file_url"); u != "" {
			name := stringOf(f["filename"])
			s.link(u, message.MediaType(name, "application/octet-stream"), name)
			return
		}
	case "input_audio":
		a := objectOf(p["input_audio"])
		if data, ok := base64Bytes(stringOf(a["data"])); ok {
			s.media(message.MediaType("x."+stringOf(a["format"]), "application/octet-stream"), "", data)
			return
		}
	}
	n.add("content of the type %q is kept as text", short(kind))
	s.quoted("[" + kind + "]\n" + string(raw))
}

// modelName makes "provider/model" of a model's name.
func modelName(provider, model string) string {
	model = valid(strings.TrimSpace(model))
	if model == "" || provider == "" || strings.Contains(model, "/") {
		return model
	}
	return provider + "/" + model
}
